/* crew: slots, leases ahead, an outbox.
 *
 * Three messages can be on their way at once, each on the thread of a courier of its own, as a
 * request for leases may wait: `lease`, `result` (the outbox) and `beat` (heartbeats, and leases
 * given back).
 *
 * Invariants: running <= parallel; a grant is in exactly one of `waiting`, a slot, or `back`; a
 * report is in `outbox` or in `sent` until the engine has answered it. */
#include "run/crew.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/mem.h"
#include "run/courier.h"
#include "run/report.h"

#define RELEASE "/api/v1/leases/release"
#define AHEAD_MAX 256                      /* leases that wait for a slot, at most */
#define LEASES_MAX 1000                    /* leases that one request may ask for */
#define REPORTS_MAX 500                    /* reports of one message */
#define REPORT_BYTES_MAX ((size_t)2 << 20) /* likewise, in bytes */
#define AGAIN_MS 200                       /* after a message that could not be carried */
#define AGAIN_MS_MAX 5000
#define REFUSED_MS 2000   /* a token that was just made is not known at once */
#define BEAT_MS_MAX 5000  /* between two heartbeats: how long a cancelled command runs on */
#define PULSE_MS_MAX 1000 /* between two looks at what runs */
#define BEGUN_US 500000   /* a command that runs for so long has begun in earnest */

struct slot {
    struct crew *crew;
    unsigned number;
    struct attempt *attempt; /* NULL: free */
    bool told;               /* a heartbeat has said that it runs */
};

struct crew {
    struct crew_config config;
    struct courier *leaser, *reporter, *keeper;
    struct slot *slots;
    unsigned running;
    struct grant *waiting, **waiting_end; /* leased, and not begun */
    unsigned waiting_count;
    struct report *outbox, **outbox_end; /* ended, and not sent */
    struct report *sent;                 /* sent, and not answered */

    struct message lease, result, beat;
    bool leasing, sending, beating; /* the message is on its way */
    bool going, draining, hasty, quitting;
    struct grant *back; /* to be given back */
    void (*rested)(void *ctx);
    void *rested_ctx;

    struct loop_timer again; /* after a message that could not be carried */
    struct loop_timer pulse; /* heartbeats, and a look at what runs */
    struct span beat_at;     /* when the last heartbeat was sent */
    int64_t again_ms;
    bool troubled;          /* the trouble was told */
    struct span refused_at; /* since when we may not ask; 0: we may */
    int64_t failed_attempts;
    int64_t retrying;  /* reported as failed, to be tried again, and not begun since */
    unsigned in_doubt; /* failures in `outbox` and `sent`: what follows is not known yet */

    double attempt_us; /* smoothed: how long an attempt takes */
    double busy_us;    /* every slot has been busy for at least this long */
    double lease_us;   /* smoothed: how long it takes to get leases that are there */
};

static void pump(struct crew *crew);

/* smooth moves a figure towards what was seen last. */
static void smooth(double *figure, double seen)
{
    *figure = *figure > 0 ? *figure * 0.8 + seen * 0.2 : seen;
}

/* ---- trouble ----------------------------------------------------------------------------------
 */

static void note(const struct crew *crew, const char *sentence)
{
    if (crew->config.watch)
        crew->config.watch->note(crew->config.watch->ctx, sentence);
}

/* trouble waits a little before it is tried again, but not so long that leases end meanwhile, and
 * tells once. */
static void trouble(struct crew *crew, const struct message *message)
{
    int64_t max =
        crew->config.lease.us / 3000 < AGAIN_MS_MAX ? crew->config.lease.us / 3000 : AGAIN_MS_MAX;
    if (!crew->troubled && !crew->refused_at.us)
        note(crew, message->err.text);
    crew->troubled = crew->troubled || !crew->refused_at.us;
    crew->again_ms = crew->again_ms ? crew->again_ms * 2 : AGAIN_MS;
    if (crew->again_ms > max)
        crew->again_ms = max;
    loop_timer_set(crew->config.loop, &crew->again, span_ms(crew->again_ms));
}

/* is_forbidden hands over that we may not ask, or ask what nobody accepts: asking again is no use.
 */
static bool is_forbidden(struct crew *crew, const struct message *message)
{
    bool refused = message->status == STATUS_REFUSED;
    if (!crew->config.forbidden ||
        (!refused && message->status != STATUS_INVALID && message->status != STATUS_NOT_FOUND))
        return false;
    if (refused && !crew->refused_at.us)
        crew->refused_at = loop_now();
    if (refused && loop_now().us - crew->refused_at.us < span_ms(REFUSED_MS).us)
        return false;
    crew->config.forbidden(crew->config.ctx, message->status, &message->err);
    return true;
}

