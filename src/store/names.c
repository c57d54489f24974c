/* names: arrays by number, hash tables by name. */
#include "store/names.h"

#include "base/mem.h"
#include "base/status.h"

static uint64_t text_hash(const void *owner, uint32_t index)
{
    return ((const struct names *)owner)->texts[index].hash;
}

static uint32_t *text_link(const void *owner, uint32_t index)
{
    return &((const struct names *)owner)->texts[index].link;
}

static uint64_t set_hash(const void *owner, uint32_t number)
{
    return ((const struct names *)owner)->sets[number].hash;
}

static uint32_t *set_link(const void *owner, uint32_t number)
{
    return &((const struct names *)owner)->sets[number].link;
}

static const struct table_kind text_kind = {text_hash, text_link};
static const struct table_kind set_kind = {set_hash, set_link};

void names_init(struct names *names)
{
    *names = (struct names){0};
    table_init(&names->texts_by_name, &text_kind, names);
    table_init(&names->sets_by_names, &set_kind, names);
}

void names_clear(struct names *names)
{
    for (uint32_t i = 0; i < names->text_count; i++)
        names->texts[i].number = 0;
    for (uint32_t i = 0; i < names->set_count; i++)
        mem_free(names->sets[i].names);
    names->queue_count = names->set_count = 0;
    table_release(&names->sets_by_names);
}

void names_release(struct names *names)
{
    names_clear(names);
    for (uint32_t i = 0; i < names->text_count; i++)
        mem_free(names->texts[i].text);
    mem_free(names->texts);
    mem_free(names->queues);
    mem_free(names->sets);
    table_release(&names->texts_by_name);
    names_init(names);
}

/* array_reach makes entry `number` of an array exist, zeroed; false when memory is exhausted. */
static bool array_reach(void **array, uint32_t *count, uint32_t *cap, size_t size, uint32_t number)
{
    if (number < *count)
        return true;
    if (number >= NAMES_MAX)
        return false;
    if (number >= *cap) {
        uint32_t more = *cap ? *cap * 2 : 16;
        while (more <= number)
            more *= 2;
        void *grown = mem_realloc(*array, more * size);
        if (!grown)
            return false;
        *array = grown;
        *cap = more;
    }
    memset((char *)*array + *count * size, 0, (number + 1 - *count) * size);
    *count = number + 1;
    return true;
}

/* -- queues ------------------------------------------------------------------------------------ */

static struct slice text_at(const struct names *names, uint32_t index)
{
    return (struct slice){names->texts[index].text, names->texts[index].len};
}

static uint32_t text_find(const struct names *names, struct slice name)
{
    const struct table *table = &names->texts_by_name;
    uint64_t hash = table_hash(name, 0);
    uint32_t index = table_first(table, hash);
    while (index != TABLE_NONE && !slice_eq(name, text_at(names, index)))
        index = table_next(table, hash, index);
    return index;
}

/* text_make adds a name; TABLE_NONE when memory is exhausted. */
static uint32_t text_make(struct names *names, struct slice name)
{
    uint32_t index = names->text_count;
    char *copy = mem_alloc(name.len + 1);
    void *array = names->texts;
    if (!copy || !table_reserve(&names->texts_by_name) ||
        !array_reach(&array, &names->text_count, &names->text_cap, sizeof(*names->texts), index)) {
        mem_free(copy);
        return TABLE_NONE;
    }
    names->texts = array;
    if (name.len)
        memcpy(copy, name.ptr, name.len);
    copy[name.len] = '\0';
    names->texts[index] =
        (struct queue_name){.text = copy, .len = name.len, .hash = table_hash(name, 0)};
    table_add(&names->texts_by_name, index);
    return index;
}

bool names_queue_set(struct names *names, uint32_t number, struct slice name, bool paused)
{
    struct queue_entry *entry = names_queue(names, number);
    BUG_ON(number == 0 || (entry && !slice_eq(name, names_queue_text(names, number))));
    if (entry) {
        entry->paused = paused;
        return true;
    }
    uint32_t index = text_find(names, name);
    if (index == TABLE_NONE)
        index = text_make(names, name);
    void *array = names->queues;
    if (index == TABLE_NONE || !array_reach(&array, &names->queue_count, &names->queue_cap,
                                            sizeof(*names->queues), number))
        return false;
    names->queues = array;
    names->queues[number] =
        (struct queue_entry){.name = index + 1, .lane_first = TABLE_NONE, .paused = paused};
    names->texts[index].number = number;
    return true;
}

