/* receiptlist: see receiptlist.h. */
#include "bridge/receiptlist.h"

#include "base/time.h"
#include "core/delivery.h"

#define ATTEMPTS_MAX 60000 /* what an import takes */

void receiptlist_init(struct receiptlist *list, const struct link *link, const char *path)
{
    *list = (struct receiptlist){.path = path};
    receiptbook_init(&list->book, link);
    buf_init(&list->text, RECEIPTLIST_TEXT_MAX);
}

void receiptlist_release(struct receiptlist *list)
{
    receiptbook_release(&list->book);
    buf_release(&list->text);
}

/* ---- the entries ----------------------------------------------------------------------------- */

/* damaged says that the file is not what it should be. */
static enum status damaged(const struct receiptlist *list, const char *why, struct err *err)
{
    return err_set(err, STATUS_INVALID,
                   "%s is no array of receipts (%s); it is left as it is: correct it, or move it "
                   "away and a new one is made",
                   list->path, why);
}

/* set_bad marks an entry that is no receipt. */
static enum status set_bad(struct receiptlist *list, struct receiptlist_entry *entry,
                           struct slice why, struct err *err)
{
    entry->bad = arena_dup(&list->book.arena, why).ptr;
    return entry->bad ? STATUS_OK : err_no_memory(err);
}

/* read_when reads the time and the count of an entry; both may be absent. */
static enum status read_when(struct receiptlist *list, struct receiptlist_entry *entry,
                             struct err *err)
{
    struct json value;
    int64_t attempts = 0;
    if (json_get(entry->json, "failed_at", &value) && value.type != JSON_NULL) {
        struct slice text = json_text(value, &list->book.arena);
        if (value.type == JSON_STRING && !text.ptr)
            return err_no_memory(err);
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

static enum status read_entry(struct receiptlist *list, struct json json, struct err *err)
{
    struct receiptlist_entry *entry = &list->entries[list->count++];
    enum status status = STATUS_OK;
    entry->json = json;
    if (!json_get(json, "receipt", &entry->receipt) || entry->receipt.type != JSON_OBJECT)
        status = err_set(err, STATUS_INVALID, "it must be an object with a receipt, an object");
    else
        status = read_when(list, entry, err);
    return status == STATUS_INVALID ? set_bad(list, entry, slice_of(err->text), err) : status;
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

enum status receiptlist_read(struct receiptlist *list, struct lockedfile *file, struct err *err)
{
    struct json array, json;
    struct json_iter iter;
    enum status status = lockedfile_read(file, &list->text, err);
    struct slice text = content(&list->text);
    if (status != STATUS_OK || text.len == 0)
        return status;
    if (json_parse(text, &array, err) != STATUS_OK) {
        struct err why = *err;
        return damaged(list, why.text, err);
    }
    if (array.type != JSON_ARRAY)
        return damaged(list, "it is another JSON value", err);
    list->entries = arena_array(&list->book.arena, json_count(array) + 1, sizeof(*list->entries));
    if (!list->entries)
        return err_no_memory(err);
    json_iter_init(&iter, array);
    while (status == STATUS_OK && json_next(&iter, NULL, &json))
        status = read_entry(list, json, err);
    return status;
}

/* ---- their letters --------------------------------------------------------------------------- */

/* seek gives an entry the letter that is known of it.  One that says no time is known by its
 * import. */
static enum status seek(struct receiptlist *list, struct receiptlist_entry *entry, struct err *err)
{
    if (!instant_is_set(entry->failed_at))
        return STATUS_OK;
    entry->letter = receiptbook_find(&list->book, entry->receipt, entry->failed_at);
    if (entry->letter)
        return STATUS_OK;
    return receiptbook_seek(&list->book, entry->receipt, entry->failed_at, &entry->letter, err);
}

enum status receiptlist_know(struct receiptlist *list, struct receiptlist_entry *entry,
                             struct err *err)
{
    if (entry->bad)
        return STATUS_OK;
    enum status status = seek(list, entry, err);
    if (status == STATUS_OK && !entry->letter)
        status = receipt_check(entry->receipt, err);
    return status == STATUS_INVALID ? set_bad(list, entry, slice_of(err->text), err) : status;
}

/* struct unknown: the entries that no letter is known of. */
struct unknown {
    size_t count;
    struct receiptlist_entry **entries;
    struct slice *texts;
    struct receipt_letter **letters;
    bool *created;
    struct slice *refused;
};

static enum status unknown_init(struct unknown *unknown, size_t max, struct arena *arena,
                                struct err *err)
{
    *unknown = (struct unknown){.entries = arena_array(arena, max, sizeof(void *)),
                                .texts = arena_array(arena, max, sizeof(*unknown->texts)),
                                .letters = arena_array(arena, max, sizeof(void *)),
                                .created = arena_array(arena, max, sizeof(*unknown->created)),
                                .refused = arena_array(arena, max, sizeof(*unknown->refused))};
    bool made = unknown->entries && unknown->texts && unknown->letters && unknown->created &&
                unknown->refused;
    return made ? STATUS_OK : err_no_memory(err);
}

/* import_unknown makes letters of the entries that have none. */
static enum status import_unknown(struct receiptlist *list, struct unknown *unknown, size_t *taken,
                                  struct err *err)
{
    if (unknown->count == 0)
        return STATUS_OK;
    enum status status =
        receiptbook_import(&list->book, unknown->texts, unknown->count, unknown->letters,
                           unknown->created, unknown->refused, err);
    for (size_t i = 0; status == STATUS_OK && i < unknown->count; i++) {
        unknown->entries[i]->letter = unknown->letters[i];
        *taken += unknown->created[i];
        if (unknown->refused[i].len)
            status = set_bad(list, unknown->entries[i], unknown->refused[i], err);
    }
    return status;
}

enum status receiptlist_resolve(struct receiptlist *list, size_t *taken, struct err *err)
{
    struct unknown unknown;
    enum status status = unknown_init(&unknown, list->count + 1, &list->book.arena, err);
    for (size_t i = 0; status == STATUS_OK && i < list->count; i++) {
        struct receiptlist_entry *entry = &list->entries[i];
        status = receiptlist_know(list, entry, err);
        entry->gone = status == STATUS_OK && !entry->letter && !entry->bad && list->ours;
        if (status != STATUS_OK || entry->letter || entry->bad || entry->gone)
            continue;
        unknown.entries[unknown.count] = entry;
        unknown.texts[unknown.count++] = entry->json.raw;
    }
    return status == STATUS_OK ? import_unknown(list, &unknown, taken, err) : status;
}
