/* token_file: see token_file.h.
 *
 * The file is strict: a member that is unknown, missing or wrong is an error that names it, as a
 * mistyped role must never be a role. */
#include "api/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/jsonw.h"

void token_set_release(struct token_set *set)
{
    arena_release(&set->arena);
    *set = (struct token_set){0};
}

/* ---- the token itself -------------------------------------------------------------------------
 */

bool token_split(struct slice token, struct slice *id, struct slice *secret)
{
    const struct slice first = SLICE(TOKEN_BEGIN);
    size_t begin = first.len, id_end = begin + 2 * (size_t)TOKEN_ID_SIZE;
    if (token.len != id_end + 1 + 2 * (size_t)TOKEN_SECRET_SIZE || !slice_starts(token, first) ||
        token.ptr[id_end] != '_')
        return false;
    *id = (struct slice){token.ptr + begin, id_end - begin};
    *secret = (struct slice){token.ptr + id_end + 1, 2 * (size_t)TOKEN_SECRET_SIZE};
    return true;
}

struct hash token_hash(const uint8_t salt[TOKEN_SALT_SIZE], struct slice secret)
{
    struct slice parts[] = {{(const char *)salt, TOKEN_SALT_SIZE}, secret};
    return hash_sha256(parts, 2);
}

bool token_expired(const struct token_entry *entry, struct instant at)
{
    return instant_is_set(entry->expires_at) && !instant_before(at, entry->expires_at);
}

/* ---- reading an entry -------------------------------------------------------------------------
 */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* read_hex reads exactly `size` bytes in lower-case hex. */
static bool read_hex(struct slice text, uint8_t *out, size_t size)
{
    if (text.len != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        int high = hex_digit(text.ptr[2 * i]), low = hex_digit(text.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

enum status token_name_check(struct slice name, struct err *err)
{
    bool plain = json_utf8_valid(name);
    for (size_t i = 0; i < name.len; i++)
        plain = plain && (unsigned char)name.ptr[i] >= 0x20 && name.ptr[i] != 0x7F;
    if (name.len == 0 || name.len > TOKEN_NAME_MAX)
        return err_set(err, STATUS_INVALID, "name: must have 1 to %d bytes", TOKEN_NAME_MAX);
    if (!plain)
        return err_set(err, STATUS_INVALID, "name: must be UTF-8 text without control characters");
    if (name.ptr[0] == ' ' || name.ptr[name.len - 1] == ' ')
        return err_set(err, STATUS_INVALID, "name: must not begin or end with a space");
    return STATUS_OK;
}

static enum status read_name(struct slice text, struct token_secret *entry, struct err *err)
{
    entry->about.name = text;
    return token_name_check(text, err);
}

static enum status read_role(struct slice text, struct token_secret *entry, struct err *err)
{
    if (role_from_name(text, &entry->about.role))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID,
                   "role: must be viewer, worker, operator, reviewer or admin, not \"%.*s\"",
                   SLICE_ARG(text));
}

static enum status read_id(struct slice text, struct token_secret *entry, struct err *err)
{
    uint8_t bytes[TOKEN_ID_SIZE];
    entry->about.id = text;
    if (read_hex(text, bytes, TOKEN_ID_SIZE))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID, "id: must be %d lower-case hex digits", 2 * TOKEN_ID_SIZE);
}

static enum status read_salt(struct slice text, struct token_secret *entry, struct err *err)
{
    if (read_hex(text, entry->salt, TOKEN_SALT_SIZE))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID, "salt: must be %d lower-case hex digits",
                   2 * TOKEN_SALT_SIZE);
}

static enum status read_digest(struct slice text, struct token_secret *entry, struct err *err)
{
    if (read_hex(text, entry->hash.bytes, HASH_SIZE))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID, "hash: must be %d lower-case hex digits", 2 * HASH_SIZE);
}

static enum status read_time(struct slice text, const char *name, struct instant *out,
                             struct err *err)
{
    enum status status = instant_parse(text, out, err);
    if (status != STATUS_OK)
        err_prefix(err, "%s", name);
    else if (!instant_is_set(*out))
        status = err_set(err, STATUS_INVALID, "%s: must not be the epoch", name);
    return status;
}

