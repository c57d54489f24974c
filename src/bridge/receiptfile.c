/* receiptfile: see receiptfile.h.
 *
 * Whatever is asked for, each entry of the file is given its letter first (receiptlist.h): one of
 * the open letters, else one that was recovered or discarded, else a new one.  Only then is
 * anything left out of the file.  A crash on the way leaves the file as it was, and letters whose
 * import is known when it is repeated.
 *
 * An entry has a letter or, when it is no receipt, a reason why not: it is never both left out and
 * without a letter. */
#include "bridge/receiptfile.h"

#include "base/hash.h"

#include <inttypes.h>

#include "base/time.h"
#include "bridge/lockedfile.h"
#include "bridge/receiptlist.h"
#include "core/delivery.h"

#define TRIES 5 /* when somebody edits the file meanwhile */

/* struct session: a file and the letters, while they are looked at. */
struct session {
    struct receiptlist list;
    struct lockedfile file;
    struct buf fresh; /* what it is to be */
    struct receiptfile_counts counts;
    bool make; /* the directory, if it is not there */
    uint64_t memory;
};

static void session_init(struct session *session, const struct link *link, const char *path)
{
    *session = (struct session){0};
    receiptlist_init(&session->list, link, path);
    buf_init(&session->fresh, RECEIPTLIST_TEXT_MAX);
}

static void session_release(struct session *session)
{
    lockedfile_close(&session->file);
    receiptlist_release(&session->list);
    buf_release(&session->fresh);
}

/* ---- the file anew --------------------------------------------------------------------------- */

/* count_bad counts an entry that is no receipt, and says so of the first; `number` is which of the
 * file it is. */
static void count_bad(struct session *session, const struct receiptlist_entry *entry, size_t number)
{
    if (session->counts.bad++ == 0)
        err_set(&session->counts.bad_err, STATUS_INVALID,
                "entry %zu of %s cannot be taken in (%s); it is left as it is, and the others are "
                "not held up: correct the entry, or take it out",
                number, session->list.path, entry->bad);
}

/* is_extra says that a member of an entry is one that somebody added. */
static bool is_extra(struct json key)
{
    return !json_string_is(key, "receipt") && !json_string_is(key, "failed_at") &&
           !json_string_is(key, "attempts");
}

/* has_member says that an entry has a member, with that value. */
static bool has_member(const struct receiptlist_entry *entry, struct json key, struct json value)
{
    struct json_iter iter;
    struct json own_key, own_value;
    json_iter_init(&iter, entry->json);
    while (json_next(&iter, &own_key, &own_value))
        if (slice_eq(own_key.raw, key.raw) && slice_eq(own_value.raw, value.raw))
            return true;
    return false;
}

/* print_extras prints the members that somebody added to the entries of one letter, which become
 * one; what several of them have is printed once. */
static void print_extras(const struct receiptlist_entry *first, struct buf *out)
{
    for (const struct receiptlist_entry *entry = first; entry; entry = entry->twin) {
        struct json_iter iter;
        struct json key, value;
        json_iter_init(&iter, entry->json);
        while (json_next(&iter, &key, &value)) {
            const struct receiptlist_entry *other = first;
            while (other != entry && !has_member(other, key, value))
                other = other->twin;
            if (other != entry || !is_extra(key))
                continue;
            buf_add_str(out, ",\n    ");
            buf_add_slice(out, key.raw);
            buf_add_str(out, ": ");
            buf_add_slice(out, value.raw);
        }
    }
}

