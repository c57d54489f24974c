/* crew_keep: leases are kept by heartbeats, which also tell of cancelled jobs and lost leases;
 * those that nobody here will run soon are given back.
 *
 * Both are one message, `beat`: so a lease is never kept and given back at once. */
#include "base/json.h"
#include "base/jsonw.h"
#include "crew/crew_parts.h"

#define HEARTBEAT "/api/v1/leases/heartbeat"
#define RELEASE "/api/v1/leases/release"
#define INTERRUPTED "/api/v1/leases/interrupted"
#define BEAT_MS_MAX 5000  /* between two heartbeats: how long a cancelled command runs on */
#define PULSE_MS_MAX 1000 /* between two looks at what runs */
#define BEGUN_US 500000   /* a command that runs for so long has begun in earnest */

static void put_grants(struct jsonw *w, const struct grant *grants)
{
    for (; grants; grants = grants->next)
        jsonw_string(w, grants->lease_id);
}

/* beat sends a heartbeat for what runs and, when the leases need it, for what waits: the first
 * heartbeat of a job says that it was started. */
static void beat(struct crew *crew, bool waiting)
{
    struct jsonw w;
    buf_clear(&crew->beat.body);
    jsonw_init(&w, &crew->beat.body);
    jsonw_object(&w);
    jsonw_put_str(&w, "worker_id", crew->config.worker_id);
    jsonw_key(&w, "lease_ids");
    jsonw_array(&w);
    for (unsigned i = 0; i < crew->config.parallel; i++) {
        struct slot *slot = &crew->slots[i];
        if (slot->grant)
            jsonw_string(&w, slot->grant->lease_id);
        slot->told = true;
    }
    if (waiting)
        put_grants(&w, crew->waiting);
    jsonw_array_end(&w);
    jsonw_put_int(&w, "lease_ms", crew->config.lease.us / 1000);
    jsonw_object_end(&w);
    crew->beat.path = HEARTBEAT;
    crew->beating = true;
    courier_send(crew->keeper, &crew->beat);
}

void crew_give_back(struct crew *crew)
{
    struct jsonw w;
    buf_clear(&crew->beat.body);
    jsonw_init(&w, &crew->beat.body);
    jsonw_object(&w);
    jsonw_put_str(&w, "worker_id", crew->config.worker_id);
    jsonw_key(&w, "lease_ids");
    jsonw_array(&w);
    put_grants(&w, crew->back);
    jsonw_array_end(&w);
    jsonw_object_end(&w);
    while (crew->back) {
        struct grant *grant = crew->back;
        crew->back = grant->next;
        grant_free(grant);
    }
    crew->beat.path = RELEASE;
    crew->beating = true;
    courier_send(crew->keeper, &crew->beat);
}

/* drop ends an attempt that is no longer ours to run. */
static void drop(struct crew *crew, struct slice lease_id, enum effort_outcome outcome)
{
    for (unsigned i = 0; i < crew->config.parallel; i++) {
        const struct slot *slot = &crew->slots[i];
        if (slot->grant && slice_eq(slot->grant->lease_id, lease_id)) {
            crew->config.craft.stop(slot->effort, outcome, false);
            return;
        }
    }
    if (outcome != EFFORT_LOST)
        return; /* it waits: it is told again when it runs */
    for (struct grant **at = &crew->waiting; *at; at = &(*at)->next) {
        struct grant *grant = *at;
        if (!slice_eq(grant->lease_id, lease_id))
            continue;
        *at = grant->next;
        if (!*at)
            crew->waiting_end = at;
        crew->waiting_count--;
        grant_free(grant);
        return;
    }
}

static void drop_all(struct crew *crew, struct json ids, enum effort_outcome outcome)
{
    struct arena arena = {0};
    struct json_iter iter;
    struct json id;
    json_iter_init(&iter, ids);
    while (json_next(&iter, NULL, &id))
        drop(crew, json_text(id, &arena), outcome);
    arena_release(&arena);
}

