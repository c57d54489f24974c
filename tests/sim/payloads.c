/* payloads: what is pushed and what goes wrong: envelopes and failures, made up. */
#include "sim/history.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/jsonw.h"

/* put_policy: none (the default one), a preset, a stored one, or one of its own. */
static void put_policy(struct history *history, struct jsonw *w)
{
    static const char *const strategies[] = {"fixed", "exponential", "linear", "fibonacci"};
    struct rng *rng = &history->rng;
    const struct model_policy *stored = history->model.policies;

    switch (rng_below(rng, 4)) {
    case 0:
        return;
    case 1:
        jsonw_put_str(w, "retry_policy", rng_chance(rng, 50) ? "background" : "map");
        return;
    case 2:
        if (stored)
            jsonw_put_string(w, "retry_policy", stored->name);
        return;
    default:
        jsonw_key(w, "retry_policy");
        jsonw_object(w);
        jsonw_put_int(w, "max_attempts", rng_range(rng, 1, 4));
        jsonw_put_str(w, "backoff_strategy", strategies[rng_below(rng, 4)]);
        jsonw_put_double(w, "initial_delay_seconds", (double)rng_below(rng, 5000) / 1000);
        jsonw_put_bool(w, "jitter", rng_chance(rng, 50));
        if (rng_chance(rng, 30)) { /* the job is dispatched: see fold_job.c */
            jsonw_put_raw(w, "hints",
                          SLICE("[{\"match\":\"best\"},"
                                "{\"match\":\"broadened\",\"min_match\":0.5}]"));
            jsonw_put_double(w, "assignment_timeout_seconds",
                             (double)rng_range(rng, 1, 40000) / 1000);
        }
        jsonw_object_end(w);
    }
}

/* put_keys: sometimes keys that few jobs share, so that they meet. */
static bool put_keys(struct history *history, struct jsonw *w)
{
    struct rng *rng = &history->rng;
    struct arena *arena = &history->batch->arena;
    bool has_keys = false;

    if (history->plan.keys && rng_chance(rng, 30)) {
        jsonw_put_string(w, "idempotency_key",
                         arena_printf(arena, "key-%d", (int)rng_below(rng, history->plan.keys)));
        has_keys = true;
    }
    if (history->plan.keys && rng_chance(rng, 15)) {
        jsonw_put_string(w, "retry_key",
                         arena_printf(arena, "retry-%d", (int)rng_below(rng, history->plan.keys)));
        has_keys = true;
    }
    return has_keys;
}

static void put_constraints(struct history *history, struct jsonw *w, bool has_keys)
{
    struct rng *rng = &history->rng;

    jsonw_key(w, "constraints");
    jsonw_object(w);
    if (has_keys && rng_chance(rng, 20))
        jsonw_put_bool(w, "unique_forever", true);
    if (rng_chance(rng, 15))
        jsonw_put_int(w, "max_runtime_seconds", rng_range(rng, 1, 40));
    if (rng_chance(rng, 10))
        jsonw_put_bool(w, "requires_human_ack", true);
    if (rng_chance(rng, 5))
        jsonw_put_bool(w, "retry_eligible", false);
    jsonw_object_end(w);
}

/* put_inputs: bytes that a store might spoil, and sometimes many of them. */
static void put_inputs(struct history *history, struct jsonw *w)
{
    struct rng *rng = &history->rng;
    size_t filler = rng_chance(rng, 8) ? rng_below(rng, 30000) : rng_below(rng, 60);

    jsonw_key(w, "inputs");
    jsonw_object(w);
    jsonw_put_int(w, "n", (int64_t)history->payload_next++);
    jsonw_put_raw(w, "number", SLICE("1.50e+3"));
    jsonw_put_raw(w, "text", SLICE("\"\\u0041\\/ \xc3\xa9 \\ud83d\\ude00\""));
    if (filler) {
        jsonw_key(w, "filler");
        buf_add_char(w->buf, '"');
        for (size_t i = 0; i < filler; i++)
            buf_add_char(w->buf, (char)('a' + rng_below(rng, 26)));
        buf_add_char(w->buf, '"');
        w->comma = true;
    }
    jsonw_object_end(w);
}

/* put_id: mostly an id of its own; ids can be any text. */
static void put_id(struct history *history, struct jsonw *w)
{
    static const char *const odd[] = {"../../etc/passwd", "\x1b[31mred", "' OR 1=1 --", "\xc3\xa9"};
    struct rng *rng = &history->rng;
    struct slice id;

    if (rng_chance(rng, 15))
        return;
    id = arena_printf(&history->batch->arena, "%s%s%d",
                      rng_chance(rng, 10) ? odd[rng_below(rng, 4)] : "", "job-",
                      (int)history->payload_next);
    jsonw_put_string(w, "job_id", id);
}

