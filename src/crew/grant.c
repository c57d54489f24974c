/* grant: a lease, copied out of the answer that brought it. */
#include "crew/grant.h"

#include "base/mem.h"

#define LABEL_MAX 80 /* bytes of an item that may stand for itself */

/* What is read of a lease, of its job and of that's inputs: each is walked once. */
enum { LEASE_ID, JOB_ID, QUEUE, MATCH, ATTEMPT, JOB, LEASE_MEMBERS };
static const char *const lease_names[LEASE_MEMBERS] = {"lease_id", "job_id",  "queue",
                                                       "match",    "attempt", "job"};
enum { INPUTS, ITEM_ID, JOB_MEMBERS };
static const char *const job_names[JOB_MEMBERS] = {"inputs", "item_id"};

static bool fill(struct grant *grant, struct json lease)
{
    struct arena *arena = &grant->arena;
    struct slice copy = arena_dup(arena, lease.raw);
    struct json own = {lease.type, copy}, of_lease[LEASE_MEMBERS], of_job[JOB_MEMBERS], item;
    int64_t number = 0;
    if (!copy.ptr)
        return false;
    json_gather(own, lease_names, LEASE_MEMBERS, of_lease);
    grant->lease_id = json_text(of_lease[LEASE_ID], arena);
    grant->job_id = json_text(of_lease[JOB_ID], arena);
    grant->queue = json_text(of_lease[QUEUE], arena);
    grant->match = json_text(of_lease[MATCH], arena);
    json_int(of_lease[ATTEMPT], &number);
    grant->attempt = (uint32_t)number;
    grant->job = of_lease[JOB];
    json_gather(grant->job, job_names, JOB_MEMBERS, of_job);
    grant->inputs = of_job[INPUTS];
    grant->item_id = json_text(of_job[ITEM_ID], arena);
    if (!grant->item_id.len)
        grant->item_id = grant->job_id;
    json_get(grant->inputs, "item", &item);
    grant->label = json_text(item, arena);
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