static void no_trouble(struct crew *crew)
{
    if (crew->troubled)
        note(crew, "there is an answer again");
    crew->troubled = false;
    crew->refused_at = (struct span){0};
    crew->again_ms = 0;
}

static void again(struct loop_timer *timer)
{
    pump((struct crew *)((char *)timer - offsetof(struct crew, again)));
}

/* waits_again says that a message failed a moment ago. */
static bool waits_again(const struct crew *crew)
{
    return crew->again.handle != 0;
}

/* ---- leases -----------------------------------------------------------------------------------
 */

/* ahead is how many leases are worth having beside those that run: as many as end while the next
 * ones are fetched.  What has been running for longer than others took is taken for slow. */
static unsigned ahead(const struct crew *crew)
{
    double takes = crew->attempt_us > crew->busy_us ? crew->attempt_us : crew->busy_us;
    if (crew->attempt_us <= 0)
        return 0;
    double wanted = crew->config.parallel * 8.0 * crew->lease_us / takes;
    return wanted < AHEAD_MAX ? (unsigned)wanted : AHEAD_MAX;
}

static void put_names(struct jsonw *w, const char *key, const char *const *names, size_t count)
{
    if (!names)
        return;
    jsonw_key(w, key);
    jsonw_array(w);
    for (size_t i = 0; i < count; i++)
        jsonw_string(w, slice_of(names[i]));
    jsonw_array_end(w);
}

static void ask_leases(struct crew *crew, unsigned count)
{
    const struct crew_config *config = &crew->config;
    struct jsonw w;
    buf_clear(&crew->lease.body);
    jsonw_init(&w, &crew->lease.body);
    jsonw_object(&w);
    jsonw_put_str(&w, "worker_id", config->worker_id);
    put_names(&w, "queues", config->queues, config->queue_count);
    put_names(&w, "capabilities", config->capabilities, config->capability_count);
    put_names(&w, "scopes", config->scopes, config->scope_count);
    put_names(&w, "permissions", config->permissions, config->permission_count);
    jsonw_put_int(&w, "count", count);
    jsonw_put_int(&w, "lease_ms", config->lease.us / 1000);
    jsonw_put_int(&w, "wait_ms", config->wait.us / 1000);
    jsonw_object_end(&w);
    crew->leasing = true;
    courier_send(crew->leaser, &crew->lease);
}

static void leased(struct message *message)
{
    struct crew *crew = message->owner;
    struct json leases, lease;
    struct json_iter iter;
    unsigned count = 0;
    crew->leasing = false;
    if (message->status) {
        if (!is_forbidden(crew, message))
            trouble(crew, message);
        pump(crew);
        return;
    }
    no_trouble(crew);
    json_get(message->value, "leases", &leases);
    json_iter_init(&iter, leases);
    while (json_next(&iter, NULL, &lease)) {
        struct grant *grant = grant_new(lease);
        if (!grant)
            continue; /* its lease ends by itself */
        grant->came = loop_now();
        *crew->waiting_end = grant;
        crew->waiting_end = &grant->next;
        crew->waiting_count++;
        count++;
    }
    if (count)
        smooth(&crew->lease_us, (double)message->took.us);
    /* Before it asks again: whoever drains the crew for it would get leases only to give them back.
     */
    if (!count && crew_is_idle(crew) && crew->going && !crew->draining && crew->config.idle)
        crew->config.idle(crew->config.ctx);
    pump(crew);
}

static struct grant *waiting_take(struct crew *crew)
{
    struct grant *grant = crew->waiting;
    crew->waiting = grant->next;
    if (!crew->waiting)
        crew->waiting_end = &crew->waiting;
    grant->next = NULL;
    crew->waiting_count--;
    return grant;
}

/* ---- attempts ---------------------------------------------------------------------------------
 */

static void tell(const struct crew *crew, const struct watch_event *event)
{
    if (crew->config.watch)
        crew->config.watch->event(crew->config.watch->ctx, event);
}