static void put_times(struct history *history, struct jsonw *w)
{
    struct rng *rng = &history->rng;
    struct span offset = {rng_range(rng, -5000000, 60000000)};

    if (rng_chance(rng, 15))
        jsonw_put_instant(w, "run_at", instant_add(history->world.wall, offset));
}

static void put_needs(struct history *history, struct jsonw *w)
{
    struct rng *rng = &history->rng;

    if (rng_chance(rng, 15))
        jsonw_put_raw(w, "required_capabilities",
                      rng_chance(rng, 50) ? SLICE("[\"gpu\"]") : SLICE("[\"net\",\"gpu\"]"));
    if (rng_chance(rng, 20))
        jsonw_put_raw(w, "compensation", SLICE("{\"action\":\"undo\"}"));
    if (rng_chance(rng, 10))
        jsonw_put_raw(w, "document", SLICE("{\"status\":\"begun\"}"));
    if (rng_chance(rng, 30))
        jsonw_put_int(w, "priority", rng_range(rng, 0, 9));
}

/* payload_keep remembers an envelope, to push it again. */
static struct slice payload_keep(struct history *history, struct slice body)
{
    struct slice kept = arena_dup(&history->model.arena, body);
    size_t at = history->payload_count < PAYLOADS_MAX ? history->payload_count++
                                                      : rng_below(&history->rng, PAYLOADS_MAX);

    history->payloads[at] = kept;
    return kept;
}

struct slice payload_make(struct history *history, bool *certain)
{
    struct buf buf;
    struct jsonw w;

    buf_init(&buf, ENVELOPE_BODY_MAX);
    jsonw_init(&w, &buf);
    jsonw_object(&w);
    put_id(history, &w);
    jsonw_put_str(&w, "action", "simulate");
    jsonw_put_string(&w, "queue",
                     arena_printf(&history->batch->arena, "q%d",
                                  (int)rng_below(&history->rng, history->plan.queues)));
    bool has_keys = put_keys(history, &w);
    put_policy(history, &w);
    put_constraints(history, &w, has_keys);
    put_times(history, &w);
    put_needs(history, &w);
    put_inputs(history, &w);
    jsonw_put_str(&w, "x-unknown", "kept");
    jsonw_object_end(&w);
    struct slice body = payload_keep(history, buf_slice(&buf));
    buf_release(&buf);
    *certain = !has_keys && !history->plan.engine.live_max;
    return body;
}

/* payload_again: the same bytes, or the same id with other bytes. */
struct slice payload_again(struct history *history)
{
    struct rng *rng = &history->rng;

    if (!history->payload_count)
        return (struct slice){0};
    struct slice body = history->payloads[rng_below(rng, history->payload_count)];
    if (rng_chance(rng, 70))
        return body;
    return arena_printf(&history->batch->arena, "%.*s,\"again\":%" PRIu64 "}", (int)body.len - 1,
                        body.ptr, history->payload_next++);
}

void payload_failure(struct history *history, struct arena *arena, struct failure *out)
{
    static const int statuses[] = {0, 0, 400, 403, 408, 429, 500, 502, 503};
    static const char *const types[] = {"", "Timeout", "CommandFailed", "ValidationFailed"};
    struct rng *rng = &history->rng;
    unsigned kind = (unsigned)rng_below(rng, 4);

    failure_init(out);
    /* The first word is unique: by it, search must find the letter. */
    out->message = arena_printf(arena, "tok%" PRIu64 "x the %s gave up after %d tries",
                                history->payload_next++, kind == 0 ? "server" : "client",
                                (int)rng_below(rng, 50));
    if (rng_chance(rng, 60)) {
        out->has_class = true;
        out->given_class = (enum failure_class)rng_below(
            rng, rng_chance(rng, 75) ? CLASS_PERMISSION_DENIED : CLASS_COUNT);
    } else {
        out->http_status = statuses[rng_below(rng, sizeof(statuses) / sizeof(statuses[0]))];
        out->error_type = slice_of(types[kind]);
    }
    if (rng_chance(rng, history->plan.interrupt_percent))
        out->interrupted = true;
    if (rng_chance(rng, 10))
        out->retryable = rng_chance(rng, 50) ? YES : NO;
    if (rng_chance(rng, 10))
        out->side_effects = (enum side_effects)rng_below(rng, 4);
    if (rng_chance(rng, 5))
        out->retry_after = (struct span){(int64_t)rng_below(rng, 20000000)};
}