static enum status read_created_at(struct slice text, struct token_secret *entry, struct err *err)
{
    return read_time(text, "created_at", &entry->about.created_at, err);
}

static enum status read_expires_at(struct slice text, struct token_secret *entry, struct err *err)
{
    return read_time(text, "expires_at", &entry->about.expires_at, err);
}

static const struct {
    const char *name;
    enum status (*read)(struct slice text, struct token_secret *entry, struct err *err);
    bool optional;
} members[] = {
    {"name", read_name, false},
    {"role", read_role, false},
    {"id", read_id, false},
    {"salt", read_salt, false},
    {"hash", read_digest, false},
    {"created_at", read_created_at, false},
    {"expires_at", read_expires_at, true},
};

#define MEMBER_COUNT (sizeof(members) / sizeof(members[0]))

/* read_member reads one member of an entry; bit i of `seen` says that members[i] has stood. */
static enum status read_member(struct json key, struct json value, struct arena *arena,
                               unsigned *seen, struct token_secret *entry, struct err *err)
{
    for (unsigned i = 0; i < MEMBER_COUNT; i++) {
        if (!json_string_is(key, members[i].name))
            continue;
        if (*seen & 1U << i)
            return err_set(err, STATUS_INVALID, "%s: stands twice", members[i].name);
        *seen |= 1U << i;
        if (value.type != JSON_STRING)
            return err_set(err, STATUS_INVALID, "%s: must be a string", members[i].name);
        struct slice text = json_text(value, arena);
        if (!text.ptr)
            return err_no_memory(err);
        return members[i].read(text, entry, err);
    }
    return err_set(err, STATUS_INVALID, "%.*s: unknown member", SLICE_ARG(key.raw));
}

static enum status read_entry(struct json value, struct arena *arena, struct token_secret *entry,
                              struct err *err)
{
    struct json_iter iter;
    struct json key, member;
    unsigned seen = 0;
    enum status status = STATUS_OK;

    if (value.type != JSON_OBJECT)
        return err_set(err, STATUS_INVALID, "must be an object");
    json_iter_init(&iter, value);
    while (status == STATUS_OK && json_next(&iter, &key, &member))
        status = read_member(key, member, arena, &seen, entry, err);
    for (unsigned i = 0; i < MEMBER_COUNT && status == STATUS_OK; i++)
        if (!(seen & 1U << i) && !members[i].optional)
            status = err_set(err, STATUS_INVALID, "%s: is required", members[i].name);
    return status;
}

/* ---- reading a file ---------------------------------------------------------------------------
 */

static enum status check_unique(const struct token_set *set, const struct token_secret *entry,
                                struct err *err)
{
    for (size_t i = 0; i < set->count; i++) {
        if (slice_eq(set->entries[i].about.name, entry->about.name))
            return err_set(err, STATUS_INVALID, "name: tokens[%zu] has the same", i);
        if (slice_eq(set->entries[i].about.id, entry->about.id))
            return err_set(err, STATUS_INVALID, "id: tokens[%zu] has the same", i);
    }
    return STATUS_OK;
}

static enum status read_entries(struct json array, struct token_set *set, struct err *err)
{
    size_t count = json_count(array);
    struct json_iter iter;
    struct json value;
    enum status status = STATUS_OK;

    if (array.type != JSON_ARRAY)
        return err_set(err, STATUS_INVALID, "tokens: must be an array");
    if (count > TOKEN_ENTRIES_MAX)
        return err_set(err, STATUS_INVALID, "tokens: must have at most %d entries",
                       TOKEN_ENTRIES_MAX);
    set->entries = arena_array(&set->arena, count + 1, sizeof(*set->entries));
    if (!set->entries)
        return err_no_memory(err);
    json_iter_init(&iter, array);
    while (status == STATUS_OK && json_next(&iter, NULL, &value)) {
        struct token_secret *entry = &set->entries[set->count];
        status = read_entry(value, &set->arena, entry, err);
        if (status == STATUS_OK)
            status = check_unique(set, entry, err);
        if (status != STATUS_OK)
            err_prefix(err, "tokens[%zu]", set->count);
        set->count++;
    }
    return status;
}

