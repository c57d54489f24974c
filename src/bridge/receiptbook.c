/* receiptbook: see receiptbook.h. */
#include "bridge/receiptbook.h"

#include <inttypes.h>

#include "base/hash.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/time.h"
#include "core/delivery.h"
#include "core/tree.h"

#define LETTERS "/api/v1/dlq?source=" DELIVERY_SOURCE_RECEIPTS
#define PATH_TEXT_MAX 8192
#define ANSWER_MAX ((size_t)256 << 20)
#define IMPORT_COUNT 500               /* entries of one import */
#define IMPORT_BYTES ((size_t)1 << 20) /* and about how many bytes */

/* struct receiptbook_key: a letter by its lease and one of its deaths. */
struct receiptbook_key {
    uint64_t hash;
    struct receipt_letter *letter;
};

void receiptbook_init(struct receiptbook *book, const struct link *link)
{
    *book = (struct receiptbook){.link = link};
    buf_init(&book->answer, ANSWER_MAX);
}

void receiptbook_release(struct receiptbook *book)
{
    mem_free(book->letters);
    mem_free(book->keys);
    buf_release(&book->answer);
    arena_release(&book->arena);
}

/* grow makes room for one more in an array, and returns where it is; NULL: memory is exhausted. */
static void *grow(void *array, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return array;
    size_t more = *cap ? *cap * 2 : 64;
    void *grown = mem_realloc(array, more * size);
    if (grown)
        *cap = more;
    return grown;
}

static enum status append(struct receiptbook *book, struct receipt_letter *letter, struct err *err)
{
    struct receipt_letter **grown = grow(book->letters, &book->cap, book->count, sizeof(void *));
    if (!grown)
        return err_no_memory(err);
    book->letters = grown;
    book->letters[book->count++] = letter;
    return STATUS_OK;
}

/* ---- letters as the API prints them ---------------------------------------------------------- */

static struct json member(struct json object, const char *name)
{
    struct json value;
    json_get(object, name, &value);
    return value;
}

/* receipt_in finds the receipt in a payload: the body of a delivery or, of a job that somebody
 * pushed himself, its receipt or all of its inputs. */
static struct json receipt_in(struct json envelope)
{
    struct json inputs = member(envelope, "inputs");
    struct json body = member(inputs, "body");
    if (body.type != JSON_OBJECT)
        body = member(inputs, "receipt");
    return body.type == JSON_OBJECT ? body : inputs;
}

bool receipt_of(struct json letter, struct json *out)
{
    *out = receipt_in(member(letter, "envelope"));
    /* One that was taken in without an envelope is the payload itself. */
    if (out->type != JSON_OBJECT)
        *out = member(letter, "original_payload");
    return out->type == JSON_OBJECT;
}

/* keep copies a value into the arena. */
static struct json keep(struct receiptbook *book, struct json value, bool *ok)
{
    value.raw = arena_dup(&book->arena, value.raw);
    *ok = *ok && value.raw.ptr;
    return value;
}

static struct slice keep_text(struct receiptbook *book, struct json value, bool *ok)
{
    struct slice text = json_text(value, &book->arena);
    text = arena_dup(&book->arena, text);
    *ok = *ok && text.ptr;
    return text;
}

struct instant receiptbook_second(struct instant t)
{
    int64_t rest = t.us % 1000000;
    return (struct instant){t.us - (rest < 0 ? rest + 1000000 : rest)};
}

static void add_time(struct receipt_letter *letter, struct json time, struct arena *arena)
{
    struct instant t;
    struct slice text = json_text(time, arena);
    if (text.ptr && instant_parse(text, &t, NULL) == STATUS_OK)
        letter->times[letter->time_count++] = receiptbook_second(t);
}

/* read_times finds when the letter died.  The evidence of an attempt has the time of the death that
 * followed it; a letter that was imported has no evidence of it, but a first attempt. */
static bool read_times(struct receiptbook *book, struct json json, struct receipt_letter *letter)
{
    struct json history = member(json, "failure_history"), failure;
    struct json_iter iter;
    letter->times = arena_array(&book->arena, json_count(history) + 2, sizeof(*letter->times));
    if (!letter->times)
        return false;
    add_time(letter, member(json, "failed_at"), &book->arena);
    add_time(letter, member(json, "first_attempt"), &book->arena);
    json_iter_init(&iter, history);
    while (json_next(&iter, NULL, &failure))
        add_time(letter, member(failure, "timestamp"), &book->arena);
    return true;
}

