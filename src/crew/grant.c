/* grant: a lease, copied out of the answer that brought it. */
#include "crew/grant.h"

#include "base/mem.h"

#define LABEL_MAX 80 /* bytes of an item that may stand for itself */

static struct slice text_of(struct json object, const char *name, struct arena *arena)
{
    struct json value;
    if (!json_get(object, name, &value) || value.type != JSON_STRING)
        return (struct slice){0};
    return json_text(value, arena);
}

static bool fill(struct grant *grant, struct json lease)
{
    struct arena *arena = &grant->arena;
    struct slice copy = arena_dup(arena, lease.raw);
    struct json own = {lease.type, copy}, attempt;
    int64_t number = 0;
    if (!copy.ptr)
        return false;
    grant->lease_id = text_of(own, "lease_id", arena);
    grant->job_id = text_of(own, "job_id", arena);
    grant->queue = text_of(own, "queue", arena);
    grant->match = text_of(own, "match", arena);
    json_get(own, "attempt", &attempt);
    json_int(attempt, &number);
    grant->attempt = (uint32_t)number;
    json_get(own, "job", &grant->job);
    json_get(grant->job, "inputs", &grant->inputs);
    grant->item_id = text_of(grant->job, "item_id", arena);
    if (!grant->item_id.len)
        grant->item_id = grant->job_id;
    grant->label = text_of(grant->inputs, "item", arena);
    if (!grant->label.len || grant->label.len > LABEL_MAX)
        grant->label = grant->item_id;
    return grant->lease_id.ptr && grant->job_id.ptr;
}

struct grant *grant_new(struct json lease)
{
    struct grant *grant = mem_zalloc(sizeof(*grant));
    if (grant && !fill(grant, lease)) {
        grant_free(grant);
        grant = NULL;
    }
    return grant;
}

void grant_free(struct grant *grant)
{
    if (!grant)
        return;
    arena_release(&grant->arena);
    mem_free(grant);
}
