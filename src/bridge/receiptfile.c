/* receiptfile: see receiptfile.h.
 *
 * Whatever is asked for, each entry of the file is given its letter first (resolve): one of the
 * open letters, else one that was recovered or discarded, else a new one.  Only then is anything
 * left out of the file.  A crash on the way leaves the file as it was, and letters whose import is
 * known when it is repeated. */
#include "bridge/receiptfile.h"

#include <inttypes.h>

#include "base/time.h"
#include "bridge/lockedfile.h"
#include "bridge/receiptbook.h"
#include "core/delivery.h"

#define TEXT_MAX ((size_t)256 << 20) /* bytes of a file */
#define ATTEMPTS_MAX 60000           /* what an import takes */
#define TRIES 5                      /* when somebody edits the file meanwhile */

/* struct entry: one of the file. */
struct entry {
    struct json json; /* the whole of it */
    struct json receipt;
    struct instant failed_at; /* not set: it does not say */
    struct receipt_letter *letter;
};

/* struct session: a file and the letters, while they are looked at. */
struct session {
    const char *path;
    struct lockedfile file;
    struct receiptbook book;
    struct buf text;  /* of the file */
    struct buf fresh; /* what it is to be */
    struct entry *entries;
    size_t count;
    struct receiptfile_counts counts;
    bool make; /* the directory, if it is not there */
};

static void session_init(struct session *session, const struct link *link, const char *path)
{
    *session = (struct session){.path = path};
    receiptbook_init(&session->book, link);
    buf_init(&session->text, TEXT_MAX);
    buf_init(&session->fresh, TEXT_MAX);
}

static void session_release(struct session *session)
{
    lockedfile_close(&session->file);
    receiptbook_release(&session->book);
    buf_release(&session->text);
    buf_release(&session->fresh);
}

/* ---- the entries ----------------------------------------------------------------------------- */

/* damaged says that the file is not what it should be. */
static enum status damaged(const struct session *session, const char *why, struct err *err)
{
    return err_set(err, STATUS_INVALID,
                   "%s is no array of receipts (%s); it is left as it is: correct it, or move it "
                   "away and a new one is made",
                   session->path, why);
}

/* wrong says that an entry is not what it should be; `err` has the reason. */
static enum status wrong(const struct session *session, size_t index, enum status status,
                         struct err *err)
{
    struct err why = *err;
    return err_set(err, status,
                   "entry %zu of %s cannot be taken in (%s); the file is left as it is: correct "
                   "the entry, or take it out",
                   index + 1, session->path, why.text);
}

/* read_when reads the time and the count of an entry; both may be absent. */
static enum status read_when(struct session *session, struct entry *entry, struct err *err)
{
    struct json value;
    int64_t attempts = 0;
    if (json_get(entry->json, "failed_at", &value) && value.type != JSON_NULL) {
        struct slice text = json_text(value, &session->book.arena);
        if (!text.ptr || instant_parse(text, &entry->failed_at, NULL) != STATUS_OK)
            return err_set(err, STATUS_INVALID,
                           "failed_at: must be a time such as 2024-01-15T10:30:45Z");
        entry->failed_at = receiptbook_second(entry->failed_at);
    }
    if (json_get(entry->json, "attempts", &value) && value.type != JSON_NULL &&
        (!json_int(value, &attempts) || attempts < 0 || attempts > ATTEMPTS_MAX))
        return err_set(err, STATUS_INVALID, "attempts: must be a whole number from 0 to %d",
                       ATTEMPTS_MAX);
    return STATUS_OK;
}

static enum status read_entry(struct session *session, struct json json, struct err *err)
{
    struct entry *entry = &session->entries[session->count];
    enum status status = STATUS_OK;
    entry->json = json;
    if (!json_get(json, "receipt", &entry->receipt) || entry->receipt.type != JSON_OBJECT)
        status = err_set(err, STATUS_INVALID, "it must be an object with a receipt, an object");
    else
        status = read_when(session, entry, err);
    if (status != STATUS_OK)
        return wrong(session, session->count, status, err);
    session->count++;
    return STATUS_OK;
}

/* content is the text without a byte order mark and white space at its beginning. */
static struct slice content(const struct buf *text)
{
    struct slice rest = buf_slice(text);
    if (slice_starts(rest, SLICE("\xef\xbb\xbf")))
        rest = (struct slice){rest.ptr + 3, rest.len - 3};
    while (rest.len && strchr(" \t\r\n", rest.ptr[0]))
        rest = (struct slice){rest.ptr + 1, rest.len - 1};
    return rest;
}