static void attempt_ended(void *ctx, const struct attempt_end *end)
{
    struct slot *slot = ctx;
    struct crew *crew = slot->crew;
    const struct grant *grant = attempt_grant(slot->attempt);
    struct report *report = NULL;
    smooth(&crew->attempt_us, (double)end->duration.us);
    crew->busy_us = 0;
    if (end->outcome != ATTEMPT_SUCCEEDED && end->outcome != ATTEMPT_LOST)
        crew->failed_attempts++;
    if (end->outcome == ATTEMPT_LOST) {
        struct watch_event event = {.what = WATCH_LOST,
                                    .job_id = grant->job_id,
                                    .item_id = grant->item_id,
                                    .label = grant->label,
                                    .attempt = grant->attempt,
                                    .duration = end->duration};
        tell(crew, &event);
    } else {
        report = report_new(grant, end); /* without memory the lease ends by itself */
    }
    if (report) {
        *crew->outbox_end = report;
        crew->outbox_end = &report->next;
        crew->in_doubt += report->outcome == ATTEMPT_FAILED;
    }
    attempt_free(slot->attempt);
    slot->attempt = NULL;
    crew->running--;
    pump(crew);
}

static struct slot *slot_free(struct crew *crew)
{
    for (unsigned i = 0; i < crew->config.parallel; i++)
        if (!crew->slots[i].attempt)
            return &crew->slots[i];
    BUG("no slot is free");
}

/* begin starts the next lease that waits.  False: memory is exhausted. */
static bool begin(struct crew *crew)
{
    struct slot *slot = slot_free(crew);
    struct grant *grant = waiting_take(crew);
    slot->attempt = attempt_start(crew->config.loop, crew->config.plan, grant, slot->number,
                                  attempt_ended, slot);
    if (!slot->attempt) {
        grant->next = crew->back;
        crew->back = grant;
        return false;
    }
    slot->told = false;
    crew->running++;
    if (grant->attempt > 1 && crew->retrying > 0)
        crew->retrying--;
    struct watch_event event = {.what = WATCH_STARTED,
                                .job_id = grant->job_id,
                                .item_id = grant->item_id,
                                .label = grant->label,
                                .attempt = grant->attempt};
    tell(crew, &event);
    return true;
}

/* ---- reports ----------------------------------------------------------------------------------
 */

/* send_reports sends what is in the outbox, up to what one message may have. */
static void send_reports(struct crew *crew)
{
    struct buf *body = &crew->result.body;
    struct report **end = &crew->sent;
    size_t count = 0;
    buf_clear(body);
    buf_add_char(body, '[');
    while (crew->outbox && count < REPORTS_MAX &&
           (count == 0 || body->len + crew->outbox->text.len < REPORT_BYTES_MAX)) {
        struct report *report = crew->outbox;
        crew->outbox = report->next;
        report->next = NULL;
        *end = report;
        end = &report->next;
        if (count++)
            buf_add_char(body, ',');
        buf_add_slice(body, buf_slice(&report->text));
    }
    if (!crew->outbox)
        crew->outbox_end = &crew->outbox;
    buf_add_char(body, ']');
    crew->sending = true;
    courier_send(crew->reporter, &crew->result);
}

/* settle tells what became of one outcome. */
static void settle(struct crew *crew, struct report *report, struct json answer)
{
    struct json value;
    struct watch_event *event = &report->event;
    event->what = report_outcome(report, answer, crew->config.dead_is);
    if (json_get(answer, "dlq_id", &value) && value.type == JSON_STRING)
        event->dlq_id = json_text(value, &report->arena);
    if (json_get(answer, "next_retry_at", &value) && value.type == JSON_STRING)
        instant_parse(json_text(value, &report->arena), &event->retry_at, NULL);
    crew->retrying += event->what == WATCH_RETRYING;
    struct crew_report told = {.what = event->what,
                               .job_id = event->job_id,
                               .item_id = event->item_id,
                               .dlq_id = event->dlq_id,
                               .retry_at = event->retry_at};
    tell(crew, event);
    if (crew->config.reported)
        crew->config.reported(crew->config.ctx, &told);
}

static void reports_back(struct crew *crew)
{
    struct report **end = &crew->sent;
    while (*end)
        end = &(*end)->next;
    *end = crew->outbox;
    if (!crew->outbox)
        crew->outbox_end = end;
    crew->outbox = crew->sent;
    crew->sent = NULL;
}

/* reported goes through the answers.  Nothing is sent before all are told: whoever is told may
 * drain the crew. */
