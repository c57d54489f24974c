/* items: records in, items with ids out.
 *
 *     source --> filter --> order --> distinct --> offset, items_max --> id
 *
 * A file goes through twice: gather() reads all of it when it is opened, so that every error is
 * told before anything runs and the number of items is known; then it is read again, item by item.
 * With an order gather() keeps the records, and they are not read again.  A stream goes through
 * once; with an order, gather() is left to the first items_next.
 *
 * An id is remembered as 64 bits of its hash.  Two ids with the same hash are taken for the same,
 * and the second is made another one: they stay distinct. */
#include "run/items.h"

#include "base/hash.h"
#include "base/mem.h"
#include "core/field.h"
#include "run/keyset.h"
#include "run/order.h"

#define SUFFIX_MAX 24 /* room for "#18446744073709551615" */

struct items {
    struct source source;
    struct order order;          /* term_count 0: as they come */
    const struct filter *filter; /* NULL: all */
    const char *id_field;        /* NULL: ids are hashes */
    struct slice distinct;       /* a path */
    bool is_distinct;            /* there is one */
    int64_t offset, items_max;   /* as configured */
    struct arena texts;          /* of the configuration */
    struct arena scratch;        /* of the item that was yielded last */
    struct buf id;               /* likewise */
    struct keyset ids;           /* hashes of the ids that were given */
    struct keyset repeats;       /* of those that came again: hash, and the last number given */
    struct keyset values;        /* of `distinct`: 128 bits, as an item that is left out is gone */
    bool gathered;               /* gather() has been through it */
    int64_t checked;             /* records that it found */
    int64_t total;               /* items there will be; -1: not known */
    int64_t read, passed, given; /* records, items after distinct, items that were yielded */
    size_t row;                  /* of an order: the next one */
    bool ended;
};

/* ---- from records to items --------------------------------------------------------------------
 */

static bool is_sorted(const struct items *items)
{
    return items->order.term_count > 0;
}

static enum status item_of(struct items *items, const struct record *record, struct item *out,
                           struct err *err)
{
    arena_reset(&items->scratch);
    if (record->line)
        return item_from_line(record->text, &items->scratch, out, err);
    return item_from_value(record->value, &items->scratch, out, err);
}

static bool matches(const struct items *items, const struct item *item)
{
    return !items->filter || filter_match(items->filter, item->value, NULL);
}

/* value_key is what tells values of a field apart: 128 bits of the hash of its kind and its text.
 * Whole numbers count by their value, others as they are written. */
static enum status value_key(struct json value, struct arena *arena, uint64_t key[2],
                             struct err *err)
{
    int64_t number;
    struct item text;
    enum status status = item_from_value(value, arena, &text, err);
    char digits[24];

    if (status != STATUS_OK)
        return status;
    if (json_int(value, &number)) {
        snprintf(digits, sizeof(digits), "%lld", (long long)number);
        text.bytes = slice_of(digits);
    }
    struct slice parts[] = {value.type == JSON_STRING ? SLICE("s") : SLICE("j"), text.bytes};
    struct hash hash = hash_sha256(parts, 2);
    memcpy(key, hash.bytes, 2 * sizeof(*key));
    key[0] += key[0] == 0;
    return STATUS_OK;
}

/* is_first says whether an item is the first with its value.  One that has none is not like any
 * other. */
static enum status is_first(struct items *items, const struct item *item, bool *first,
                            struct err *err)
{
    uint64_t key[2];
    struct json value;
    bool found;

    *first = true;
    if (!items->is_distinct || !item_field(item->value, items->distinct, &value))
        return STATUS_OK;
    enum status status = value_key(value, &items->scratch, key, err);
    if (status != STATUS_OK)
        return status;
    if (!keyset_put(&items->values, key, &found))
        return err_no_memory(err);
    *first = !found;
    return STATUS_OK;
}

/* next_record is the next one of the order, or of the source. */
static enum status next_record(struct items *items, struct record *out, bool *more, struct err *err)
{
    if (is_sorted(items)) {
        *more = items->row < items->order.count && !lines_stopped(&items->source.lines);
        if (*more)
            *out = *order_at(&items->order, items->row++);
        return STATUS_OK;
    }
    enum status status = source_next(&items->source, out, more, err);
    items->read += *more;
    if (status == STATUS_OK && !*more && items->gathered && items->read < items->checked &&
        !lines_stopped(&items->source.lines))
        return err_set(err, STATUS_CONFLICT,
                       "%s was changed while it was read: %lld of its items are gone",
                       items->source.lines.name, (long long)(items->checked - items->read));
    return status;
}

