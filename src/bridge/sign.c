/* sign: HMAC-SHA256 by OpenSSL, in the form of Standard Webhooks. */
#include "bridge/sign.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#define SECRET_PREFIX SLICE("whsec_")
#define SECRET_TEXT_MAX ((SIGN_SECRET_MAX + 2) / 3 * 4) /* of base64 */
#define MAC_SIZE 32
#define MAC_TEXT_SIZE 48 /* its base64 with a NUL */

static enum status refuse_length(size_t len, struct err *err)
{
    return err_set(err, STATUS_INVALID, "the secret must have from %d to %d bytes, not %zu",
                   SIGN_SECRET_MIN, SIGN_SECRET_MAX, len);
}

static bool is_base64(struct slice text, size_t *padding)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    *padding = 0;
    while (*padding < 2 && *padding < text.len && text.ptr[text.len - 1 - *padding] == '=')
        ++*padding;
    for (size_t i = 0; i < text.len - *padding; i++)
        if (text.ptr[i] == '\0' || !strchr(alphabet, text.ptr[i]))
            return false;
    return text.len % 4 == 0;
}

/* decode_secret appends the bytes that a text of base64 stands for. */
static enum status decode_secret(struct slice text, struct buf *out, struct err *err)
{
    unsigned char key[SECRET_TEXT_MAX];
    size_t padding, len;

    if (!is_base64(text, &padding))
        return err_set(err, STATUS_INVALID, "the secret has no base64 after \"whsec_\"");
    len = text.len / 4 * 3 - padding;
    if (len < SIGN_SECRET_MIN || len > SIGN_SECRET_MAX)
        return refuse_length(len, err);
    if (EVP_DecodeBlock(key, (const unsigned char *)text.ptr, (int)text.len) < 0)
        return err_set(err, STATUS_INVALID, "the secret has no base64 after \"whsec_\"");
    buf_add(out, key, len);
    OPENSSL_cleanse(key, sizeof(key));
    return buf_status(out, err);
}

enum status sign_secret(struct slice text, struct buf *out, struct err *err)
{
    const struct slice prefix = SECRET_PREFIX;

    if (slice_starts(text, prefix)) {
        text.ptr += prefix.len;
        text.len -= prefix.len;
        return decode_secret(text, out, err);
    }
    if (text.len < SIGN_SECRET_MIN || text.len > SIGN_SECRET_MAX)
        return refuse_length(text.len, err);
    buf_add_slice(out, text);
    return buf_status(out, err);
}

static bool update(EVP_MAC_CTX *context, struct slice part)
{
    return part.len == 0 || EVP_MAC_update(context, (const unsigned char *)part.ptr, part.len) == 1;
}

/* digest computes the HMAC of the parts.  False when OpenSSL has no memory for it. */
static bool digest(struct slice secret, const struct slice *parts, size_t count,
                   unsigned char mac[MAC_SIZE])
{
    char name[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    size_t len = 0;
    bool good = context &&
                EVP_MAC_init(context, (const unsigned char *)secret.ptr, secret.len, params) == 1;

    for (size_t i = 0; good && i < count; i++)
        good = update(context, parts[i]);
    good = good && EVP_MAC_final(context, mac, &len, MAC_SIZE) == 1 && len == MAC_SIZE;
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(hmac);
    return good;
}

void sign_webhook(struct slice secret, struct slice id, struct instant now, struct slice body,
                  struct buf *out)
{
    char middle[32];
    unsigned char mac[MAC_SIZE], text[MAC_TEXT_SIZE];

    snprintf(middle, sizeof(middle), ".%lld.", (long long)(now.us / 1000000));
    struct slice parts[] = {id, slice_of(middle), body};
    if (!digest(secret, parts, sizeof(parts) / sizeof(parts[0]), mac)) {
        out->status = out->status == STATUS_OK ? STATUS_NO_MEMORY : out->status;
        return;
    }
    EVP_EncodeBlock(text, mac, MAC_SIZE);
    buf_addf(out, "v1,%s", (const char *)text);
}