static void reported(struct message *message)
{
    struct crew *crew = message->owner;
    struct json results, answer;
    struct json_iter iter;
    if (message->status) {
        crew->sending = false;
        reports_back(crew);
        if (message->status != STATUS_REFUSED || !is_forbidden(crew, message))
            trouble(crew, message);
        pump(crew);
        return;
    }
    no_trouble(crew);
    json_get(message->value, "results", &results);
    json_iter_init(&iter, results);
    while (crew->sent) {
        struct report *report = crew->sent;
        crew->sent = report->next;
        report->next = NULL;
        answer = (struct json){0};
        json_next(&iter, NULL, &answer);
        if (report_is_refused(answer) && !report->plain) {
            report_say_less(report, answer);
            *crew->outbox_end = report;
            crew->outbox_end = &report->next;
            continue;
        }
        crew->in_doubt -= report->outcome == ATTEMPT_FAILED;
        settle(crew, report, answer);
        report_free(report);
    }
    crew->sending = false;
    pump(crew);
}

/* ---- heartbeats, and giving back --------------------------------------------------------------
 */

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
        if (slot->attempt)
            jsonw_string(&w, attempt_grant(slot->attempt)->lease_id);
        slot->told = true;
    }
    if (waiting)
        put_grants(&w, crew->waiting);
    jsonw_array_end(&w);
    jsonw_put_int(&w, "lease_ms", crew->config.lease.us / 1000);
    jsonw_object_end(&w);
    crew->beat.path = "/api/v1/leases/heartbeat";
    crew->beating = true;
    courier_send(crew->keeper, &crew->beat);
}

static void give_back(struct crew *crew)
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
static void drop(struct crew *crew, struct slice lease_id, enum attempt_outcome outcome)
{
    for (unsigned i = 0; i < crew->config.parallel; i++) {
        struct attempt *attempt = crew->slots[i].attempt;
        if (attempt && slice_eq(attempt_grant(attempt)->lease_id, lease_id)) {
            attempt_stop(attempt, outcome, false);
            return;
        }
    }
    if (outcome != ATTEMPT_LOST)
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

static void drop_all(struct crew *crew, struct json ids, enum attempt_outcome outcome)
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
    bool heartbeat = strcmp(message->path, "/api/v1/leases/heartbeat") == 0;
    crew->beating = false;
    if (!message->status)
        crew->refused_at = (struct span){0};
    if (!message->status && heartbeat) {
        json_get(message->value, "lost", &lost);
        json_get(message->value, "cancelled", &cancelled);
        drop_all(crew, lost, ATTEMPT_LOST);
        drop_all(crew, cancelled, ATTEMPT_CANCELLED);
    }
    if (message->status == STATUS_REFUSED)
        is_forbidden(crew, message);
    pump(crew);
}

/* look_at_slots finds how long every slot has been busy.  True: there is a command that has been
 * running for a while, and no heartbeat has said so. */