/* read_entries reads the file.  An empty one has no entries. */
static enum status read_entries(struct session *session, struct err *err)
{
    struct json array, json;
    struct json_iter iter;
    enum status status = lockedfile_read(&session->file, &session->text, err);
    struct slice text = content(&session->text);
    if (status != STATUS_OK || text.len == 0)
        return status;
    if (json_parse(text, &array, err) != STATUS_OK) {
        struct err why = *err;
        return damaged(session, why.text, err);
    }
    if (array.type != JSON_ARRAY)
        return damaged(session, "it is another JSON value", err);
    session->entries =
        arena_array(&session->book.arena, json_count(array) + 1, sizeof(*session->entries));
    if (!session->entries)
        return err_no_memory(err);
    json_iter_init(&iter, array);
    while (status == STATUS_OK && json_next(&iter, NULL, &json))
        status = read_entry(session, json, err);
    return status;
}

/* ---- their letters --------------------------------------------------------------------------- */

/* seek gives an entry the letter that is known of it.  One that says no time is known by its
 * import. */
static enum status seek(struct session *session, struct entry *entry, struct err *err)
{
    if (!instant_is_set(entry->failed_at))
        return STATUS_OK;
    entry->letter = receiptbook_find(&session->book, entry->receipt, entry->failed_at);
    if (entry->letter)
        return STATUS_OK;
    return receiptbook_seek(&session->book, entry->receipt, entry->failed_at, &entry->letter, err);
}

/* struct unknown: the entries that no letter is known of. */
struct unknown {
    size_t count;
    size_t *indexes; /* among the entries */
    struct slice *texts;
    struct receipt_letter **letters;
    bool *created;
};

static enum status unknown_init(struct unknown *unknown, size_t max, struct arena *arena,
                                struct err *err)
{
    *unknown = (struct unknown){.indexes = arena_array(arena, max, sizeof(*unknown->indexes)),
                                .texts = arena_array(arena, max, sizeof(*unknown->texts)),
                                .letters = arena_array(arena, max, sizeof(void *)),
                                .created = arena_array(arena, max, sizeof(*unknown->created))};
    bool made = unknown->indexes && unknown->texts && unknown->letters && unknown->created;
    return made ? STATUS_OK : err_no_memory(err);
}

/* import_unknown makes letters of the entries that have none. */
static enum status import_unknown(struct session *session, struct unknown *unknown, struct err *err)
{
    size_t refused = SIZE_MAX;
    if (unknown->count == 0)
        return STATUS_OK;
    enum status status = receiptbook_import(&session->book, unknown->texts, unknown->count,
                                            unknown->letters, unknown->created, &refused, err);
    if (status != STATUS_OK)
        return refused == SIZE_MAX ? status
                                   : wrong(session, unknown->indexes[refused], status, err);
    for (size_t i = 0; i < unknown->count; i++) {
        session->entries[unknown->indexes[i]].letter = unknown->letters[i];
        session->counts.taken += unknown->created[i];
    }
    return STATUS_OK;
}

/* resolve gives each entry its letter.  All that can be wrong with an entry is found before any is
 * imported. */
static enum status resolve(struct session *session, struct err *err)
{
    struct unknown unknown;
    enum status status = unknown_init(&unknown, session->count + 1, &session->book.arena, err);
    for (size_t i = 0; status == STATUS_OK && i < session->count; i++) {
        struct entry *entry = &session->entries[i];
        status = seek(session, entry, err);
        if (status != STATUS_OK || entry->letter)
            continue;
        status = receipt_check(entry->receipt, err);
        if (status != STATUS_OK)
            return wrong(session, i, status, err);
        unknown.indexes[unknown.count] = i;
        unknown.texts[unknown.count++] = entry->json.raw;
    }
    return status == STATUS_OK ? import_unknown(session, &unknown, err) : status;
}

/* ---- the file anew --------------------------------------------------------------------------- */

static void print_entry(struct slice receipt, struct instant died, int64_t attempts,
                        struct buf *out)
{
    char time[INSTANT_TEXT_SIZE];
    instant_format(receiptbook_second(died), time);
    buf_add_str(out, "  {\n    \"receipt\": ");
    buf_add_slice(out, receipt);
    buf_addf(out, ",\n    \"failed_at\": \"%s\"", time);
    buf_addf(out, ",\n    \"attempts\": %" PRId64 "\n  }", attempts);
}

