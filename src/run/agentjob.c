/* agentjob: see agentjob.h. */
#include "run/agentjob.h"

#include "base/seams.h"
#include "core/uuid.h"

#define TEXT_MAX 1024        /* bytes of an id */
#define DELAY_MAX_SECONDS 60 /* between two starts */
#define PRIORITY 9           /* no job that strayed into the queue comes before it */
#define ATTEMPTS_MAX 1000    /* as many as a policy may allow */

void agentjob_init(struct agentjob *job, const struct supervise_config *config)
{
    job->config = config;
    buf_init(&job->key, TEXT_MAX);
    buf_init(&job->id, TEXT_MAX);
    buf_addf(&job->key, "agent:%s", config->name);
}

void agentjob_release(struct agentjob *job)
{
    buf_release(&job->key);
    buf_release(&job->id);
}

static void put_list(struct jsonw *w, const char *name, struct slice only)
{
    jsonw_key(w, name);
    jsonw_array(w);
    jsonw_string(w, only);
    jsonw_array_end(w);
}

static void put_inputs(const struct supervise_config *config, struct jsonw *w)
{
    jsonw_key(w, "inputs");
    jsonw_object(w);
    jsonw_put_str(w, "agent", config->name);
    jsonw_key(w, "command");
    jsonw_array(w);
    for (char *const *arg = config->argv; *arg; arg++)
        jsonw_string(w, slice_of(*arg));
    jsonw_array_end(w);
    jsonw_put_text(w, "pull", slice_of(config->pull));
    jsonw_put_text(w, "health", slice_of(config->health));
    jsonw_object_end(w);
}

static void put_policy(const struct supervise_config *config, struct jsonw *w)
{
    double delay = span_to_seconds(config->restart_delay);
    jsonw_key(w, "retry_policy");
    jsonw_object(w);
    jsonw_put_int(w, "max_attempts", ATTEMPTS_MAX);
    jsonw_put_str(w, "backoff_strategy", "exponential");
    jsonw_put_double(w, "initial_delay_seconds", delay);
    jsonw_put_int(w, "multiplier", 2);
    jsonw_put_double(w, "max_delay_seconds", delay > DELAY_MAX_SECONDS ? delay : DELAY_MAX_SECONDS);
    jsonw_put_bool(w, "jitter", false);
    jsonw_object_end(w);
}

static void set_id(struct agentjob *job)
{
    const struct seams *world = seams_real();
    uint8_t random[10];
    char uuid[UUID_TEXT_LEN + 1];
    world->random(world->ctx, random, sizeof(random));
    uuid_format(uuid_v7(world->wall(world->ctx), random), uuid);
    buf_clear(&job->id);
    buf_addf(&job->id, "agent/%s/%s", job->config->name, uuid);
}

void agentjob_push(struct agentjob *job, struct jsonw *w)
{
    set_id(job);
    jsonw_object(w);
    jsonw_put_string(w, "job_id", buf_slice(&job->id));
    jsonw_put_str(w, "action", "agent");
    jsonw_put_str(w, "queue", SUPERVISE_QUEUE);
    jsonw_put_str(w, "source", SUPERVISE_SOURCE);
    jsonw_put_int(w, "priority", PRIORITY);
    jsonw_put_string(w, "idempotency_key", buf_slice(&job->key));
    put_list(w, "required_capabilities", buf_slice(&job->key));
    put_inputs(job->config, w);
    put_policy(job->config, w);
    jsonw_object_end(w);
}

void agentjob_lease(const struct agentjob *job, struct span wait, struct jsonw *w)
{
    jsonw_object(w);
    jsonw_put_str(w, "worker_id", job->config->worker_id);
    put_list(w, "queues", SLICE(SUPERVISE_QUEUE));
    put_list(w, "capabilities", buf_slice(&job->key));
    jsonw_put_int(w, "count", 1);
    jsonw_put_int(w, "lease_ms", job->config->lease.us / 1000);
    jsonw_put_int(w, "wait_ms", wait.us / 1000);
    jsonw_object_end(w);
}

void agentjob_held(const struct agentjob *job, struct slice lease_id, struct span lease,
                   struct jsonw *w)
{
    jsonw_object(w);
    jsonw_put_str(w, "worker_id", job->config->worker_id);
    put_list(w, "lease_ids", lease_id);
    if (lease.us > 0)
        jsonw_put_int(w, "lease_ms", lease.us / 1000);
    jsonw_object_end(w);
}

bool agentjob_is(const struct agentjob *job, struct json envelope)
{
    struct json key;
    return json_get(envelope, "idempotency_key", &key) && json_string_is(key, buf_str(&job->key));
}
