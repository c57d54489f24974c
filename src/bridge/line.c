/* line: see line.h.
 *
 * Invariants:
 *   - A host that is in `by_name` has somebody who waits or is under way; all others are on the
 *     free list, from `host_free` on by `next`.
 *   - A host is among those that take turns, from `turn_first` on by `next`, exactly when somebody
 *     waits for it and fewer are under way to it than its first one's `limit`. */
#include "bridge/line.h"

#include "base/mem.h"
#include "base/status.h"

#define NONE TABLE_NONE
#define HOSTS_MIN 16

struct line_host {
    char *name; /* not terminated */
    size_t name_len;
    uint64_t hash;
    uint32_t link; /* of the table */
    struct line_entry *first, *last;
    unsigned under_way;
    struct span answered; /* when it did, lately; 0: never, since somebody came for it */
    bool in_turn;
    uint32_t next, before; /* of those that take turns; `next` of a free one: the next free one */
};

static uint64_t host_hash(const void *owner, uint32_t handle)
{
    return ((const struct line *)owner)->hosts[handle].hash;
}

static uint32_t *host_link(const void *owner, uint32_t handle)
{
    return &((const struct line *)owner)->hosts[handle].link;
}

static const struct table_kind host_kind = {host_hash, host_link};

void line_init(struct line *line, unsigned parallel)
{
    *line = (struct line){
        .host_free = NONE, .turn_first = NONE, .turn_last = NONE, .parallel = parallel};
    table_init(&line->by_name, &host_kind, line);
}

void line_release(struct line *line)
{
    BUG_ON(line->waiting > 0 || line->under_way > 0);
    table_release(&line->by_name);
    mem_free(line->hosts);
    line_init(line, line->parallel);
}

/* Turns. */

static void turn_add(struct line *line, uint32_t handle)
{
    struct line_host *host = &line->hosts[handle];

    host->in_turn = true;
    host->next = NONE;
    host->before = line->turn_last;
    if (line->turn_last == NONE)
        line->turn_first = handle;
    else
        line->hosts[line->turn_last].next = handle;
    line->turn_last = handle;
}

static void turn_remove(struct line *line, uint32_t handle)
{
    struct line_host *host = &line->hosts[handle];

    if (host->before == NONE)
        line->turn_first = host->next;
    else
        line->hosts[host->before].next = host->next;
    if (host->next == NONE)
        line->turn_last = host->before;
    else
        line->hosts[host->next].before = host->before;
    host->in_turn = false;
}

/* turn_check puts a host among those that take turns, or takes it out, as it should be. */
static void turn_check(struct line *line, uint32_t handle)
{
    const struct line_host *host = &line->hosts[handle];
    bool may_go = host->first && host->under_way < host->first->limit;

    if (may_go && !host->in_turn)
        turn_add(line, handle);
    else if (!may_go && host->in_turn)
        turn_remove(line, handle);
}

/* Hosts. */

static bool more_hosts(struct line *line)
{
    uint32_t before = line->host_count, count = before ? before * 2 : HOSTS_MIN;
    if (before > NONE / 4)
        return false;
    struct line_host *hosts = mem_realloc(line->hosts, count * sizeof *hosts);
    if (!hosts)
        return false;
    line->hosts = hosts;
    line->host_count = count;
    for (uint32_t i = count; i-- > before;) {
        hosts[i] = (struct line_host){.next = line->host_free};
        line->host_free = i;
    }
    return true;
}

static uint32_t host_add(struct line *line, struct slice name, uint64_t hash)
{
    char *copy;

    if ((line->host_free == NONE && !more_hosts(line)) || !table_reserve(&line->by_name) ||
        !(copy = mem_alloc(name.len + 1)))
        return NONE;
    memcpy(copy, name.ptr, name.len);
    uint32_t handle = line->host_free;
    struct line_host *host = &line->hosts[handle];
    line->host_free = host->next;
    *host = (struct line_host){
        .name = copy, .name_len = name.len, .hash = hash, .next = NONE, .before = NONE};
    table_add(&line->by_name, handle);
    return handle;
}

static uint32_t host_find(const struct line *line, struct slice name, uint64_t hash)
{
    uint32_t handle = table_first(&line->by_name, hash);

    while (handle != NONE) {
        const struct line_host *host = &line->hosts[handle];
        if (slice_eq(name, (struct slice){host->name, host->name_len}))
            return handle;
        handle = table_next(&line->by_name, hash, handle);
    }
    return NONE;
}

static void host_drop(struct line *line, uint32_t handle)
{
    struct line_host *host = &line->hosts[handle];

    table_remove(&line->by_name, handle);
    mem_free(host->name);
    *host = (struct line_host){.next = line->host_free};
    line->host_free = handle;
}

/* Entries. */

bool line_join(struct line *line, struct line_entry *entry, struct slice name)
{
    uint64_t hash = table_hash(name, 0);
    uint32_t handle = host_find(line, name, hash);

    BUG_ON(entry->state != LINE_OUT || entry->limit == 0);
    if (handle == NONE && (handle = host_add(line, name, hash)) == NONE)
        return false;
    struct line_host *host = &line->hosts[handle];
    entry->host = handle;
    entry->state = LINE_WAITING;
    entry->next = NULL;
    entry->before = host->last;
    if (host->last)
        host->last->next = entry;
    else
        host->first = entry;
    host->last = entry;
    line->waiting++;
    turn_check(line, handle);
    return true;
}

static void unlink_entry(struct line_host *host, struct line_entry *entry)
{
    if (entry->before)
        entry->before->next = entry->next;
    else
        host->first = entry->next;
    if (entry->next)
        entry->next->before = entry->before;
    else
        host->last = entry->before;
    entry->next = entry->before = NULL;
}

struct line_entry *line_next(struct line *line)
{
    if (line->turn_first == NONE || line->under_way >= line->parallel)
        return NULL;
    uint32_t handle = line->turn_first;
    struct line_host *host = &line->hosts[handle];
    struct line_entry *entry = host->first;

    unlink_entry(host, entry);
    entry->state = LINE_UNDER_WAY;
    host->under_way++;
    line->waiting--;
    line->under_way++;
    turn_remove(line, handle); /* the others are first */
    turn_check(line, handle);
    return entry;
}

void line_answered(struct line *line, const struct line_entry *entry, struct span now)
{
    line->hosts[entry->host].answered = now;
}

bool line_silent(const struct line *line, const struct line_entry *entry, struct span since)
{
    return line->hosts[entry->host].answered.us <= since.us;
}

struct line_entry *line_waiting(const struct line *line, const struct line_entry *entry)
{
    return line->hosts[entry->host].first;
}

void line_leave(struct line *line, struct line_entry *entry)
{
    uint32_t handle = entry->host;
    struct line_host *host = &line->hosts[handle];

    BUG_ON(entry->state == LINE_OUT);
    if (entry->state == LINE_WAITING) {
        unlink_entry(host, entry);
        line->waiting--;
    } else {
        host->under_way--;
        line->under_way--;
    }
    entry->state = LINE_OUT;
    turn_check(line, handle);
    if (!host->first && host->under_way == 0)
        host_drop(line, handle);
}
