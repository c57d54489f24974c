/* map: the rules of a run.
 *
 *     running --everything done------------------------------------------> ended
 *        |--a rule says stop (stop, max_failures, failure_threshold)--> draining --at rest--> ended
 *        `--first signal--> draining --second signal--> what runs is ended, as interrupted -->
 * ended
 *
 * Whether all is done is asked of the store (GET /runs/ID) when nothing is left here: retries may
 * be due later, and somebody may bring items back meanwhile. */
#include "run/map.h"

#include <inttypes.h>

#include "core/patch.h"
#include "core/policy.h"
#include "crew/courier.h"
#include "crew/crew.h"
#include "crew/halt.h"
#include "run/artifact.h"
#include "run/attempt.h"
#include "run/feed.h"
#include "run/scratch.h"

/* Of an item.  It is long, as it never has to end by itself: only this run's runners can take its
 * items, one at a time, and each begins with taking over what the one before it left.  So a runner
 * that is held for a while (by a machine that sleeps, by a terminal that nobody reads) goes on as
 * if nothing had happened. */
#define LEASE span_seconds(INT64_C(12) * 3600)
#define WAIT span_ms(50)    /* for a job that is ready */
#define SHOW span_ms(100)   /* between two counts */
#define SKIPPED_BYTES 64000 /* ids of one request that gives letters up */
#define THRESHOLD_ITEMS 10  /* before a share of failures means anything */

struct map {
    const struct map_config *config;
    struct loop *loop;
    struct arena arena;
    struct steps steps;
    struct worktrees *worktrees;
    struct attempt_plan plan;
    struct items *items; /* until the feed has them */
    struct feed *feed;   /* NULL: nothing is fed */
    struct crew *crew;
    struct courier *asker;
    struct message ask; /* GET /runs/ID */
    bool asking;
    struct halt halt;
    struct loop_timer show;
    struct span began;
    struct watch_counts counts;
    int64_t failed; /* items, in this process */
    bool draining;
    bool ended;         /* the store has nothing left of the run */
    bool told_known;    /* see tell_known */
    struct buf skipped; /* ids of letters that are given up, a line each */
    char scratch[SCRATCH_SIZE];
    const char *artifacts, *capability, *worker;
    struct map_outcome *out;
};

/* ---- counting ---------------------------------------------------------------------------------
 */

static struct watch_counts count(const struct map *map)
{
    struct watch_counts counts = map->counts;
    struct watch_counts now = crew_counts(map->crew);
    counts.running = now.running;
    counts.failed_attempts = now.failed_attempts;
    counts.retrying = now.retrying;
    counts.slowest = now.slowest;
    counts.slowest_for = now.slowest_for;
    counts.elapsed = (struct span){loop_now().us - map->began.us};
    if (map->feed) {
        struct feed_counts fed = feed_counts(map->feed);
        counts.total = fed.total;
        counts.before = fed.before;
        counts.total_final = fed.whole;
        /* When the store has nothing left, all that did not end here had ended before. */
        if (map->ended)
            counts.before = fed.total - counts.done - counts.quarantined - counts.skipped -
                            counts.handled - counts.cancelled;
    }
    return counts;
}

static void show(struct loop_timer *timer)
{
    struct map *map = (struct map *)((char *)timer - offsetof(struct map, show));
    struct watch_counts counts = count(map);
    map->config->watch->counts(map->config->watch->ctx, &counts);
    loop_timer_set(map->loop, &map->show, SHOW);
}

static void note(const struct map *map, const char *sentence)
{
    map->config->watch->note(map->config->watch->ctx, sentence);
}

/* ---- ending -----------------------------------------------------------------------------------
 */

static void rested(void *ctx)
{
    struct map *map = ctx;
    loop_stop(map->loop);
}

/* drain takes nothing new; what runs may finish. */
static void drain(struct map *map)
{
    if (map->draining)
        return;
    map->draining = true;
    if (map->feed && !feed_counts(map->feed).done && strcmp(map->config->spec->input, "-") == 0)
        note(map, "the rest of standard input is not read: to go on, give the items again");
    if (map->feed)
        feed_stop(map->feed);
    crew_drain(map->crew, rested, map);
}

static void told_of_run(struct message *message)
{
    struct map *map = message->owner;
    static const char *const live[] = {"pending", "scheduled", "running"};
    int64_t left = 0;
    map->asking = false;
    for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
        struct json value;
        int64_t number = 0;
        json_get(message->value, live[i], &value);
        json_int(value, &number);
        left += number;
    }
    map->ended = !message->status && left == 0 && crew_is_idle(map->crew);
    if (map->ended)
        drain(map);
}

