/* tokens_edit: the side of tokens.h that changes the file, for the command line.
 *
 * Writers queue at a lock on a file beside (FILE.lock), read, change, write FILE.tmp, sync it,
 * rename it into place and sync the directory: a reader sees one state or the other, and no writer
 * undoes what another one did. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <sys/file.h>
#include <unistd.h>

#include "api/token_file.h"

/* struct edit: a file that is being changed: the lock, and where everything is. */
struct edit {
    char path[PATH_MAX]; /* of the file itself, behind links */
    struct buf beside;   /* FILE.tmp */
    int lock;            /* -1: not taken */
    uid_t uid;           /* whose the file is, or is to be */
    gid_t gid;
    struct token_set set;
};

/* directory_of is the directory of a path, in `out`. */
static void directory_of(const char *path, struct buf *out)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        buf_add_char(out, '.');
    else
        buf_add(out, path, slash == path ? 1 : (size_t)(slash - path));
}

/* find_owner finds out whose the file is to be: who has it stays its owner, so that a server that
 * runs as somebody else can still read it; the first one that root makes is its directory's. */
static enum status find_owner(struct edit *edit, struct err *err)
{
    struct stat info;
    struct buf directory;
    enum status status = STATUS_OK;

    edit->uid = geteuid();
    edit->gid = getegid();
    buf_init(&directory, PATH_MAX);
    directory_of(edit->path, &directory);
    bool there = stat(edit->path, &info) == 0;
    if (!there && stat(buf_str(&directory), &info) != 0)
        status = err_set(err, STATUS_IO, "the token file %s cannot be made: %s", edit->path,
                         strerror(errno));
    else if (there || edit->uid == 0) {
        edit->uid = info.st_uid;
        edit->gid = info.st_gid;
    }
    buf_release(&directory);
    return status;
}

/* give makes a file its owner's alone. */
static bool give(const struct edit *edit, int fd)
{
    bool ours = edit->uid == geteuid() && edit->gid == getegid();
    return fchmod(fd, 0600) == 0 && (ours || fchown(fd, edit->uid, edit->gid) == 0);
}

/* edit_lock waits for whoever else changes the file. */
static enum status edit_lock(struct edit *edit, struct err *err)
{
    struct buf name;
    int locked = -1;

    buf_init(&name, PATH_MAX);
    buf_addf(&name, "%s.lock", edit->path);
    enum status status = buf_status(&name, err);
    if (status == STATUS_OK) {
        edit->lock = open(buf_str(&name), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        do
            locked = edit->lock < 0 ? -1 : flock(edit->lock, LOCK_EX);
        while (edit->lock >= 0 && locked != 0 && errno == EINTR);
        if (locked != 0)
            status =
                err_set(err, STATUS_IO, "%s cannot be locked: %s", buf_str(&name), strerror(errno));
        else if (geteuid() == 0 && !give(edit, edit->lock))
            status = err_set(err, STATUS_IO, "%s cannot be given to the owner of %s: %s",
                             buf_str(&name), edit->path, strerror(errno));
    }
    buf_release(&name);
    return status;
}

/* edit_begin takes the lock and reads the file. */
static enum status edit_begin(const char *path, struct edit *edit, struct err *err)
{
    struct stat info;

