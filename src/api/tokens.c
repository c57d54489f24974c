/* tokens: see tokens.h.  This is the side that checks; tokens_edit.c changes the file.
 *
 * A secret is 256 random bits, so that one round of SHA-256 with a salt is enough to keep it: there
 * is nothing to guess.  An id is public: it stands in listings, and finding its entry may take what
 * time it takes.  What must not be told by time is the secret: every check of a token that has the
 * right shape hashes once and compares once, an unknown one's against an entry that fits nothing.
 *
 * The set of tokens in force is replaced whole, under a mutex that is held for a look at the file
 * and never for a hash. */
#include "api/tokens.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>

#include "api/token_file.h"
#include "base/log.h"
#include "base/mem.h"

#define LOOK_EVERY_US 1000000 /* a checker looks at the file this often at most */
#define SETTLED_US 2000000    /* a file this young may change again within its own timestamp */

/* struct look: what a file was when somebody looked: the same again is not read again. */
struct look {
    dev_t device;
    ino_t inode;
    off_t size;
    int64_t changed_ns, modified_ns;
    mode_t mode;
    bool there;
};

struct tokens {
    char *path;
    const struct seams *seams;
    pthread_mutex_t lock;  /* over everything below */
    struct token_set set;  /* in force */
    struct look look;      /* of the file that was read last, well or not */
    struct span looked_at; /* when somebody looked last */
    bool settled;          /* the file cannot have changed without a sign of it */
    bool required;         /* there is, or was, a file */
};

static int64_t nanoseconds(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct look look_of(const struct stat *info)
{
    return (struct look){.device = info->st_dev,
                         .inode = info->st_ino,
                         .size = info->st_size,
                         .changed_ns = nanoseconds(info->st_ctim),
                         .modified_ns = nanoseconds(info->st_mtim),
                         .mode = info->st_mode,
                         .there = true};
}

static bool look_eq(const struct look *a, const struct look *b)
{
    return a->there == b->there && a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->changed_ns == b->changed_ns &&
           a->modified_ns == b->modified_ns && a->mode == b->mode;
}

static void warn_if_open(const struct tokens *tokens, const struct look *look)
{
    if (look->there && look->mode & (S_IRWXG | S_IRWXO))
        log_line(LOG_WARN,
                 "the token file %s can be used by others (mode %03o): chmod 600 keeps it private",
                 tokens->path, (unsigned)(look->mode & 0777));
}

/* take_look remembers what was read.  A file that was written a moment ago may be written again
 * without a sign: timestamps are coarse, and inodes are used again. */
static void take_look(struct tokens *tokens, const struct look *look)
{
    int64_t age = tokens->seams->wall(tokens->seams->ctx).us - look->changed_ns / 1000;
    tokens->settled = !look->there || age > SETTLED_US || age < -SETTLED_US;
    tokens->look = *look;
}

/* reread reads the file and puts it in force when that is possible.  What could not be read is
 * tried again at the next look. */
static enum status reread(struct tokens *tokens, bool *changed, struct err *err)
{
    struct token_set set = {0};
    struct stat info = {0};
    enum status status = token_set_read(tokens->path, &set, &info, err);
    struct look look = {0};

    if (info.st_ino)
        look = look_of(&info);
    *changed = !look_eq(&look, &tokens->look);
    take_look(tokens, &look);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        tokens->settled = false;
        return status;
    }
    tokens->required = tokens->required || status == STATUS_OK;
    token_set_release(&tokens->set);
    tokens->set = set;
    if (*changed)
        warn_if_open(tokens, &look);
    if (status == STATUS_NOT_FOUND && tokens->required && *changed)
        log_line(LOG_WARN, "%s: nobody gets in until it is there again", err->text);
    return STATUS_OK;
}

/* refresh looks at the file when nobody did for a second.  With the lock held. */
static void refresh(struct tokens *tokens)
{
    struct span at = tokens->seams->steady(tokens->seams->ctx);
    struct look look = {0};
    struct stat info;
    struct err err = {0};
    bool changed;

    if (at.us - tokens->looked_at.us < LOOK_EVERY_US)
        return;
    tokens->looked_at = at;
    if (stat(tokens->path, &info) == 0)
        look = look_of(&info);
    else if (errno != ENOENT && errno != ENOTDIR)
        return;
    if (tokens->settled && look_eq(&look, &tokens->look))
        return;
    enum status status = reread(tokens, &changed, &err);
    if (status != STATUS_OK && changed)
        log_line(LOG_ERROR, "%s; the tokens that were read before it stay in force", err.text);
}

enum status tokens_open(const char *path, const struct seams *seams, struct tokens **out,
                        struct err *err)
{
    struct tokens *tokens = mem_zalloc(sizeof(*tokens));
    bool changed;

    if (!tokens)
        return err_no_memory(err);
    if (pthread_mutex_init(&tokens->lock, NULL) != 0) {
        mem_free(tokens);
        return err_no_memory(err);
    }
    tokens->seams = seams ? seams : seams_real();
    tokens->path = mem_strdup(path);
    enum status status = tokens->path ? reread(tokens, &changed, err) : err_no_memory(err);
    if (status != STATUS_OK) {
        tokens_close(tokens);
        return status;
    }
    tokens->looked_at = tokens->seams->steady(tokens->seams->ctx);
    *out = tokens;
    return STATUS_OK;
}

void tokens_close(struct tokens *tokens)
{
    if (!tokens)
        return;
    token_set_release(&tokens->set);
    pthread_mutex_destroy(&tokens->lock);
    mem_free(tokens->path);
    mem_free(tokens);
}

bool tokens_required(struct tokens *tokens)
{
    pthread_mutex_lock(&tokens->lock);
    refresh(tokens);
    bool required = tokens->required;
    pthread_mutex_unlock(&tokens->lock);
    return required;
}

/* find copies the entry with this id, and its name; false when there is none.  All are looked at.
 */
static bool find(struct tokens *tokens, struct slice id, struct token_secret *out,
                 struct token_identity *identity)
{
    const struct token_secret *found = NULL;
    pthread_mutex_lock(&tokens->lock);
    refresh(tokens);
    for (size_t i = 0; i < tokens->set.count; i++)
        if (slice_eq(tokens->set.entries[i].about.id, id))
            found = &tokens->set.entries[i];
    if (found) {
        *out = *found;
        identity->role = found->about.role;
        memcpy(identity->name, found->about.name.ptr, found->about.name.len);
        identity->name[found->about.name.len] = '\0';
    }
    pthread_mutex_unlock(&tokens->lock);
    return found != NULL;
}

bool tokens_check(struct tokens *tokens, struct slice token, struct token_identity *out)
{
    struct token_secret entry = {0}; /* without an entry: compared all the same, and never right */
    struct token_identity identity = {0};
    struct slice id, secret;

    if (!token_split(token, &id, &secret))
        return false;
    bool known = find(tokens, id, &entry, &identity);
    struct hash hash = token_hash(entry.salt, secret);
    bool same = CRYPTO_memcmp(hash.bytes, entry.hash.bytes, HASH_SIZE) == 0;
    bool expired = token_expired(&entry.about, tokens->seams->wall(tokens->seams->ctx));
    if (!known || !same || expired)
        return false;
    *out = identity;
    return true;
}