/* next_kept is the next item that passes the filter and is the first with its value. */
static enum status next_kept(struct items *items, struct record *record, struct item *item,
                             bool *more, struct err *err)
{
    for (;;) {
        bool first = false;
        enum status status = next_record(items, record, more, err);
        if (status != STATUS_OK || !*more)
            return status;
        status = item_of(items, record, item, err);
        if (status == STATUS_OK && matches(items, item))
            status = is_first(items, item, &first, err);
        if (status != STATUS_OK || first)
            return status;
    }
}

/* ---- the first time through -------------------------------------------------------------------
 */

/* check_id refuses an item whose id cannot be told. */
static enum status check_id(struct items *items, const struct record *record,
                            const struct item *item, struct err *err)
{
    if (!items->id_field)
        return STATUS_OK;
    buf_clear(&items->id);
    enum status status = item_id(item, items->id_field, &items->id, err);
    if (status == STATUS_INVALID)
        source_blame(&items->source, record, err);
    return status;
}

/* again forgets what going through has left behind. */
static void again(struct items *items)
{
    keyset_release(&items->values);
    items->read = items->passed = 0;
    items->row = 0;
}

/* collect puts all that pass the filter into the order. */
static enum status collect(struct items *items, struct err *err)
{
    struct record record;
    struct item item;
    bool more;

    for (;;) {
        enum status status = source_next(&items->source, &record, &more, err);
        if (status != STATUS_OK || !more)
            return status;
        status = item_of(items, &record, &item, err);
        if (status != STATUS_OK)
            return status;
        if (!matches(items, &item))
            continue;
        status = check_id(items, &record, &item, err);
        if (status == STATUS_OK)
            status =
                order_add(&items->order, &record, &item, items->source.format != ITEMS_JSON, err);
        if (status != STATUS_OK)
            return status;
    }
}

/* count goes through everything, or only through the records when nothing else can fail or be left
 * out, and counts what is kept. */
static enum status count(struct items *items, int64_t *kept, struct err *err)
{
    bool plain = !items->filter && !items->is_distinct && (!items->id_field || is_sorted(items));
    enum status status = STATUS_OK;
    struct record record;
    struct item item;
    bool more = true;

    for (*kept = 0; status == STATUS_OK && more; *kept += more) {
        status = plain ? next_record(items, &record, &more, err)
                       : next_kept(items, &record, &item, &more, err);
        if (status == STATUS_OK && more && !plain)
            status = check_id(items, &record, &item, err);
    }
    return status;
}

/* gather reads all of the input, so that it is checked, counted and sorted. */
static enum status gather(struct items *items, struct err *err)
{
    enum status status = STATUS_OK;
    int64_t kept = 0;

    if (is_sorted(items)) {
        status = collect(items, err);
        order_sort(&items->order);
    }
    if (status == STATUS_OK)
        status = count(items, &kept, err);
    items->checked = items->read;
    if (status == STATUS_OK && !is_sorted(items))
        status = source_rewind(&items->source, err);
    if (status != STATUS_OK)
        return status;
    again(items);
    items->gathered = true;
    items->total = kept > items->offset ? kept - items->offset : 0;
    if (items->items_max > 0 && items->total > items->items_max)
        items->total = items->items_max;
    return STATUS_OK;
}

/* ---- ids ---------------------------------------------------------------------------------------
 */

/* remember says whether an id was given before, and that it is now. */
static enum status remember(struct items *items, bool *found, struct err *err)
{
    uint64_t key = hash64(buf_slice(&items->id));

    return keyset_put(&items->ids, &key, found) ? STATUS_OK : err_no_memory(err);
}

/* number_id makes another id of one that was given before: "x#2". */
static enum status number_id(struct items *items, struct err *err)
{
    uint64_t key = hash64(buf_slice(&items->id));
    char id[ITEM_ID_MAX + 1], suffix[SUFFIX_MAX];
    struct slice base = {id, items->id.len};
    bool found;
    uint64_t *entry = keyset_put(&items->repeats, &key, &found);
    enum status status;

    if (!entry)
        return err_no_memory(err);
    if (!found)
        entry[1] = 1;
    memcpy(id, items->id.ptr, items->id.len);
    do {
        entry[1]++;
        snprintf(suffix, sizeof(suffix), "#%llu", (unsigned long long)entry[1]);
        buf_clear(&items->id);
        buf_add_slice(&items->id, field_head(base, ITEM_ID_MAX - strlen(suffix)));
        buf_add_str(&items->id, suffix);
        status = remember(items, &found, err);
    } while (status == STATUS_OK && found);
    return status;
}