/* print_entry prints an entry; `first` is that which the file has, or NULL. */
static void print_entry(struct slice receipt, struct instant died, int64_t attempts,
                        const struct receiptlist_entry *first, struct buf *out)
{
    char time[INSTANT_TEXT_SIZE];
    instant_format(receiptbook_second(died), time);
    buf_add_str(out, "  {\n    \"receipt\": ");
    buf_add_slice(out, receipt);
    buf_addf(out, ",\n    \"failed_at\": \"%s\"", time);
    buf_addf(out, ",\n    \"attempts\": %" PRId64, attempts);
    print_extras(first, out);
    buf_add_str(out, "\n  }");
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
    print_entry(receipt.raw, died, attempts, NULL, out);
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

/* place_letters finds where the letters stand in the file.  An entry that stands twice is the
 * first; letters that are not there come after those that are. */
static void place_letters(struct session *session)
{
    struct receiptbook *book = &session->list.book;
    for (size_t i = 0; i < book->count; i++)
        book->letters[i]->place = session->list.count + i;
    for (size_t i = session->list.count; i-- > 0;) {
        struct receiptlist_entry *entry = &session->list.entries[i];
        session->counts.left += entry->gone;
        if (entry->bad || entry->gone)
            continue;
        entry->twin = entry->letter->listed ? &session->list.entries[entry->letter->place] : NULL;
        entry->letter->place = i;
        entry->letter->listed = true;
        session->counts.left += !entry->letter->open;
    }
}

static void begin_entry(struct session *session)
{
    buf_add_str(&session->fresh, session->counts.entries++ ? ",\n" : "[\n");
}

static void end_entries(struct session *session)
{
    buf_add_str(&session->fresh, session->counts.entries ? "\n]\n" : "[]\n");
}

/* print_as_is prints an entry as it stands. */
static void print_as_is(struct session *session, const struct receiptlist_entry *entry)
{
    begin_entry(session);
    buf_add_str(&session->fresh, "  ");
    buf_add_slice(&session->fresh, entry->json.raw);
    if (entry->bad)
        count_bad(session, entry, session->counts.entries);
}

/* print_bad prints the entries that are no receipts from a place on, up to the next that stays. */
static void print_bad(struct session *session, size_t place)
{
    for (size_t i = place; i < session->list.count; i++) {
        const struct receiptlist_entry *entry = &session->list.entries[i];
        if (entry->bad)
            print_as_is(session, entry);
        else if (!entry->gone && belongs(entry->letter) && entry->letter->place == i)
            return;
    }
}

/* print_mirror prints the open letters, and after each those entries that are no receipts and stand
 * behind it. */
static void print_mirror(struct session *session)
{
    struct receiptbook *book = &session->list.book;
    place_letters(session);
    if (book->count)
        qsort(book->letters, book->count, sizeof(struct receipt_letter *), older);
    print_bad(session, 0);
    for (size_t i = 0; i < book->count; i++) {
        const struct receipt_letter *letter = book->letters[i];
        if (!belongs(letter))
            continue;
        begin_entry(session);
        print_entry(letter->receipt.raw, letter->died, letter->attempts,
                    letter->listed ? &session->list.entries[letter->place] : NULL, &session->fresh);
        print_bad(session, letter->place + 1);
    }
    end_entries(session);
}

/* print_rest prints the entries whose letters are open, or that have none, as they stand. */
static void print_rest(struct session *session)
{
    for (size_t i = 0; i < session->list.count; i++) {
        const struct receiptlist_entry *entry = &session->list.entries[i];
        if (entry->bad || entry->letter->open)
            print_as_is(session, entry);
        else
            session->counts.left++;
    }
    end_entries(session);
}

/* count_entries counts those of a file that stays as it is. */
static void count_entries(struct session *session)
{
    for (size_t i = 0; i < session->list.count; i++)
        if (session->list.entries[i].bad)
            count_bad(session, &session->list.entries[i], i + 1);
    session->counts.entries = session->list.count;
}

/* replace writes the file, if it is not as it should be.  None is made to hold nothing. */
static enum status replace(struct session *session, struct err *err)
{
    enum status status = buf_status(&session->fresh, err);
    bool needless = session->file.there
                        ? slice_eq(buf_slice(&session->list.text), buf_slice(&session->fresh))
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
    enum status status = receiptlist_read(&session->list, &session->file, err);
    if (status == STATUS_OK && purpose != MIRROR && !session->file.there)
        return err_set(err, STATUS_NOT_FOUND, "%s is not there", session->list.path);
    session->list.ours =
        session->memory && hash64(buf_slice(&session->list.text)) == session->memory;
    if (status == STATUS_OK)
        status = receiptbook_load(&session->list.book, err);
    if (status == STATUS_OK)
        status = receiptlist_resolve(&session->list, &session->counts.taken, err);
    if (status != STATUS_OK)
        return status;
    if (purpose == MIRROR)
        print_mirror(session);
    else if (purpose == SETTLE)
        print_rest(session);
    else
        count_entries(session);
    bool stays = purpose == LIST || (purpose == SETTLE && session->counts.left == 0);
    return stays ? STATUS_OK : replace(session, err);
}

/* look_without is look for a mirror whose directory is not there.  STATUS_NOT_FOUND: it has to be.
 */
static enum status look_without(struct session *session, struct err *err)
{
    enum status status = receiptbook_load(&session->list.book, err);
    if (status != STATUS_OK)
        return status;
    print_mirror(session);
    return session->counts.entries ? STATUS_NOT_FOUND : STATUS_OK;
}

static enum status look_once(struct session *session, enum purpose purpose, struct err *err)
{
    if (!session->list.path) {
        enum status loaded = receiptbook_load(&session->list.book, err);
        if (loaded == STATUS_OK)
            print_mirror(session);
        return loaded;
    }
    enum status status = lockedfile_open(&session->file, session->list.path, session->make, err);
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
    const struct link *link = session->list.book.link;
    const char *path = session->list.path;
    uint64_t memory = session->memory;
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
        session->memory = memory;
    }
}

