/* alerts: following the evidence, and handing messages over. */
#include "bridge/alerts.h"

#include "base/log.h"
#include "base/mem.h"
#include "bridge/alertpost.h"
#include "core/delivery.h"

#define EVENTS_A_READ 1000
#define LOOK span_seconds(1)     /* from one look to the next */
#define TTL span_seconds(30)     /* of the duty */
#define ADVANCE span_seconds(10) /* the cursor is moved so often, when nothing is said */
#define SIBLINGS 10              /* letters of a group that are looked at */
#define SIGNATURE_SHOWN (64 << 10)

_Static_assert(2 * ALERTBOOK_FIRSTS_MAX <= ALERTPOST_MAX, "all firsts go to both targets at once");

/* ---- targets --------------------------------------------------------------------------------- */

static enum status add_target(struct target *list, size_t *count, const char *name, const char *url,
                              enum delivery_kind kind, struct arena *arena, struct err *err)
{
    struct target *target = &list[*count];
    if (!url)
        return STATUS_OK;
    for (size_t i = 0; i < *count; i++)
        if (slice_is(list[i].name, name))
            return err_set(err, STATUS_INVALID,
                           "targets.%s: the name is that of the target for alerts: give the "
                           "configured one another name",
                           name);
    enum status status = target_of_url(slice_of(url), kind, arena, target, err);
    if (status)
        return status;
    target->name = slice_of(name);
    target->trusted = true;
    target->private_path = true;
    (*count)++;
    return STATUS_OK;
}

enum status alerts_targets_add(struct targets *targets, const char *slack_url,
                               const char *webhook_url, struct arena *arena, struct err *err)
{
    size_t count = targets->count;
    struct target *list = arena_array(arena, count + 2, sizeof(*list));
    if (!list)
        return err_no_memory(err);
    if (count)
        memcpy(list, targets->list, count * sizeof(*list));
    enum status status =
        add_target(list, &count, ALERTS_TARGET_SLACK, slack_url, DELIVERY_SLACK, arena, err);
    if (!status)
        status =
            add_target(list, &count, ALERTS_TARGET_WEBHOOK, webhook_url, DELIVERY_HTTP, arena, err);
    if (status)
        return status;
    targets->list = list;
    targets->count = count;
    return STATUS_OK;
}

/* ---- reading, on the engine's thread ----------------------------------------------------------
 */

/* struct reading: one page of events. */
struct reading {
    struct alerts *alerts;
    struct span now;
    bool more; /* there are others behind it */
};

/* is_own says whether a letter is that of an alert which could not be delivered. */
static bool is_own(const struct letter *letter)
{
    return slice_is(letter->source, ALERTPOST_SOURCE) && slice_is(letter->queue, DELIVERY_QUEUE);
}

/* was_settled says whether a letter that came in had been settled before. */
static bool was_settled(const struct letter *letter, const struct event *event)
{
    return slice_is(event->what, EVENT_IMPORTED) && letter->state != LETTER_DEAD &&
           letter->state != LETTER_RECOVERING && !instant_before(event->at, letter->recovered_at);
}