/* idle is called when nothing is left here: the store says whether that is all. */
static void idle(void *ctx)
{
    struct map *map = ctx;
    if (map->asking || map->draining || (map->feed && !feed_counts(map->feed).done))
        return;
    map->asking = true;
    courier_send(map->asker, &map->ask);
}

/* tell_known says, once, that what is recorded of items is not what is given. */
static void tell_known(struct map *map)
{
    struct feed_counts fed = feed_counts(map->feed);
    char sentence[200];
    if (!fed.done || fed.known == 0 || map->told_known)
        return;
    map->told_known = true;
    snprintf(sentence, sizeof(sentence),
             "%" PRId64 " items were recorded with other data or another policy: those hold",
             fed.known);
    note(map, sentence);
}

static void pushed(void *ctx)
{
    struct map *map = ctx;
    tell_known(map);
    if (crew_is_idle(map->crew))
        idle(map);
}

/* ---- the rules --------------------------------------------------------------------------------
 */

/* judge says whether the run must stop after one more failed item; `why` is filled then. */
static bool judge(const struct map *map, struct err *why)
{
    const struct map_spec *spec = map->config->spec;
    int64_t ended = map->counts.done + map->counts.handled + map->failed;
    double share = ended ? (double)map->failed / (double)ended : 0;
    if (spec->on_failure == ON_FAILURE_STOP)
        err_set(why, STATUS_REFUSED, "an item failed, and on_item_failure is stop");
    else if (spec->failures_max >= 0 && map->failed >= spec->failures_max)
        err_set(why, STATUS_REFUSED, "%" PRId64 " items failed: max_failures is %" PRId64,
                map->failed, spec->failures_max);
    else if (spec->failure_threshold >= 0 && ended >= THRESHOLD_ITEMS &&
             share > spec->failure_threshold)
        err_set(why, STATUS_REFUSED,
                "%" PRId64 " of %" PRId64 " items failed: failure_threshold is %g", map->failed,
                ended, spec->failure_threshold);
    else
        return false;
    return true;
}

static void reported(void *ctx, const struct crew_report *report)
{
    struct map *map = ctx;
    struct watch_counts *counts = &map->counts;
    counts->done += report->what == WATCH_SUCCEEDED;
    counts->handled += report->what == WATCH_HANDLED;
    counts->cancelled += report->what == WATCH_CANCELLED;
    counts->quarantined += report->what == WATCH_QUARANTINED;
    counts->skipped += report->what == WATCH_SKIPPED;
    if (report->what != WATCH_QUARANTINED && report->what != WATCH_SKIPPED)
        return;
    map->failed++;
    if (report->what == WATCH_SKIPPED) {
        buf_add_slice(&map->skipped, report->dlq_id);
        buf_add_char(&map->skipped, '\n');
    }
    if (!map->draining && judge(map, &map->out->stopped)) {
        note(map, map->out->stopped.text);
        drain(map);
    }
}

/* forbidden ends a run whose requests nobody accepts. */
static void forbidden(void *ctx, enum status status, const struct err *err)
{
    struct map *map = ctx;
    err_set(&map->out->stopped, status, "%s", err->text);
    drain(map);
    crew_stop(map->crew, true);
    crew_quit(map->crew);
}

/* ---- signals ----------------------------------------------------------------------------------
 */

