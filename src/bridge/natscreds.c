/* natscreds: users, tokens, nkeys and files of credentials.
 *
 * libnats reads a file only when it connects, and then says little of what is wrong with it.  So
 * files are read here first. */
#include "bridge/natscreds.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "bridge/natsurl.h"

#define FILE_MAX (64 << 10)
#define WORD_MAX (128 << 10) /* bytes of a user, a password or a token, as libnats gets it */

/* wipe forgets a buffer with secrets. */
static void wipe(struct buf *text)
{
    if (text->ptr)
        OPENSSL_cleanse(text->ptr, text->cap);
    buf_release(text);
}

static enum status read_file(const char *path, const char *what, struct buf *out, struct err *err)
{
    char chunk[4096];
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
        buf_add(out, chunk, (size_t)n);
    int why = errno;
    OPENSSL_cleanse(chunk, sizeof(chunk));
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return err_set(err, STATUS_INVALID, "%s: cannot be read as the %s of NATS: %s", path, what,
                       strerror(why));
    if (buf_status(out, NULL) == STATUS_NO_MEMORY)
        return err_no_memory(err);
    if (buf_status(out, NULL))
        return err_set(err, STATUS_INVALID, "%s: is too large for the %s of NATS", path, what);
    return STATUS_OK;
}

/* find_seed reads the seed that a file has, and its public half. */
static enum status find_seed(const char *path, struct slice text, struct natscreds *creds,
                             struct err *err)
{
    struct slice seed = nkey_find(text);
    if (seed.len == 0)
        return err_set(err, STATUS_INVALID,
                       "%s: has no seed of an nkey: a word of %d characters that begins with SU",
                       path, NKEY_SEED_LEN);
    enum status status = nkey_public(seed, creds->public, err);
    if (status)
        err_prefix(err, "%s: the seed of an nkey", path);
    memcpy(creds->seed, seed.ptr, seed.len);
    creds->seed[seed.len] = '\0';
    return status;
}

/* sign answers a server's challenge with the seed. */
static natsStatus sign(char **error, unsigned char **signature, int *len, const char *nonce,
                       void *closure)
{
    const struct natscreds *creds = closure;
    (void)error;
    return nats_Sign(creds->seed, nonce, signature, len);
}

static enum status set_nkey(struct natscreds *creds, const char *path, natsOptions *out,
                            struct err *err)
{
    struct buf text;
    buf_init(&text, FILE_MAX);
    enum status status = read_file(path, "nkey", &text, err);
    if (!status)
        status = find_seed(path, buf_slice(&text), creds, err);
    if (!status && natsOptions_SetNKey(out, creds->public, sign, creds) != NATS_OK)
        status = err_no_memory(err);
    wipe(&text);
    return status;
}

static enum status set_creds_file(struct natscreds *creds, const char *path, natsOptions *out,
                                  struct err *err)
{
    struct buf text;
    buf_init(&text, FILE_MAX);
    enum status status = read_file(path, "credentials", &text, err);
    if (!status && !strstr(buf_str(&text), "-----BEGIN NATS USER JWT-----"))
        status = err_set(err, STATUS_INVALID,
                         "%s: is no credentials file of NATS: it has no line "
                         "\"-----BEGIN NATS USER JWT-----\"",
                         path);
    if (!status)
        status = find_seed(path, buf_slice(&text), creds, err);
    if (!status && natsOptions_SetUserCredentialsFromFiles(out, path, NULL) != NATS_OK)
        status = err_no_memory(err);
    wipe(&text);
    return status;
}

/* set_words sets a user with a password, or a token; libnats copies them. */
static enum status set_words(const struct natslink_options *options, natsOptions *out,
                             struct err *err)
{
    struct buf first, second;
    buf_init(&first, WORD_MAX);
    buf_init(&second, WORD_MAX);
    natsurl_quote(slice_of(options->user ? options->user : options->token), &first);
    natsurl_quote(slice_of(options->password), &second);
    natsStatus s = NATS_OK;
    enum status status = buf_status(&first, err);
    if (!status)
        status = buf_status(&second, err);
    if (!status && options->user)
        s = natsOptions_SetUserInfo(out, buf_str(&first), buf_str(&second));
    else if (!status && options->token)
        s = natsOptions_SetToken(out, buf_str(&first));
    if (!status && s != NATS_OK)
        status = err_no_memory(err);
    wipe(&first);
    wipe(&second);
    return status;
}

enum status natscreds_set(struct natscreds *creds, const struct natslink_options *options,
                          natsOptions *out, struct err *err)
{
    if (options->nkey)
        return set_nkey(creds, options->nkey, out, err);
    if (options->creds)
        return set_creds_file(creds, options->creds, out, err);
    return set_words(options, out, err);
}

void natscreds_release(struct natscreds *creds)
{
    OPENSSL_cleanse(creds, sizeof(*creds));
}