static bool is_open(struct slice state)
{
    return slice_is(state, "dead") || slice_is(state, "recovering");
}

/* read_letter copies what is needed of a letter; NULL in `*out`: it holds no receipt. */
static enum status read_letter(struct receiptbook *book, struct json json,
                               struct receipt_letter **out, struct err *err)
{
    struct json receipt, original = receipt_in(member(json, "original_payload"));
    bool ok = true;
    *out = NULL;
    if (!receipt_of(json, &receipt))
        return STATUS_OK;
    struct receipt_letter *letter = arena_alloc(&book->arena, sizeof(*letter));
    if (!letter)
        return err_no_memory(err);
    letter->dlq_id = keep_text(book, member(json, "dlq_id"), &ok);
    letter->job_id = keep_text(book, member(json, "job_id"), &ok);
    letter->state = keep_text(book, member(json, "state"), &ok);
    instant_parse(keep_text(book, member(json, "failed_at"), &ok), &letter->died, NULL);
    letter->receipt = keep(book, receipt, &ok);
    if (original.type == JSON_OBJECT && !slice_eq(original.raw, receipt.raw))
        letter->original = keep(book, original, &ok);
    if (!ok || !read_times(book, json, letter))
        return err_no_memory(err);
    json_int(member(json, "failure_count"), &letter->attempts);
    letter->open = is_open(letter->state);
    letter->complete = receipt_check(letter->receipt, NULL) == STATUS_OK;
    *out = letter;
    return STATUS_OK;
}

static enum status add_letter(struct receiptbook *book, struct json json,
                              struct receipt_letter **out, struct err *err)
{
    enum status status = read_letter(book, json, out, err);
    return status == STATUS_OK && *out ? append(book, *out, err) : status;
}

/* ---- finding ----------------------------------------------------------------------------------
 */

/* key_hash is the same for receipts of one lease and one time. */
static uint64_t key_hash(struct json receipt, struct instant t, struct arena *arena)
{
    struct slice lease = json_text(member(receipt, "lease_id"), arena);
    return hash64(lease) ^ (uint64_t)t.us * 0x9e3779b97f4a7c15u;
}

static int key_order(const void *a, const void *b)
{
    const struct receiptbook_key *left = a, *right = b;
    return (left->hash > right->hash) - (left->hash < right->hash);
}

static bool add_keys(struct receiptbook *book, struct receipt_letter *letter, struct json receipt)
{
    for (size_t i = 0; receipt.type == JSON_OBJECT && i < letter->time_count; i++) {
        struct receiptbook_key *grown =
            grow(book->keys, &book->key_cap, book->key_count, sizeof(*grown));
        if (!grown)
            return false;
        book->keys = grown;
        book->keys[book->key_count++] =
            (struct receiptbook_key){key_hash(receipt, letter->times[i], &book->arena), letter};
    }
    return true;
}

static bool same_receipt(struct json a, struct json b)
{
    return slice_eq(a.raw, b.raw) || (b.type == JSON_OBJECT && tree_same(a, b));
}

/* is_letter_of says that a letter is that of an entry. */
static bool is_letter_of(const struct receipt_letter *letter, struct json receipt,
                         struct instant failed_at)
{
    bool died = false;
    for (size_t i = 0; i < letter->time_count && !died; i++)
        died = letter->times[i].us == failed_at.us;
    return died &&
           (same_receipt(receipt, letter->receipt) || same_receipt(receipt, letter->original));
}