static void asked_to_stop(struct halt *halt, int times)
{
    struct map *map = (struct map *)((char *)halt - offsetof(struct map, halt));
    int64_t running = crew_counts(map->crew).running;
    char sentence[160];
    map->out->interrupted = true;
    if (times == 1) {
        snprintf(sentence, sizeof(sentence),
                 "stopping: %" PRId64 " %s still running; once more to end %s at once", running,
                 running == 1 ? "item is" : "items are", running == 1 ? "it" : "them");
        note(map, sentence);
    }
    drain(map);
    if (times > 1)
        crew_stop(map->crew, true);
    if (times > 2)
        crew_quit(map->crew);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

/* open_worktrees opens those of a run. */
static enum status open_worktrees(struct loop *loop, const char *data, const struct map_spec *spec,
                                  struct worktrees **out, struct err *err)
{
    struct arena arena = {0};
    const char *directory = arena_printf(&arena, "%s/worktrees", data).ptr;
    enum status status = STATUS_OK;
    if (directory)
        status = worktrees_open(loop, spec->cwd, directory, slice_of(spec->run_id),
                                spec->commit_required, out, err);
    else
        status = err_no_memory(err);
    arena_release(&arena);
    return status;
}

enum status map_check(const char *data, const struct map_spec *spec, struct err *err)
{
    struct loop *loop = NULL;
    struct worktrees *worktrees = NULL;
    if (!spec->worktree)
        return STATUS_OK;
    enum status status = loop_open(&loop, err);
    if (!status)
        status = open_worktrees(loop, data, spec, &worktrees, err);
    worktrees_close(worktrees);
    loop_close(loop);
    return status;
}

static enum status make_plan(struct map *map, struct err *err)
{
    const struct map_spec *spec = map->config->spec;
    const char *data = map->config->data;
    struct arena *arena = &map->arena;
    map->artifacts = arena_printf(arena, "%s/artifacts", data).ptr;
    map->capability = arena_printf(arena, "run:%s", spec->run_id).ptr;
    map->worker = arena_printf(arena, "map:%s", spec->run_id).ptr;
    if (!map->artifacts || !map->capability || !map->worker)
        return err_no_memory(err);
    enum status status = scratch_make(map->scratch, err);
    if (status)
        return status;
    map->plan = (struct attempt_plan){
        .loop = map->loop,
        .steps = &map->steps,
        .cwd = spec->cwd,
        .timeout = spec->timeout,
        .grace = spec->grace,
        .validate = slice_of(spec->validate),
        .custom = slice_of(spec->custom),
        .run_id = slice_of(spec->run_id),
        .artifacts = map->artifacts,
        .artifact_max = ARTIFACT_MAX_DEFAULT,
        .scratch = map->scratch,
        .agent = spec->run_id,
    };
    if (!spec->worktree)
        return STATUS_OK;
    status = open_worktrees(map->loop, data, spec, &map->worktrees, err);
    map->plan.worktrees = map->worktrees;
    return status;
}

static enum status open_crew(struct map *map, struct err *err)
{
    static const char *const queues[] = {"map"};
    const struct map_spec *spec = map->config->spec;
    struct crew_config crew = {
        .loop = map->loop,
        .link = map->config->link,
        .watch = map->config->watch,
        .craft = attempt_craft(&map->plan),
        .worker_id = map->worker,
        .queues = queues,
        .queue_count = 1,
        .capabilities = &map->capability,
        .capability_count = 1,
        .parallel = spec->parallel,
        .alone = true,
        .careful = spec->on_failure == ON_FAILURE_STOP || spec->failures_max >= 0 ||
                   spec->failure_threshold >= 0,
        .dead_is = spec->on_failure == ON_FAILURE_SKIP ? WATCH_SKIPPED : WATCH_QUARANTINED,
        .lease = LEASE,
        .wait = WAIT,
        .reported = reported,
        .idle = idle,
        .forbidden = forbidden,
        .ctx = map,
    };
    return crew_open(&crew, &map->crew, err);
}

static enum status open_feed(struct map *map, struct err *err)
{
    const struct map_spec *spec = map->config->spec;
    struct roll *roll = NULL;
    enum status status = STATUS_OK;
    if (map->config->roll)
        status = roll_open(map->config->data, spec->run_id, &roll, err);
    if (status)
        return status;
    struct feed_config feed = {.loop = map->loop,
                               .link = map->config->link,
                               .items = map->items,
                               .roll = roll,
                               .run_id = spec->run_id,
                               .resume = map->config->resume,
                               .policy = spec->policy,
                               .pushed = pushed,
                               .ctx = map};
    map->items = NULL;
    return feed_open(&feed, &map->feed, err);
}

static enum status open_all(struct map *map, struct err *err)
{
    const struct map_config *config = map->config;
    enum status status = spec_steps(config->spec, &map->arena, &map->steps, err);
    if (!status)
        status = loop_open(&map->loop, err);
    if (!status)
        status = halt_open(&map->halt, map->loop, asked_to_stop, err);
    if (!status)
        status = make_plan(map, err);
    if (!status && config->resume)
        status = crew_cut_off(config->link, map->worker, NULL, err);
    if (!status)
        status = open_crew(map, err);
    if (!status && map->items)
        status = open_feed(map, err);
    if (!status)
        status = courier_new(map->loop, config->link, &map->asker, err);
    return status;
}

static void close_all(struct map *map)
{
    halt_close(&map->halt);
    feed_close(map->feed);
    items_close(map->items);
    crew_close(map->crew);
    courier_free(map->asker);
    message_release(&map->ask);
    worktrees_close(map->worktrees);
    buf_release(&map->skipped);
    scratch_remove(map->scratch);
    if (map->loop)
        loop_timer_clear(map->loop, &map->show);
    loop_close(map->loop);
    arena_release(&map->arena);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

/* discard gives up some letters; each stays, and can be restored.  `ids` has a line for each. */
static enum status discard(const struct map *map, struct slice ids, struct err *err)
{
    struct buf body, answer;
    struct json value;
    struct jsonw w;
    buf_init(&body, (size_t)4 << 20);
    buf_init(&answer, (size_t)64 << 20);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    jsonw_key(&w, "ids");
    jsonw_array(&w);
    for (size_t at = 0; at < ids.len;) {
        size_t len =
            (size_t)((const char *)memchr(ids.ptr + at, '\n', ids.len - at) - ids.ptr) - at;
        jsonw_string(&w, (struct slice){ids.ptr + at, len});
        at += len + 1;
    }
    jsonw_array_end(&w);
    jsonw_put_str(&w, "note", "skipped: on_item_failure is skip");
    jsonw_object_end(&w);
    enum status status = link_ask(map->config->link, "POST", "/api/v1/dlq/discard",
                                  buf_slice(&body), &answer, &value, err);
    buf_release(&body);
    buf_release(&answer);
    return status;
}

/* discard_skipped gives up what was skipped here, some thousand letters at a time. */
static enum status discard_skipped(const struct map *map, struct err *err)
{
    struct slice left = buf_slice(&map->skipped);
    enum status status = STATUS_OK;
    while (left.len && !status) {
        size_t len = left.len < SKIPPED_BYTES ? left.len : SKIPPED_BYTES;
        while (left.ptr[len - 1] != '\n')
            len--;
        status = discard(map, (struct slice){left.ptr, len}, err);
        left = (struct slice){left.ptr + len, left.len - len};
    }
    return status;
}

enum status map_run(const struct map_config *config, struct map_outcome *out, struct err *err)
{
    struct map map = {.config = config,
                      .items = config->items,
                      .show = {.fire = show},
                      .halt = {.watch = {.fd = -1}},
                      .out = out};
    *out = (struct map_outcome){0};
    struct buf path;
    buf_init(&path, 1024);
    buf_add_str(&path, "/api/v1/runs/");
    for (const char *c = config->spec->run_id; *c; c++)
        buf_addf(&path, "%%%02X", (unsigned)(unsigned char)*c);
    buf_init(&map.skipped, (size_t)1 << 30);
    message_init(&map.ask, "GET", buf_str(&path), told_of_run, &map);
    map.began = loop_now();
    enum status status = open_all(&map, err);
    if (!status) {
        loop_timer_set(map.loop, &map.show, SHOW);
        crew_go(map.crew);
        loop_run(map.loop);
        status = discard_skipped(&map, err);
        out->counts = count(&map);
        if (map.feed && !out->interrupted && !out->stopped.text[0]) {
            struct feed_counts fed = feed_counts(map.feed);
            out->input = fed.status;
            out->input_err = fed.err;
        }
    }
    close_all(&map);
    buf_release(&path);
    return status;
}

/* changes is the merge patch that a run applies to its policy; empty when there is none. */
static void changes(int64_t runs, enum on_failure on_failure, struct buf *out)
{
    struct jsonw w;
    if (runs <= 0 && on_failure != ON_FAILURE_RETRY)
        return;
    jsonw_init(&w, out);
    jsonw_object(&w);
    if (runs > 0)
        jsonw_put_int(&w, "max_attempts", runs);
    if (on_failure == ON_FAILURE_RETRY) {
        jsonw_put_str(&w, "backoff_strategy", "fixed");
        jsonw_put_int(&w, "initial_delay_seconds", 0);
        jsonw_put_bool(&w, "jitter", false);
    }
    jsonw_object_end(&w);
}

/* preset is the JSON of the built-in policy of map runs. */
static struct slice preset(void)
{
    const char *name;
    struct slice json;
    for (size_t i = 0; policy_preset(i, &name, &json); i++)
        if (strcmp(name, "map") == 0)
            return json;
    BUG("there is no policy for maps");
}

const char *map_policy(const char *policy, int64_t runs, enum on_failure on_failure,
                       struct arena *arena, struct err *err)
{
    struct buf patch, merged;
    struct json value;
    struct policy parsed;
    const char *out = NULL;
    buf_init(&patch, 1024);
    buf_init(&merged, 64 << 10);
    changes(runs, on_failure, &patch);
    if (!patch.len) {
        out = policy ? policy : "\"map\"";
    } else if (!patch_merge(policy ? slice_of(policy) : preset(), buf_slice(&patch), &merged,
                            err) &&
               !json_parse(buf_slice(&merged), &value, err) &&
               !policy_parse(value, arena, &parsed, err)) {
        out = arena_dup(arena, buf_slice(&merged)).ptr;
        if (!out)
            err_no_memory(err);
    }
    buf_release(&merged);
    buf_release(&patch);
    return out;
}