bool receiptfile_print(struct json letter, struct buf *out)
{
    struct json receipt, failed_at, count;
    struct instant died = INSTANT_NONE;
    struct arena arena = {0};
    int64_t attempts = 0;
    if (!receipt_of(letter, &receipt))
        return false;
    if (json_get(letter, "failed_at", &failed_at))
        instant_parse(json_text(failed_at, &arena), &died, NULL);
    arena_release(&arena);
    if (json_get(letter, "failure_count", &count))
        json_int(count, &attempts);
    print_entry(receipt.raw, died, attempts, out);
    return true;
}

/* belongs says that the mirror shows a letter.  One that is no whole receipt could not be taken in
 * again, so it is shown only when the file has it already. */
static bool belongs(const struct receipt_letter *letter)
{
    return letter->open && (letter->complete || letter->listed);
}

static int older(const void *a, const void *b)
{
    const struct receipt_letter *left = *(struct receipt_letter *const *)a;
    const struct receipt_letter *right = *(struct receipt_letter *const *)b;
    if (left->died.us != right->died.us)
        return left->died.us < right->died.us ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

static void print_mirror(struct session *session)
{
    struct receiptbook *book = &session->book;
    for (size_t i = 0; i < book->count; i++)
        book->letters[i]->place = session->count + i;
    for (size_t i = session->count; i-- > 0;) { /* an entry that stands twice is the first */
        session->entries[i].letter->place = i;
        session->entries[i].letter->listed = true;
        session->counts.left += !session->entries[i].letter->open;
    }
    if (book->count)
        qsort(book->letters, book->count, sizeof(struct receipt_letter *), older);
    for (size_t i = 0; i < book->count; i++) {
        const struct receipt_letter *letter = book->letters[i];
        if (!belongs(letter))
            continue;
        buf_add_str(&session->fresh, session->counts.entries++ ? ",\n" : "[\n");
        print_entry(letter->receipt.raw, letter->died, letter->attempts, &session->fresh);
    }
    buf_add_str(&session->fresh, session->counts.entries ? "\n]\n" : "[]\n");
}

/* print_rest prints the entries whose letters are open, as they stand. */
static void print_rest(struct session *session)
{
    for (size_t i = 0; i < session->count; i++) {
        const struct entry *entry = &session->entries[i];
        if (!entry->letter->open) {
            session->counts.left++;
            continue;
        }
        buf_add_str(&session->fresh, session->counts.entries++ ? ",\n  " : "[\n  ");
        buf_add_slice(&session->fresh, entry->json.raw);
    }
    buf_add_str(&session->fresh, session->counts.entries ? "\n]\n" : "[]\n");
}

/* replace writes the file, if it is not as it should be.  None is made to hold nothing. */
static enum status replace(struct session *session, struct err *err)
{
    enum status status = buf_status(&session->fresh, err);
    bool needless = session->file.there
                        ? slice_eq(buf_slice(&session->text), buf_slice(&session->fresh))
                        : session->counts.entries == 0;
    if (status != STATUS_OK || needless)
        return status;
    status = lockedfile_write(&session->file, buf_slice(&session->fresh), err);
    session->counts.written = status == STATUS_OK;
    return status;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

/* enum purpose: what a session is for. */
enum purpose {
    MIRROR, /* the file becomes what the letters say */
    LIST,   /* it stays */
    SETTLE, /* entries leave it */
};

/* look carries a session out, with the lock held. */
static enum status look(struct session *session, enum purpose purpose, struct err *err)
{
    enum status status = read_entries(session, err);
    if (status == STATUS_OK && purpose != MIRROR && !session->file.there)
        return err_set(err, STATUS_NOT_FOUND, "%s is not there", session->path);
    if (status == STATUS_OK)
        status = receiptbook_load(&session->book, err);
    if (status == STATUS_OK)
        status = resolve(session, err);
    if (status != STATUS_OK || purpose == LIST)
        return status;
    if (purpose == MIRROR)
        print_mirror(session);
    else
        print_rest(session);
    if (purpose == SETTLE && session->counts.left == 0)
        return STATUS_OK;
    return replace(session, err);
}

/* look_without is look for a mirror whose directory is not there.  STATUS_NOT_FOUND: it has to be.
 */
static enum status look_without(struct session *session, struct err *err)
{
    enum status status = receiptbook_load(&session->book, err);
    if (status != STATUS_OK)
        return status;
    print_mirror(session);
    return session->counts.entries ? STATUS_NOT_FOUND : STATUS_OK;
}

static enum status look_once(struct session *session, enum purpose purpose, struct err *err)
{
    if (!session->path) {
        enum status loaded = receiptbook_load(&session->book, err);
        if (loaded == STATUS_OK)
            print_mirror(session);
        return loaded;
    }
    enum status status = lockedfile_open(&session->file, session->path, session->make, err);
    if (status == STATUS_OK)
        return look(session, purpose, err);
    if (status != STATUS_NOT_FOUND || purpose != MIRROR || session->make)
        return status;
    return look_without(session, err);
}

/* session_run carries a session out; again from its beginning when the file was edited meanwhile,
 * or when it needs a directory. */
static enum status session_run(struct session *session, enum purpose purpose, struct err *err)
{
    const struct link *link = session->book.link;
    const char *path = session->path;
    bool make = false;
    for (int i = 1;; i++) {
        enum status status = look_once(session, purpose, err);
        bool needs = status == STATUS_NOT_FOUND && purpose == MIRROR && !make;
        if ((status != STATUS_CONFLICT && !needs) || i == TRIES)
            return status;
        make = make || needs;
        session_release(session);
        session_init(session, link, path);
        session->make = make;
    }
}

enum status receiptfile_sync(const struct link *link, const char *path,
                             struct receiptfile_counts *counts, struct err *err)
{
    struct session session;
    session_init(&session, link, path);
    enum status status = session_run(&session, MIRROR, err);
    session.counts.there = session.file.there;
    session.counts.seen = session.file.seen;
    if (counts)
        *counts = session.counts;
    session_release(&session);
    return status;
}

enum status receiptfile_settle(const struct link *link, const char *path, size_t *left,
                               struct err *err)
{
    struct session session;
    session_init(&session, link, path);
    enum status status = session_run(&session, SETTLE, err);
    *left = session.counts.entries;
    session_release(&session);
    return status;
}

/* list_letter adds an open letter to a list, for the first time. */
static bool list_letter(struct receipt_letter *letter, struct arena *arena,
                        struct receipt_entry *list, size_t *count)
{
    struct receipt receipt;
    if (!letter->open || letter->listed || !receipt_read(letter->receipt, arena, &receipt))
        return true;
    letter->listed = true;
    struct receipt_entry *entry = &list[(*count)++];
    entry->dlq_id = arena_dup(arena, letter->dlq_id);
    entry->job_id = arena_dup(arena, letter->job_id);
    entry->recovering = slice_is(letter->state, "recovering");
    entry->label =
        arena_printf(arena, "%.*s:%.*s", SLICE_ARG(receipt.lease_id), SLICE_ARG(receipt.status));
    return entry->dlq_id.ptr && entry->job_id.ptr && entry->label.ptr;
}

/* list_letters lists those of the book, which a mirror shows, or of the entries. */
static enum status list_letters(struct session *session, bool mirror, struct arena *arena,
                                struct receipt_entry **out, size_t *count, struct err *err)
{
    size_t max = mirror ? session->book.count : session->count;
    struct receipt_entry *list = arena_array(arena, max + 1, sizeof(*list));
    bool ok = list != NULL;
    *count = 0;
    for (size_t i = 0; ok && i < max; i++) {
        struct receipt_letter *letter =
            mirror ? session->book.letters[i] : session->entries[i].letter;
        if (mirror) {
            if (!belongs(letter))
                continue;
            letter->listed = false;
        }
        ok = list_letter(letter, arena, list, count);
    }
    *out = list;
    return ok ? STATUS_OK : err_no_memory(err);
}

enum status receiptfile_open(const struct link *link, const char *path, bool mirror,
                             struct arena *arena, struct receipt_entry **out, size_t *count,
                             struct err *err)
{
    struct session session;
    session_init(&session, link, path);
    enum status status = session_run(&session, mirror ? MIRROR : LIST, err);
    if (status == STATUS_OK)
        status = list_letters(&session, mirror, arena, out, count, err);
    session_release(&session);
    return status;
}