/* finish gives an item its id. */
static enum status finish(struct items *items, const struct record *record, const struct item *item,
                          struct items_entry *out, struct err *err)
{
    bool repeated = false;
    enum status status;

    buf_clear(&items->id);
    status = item_id(item, items->id_field, &items->id, err);
    if (status == STATUS_INVALID)
        source_blame(&items->source, record, err);
    if (status == STATUS_OK)
        status = remember(items, &repeated, err);
    if (status == STATUS_OK && repeated)
        status = number_id(items, err);
    if (status != STATUS_OK)
        return status;
    *out = (struct items_entry){
        .item = *item, .id = buf_slice(&items->id), .number = record->number, .repeated = repeated};
    items->given++;
    return STATUS_OK;
}

/* ---- the interface ------------------------------------------------------------------------------
 */

/* text_keep copies a text of the configuration; one that is not given stays so. */
static enum status text_keep(struct items *items, const char **text, struct err *err)
{
    if (!*text)
        return STATUS_OK;
    *text = arena_dup(&items->texts, slice_of(*text)).ptr;
    return *text ? STATUS_OK : err_no_memory(err);
}

/* configure takes over a configuration, and refuses one that says something impossible. */
static enum status configure(struct items *items, struct items_config config, struct err *err)
{
    enum status status = STATUS_OK;

    if (config.offset < 0 || config.items_max < 0)
        return err_set(err, STATUS_INVALID,
                       "neither the offset nor the number of items can be "
                       "less than 0");
    const char **texts[] = {&config.path, &config.sort_by, &config.distinct, &config.id_field};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && status == STATUS_OK; i++)
        status = text_keep(items, texts[i], err);
    if (status != STATUS_OK)
        return status;
    items->filter = config.filter;
    items->id_field = config.id_field;
    items->offset = config.offset;
    items->items_max = config.items_max;
    items->is_distinct = config.distinct != NULL;
    if (config.distinct && !order_path(slice_of(config.distinct), &items->distinct))
        return err_set(err, STATUS_INVALID, "distinct: \"%s\" is no path such as item.name",
                       config.distinct);
    if (config.sort_by) {
        status = order_parse(slice_of(config.sort_by), &items->order, err);
        if (status != STATUS_OK)
            err_prefix(err, "sort_by");
    }
    return status == STATUS_OK ? source_open(&items->source, &config, err) : status;
}

enum status items_open(const struct items_config *config, struct items **out, struct err *err)
{
    struct items *items = mem_zalloc(sizeof(*items));
    enum status status;

    if (!items)
        return err_no_memory(err);
    items->source = (struct source){.lines = {.fd = -1, .wake = -1}};
    items->total = -1;
    items->ids = (struct keyset){.width = 1, .key = 1};
    items->repeats = (struct keyset){.width = 2, .key = 1};
    items->values = (struct keyset){.width = 2, .key = 2};
    buf_init(&items->id, ITEM_ID_MAX + SUFFIX_MAX);
    status = configure(items, *config, err);
    if (status == STATUS_OK && source_repeats(&items->source))
        status = gather(items, err);
    if (status != STATUS_OK) {
        items_close(items);
        return status;
    }
    *out = items;
    return STATUS_OK;
}

enum status items_next(struct items *items, struct items_entry *out, bool *more, struct err *err)
{
    enum status status = STATUS_OK;
    struct record record;
    struct item item;

    *more = false;
    if (items->items_max > 0 && items->given == items->items_max)
        items->ended = true;
    if (items->ended)
        return STATUS_OK;
    if (is_sorted(items) && !items->gathered)
        status = gather(items, err);
    do {
        if (status == STATUS_OK)
            status = next_kept(items, &record, &item, more, err);
    } while (status == STATUS_OK && *more && items->passed++ < items->offset);
    if (status == STATUS_OK && *more)
        status = finish(items, &record, &item, out, err);
    items->ended = status != STATUS_OK || !*more;
    *more = !items->ended;
    return status;
}

void items_stop(struct items *items)
{
    lines_stop(&items->source.lines);
}

void items_close(struct items *items)
{
    if (!items)
        return;
    source_close(&items->source);
    order_release(&items->order);
    arena_release(&items->texts);
    arena_release(&items->scratch);
    buf_release(&items->id);
    keyset_release(&items->ids);
    keyset_release(&items->repeats);
    keyset_release(&items->values);
    mem_free(items);
}

int64_t items_total(const struct items *items)
{
    return items->total;
}