/* hand_out gives whoever wants them the counts. */
static void hand_out(const struct session *session, struct receiptfile_counts *counts)
{
    if (!counts)
        return;
    *counts = session->counts;
    counts->there = session->file.there;
    counts->seen = session->file.seen;
}

enum status receiptfile_sync(const struct link *link, const char *path, uint64_t *memory,
                             struct receiptfile_counts *counts, struct err *err)
{
    struct session session;
    session_init(&session, link, path);
    session.memory = memory ? *memory : 0;
    enum status status = session_run(&session, MIRROR, err);
    if (memory)
        *memory = status == STATUS_OK ? hash64(buf_slice(&session.fresh)) : 0;
    hand_out(&session, counts);
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
    size_t max = mirror ? session->list.book.count : session->list.count;
    struct receipt_entry *list = arena_array(arena, max + 1, sizeof(*list));
    bool ok = list != NULL;
    *count = 0;
    for (size_t i = 0; ok && i < max; i++) {
        struct receipt_letter *letter =
            mirror ? session->list.book.letters[i] : session->list.entries[i].letter;
        if (!letter || (mirror && !belongs(letter)))
            continue;
        if (mirror)
            letter->listed = false;
        ok = list_letter(letter, arena, list, count);
    }
    *out = list;
    return ok ? STATUS_OK : err_no_memory(err);
}

enum status receiptfile_open(const struct link *link, const char *path, bool mirror,
                             struct arena *arena, struct receipt_entry **out, size_t *count,
                             struct receiptfile_counts *counts, struct err *err)
{
    struct session session;
    session_init(&session, link, path);
    enum status status = session_run(&session, mirror ? MIRROR : LIST, err);
    if (status == STATUS_OK)
        status = list_letters(&session, mirror, arena, out, count, err);
    hand_out(&session, counts);
    session_release(&session);
    return status;
}

/* ---- a look ---------------------------------------------------------------------------------- */

/* peek_entries counts the entries of a file that would be recovered or leave it: of a mirror those
 * that no letter is known of, as its letters are counted by themselves. */
static enum status peek_entries(struct session *session, bool mirror, size_t *count,
                                struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < session->list.count; i++) {
        struct receiptlist_entry *entry = &session->list.entries[i];
        /* Of a file of its own it counts, whatever its letter is: it need not be sought. */
        bool counts = !mirror && !entry->bad && receipt_check(entry->receipt, NULL) == STATUS_OK;
        if (!counts)
            status = receiptlist_know(&session->list, entry, err);
        if (entry->letter)
            entry->letter->listed = true;
        if (!entry->bad && (!mirror || !entry->letter))
            (*count)++;
    }
    return status;
}

/* peek_letters counts those that a mirror shows. */
static size_t peek_letters(const struct session *session)
{
    size_t count = 0;
    for (size_t i = 0; i < session->list.book.count; i++)
        count += belongs(session->list.book.letters[i]);
    return count;
}

/* peek_file reads the file, if there is one. */
static enum status peek_file(struct session *session, bool mirror, struct err *err)
{
    if (!session->list.path)
        return STATUS_OK;
    enum status status = lockedfile_name(&session->file, session->list.path, err);
    if (status == STATUS_OK)
        status = receiptlist_read(&session->list, &session->file, err);
    if (status == STATUS_OK && !mirror && !session->file.there)
        return err_set(err, STATUS_NOT_FOUND, "%s is not there", session->list.path);
    return status;
}

enum status receiptfile_peek(const struct link *link, const char *path, bool mirror, size_t *count,
                             struct receiptfile_counts *counts, struct err *err)
{
    struct session session;
    session_init(&session, link, path);
    *count = 0;
    enum status status = peek_file(&session, mirror, err);
    if (status == STATUS_OK)
        status = receiptbook_load(&session.list.book, err);
    if (status == STATUS_OK)
        status = peek_entries(&session, mirror, count, err);
    if (status == STATUS_OK && (mirror || !path))
        *count += peek_letters(&session);
    if (status == STATUS_OK)
        count_entries(&session);
    hand_out(&session, counts);
    session_release(&session);
    return status;
}