/* take_ignored has the book know when somebody ignores a group. */
static enum status take_ignored(struct alerts *alerts, struct engine *engine, struct store *store,
                                const struct letter *letter, struct arena *arena, struct err *err)
{
    struct letter_group group;
    enum status status =
        store->group_get(store, letter->fingerprint, engine_now(engine), arena, &group, err);
    if (status == STATUS_OK && group.status == GROUP_IGNORED)
        alertbook_ignore(alerts->book, letter->fingerprint, true);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* was_said says whether a letter of the group died shortly before, among the events that somebody
 * else has said.  It matters only for a while after the duty was taken over. */
static enum status was_said(const struct alerts *alerts, struct store *store,
                            const struct letter *letter, const struct event *event,
                            struct arena *arena, bool *out, struct err *err)
{
    struct span quiet = span_seconds(ALERTBOOK_QUIET_SECONDS);
    struct letter_filter filter = {
        .fingerprint = letter->fingerprint, .after = {event->at.us - quiet.us}, .limit = SIBLINGS};
    struct letter *letters;
    size_t count = 0;
    *out = false;
    if (!instant_is_set(alerts->began_at) ||
        instant_before(instant_add(alerts->began_at, quiet), event->at))
        return STATUS_OK;
    enum status status = store->letter_list(store, &filter, arena, &letters, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        *out = *out || (letters[i].job.event_seq <= alerts->began &&
                        !slice_eq(letters[i].dlq_id, letter->dlq_id));
    return status;
}

/* mask_signature masks what the letter's payload says is not for everybody. */
static enum status mask_signature(const struct redaction *redaction, struct store *store,
                                  const struct letter *letter, struct arena *arena,
                                  struct slice *signature, struct err *err)
{
    struct stored_envelope stored;
    struct redact_words words = {0};
    struct buf masked;
    if (!redaction)
        return STATUS_OK;
    enum status status = store->envelope_get(store, letter->envelope_seq, arena, &stored, err);
    if (!status)
        status = redact_gather(redaction, stored.body, arena, &words, err);
    if (status)
        return status;
    buf_init(&masked, SIGNATURE_SHOWN);
    redact_text(&words, *signature, &masked);
    status = buf_status(&masked, err);
    struct slice kept = arena_dup(arena, buf_slice(&masked));
    buf_release(&masked);
    if (!status && !kept.ptr)
        status = err_no_memory(err);
    if (!status)
        *signature = kept;
    return status;
}

/* note_letter puts a letter into the book. */
static enum status note_letter(struct reading *reading, struct engine *engine, struct store *store,
                               const struct letter *letter, const struct event *event,
                               struct arena *arena, struct err *err)
{
    struct alerts *alerts = reading->alerts;
    struct alertbook_death death = {.fingerprint = letter->fingerprint,
                                    .signature = letter->signature,
                                    .reason = letter->reason,
                                    .source = letter->source,
                                    .queue = letter->queue,
                                    .dlq_id = letter->dlq_id,
                                    .at = event->at,
                                    .seq = event->seq};
    struct alertbook *book = alerts->book;
    enum alertbook_standing standing = alertbook_standing(book, letter->fingerprint, event->at);
    enum status status = STATUS_OK;
    bool said = false;
    if (standing == ALERTBOOK_NEW) {
        status = was_said(alerts, store, letter, event, arena, &said, err);
        if (!status)
            status = take_ignored(alerts, engine, store, letter, arena, err);
    }
    if (!status && (standing == ALERTBOOK_NEW || standing == ALERTBOOK_BEGINS))
        status =
            mask_signature(alerts->config.redaction, store, letter, arena, &death.signature, err);
    if (status)
        return status;
    if (alertbook_standing(book, letter->fingerprint, event->at) == ALERTBOOK_IGNORED)
        atomic_fetch_add(&alerts->counts.suppressed, 1);
    else
        alertbook_note(book, &death, reading->now, said);
    return STATUS_OK;
}

/* note_group follows what people do with groups. */
static enum status note_group(struct alerts *alerts, const struct event *event, struct arena *arena)
{
    struct json why, fingerprint, status;
    if (json_parse(event->why, &why, NULL) != STATUS_OK ||
        !json_get(why, "fingerprint", &fingerprint) || !json_get(why, "status", &status))
        return STATUS_OK;
    struct slice text = json_text(fingerprint, arena);
    alertbook_ignore(alerts->book, text, json_string_is(status, "ignored"));
    if (json_string_is(status, "resolved"))
        alertbook_resolved(alerts->book, text);
    return STATUS_OK;
}

static enum status note_event(struct reading *reading, struct engine *engine, struct store *store,
                              const struct event *event, struct arena *arena, struct err *err)
{
    struct letter letter;
    if (slice_is(event->what, EVENT_GROUP_SET))
        return note_group(reading->alerts, event, arena);
    if (!slice_is(event->what, EVENT_DEAD_LETTERED) && !slice_is(event->what, EVENT_IMPORTED))
        return STATUS_OK;
    enum status status = store->letter_by_job(store, event->job_seq, arena, &letter, err);
    if (status == STATUS_NOT_FOUND) /* it was purged since */
        return STATUS_OK;
    if (status)
        return status;
    if (is_own(&letter) || was_settled(&letter, event)) {
        atomic_fetch_add(&reading->alerts->counts.suppressed, 1);
        return STATUS_OK;
    }
    return note_letter(reading, engine, store, &letter, event, arena, err);
}

/* read_events takes a page of events into the book; `read` moves with each, so that none is taken
 * twice when one cannot be read. */
static enum status read_events(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    struct reading *reading = ctx;
    struct alerts *alerts = reading->alerts;
    struct event *events;
    size_t count;
    enum status status =
        store->event_list(store, alerts->read, EVENTS_A_READ, arena, &events, &count, err);
    if (status)
        return status;
    for (size_t i = 0; !status && i < count; i++) {
        status = note_event(reading, engine, store, &events[i], arena, err);
        if (!status)
            alerts->read = events[i].seq;
    }
    reading->more = count == EVENTS_A_READ;
    return status;
}

static enum status read_head(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    struct alerts *alerts = ctx;
    struct hash hash;
    (void)arena, (void)err;
    store->event_head(store, &alerts->read, &hash);
    alerts->began_at = engine_now(engine);
    return STATUS_OK;
}

/* ---- saying ---------------------------------------------------------------------------------- */

/* add has an alert go to both targets. */
static enum status add(struct alerts *alerts, struct alertpost *post, const struct alert *alert,
                       int64_t from, int64_t to, struct err *err)
{
    const struct alerts_config *config = &alerts->config;
    enum status status = STATUS_OK;
    if (config->slack)
        status = alertpost_add(post, alert, config->slack, DELIVERY_SLACK, from, to, err);
    if (!status && config->webhook)
        status = alertpost_add(post, alert, config->webhook, DELIVERY_HTTP, from, to, err);
    return status;
}

static enum status push(struct alerts *alerts, struct alertpost *post, struct err *err)
{
    enum status status = alertpost_push(post, err);
    atomic_fetch_add(&alerts->counts.slack, post->slack);
    atomic_fetch_add(&alerts->counts.webhook, post->other);
    return status;
}

/* drop_waiting takes the oldest so many messages from those that wait for NATS. */
static void drop_waiting(struct alerts *alerts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free(alerts->waiting[i].json);
    alerts->waiting_count -= count;
    memmove(alerts->waiting, alerts->waiting + count,
            alerts->waiting_count * sizeof(*alerts->waiting));
}

/* give_up counts and logs messages that NATS never took. */
static void give_up(struct alerts *alerts, size_t count)
{
    if (count == 0)
        return;
    atomic_fetch_add(&alerts->counts.failed, count);
    log_line(LOG_ERROR, "alerts: not said on " ALERT_SUBJECT ", as NATS was away: %zu", count);
}

/* publish_waiting says on NATS what waits, in order, as far as NATS takes it. */
static void publish_waiting(struct alerts *alerts)
{
    const struct alerts_config *config = &alerts->config;
    size_t said = 0;
    for (; said < alerts->waiting_count; said++) {
        const struct alerts_waiting *first = &alerts->waiting[said];
        struct slice json = {first->json, first->len};
        if (!config->publish(config->publish_ctx, SLICE(ALERT_SUBJECT), json))
            break;
    }
    atomic_fetch_add(&alerts->counts.nats, said);
    drop_waiting(alerts, said);
}

/* publish says an alert on NATS, behind those that wait.  Where there are too many the oldest is
 * given up. */
static void publish(struct alerts *alerts, const struct alert *alert, struct arena *arena)
{
    struct slice body;
    struct err err;
    if (!alerts->config.publish)
        return;
    char *kept =
        alertpost_json(alert, arena, &body, &err) == STATUS_OK ? mem_alloc(body.len) : NULL;
    if (!kept) {
        give_up(alerts, 1);
        return;
    }
    memcpy(kept, body.ptr, body.len);
    if (alerts->waiting_count == ALERTS_WAITING_MAX) {
        drop_waiting(alerts, 1);
        give_up(alerts, 1);
    }
    alerts->waiting[alerts->waiting_count++] = (struct alerts_waiting){kept, body.len};
    publish_waiting(alerts);
}

static struct alertpost *open_post(const struct alerts *alerts, struct arena *arena)
{
    struct alertpost *post = arena_alloc(arena, sizeof(*post));
    if (post) {
        post->seat = alerts->seat;
        post->arena = arena;
    }
    return post;
}

static enum status say_firsts(struct alerts *alerts, struct arena *arena, struct err *err)
{
    struct alertbook_first firsts[ALERTBOOK_FIRSTS_MAX];
    struct alert said[ALERTBOOK_FIRSTS_MAX];
    size_t count = alertbook_firsts(alerts->book, firsts);
    enum status status = STATUS_OK;
    if (count == 0)
        return STATUS_OK;
    struct alertpost *post = open_post(alerts, arena);
    if (!post)
        return err_no_memory(err);
    for (size_t i = 0; !status && i < count; i++) {
        said[i] = (struct alert){.first = true,
                                 .groups = &firsts[i].group,
                                 .group_count = 1,
                                 .total = 1,
                                 .at = firsts[i].group.last_seen};
        status = add(alerts, post, &said[i], firsts[i].seq, firsts[i].seq, err);
    }
    if (!status)
        status = push(alerts, post, err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        publish(alerts, &said[i], arena);
    atomic_fetch_add(&alerts->counts.firsts, count);
    alertbook_firsts_said(alerts->book);
    return STATUS_OK;
}

static enum status say_digest(struct alerts *alerts, struct arena *arena, struct err *err)
{
    struct alertpost *post = open_post(alerts, arena);
    struct alert digest;
    if (!post || !alertbook_digest(alerts->book, arena, &digest))
        return err_no_memory(err);
    enum status status =
        add(alerts, post, &digest, alertbook_unsaid(alerts->book), alerts->read, err);
    if (!status)
        status = push(alerts, post, err);
    if (status)
        return status;
    publish(alerts, &digest, arena);
    atomic_fetch_add(&alerts->counts.digested, (uint_fast64_t)digest.total);
    alertbook_digest_said(alerts->book);
    return STATUS_OK;
}

/* ---- following ------------------------------------------------------------------------------- */

/* begin finds where to go on.  A store whose alerts were never followed is followed from its
 * present end; that this is its beginning is written as -1, as 0 says that it was not begun. */
static enum status begin(struct alerts *alerts, struct arena *arena, struct err *err)
{
    enum status status = seat_read(alerts->seat, read_head, alerts, arena, err);
    if (status)
        return status;
    alertbook_clear(alerts->book);
    if (alerts->duty.cursor == 0) {
        alerts->began_at = INSTANT_NONE;
        status = seat_advance(alerts->seat, &alerts->duty, alerts->read ? alerts->read : -1, err);
        if (status || !alerts->duty.held)
            return status;
    }
    alerts->read = alerts->began = alerts->duty.cursor > 0 ? alerts->duty.cursor : 0;
    alerts->advance_at.us = seat_now(alerts->seat).us + ADVANCE.us;
    alerts->following = true;
    return STATUS_OK;
}

/* advance moves the cursor to what was said.  When nothing was, that can wait. */
static enum status advance(struct alerts *alerts, bool said, struct err *err)
{
    int64_t unsaid = alertbook_unsaid(alerts->book);
    int64_t done = unsaid ? unsaid - 1 : alerts->read;
    struct span now = seat_now(alerts->seat);
    if (done <= 0 || done <= alerts->duty.cursor || (!said && now.us < alerts->advance_at.us))
        return STATUS_OK;
    enum status status = seat_advance(alerts->seat, &alerts->duty, done, err);
    if (!status)
        alerts->advance_at.us = now.us + ADVANCE.us;
    return status;
}

/* follow reads on to the end of the evidence, and says what is to be said on the way. */
static enum status follow(struct alerts *alerts, struct arena *arena, struct err *err)
{
    struct reading reading = {.alerts = alerts, .now = seat_now(alerts->seat)};
    enum status status = STATUS_OK;
    uint_fast64_t before = atomic_load(&alerts->counts.firsts);
    bool said = false;
    do {
        /* What could not be handed over before comes first: nothing is read until it is. */
        status = say_firsts(alerts, arena, err);
        if (!status)
            status = seat_read(alerts->seat, read_events, &reading, arena, err);
        arena_reset(arena);
    } while (!status && reading.more && !seat_ended(alerts->seat));
    if (!status)
        status = say_firsts(alerts, arena, err);
    if (!status && seat_now(alerts->seat).us >= alertbook_due(alerts->book).us) {
        status = say_digest(alerts, arena, err);
        said = !status;
    }
    said = said || atomic_load(&alerts->counts.firsts) != before;
    return status ? status : advance(alerts, said, err);
}

static enum status look(struct alerts *alerts, struct arena *arena, struct err *err)
{
    enum status status = seat_hold(alerts->seat, &alerts->duty, err);
    if (!alerts->duty.held)
        alerts->following = false;
    if (status || !alerts->duty.held)
        return status;
    if (!alerts->following)
        status = begin(alerts, arena, err);
    return status || !alerts->following ? status : follow(alerts, arena, err);
}

/* ---- from outside ---------------------------------------------------------------------------- */

enum status alerts_init(struct alerts *alerts, const struct seat *seat,
                        const struct alerts_config *config, struct err *err)
{
    *alerts =
        (struct alerts){.seat = seat, .config = *config, .duty = {.name = ALERTS_DUTY, .ttl = TTL}};
    alerts->book = alertbook_new();
    return alerts->book ? STATUS_OK : err_no_memory(err);
}

struct span alerts_run(struct alerts *alerts)
{
    struct arena arena = {0};
    struct err err = {0};
    if (seat_now(alerts->seat).us < alerts->next.us)
        return alerts->next;
    publish_waiting(alerts);
    enum status status = look(alerts, &arena, &err);
    arena_release(&arena);
    seat_say(&alerts->trouble, "alerts", status, &err);
    alerts->next.us = seat_now(alerts->seat).us + LOOK.us;
    return alerts->next;
}

void alerts_leave(struct alerts *alerts)
{
    publish_waiting(alerts);
    give_up(alerts, alerts->waiting_count);
    drop_waiting(alerts, alerts->waiting_count);
    seat_leave(alerts->seat, &alerts->duty);
    alerts->following = false;
}

void alerts_release(struct alerts *alerts)
{
    drop_waiting(alerts, alerts->waiting_count);
    alertbook_free(alerts->book);
    alerts->book = NULL;
}