struct receipt_letter *receiptbook_find(struct receiptbook *book, struct json receipt,
                                        struct instant failed_at)
{
    uint64_t hash = key_hash(receipt, failed_at, &book->arena);
    size_t low = 0, high = book->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (book->keys[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < book->key_count && book->keys[low].hash == hash; low++)
        if (is_letter_of(book->keys[low].letter, receipt, failed_at))
            return book->keys[low].letter;
    return NULL;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* each_page asks for all pages of a listing, and adds the letters.  With a receipt it ends at the
 * first that is of that entry, which is alone added. */
static enum status each_page(struct receiptbook *book, struct slice query, struct json receipt,
                             struct instant failed_at, struct receipt_letter **out, struct err *err)
{
    enum status status = STATUS_OK;
    int64_t cursor = 0;
    struct buf path;
    buf_init(&path, PATH_TEXT_MAX);
    do {
        struct json page, json;
        struct json_iter iter;
        struct receipt_letter *letter;
        buf_clear(&path);
        buf_addf(&path, LETTERS "&limit=1000%.*s", SLICE_ARG(query));
        if (cursor)
            buf_addf(&path, "&cursor=%" PRId64, cursor);
        status = buf_status(&path, err);
        if (status == STATUS_OK)
            status = link_page(book->link, buf_str(&path), &book->answer, &page, &cursor, err);
        if (status == STATUS_OK)
            json_iter_init(&iter, page);
        while (status == STATUS_OK && !*out && json_next(&iter, NULL, &json)) {
            status = receipt.raw.len ? read_letter(book, json, &letter, err)
                                     : add_letter(book, json, &letter, err);
            if (receipt.raw.len && letter && is_letter_of(letter, receipt, failed_at))
                *out = letter;
        }
    } while (status == STATUS_OK && !*out && cursor);
    buf_release(&path);
    return status;
}

enum status receiptbook_load(struct receiptbook *book, struct err *err)
{
    struct receipt_letter *none = NULL;
    enum status status = each_page(book, SLICE("&state=open&sort=oldest"), (struct json){0},
                                   INSTANT_NONE, &none, err);
    for (size_t i = 0; status == STATUS_OK && i < book->count; i++) {
        struct receipt_letter *letter = book->letters[i];
        if (!add_keys(book, letter, letter->receipt) || !add_keys(book, letter, letter->original))
            status = err_no_memory(err);
    }
    if (status == STATUS_OK && book->key_count)
        qsort(book->keys, book->key_count, sizeof(*book->keys), key_order);
    return status;
}

/* add_encoded appends a text for a query. */
static void add_encoded(struct buf *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        buf_addf(out, "%%%02X", (unsigned char)text.ptr[i]);
}

/* seek_words looks for the lease's id among the words of letters, whenever they died. */
static enum status seek_words(struct receiptbook *book, struct json receipt,
                              struct instant failed_at, struct receipt_letter **out,
                              struct err *err)
{
    struct slice lease = json_text(member(receipt, "lease_id"), &book->arena);
    if (lease.len == 0 || lease.len > RECEIPT_ID_MAX)
        return STATUS_OK;
    struct buf query;
    buf_init(&query, PATH_TEXT_MAX / 2);
    buf_add_str(&query, "&q=%22");
    for (size_t i = 0; i < lease.len; i++)
        /* A quote would end the phrase; a NUL is no text of a query. */
        add_encoded(&query, lease.ptr[i] == '"' || !lease.ptr[i]
                                ? SLICE(" ")
                                : (struct slice){lease.ptr + i, 1});
    buf_add_str(&query, "%22");
    enum status status = buf_status(&query, err);
    if (status == STATUS_OK)
        status = each_page(book, buf_slice(&query), receipt, failed_at, out, err);
    buf_release(&query);
    return status;
}

/* seek_time looks at the letters that died just then: a lease's id may be no word. */
static enum status seek_time(struct receiptbook *book, struct json receipt,
                             struct instant failed_at, struct receipt_letter **out, struct err *err)
{
    char text[INSTANT_TEXT_SIZE];
    struct buf query;
    buf_init(&query, PATH_TEXT_MAX / 2);
    instant_format(failed_at, text);
    buf_addf(&query, "&after=%s", text);
    instant_format(instant_add(failed_at, span_seconds(1)), text);
    buf_addf(&query, "&before=%s", text);
    enum status status = buf_status(&query, err);
    if (status == STATUS_OK)
        status = each_page(book, buf_slice(&query), receipt, failed_at, out, err);
    buf_release(&query);
    return status;
}

/* found adds a letter that was asked for, unless the book has it; a fresh one it has not. */
static enum status found(struct receiptbook *book, struct receipt_letter **letter, bool fresh,
                         struct err *err)
{
    for (size_t i = 0; !fresh && i < book->count; i++) {
        if (!slice_eq(book->letters[i]->dlq_id, (*letter)->dlq_id))
            continue;
        *letter = book->letters[i];
        return STATUS_OK;
    }
    return append(book, *letter, err);
}

enum status receiptbook_seek(struct receiptbook *book, struct json receipt,
                             struct instant failed_at, struct receipt_letter **out, struct err *err)
{
    *out = NULL;
    enum status status = seek_words(book, receipt, failed_at, out, err);
    if (status == STATUS_OK && !*out)
        status = seek_time(book, receipt, failed_at, out, err);
    return status == STATUS_OK && *out ? found(book, out, false, err) : status;
}

/* ---- importing ------------------------------------------------------------------------------- */

/* get asks for a letter by its id. */
static enum status get(struct receiptbook *book, struct slice dlq_id, bool fresh,
                       struct receipt_letter **out, struct err *err)
{
    struct json json;
    struct buf path;
    buf_init(&path, PATH_TEXT_MAX);
    buf_add_str(&path, "/api/v1/dlq/");
    add_encoded(&path, dlq_id);
    enum status status = buf_status(&path, err);
    if (status == STATUS_OK)
        status = link_ask(book->link, "GET", buf_str(&path), (struct slice){0}, &book->answer,
                          &json, err);
    buf_release(&path);
    *out = NULL;
    if (status == STATUS_OK)
        status = read_letter(book, json, out, err);
    if (status == STATUS_OK && !*out)
        return err_set(err, STATUS_CONFLICT, "dead letter %.*s holds no receipt",
                       SLICE_ARG(dlq_id));
    return status == STATUS_OK ? found(book, out, fresh, err) : status;
}

/* struct batch: entries that are imported at once. */
struct batch {
    const struct slice *entries;
    size_t count;
    struct slice *ids; /* of their letters */
    bool *created;
    struct slice *refused;
};

/* read_results reads what became of a batch. */
static enum status read_results(struct receiptbook *book, struct json answer, struct batch *batch,
                                struct err *err)
{
    struct json_iter iter;
    struct json result;
    size_t n = 0;
    json_iter_init(&iter, member(answer, "results"));
    for (; n < batch->count && json_next(&iter, NULL, &result); n++) {
        bool ok = true;
        batch->refused[n] = keep_text(book, member(result, "error"), &ok);
        batch->ids[n] = keep_text(book, member(result, "dlq_id"), &ok);
        batch->created[n] = member(result, "created").type == JSON_TRUE;
        if (!ok)
            return err_no_memory(err);
    }
    return n == batch->count
               ? STATUS_OK
               : err_set(err, STATUS_UNAVAILABLE, "the import was answered for %zu of %zu entries",
                         n, batch->count);
}

/* refuse_large is for an entry that does not fit into a request: it is the only one of its batch.
 */
static enum status refuse_large(struct receiptbook *book, struct batch *batch, struct err *err)
{
    batch->refused[0] = arena_dup(&book->arena, slice_of(err->text));
    return batch->refused[0].ptr ? STATUS_OK : err_no_memory(err);
}

static enum status import_batch(struct receiptbook *book, struct batch *batch, struct err *err)
{
    struct json answer;
    struct jsonw w;
    struct buf body;
    buf_init(&body, ANSWER_MAX);
    jsonw_init(&w, &body);
    jsonw_array(&w);
    for (size_t i = 0; i < batch->count; i++)
        jsonw_raw(&w, batch->entries[i]);
    jsonw_array_end(&w);
    enum status status = buf_status(&body, err);
    if (status == STATUS_OK)
        status = link_ask(book->link, "POST", "/api/v1/dlq/import", buf_slice(&body), &book->answer,
                          &answer, err);
    buf_release(&body);
    if (status == STATUS_TOO_LARGE && batch->count == 1)
        return refuse_large(book, batch, err);
    return status == STATUS_OK ? read_results(book, answer, batch, err) : status;
}

/* batch_size is how many entries fit into one request; at least one. */
static size_t batch_size(const struct slice *entries, size_t count)
{
    size_t n = 0, bytes = 0;
    while (n < count && n < IMPORT_COUNT && (n == 0 || bytes + entries[n].len < IMPORT_BYTES))
        bytes += entries[n++].len;
    return n;
}

enum status receiptbook_import(struct receiptbook *book, const struct slice *entries, size_t count,
                               struct receipt_letter **out, bool *created, struct slice *refused,
                               struct err *err)
{
    enum status status = STATUS_OK;
    struct slice *ids = arena_array(&book->arena, count, sizeof(*ids));
    if (!ids)
        return err_no_memory(err);
    for (size_t at = 0; status == STATUS_OK && at < count;) {
        struct batch batch = {.entries = entries + at,
                              .count = batch_size(entries + at, count - at),
                              .ids = ids + at,
                              .created = created + at,
                              .refused = refused + at};
        status = import_batch(book, &batch, err);
        at += batch.count;
    }
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        if (refused[i].len == 0)
            status = get(book, ids[i], created[i], &out[i], err);
    return status;
}