static void beaten(struct message *message)
{
    struct crew *crew = message->owner;
    struct json lost, cancelled;
    bool heartbeat = strcmp(message->path, HEARTBEAT) == 0;
    crew->beating = false;
    if (!message->status)
        crew->refused_at = (struct span){0};
    if (!message->status && heartbeat) {
        json_get(message->value, "lost", &lost);
        json_get(message->value, "cancelled", &cancelled);
        drop_all(crew, lost, EFFORT_LOST);
        drop_all(crew, cancelled, EFFORT_CANCELLED);
    }
    if (message->status == STATUS_REFUSED)
        crew_is_forbidden(crew, message);
    crew_pump(crew);
}

/* look_at_slots finds how long every slot has been busy.  True: there is a command that has been
 * running for a while, and no heartbeat has said so. */
static bool look_at_slots(struct crew *crew, struct span now)
{
    int64_t busy_us = crew->running == crew->config.parallel ? INT64_MAX : 0;
    bool news = false;
    for (unsigned i = 0; i < crew->config.parallel; i++) {
        const struct slot *slot = &crew->slots[i];
        int64_t age_us = slot->grant ? now.us - slot->began.us : 0;
        news = news || (!slot->told && age_us >= BEGUN_US);
        busy_us = age_us < busy_us ? age_us : busy_us;
    }
    crew->busy_us = (double)busy_us;
    return news;
}

/* let_go has leases given back that are not worth waiting with: others may run them now.  The last
 * ones are, and not while others are on their way: so jobs keep their order. */
static void let_go(struct crew *crew)
{
    struct grant **end = &crew->waiting;
    if (crew->running < crew->config.parallel || crew->leasing || crew->config.alone)
        return;
    for (unsigned keep = crew_ahead(crew); keep > 0 && *end; keep--)
        end = &(*end)->next;
    crew->waiting_end = end;
    while (*end) {
        struct grant *grant = *end;
        *end = grant->next;
        grant->next = crew->back;
        crew->back = grant;
        crew->waiting_count--;
    }
}

static struct span pulse_every(const struct crew *crew)
{
    struct span third = {crew->config.lease.us / 3}, most = span_ms(PULSE_MS_MAX);
    return third.us < most.us ? third : most;
}

/* pulse keeps leases: a third of their time after the last heartbeat, at the latest, there is
 * another. */
static void pulse(struct loop_timer *timer)
{
    struct crew *crew = (struct crew *)((char *)timer - offsetof(struct crew, pulse));
    struct span now = loop_now(), every = pulse_every(crew);
    int64_t third_us = crew->config.lease.us / 3, most_us = span_ms(BEAT_MS_MAX).us;
    bool due = now.us + every.us > crew->beat_at.us + (third_us < most_us ? third_us : most_us);
    bool news = look_at_slots(crew, now);
    let_go(crew);
    if (!crew->beating && (due || news) && crew->running + crew->waiting_count > 0) {
        crew->beat_at = now;
        beat(crew, due);
    }
    loop_timer_set(crew->config.loop, &crew->pulse, every);
    crew_pump(crew);
}

bool crew_keep_start(struct crew *crew)
{
    crew->pulse.fire = pulse;
    message_init(&crew->beat, "POST", HEARTBEAT, beaten, crew);
    return loop_timer_set(crew->config.loop, &crew->pulse, pulse_every(crew));
}

bool crew_is_giving_back(const struct crew *crew)
{
    return crew->back || (crew->beating && strcmp(crew->beat.path, RELEASE) == 0);
}

enum status crew_cut_off(const struct link *link, const char *worker_id, const char *message,
                         struct err *err)
{
    struct buf body, answer;
    struct json value;
    struct jsonw w;
    buf_init(&body, 4096);
    buf_init(&answer, 1 << 20);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    jsonw_put_str(&w, "worker_id", worker_id);
    if (message)
        jsonw_put_str(&w, "message", message);
    jsonw_object_end(&w);
    enum status status =
        link_ask(link, "POST", INTERRUPTED, buf_slice(&body), &answer, &value, err);
    buf_release(&body);
    buf_release(&answer);
    return status;
}