struct queue_entry *names_queue(const struct names *names, uint32_t number)
{
    if (number >= names->queue_count || names->queues[number].name == 0)
        return NULL;
    return &names->queues[number];
}

struct slice names_queue_text(const struct names *names, uint32_t number)
{
    const struct queue_entry *entry = names_queue(names, number);
    return entry ? text_at(names, entry->name - 1) : (struct slice){0};
}

bool names_queue_find(const struct names *names, struct slice name, uint32_t *out)
{
    uint32_t index = text_find(names, name);
    if (index == TABLE_NONE || names->texts[index].number == 0)
        return false;
    *out = names->texts[index].number;
    return true;
}

/* -- sets of capabilities ---------------------------------------------------------------------- */

static uint64_t capabilities_hash(const struct slice *capabilities, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = table_hash(capabilities[i], hash);
    return hash;
}

static bool capabilities_eq(const struct slice *a, size_t a_count, const struct slice *b,
                            size_t b_count)
{
    if (a_count != b_count)
        return false;
    for (size_t i = 0; i < a_count; i++)
        if (!slice_eq(a[i], b[i]))
            return false;
    return true;
}

/* capabilities_copy puts the slices and their bytes into one block. */
static struct slice *capabilities_copy(const struct slice *capabilities, size_t count, size_t *size)
{
    *size = count * sizeof(*capabilities);
    for (size_t i = 0; i < count; i++)
        *size += capabilities[i].len;
    struct slice *copy = mem_alloc(*size);
    if (!copy)
        return NULL;
    char *bytes = (char *)(copy + count);
    for (size_t i = 0; i < count; i++) {
        if (capabilities[i].len)
            memcpy(bytes, capabilities[i].ptr, capabilities[i].len);
        copy[i] = (struct slice){bytes, capabilities[i].len};
        bytes += capabilities[i].len;
    }
    return copy;
}

bool names_set_set(struct names *names, uint32_t number, const struct slice *capabilities,
                   size_t count)
{
    if (count == 0 || names_set(names, number))
        return true;
    size_t size;
    struct slice *copy = capabilities_copy(capabilities, count, &size);
    void *array = names->sets;
    if (!copy || !table_reserve(&names->sets_by_names) ||
        !array_reach(&array, &names->set_count, &names->set_cap, sizeof(*names->sets), number)) {
        mem_free(copy);
        return false;
    }
    names->sets = array;
    names->sets[number] = (struct set_entry){.names = copy,
                                             .count = count,
                                             .size = size,
                                             .hash = capabilities_hash(capabilities, count)};
    table_add(&names->sets_by_names, number);
    return true;
}

const struct set_entry *names_set(const struct names *names, uint32_t number)
{
    if (number >= names->set_count || names->sets[number].count == 0)
        return NULL;
    return &names->sets[number];
}

bool names_set_find(const struct names *names, const struct slice *capabilities, size_t count,
                    uint32_t *out)
{
    const struct table *table = &names->sets_by_names;
    uint64_t hash = capabilities_hash(capabilities, count);
    if (count == 0) {
        *out = 0;
        return true;
    }
    for (uint32_t at = table_first(table, hash); at != TABLE_NONE;
         at = table_next(table, hash, at)) {
        if (capabilities_eq(capabilities, count, names->sets[at].names, names->sets[at].count)) {
            *out = at;
            return true;
        }
    }
    return false;
}

static bool among(struct slice name, const struct slice *capabilities, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(name, capabilities[i]))
            return true;
    return false;
}

bool names_set_within(const struct names *names, uint32_t number, const struct slice *capabilities,
                      size_t count)
{
    if (number == 0)
        return true;
    const struct set_entry *set = names_set(names, number);
    for (size_t i = 0; set && i < set->count; i++)
        if (!among(set->names[i], capabilities, count))
            return false;
    return set != NULL;
}

bool names_set_has(const struct names *names, uint32_t number, struct slice capability)
{
    const struct set_entry *set = number ? names_set(names, number) : NULL;
    return set && among(capability, set->names, set->count);
}

size_t names_memory(const struct names *names)
{
    size_t total = table_memory(&names->texts_by_name) + table_memory(&names->sets_by_names) +
                   names->text_cap * sizeof(*names->texts) +
                   names->queue_cap * sizeof(*names->queues) +
                   names->set_cap * sizeof(*names->sets);
    for (uint32_t i = 0; i < names->text_count; i++)
        total += names->texts[i].len + 1;
    for (uint32_t i = 0; i < names->set_count; i++)
        total += names->sets[i].size;
    return total;
}