/* read_document reads a file's text.  Only what has no byte at all may stand for no tokens. */
static enum status read_document(struct slice text, struct token_set *set, struct err *err)
{
    struct json_iter iter;
    struct json root, key, value;
    bool seen = false;
    enum status status = STATUS_OK;

    if (text.len == 0)
        return STATUS_OK;
    text = arena_dup(&set->arena, text);
    if (!text.ptr)
        return err_no_memory(err);
    status = json_parse(text, &root, err);
    if (status == STATUS_OK && root.type != JSON_OBJECT)
        status = err_set(err, STATUS_INVALID, "must be an object with the member \"tokens\"");
    if (status != STATUS_OK)
        return status;
    json_iter_init(&iter, root);
    while (status == STATUS_OK && json_next(&iter, &key, &value)) {
        if (!json_string_is(key, "tokens"))
            return err_set(err, STATUS_INVALID, "%.*s: unknown member", SLICE_ARG(key.raw));
        if (seen)
            return err_set(err, STATUS_INVALID, "tokens: stands twice");
        seen = true;
        status = read_entries(value, set, err);
    }
    if (status == STATUS_OK && !seen)
        status = err_set(err, STATUS_INVALID, "tokens: is required");
    return status;
}

static enum status read_bytes(int fd, struct buf *out, struct err *err)
{
    char chunk[4096];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, STATUS_IO, "cannot be read: %s", strerror(errno));
        if (got == 0)
            return buf_status(out, err);
        buf_add(out, chunk, (size_t)got);
    }
}

enum status token_set_read(const char *path, struct token_set *out, struct stat *info,
                           struct err *err)
{
    struct token_set set = {0};
    struct buf text;
    /* O_NONBLOCK: a pipe in the file's place must not hold anybody up. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    enum status status = STATUS_OK;

    if (fd < 0)
        return err_set(err, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO,
                       "the token file %s cannot be opened: %s", path, strerror(errno));
    buf_init(&text, TOKEN_FILE_MAX);
    if (fstat(fd, info) != 0)
        status = err_set(err, STATUS_IO, "cannot be looked at: %s", strerror(errno));
    else if (!S_ISREG(info->st_mode))
        status = err_set(err, STATUS_INVALID, "is not a file");
    if (status == STATUS_OK)
        status = read_bytes(fd, &text, err);
    if (status == STATUS_OK)
        status = read_document(buf_slice(&text), &set, err);
    close(fd);
    buf_release(&text);
    if (status != STATUS_OK) {
        err_prefix(err, "the token file %s", path);
        token_set_release(&set);
        return status;
    }
    *out = set;
    return STATUS_OK;
}

/* ---- printing ----------------------------------------------------------------------------------
 */

static void put_hex(struct jsonw *w, const char *key, const uint8_t *bytes, size_t size)
{
    struct buf text;
    buf_init(&text, 2 * (size_t)HASH_SIZE);
    buf_add_hex(&text, bytes, size);
    if (text.status != STATUS_OK)
        w->buf->status = text.status;
    jsonw_put_string(w, key, buf_slice(&text));
    buf_release(&text);
}

static void print_entry(const struct token_secret *entry, struct buf *out)
{
    const struct token_entry *about = &entry->about;
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_string(&w, "name", about->name);
    jsonw_put_str(&w, "role", role_name(about->role));
    jsonw_put_string(&w, "id", about->id);
    put_hex(&w, "salt", entry->salt, TOKEN_SALT_SIZE);
    put_hex(&w, "hash", entry->hash.bytes, HASH_SIZE);
    jsonw_put_instant(&w, "created_at", about->created_at);
    if (instant_is_set(about->expires_at))
        jsonw_put_instant(&w, "expires_at", about->expires_at);
    jsonw_object_end(&w);
}

void token_set_print(const struct token_set *set, struct buf *out)
{
    buf_add_str(out, "{\"tokens\": [");
    for (size_t i = 0; i < set->count; i++) {
        buf_add_str(out, i ? ",\n  " : "\n  ");
        print_entry(&set->entries[i], out);
    }
    buf_add_str(out, "\n]}\n");
}