static bool look_at_slots(struct crew *crew, struct span now)
{
    int64_t busy_us = crew->running == crew->config.parallel ? INT64_MAX : 0;
    bool news = false;
    for (unsigned i = 0; i < crew->config.parallel; i++) {
        const struct slot *slot = &crew->slots[i];
        int64_t age_us = slot->attempt ? now.us - attempt_began(slot->attempt).us : 0;
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
    for (unsigned keep = ahead(crew); keep > 0 && *end; keep--)
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
    pump(crew);
}

/* ---- the pump ---------------------------------------------------------------------------------
 */

bool crew_is_idle(const struct crew *crew)
{
    return !crew->running && !crew->waiting && !crew->outbox && !crew->sending;
}

/* rest tells that everything is at rest. */
static void rest(struct crew *crew)
{
    bool silent = !crew->running && !crew->leasing && !crew->sending && !crew->beating;
    bool gives_up = crew->quitting || (crew->hasty && crew->troubled);
    void (*rested)(void *ctx) = crew->rested;
    if (!crew->draining || !rested)
        return;
    if (silent && (gives_up || (crew_is_idle(crew) && !crew->back))) {
        crew->rested = NULL;
        rested(crew->rested_ctx);
    }
}

/* is_giving_back says that leases are on their way back: those that come next would overtake them.
 */
static bool is_giving_back(const struct crew *crew)
{
    return crew->back || (crew->beating && strcmp(crew->beat.path, RELEASE) == 0);
}

/* pump does whatever can be done now. */
static void pump(struct crew *crew)
{
    const struct crew_config *config = &crew->config;
    unsigned wanted = config->parallel + ahead(crew);
    while (crew->draining && crew->waiting) {
        struct grant *grant = waiting_take(crew);
        grant->next = crew->back;
        crew->back = grant;
    }
    while (crew->waiting && crew->running < config->parallel &&
           !(config->careful && crew->in_doubt))
        if (!begin(crew))
            break;
    if (crew->outbox && !crew->sending && !waits_again(crew) && !crew->quitting)
        send_reports(crew);
    if (crew->back && !crew->beating)
        give_back(crew);
    unsigned held = crew->running + crew->waiting_count;
    bool low =
        crew->running < config->parallel || crew->waiting_count * 2 <= wanted - config->parallel;
    if (crew->going && !crew->draining && !crew->leasing && !waits_again(crew) &&
        !is_giving_back(crew) && held < wanted && low)
        ask_leases(crew, wanted - held < LEASES_MAX ? wanted - held : LEASES_MAX);
    rest(crew);
}

/* ---- from outside -----------------------------------------------------------------------------
 */

enum status crew_open(const struct crew_config *config, struct crew **out, struct err *err)
{
    struct crew *crew = mem_zalloc(sizeof(*crew));
    if (!crew)
        return err_no_memory(err);
    crew->config = *config;
    crew->waiting_end = &crew->waiting;
    crew->outbox_end = &crew->outbox;
    crew->again.fire = again;
    crew->pulse.fire = pulse;
    message_init(&crew->lease, "POST", "/api/v1/leases", leased, crew);
    message_init(&crew->result, "POST", "/api/v1/results", reported, crew);
    message_init(&crew->beat, "POST", "/api/v1/leases/heartbeat", beaten, crew);
    crew->slots = mem_array(config->parallel, sizeof(*crew->slots));
    enum status status = crew->slots ? STATUS_OK : err_no_memory(err);
    for (unsigned i = 0; crew->slots && i < config->parallel; i++)
        crew->slots[i] = (struct slot){.crew = crew, .number = i};
    if (!status)
        status = courier_new(config->loop, config->link, &crew->leaser, err);
    if (!status)
        status = courier_new(config->loop, config->link, &crew->reporter, err);
    if (!status)
        status = courier_new(config->loop, config->link, &crew->keeper, err);
    if (!status && !loop_timer_set(config->loop, &crew->pulse, pulse_every(crew)))
        status = err_no_memory(err);
    if (status) {
        crew_close(crew);
        return status;
    }
    *out = crew;
    return STATUS_OK;
}

void crew_close(struct crew *crew)
{
    if (!crew)
        return;
    courier_free(crew->leaser);
    courier_free(crew->reporter);
    courier_free(crew->keeper);
    loop_timer_clear(crew->config.loop, &crew->again);
    loop_timer_clear(crew->config.loop, &crew->pulse);
    for (unsigned i = 0; crew->slots && i < crew->config.parallel; i++)
        attempt_free(crew->slots[i].attempt);
    while (crew->waiting)
        grant_free(waiting_take(crew));
    reports_back(crew);
    while (crew->outbox) {
        struct report *report = crew->outbox;
        crew->outbox = report->next;
        report_free(report);
    }
    message_release(&crew->lease);
    message_release(&crew->result);
    message_release(&crew->beat);
    mem_free(crew->slots);
    mem_free(crew);
}

void crew_go(struct crew *crew)
{
    crew->going = true;
    pump(crew);
}

void crew_drain(struct crew *crew, void (*rested)(void *ctx), void *ctx)
{
    crew->draining = true;
    crew->rested = rested;
    crew->rested_ctx = ctx;
    pump(crew);
}

void crew_stop(struct crew *crew, bool now)
{
    for (unsigned i = 0; i < crew->config.parallel; i++)
        if (crew->slots[i].attempt)
            attempt_stop(crew->slots[i].attempt, ATTEMPT_INTERRUPTED, now);
}

void crew_hurry(struct crew *crew)
{
    crew->hasty = true;
    loop_timer_clear(crew->config.loop, &crew->again);
    pump(crew);
}

void crew_quit(struct crew *crew)
{
    crew->quitting = true;
    pump(crew);
}

struct watch_counts crew_counts(const struct crew *crew)
{
    struct watch_counts counts = {.running = crew->running,
                                  .failed_attempts = crew->failed_attempts,
                                  .retrying = crew->retrying};
    const struct attempt *slowest = NULL;
    for (unsigned i = 0; i < crew->config.parallel; i++) {
        const struct attempt *attempt = crew->slots[i].attempt;
        if (attempt && (!slowest || attempt_began(attempt).us < attempt_began(slowest).us))
            slowest = attempt;
    }
    if (slowest) {
        counts.slowest = attempt_grant(slowest)->label;
        counts.slowest_for = (struct span){loop_now().us - attempt_began(slowest).us};
    }
    return counts;
}
