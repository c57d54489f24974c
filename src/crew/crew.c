/* crew: slots, leases ahead, an outbox.
 *
 * Three messages can be on their way at once, each on the thread of a courier of its own, as a
 * request for leases may wait: `lease`, `result` (the outbox) and `beat` (heartbeats, and leases
 * given back).
 *
 * Invariants: running <= parallel; a grant is in exactly one of `waiting`, a slot, or `back`; a
 * report is in `outbox` or in `sent` until the engine has answered it. */
#include "crew/crew_parts.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/jsonw.h"
#include "base/mem.h"

#define AHEAD_MAX 256                      /* leases that wait for a slot, at most */
#define LEASES_MAX 1000                    /* leases that one request may ask for */
#define REPORTS_MAX 500                    /* reports of one message */
#define REPORT_BYTES_MAX ((size_t)2 << 20) /* likewise, in bytes */
#define AGAIN_MS 200                       /* after a message that could not be carried */
#define AGAIN_MS_MAX 5000
#define REFUSED_MS 2000 /* a token that was just made is not known at once */

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

bool crew_is_forbidden(struct crew *crew, const struct message *message)
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
    crew_pump((struct crew *)((char *)timer - offsetof(struct crew, again)));
}

/* waits_again says that a message failed a moment ago. */
static bool waits_again(const struct crew *crew)
{
    return crew->again.handle != 0;
}

/* ---- leases -----------------------------------------------------------------------------------
 */

/* As many as end while the next ones are fetched.  What has been running for longer than others
 * took is taken for slow. */
unsigned crew_ahead(const struct crew *crew)
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

static void put_job_ids(struct jsonw *w, const struct crew_config *config)
{
    if (!config->job_ids)
        return;
    jsonw_key(w, "job_ids");
    jsonw_array(w);
    for (size_t i = 0; i < config->job_id_count; i++)
        jsonw_string(w, config->job_ids[i]);
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
    put_job_ids(&w, config);
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
        if (!crew_is_forbidden(crew, message))
            trouble(crew, message);
        crew_pump(crew);
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
    crew_pump(crew);
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

/* slot_clear makes a slot free; one that is free is fine. */
static void slot_clear(struct crew *crew, struct slot *slot)
{
    if (!slot->grant)
        return;
    crew->config.craft.free(slot->effort);
    grant_free(slot->grant);
    slot->grant = NULL;
}

static void attempt_ended(void *owner, const struct effort_end *end)
{
    struct slot *slot = owner;
    struct crew *crew = slot->crew;
    const struct grant *grant = slot->grant;
    struct report *report = NULL;
    smooth(&crew->attempt_us, (double)end->duration.us);
    crew->busy_us = 0;
    if (end->outcome != EFFORT_SUCCEEDED && end->outcome != EFFORT_LOST)
        crew->failed_attempts++;
    if (end->outcome == EFFORT_LOST) {
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
        crew->unreported++;
        crew->in_doubt += report->outcome == EFFORT_FAILED;
    }
    slot_clear(crew, slot);
    crew->running--;
    crew_pump(crew);
}

static struct slot *slot_free(struct crew *crew)
{
    for (unsigned i = 0; i < crew->config.parallel; i++)
        if (!crew->slots[i].grant)
            return &crew->slots[i];
    BUG("no slot is free");
}

/* begin starts the next lease that waits.  False: memory is exhausted. */
static bool begin(struct crew *crew)
{
    struct slot *slot = slot_free(crew);
    struct grant *grant = waiting_take(crew);
    const struct craft *craft = &crew->config.craft;
    slot->effort = craft->start(craft->ctx, grant, slot->number, attempt_ended, slot);
    if (!slot->effort) {
        grant->next = crew->back;
        crew->back = grant;
        return false;
    }
    slot->grant = grant;
    slot->began = loop_now();
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
        if (message->status != STATUS_REFUSED || !crew_is_forbidden(crew, message))
            trouble(crew, message);
        crew_pump(crew);
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
        crew->unreported--;
        crew->in_doubt -= report->outcome == EFFORT_FAILED;
        settle(crew, report, answer);
        report_free(report);
    }
    crew->sending = false;
    crew_pump(crew);
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

void crew_pump(struct crew *crew)
{
    const struct crew_config *config = &crew->config;
    unsigned wanted = config->parallel + crew_ahead(crew);
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
        crew_give_back(crew);
    unsigned held = crew->running + crew->waiting_count;
    bool low =
        crew->running < config->parallel || crew->waiting_count * 2 <= wanted - config->parallel;
    bool enough = config->job_ids && held + crew->unreported >= crew->expected;
    if (crew->going && !crew->draining && !crew->leasing && !waits_again(crew) &&
        !crew_is_giving_back(crew) && held < wanted && low && !enough)
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
    crew->expected = config->job_id_count;
    crew->waiting_end = &crew->waiting;
    crew->outbox_end = &crew->outbox;
    crew->again.fire = again;
    message_init(&crew->lease, "POST", "/api/v1/leases", leased, crew);
    message_init(&crew->result, "POST", "/api/v1/results", reported, crew);
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
    if (!status && !crew_keep_start(crew))
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
        slot_clear(crew, &crew->slots[i]);
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
    crew_pump(crew);
}

void crew_expect(struct crew *crew, size_t jobs)
{
    crew->expected = jobs;
}

void crew_drain(struct crew *crew, void (*rested)(void *ctx), void *ctx)
{
    crew->draining = true;
    crew->rested = rested;
    crew->rested_ctx = ctx;
    crew_pump(crew);
}

void crew_stop(struct crew *crew, bool now)
{
    for (unsigned i = 0; i < crew->config.parallel; i++)
        if (crew->slots[i].grant)
            crew->config.craft.stop(crew->slots[i].effort, EFFORT_INTERRUPTED, now);
}

void crew_hurry(struct crew *crew)
{
    crew->hasty = true;
    loop_timer_clear(crew->config.loop, &crew->again);
    crew_pump(crew);
}

void crew_quit(struct crew *crew)
{
    crew->quitting = true;
    crew_pump(crew);
}

struct watch_counts crew_counts(const struct crew *crew)
{
    struct watch_counts counts = {.running = crew->running,
                                  .failed_attempts = crew->failed_attempts,
                                  .retrying = crew->retrying};
    const struct slot *slowest = NULL;
    for (unsigned i = 0; i < crew->config.parallel; i++) {
        const struct slot *slot = &crew->slots[i];
        if (slot->grant && (!slowest || slot->began.us < slowest->began.us))
            slowest = slot;
    }
    if (slowest) {
        counts.slowest = slowest->grant->label;
        counts.slowest_for = (struct span){loop_now().us - slowest->began.us};
    }
    return counts;
}