    *edit = (struct edit){.lock = -1};
    buf_init(&edit->beside, PATH_MAX);
    if (strlen(path) > PATH_MAX - sizeof(".lock"))
        return err_set(err, STATUS_INVALID, "the path of the token file is too long");
    if (!realpath(path, edit->path))
        memcpy(edit->path, path, strlen(path) + 1);
    buf_addf(&edit->beside, "%s.tmp", edit->path);
    enum status status = buf_status(&edit->beside, err);
    if (status == STATUS_OK)
        status = find_owner(edit, err);
    if (status == STATUS_OK)
        status = edit_lock(edit, err);
    if (status == STATUS_OK)
        status = token_set_read(edit->path, &edit->set, &info, err);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static void edit_end(struct edit *edit)
{
    token_set_release(&edit->set);
    buf_release(&edit->beside);
    if (edit->lock >= 0)
        close(edit->lock);
}

static bool write_bytes(int fd, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t done = write(fd, bytes.ptr, bytes.len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        bytes.ptr += done;
        bytes.len -= (size_t)done;
    }
    return true;
}

/* sync_directory makes a rename last. */
static bool sync_directory(const char *path)
{
    struct buf directory;
    buf_init(&directory, PATH_MAX);
    directory_of(path, &directory);
    int fd = open(buf_str(&directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    buf_release(&directory);
    if (fd < 0)
        return false;
    bool done = fsync(fd) == 0;
    close(fd);
    return done;
}

/* replace writes the file beside and puts it into its place. */
static bool replace(const struct edit *edit, struct slice text)
{
    const char *beside = buf_str(&edit->beside);
    if (unlink(beside) != 0 && errno != ENOENT)
        return false;
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool done = give(edit, fd) && write_bytes(fd, text) && fsync(fd) == 0;
    int why = errno;
    if (close(fd) != 0 && done) {
        why = errno;
        done = false;
    }
    if (done && rename(beside, edit->path) == 0)
        return sync_directory(edit->path);
    if (done)
        why = errno;
    unlink(beside);
    errno = why;
    return false;
}

/* edit_commit writes the set. */
static enum status edit_commit(const struct edit *edit, struct err *err)
{
    struct buf text;
    buf_init(&text, TOKEN_FILE_MAX);
    token_set_print(&edit->set, &text);
    enum status status = buf_status(&text, err);
    if (status == STATUS_OK && !replace(edit, buf_slice(&text)))
        status = err_set(err, errno == ENOSPC ? STATUS_FULL : STATUS_IO,
                         "the token file %s cannot be written: %s", edit->path, strerror(errno));
    buf_release(&text);
    return status;
}

/* set_find is the place of a name; `count` when there is none. */
static size_t set_find(const struct token_set *set, struct slice name)
{
    size_t i = 0;
    while (i < set->count && !slice_eq(set->entries[i].about.name, name))
        i++;
    return i;
}

static void set_remove(struct token_set *set, size_t at)
{
    set->count--;
    memmove(&set->entries[at], &set->entries[at + 1], (set->count - at) * sizeof(*set->entries));
}

/* set_add adds an entry at the end. */
static enum status set_add(struct token_set *set, const struct token_secret *entry, struct err *err)
{
    struct token_secret *entries = arena_array(&set->arena, set->count + 1, sizeof(*entries));
    if (!entries)
        return err_no_memory(err);
    if (set->count)
        memcpy(entries, set->entries, set->count * sizeof(*entries));
    entries[set->count++] = *entry;
    set->entries = entries;
    return STATUS_OK;
}

/* make_token fills the entry with what is random, and writes the token. */
static enum status make_token(const struct seams *seams, struct arena *arena,
                              struct token_secret *entry, char token[TOKEN_SIZE], struct err *err)
{
    uint8_t id[TOKEN_ID_SIZE], secret[TOKEN_SECRET_SIZE];
    struct slice id_text, secret_text;
    struct buf text;

    seams->random(seams->ctx, id, sizeof(id));
    seams->random(seams->ctx, secret, sizeof(secret));
    seams->random(seams->ctx, entry->salt, sizeof(entry->salt));
    buf_init(&text, TOKEN_SIZE - 1);
    buf_add_slice(&text, SLICE(TOKEN_BEGIN));
    buf_add_hex(&text, id, sizeof(id));
    buf_add_char(&text, '_');
    buf_add_hex(&text, secret, sizeof(secret));
    enum status status = buf_status(&text, err);
    if (status == STATUS_OK) {
        memcpy(token, buf_str(&text), text.len + 1);
        BUG_ON(!token_split(slice_of(token), &id_text, &secret_text));
        entry->about.id = arena_dup(arena, id_text);
        entry->hash = token_hash(entry->salt, secret_text);
        if (!entry->about.id.ptr)
            status = err_no_memory(err);
    }
    OPENSSL_cleanse(secret, sizeof(secret));
    if (text.ptr)
        OPENSSL_cleanse(text.ptr, text.cap);
    buf_release(&text);
    return status;
}

/* make_room removes an expired token of the name, and refuses any other. */
static enum status make_room(struct edit *edit, struct slice name, struct instant at,
                             struct err *err)
{
    struct token_set *set = &edit->set;
    size_t taken = set_find(set, name);
    if (taken < set->count && !token_expired(&set->entries[taken].about, at))
        return err_set(err, STATUS_CONFLICT, "there is a token with the name \"%.*s\" already",
                       SLICE_ARG(name));
    if (taken < set->count)
        set_remove(set, taken);
    if (set->count >= TOKEN_ENTRIES_MAX)
        return err_set(err, STATUS_LIMIT, "the token file %s has %d tokens: revoke some first",
                       edit->path, TOKEN_ENTRIES_MAX);
    return STATUS_OK;
}

enum status tokens_create(const char *path, struct slice name, enum role role,
                          struct instant expires_at, const struct seams *seams,
                          char token[TOKEN_SIZE], struct err *err)
{
    struct instant at = seams->wall(seams->ctx);
    struct token_secret entry = {
        .about = {.name = name, .role = role, .created_at = at, .expires_at = expires_at}};
    struct edit edit;
    char made[TOKEN_SIZE];
    enum status status = token_name_check(name, err);

    if (status != STATUS_OK)
        return status;
    if (role <= ROLE_NONE || role >= ROLE_COUNT)
        return err_set(err, STATUS_INVALID,
                       "role: must be viewer, worker, operator, reviewer or admin");
    if (token_expired(&entry.about, at))
        return err_set(err, STATUS_INVALID, "expires_at: must be in the future");
    status = edit_begin(path, &edit, err);
    if (status == STATUS_OK)
        status = make_room(&edit, name, at, err);
    if (status == STATUS_OK)
        status = make_token(seams, &edit.set.arena, &entry, made, err);
    if (status == STATUS_OK)
        status = set_add(&edit.set, &entry, err);
    if (status == STATUS_OK)
        status = edit_commit(&edit, err);
    if (status == STATUS_OK)
        memcpy(token, made, TOKEN_SIZE);
    OPENSSL_cleanse(made, sizeof(made));
    edit_end(&edit);
    return status;
}

static enum status no_such_token(struct slice name, struct err *err)
{
    return err_set(err, STATUS_NOT_FOUND, "there is no token with the name \"%.*s\"",
                   SLICE_ARG(name));
}

enum status tokens_revoke(const char *path, struct slice name, struct err *err)
{
    struct edit edit;
    /* What is not there has nothing to revoke: no lock is left beside it. */
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return no_such_token(name, err);
    enum status status = edit_begin(path, &edit, err);
    size_t at = status == STATUS_OK ? set_find(&edit.set, name) : 0;
    if (status == STATUS_OK && at == edit.set.count)
        status = no_such_token(name, err);
    if (status == STATUS_OK) {
        set_remove(&edit.set, at);
        status = edit_commit(&edit, err);
    }
    edit_end(&edit);
    return status;
}

enum status tokens_list(const char *path, struct arena *arena, struct token_entry **out,
                        size_t *count, struct err *err)
{
    struct token_set set = {0};
    struct stat info;
    enum status status = token_set_read(path, &set, &info, err);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return status;
    struct token_entry *entries = arena_array(arena, set.count + 1, sizeof(*entries));
    if (!entries) {
        token_set_release(&set);
        return err_no_memory(err);
    }
    status = STATUS_OK;
    for (size_t i = 0; i < set.count && status == STATUS_OK; i++) {
        entries[i] = set.entries[i].about;
        entries[i].name = arena_dup(arena, entries[i].name);
        entries[i].id = arena_dup(arena, entries[i].id);
        if (!entries[i].name.ptr || !entries[i].id.ptr)
            status = err_no_memory(err);
    }
    if (status == STATUS_OK) {
        *out = entries;
        *count = set.count;
    }
    token_set_release(&set);
    return status;
}
