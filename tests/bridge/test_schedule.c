/* Deliveries in virtual time: a real endpoint and a real sender, over an engine whose clock jumps
 * to the next thing that happens whenever everybody waits. */
#include "engine/fixture.h"

#include <pthread.h>

#include "api/api.h"
#include "bridge/endpoint.h"
#include "bridge/sender.h"
#include "core/delivery.h"
#include "crew/halt.h"

#define SECOND INT64_C(1000000)
#define VISITS_MAX 64
#define RECEIPT                                                                                    \
    "{\"lease_id\":\"abc-123\",\"task_id\":\"t\",\"worker_id\":\"w\",\"status\":\"complete\"}"

/* struct scene: the engine behind a lock, and what the endpoint saw. */
static struct scene {
    pthread_mutex_t lock; /* guards the world and what follows */
    pthread_cond_t changed;
    struct world *world;
    struct api api;
    struct instant began;
    const char *(*script)(unsigned visit, int64_t second); /* "503 Service Unavailable" */
    const char *headers;
    int64_t at[VISITS_MAX]; /* seconds after the beginning, by visit */
    unsigned visits;
} scene = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- the engine ------------------------------------------------------------------------------ */

static void wake(void *ctx)
{
    *(bool *)ctx = true;
}

static bool job_runs(void)
{
    return job(scene.world, "delivery").job.state == JOB_RUNNING;
}

/* wait_for has the engine carry out what was submitted.  While somebody delivers he is waited for;
 * when nobody does, it is time that passes. */
static void wait_for(const bool *woken)
{
    engine_step(scene.world->engine);
    while (!*woken) {
        if (job_runs()) {
            pthread_cond_wait(&scene.changed, &scene.lock);
            continue;
        }
        int64_t us = engine_next_wake(scene.world->engine).us - scene.world->wall.us;
        scene.world->wall.us += us > 0 ? us : 0;
        scene.world->steady.us += us > 0 ? us : 0;
        engine_step(scene.world->engine);
    }
}

static enum status call(void *ctx, const char *method, const char *path, struct slice body,
                        struct buf *answer, int *http, struct err *err)
{
    struct api_request request = {.method = method,
                                  .path = slice_of(path),
                                  .body = body,
                                  .actor = SLICE("test"),
                                  .role = ROLE_ADMIN};
    struct api_answer got;
    enum api_progress progress;
    (void)ctx, (void)err;
    api_answer_init(&got);
    pthread_mutex_lock(&scene.lock);
    struct api_run *run = api_run_new(&scene.api, &request, &got);
    while ((progress = api_run_step(run)) == API_ENGINE) {
        bool woken = false;
        api_run_submit(run, wake, &woken);
        wait_for(&woken);
    }
    assert_int_equal(progress, API_DONE);
    api_run_free(run);
    pthread_cond_broadcast(&scene.changed);
    pthread_mutex_unlock(&scene.lock);
    *http = got.status;
    buf_add_slice(answer, buf_slice(&got.body));
    api_answer_release(&got);
    return STATUS_OK;
}

/* ---- the endpoint ---------------------------------------------------------------------------- */

static bool serve(struct visit *visit)
{
    pthread_mutex_lock(&scene.lock);
    int64_t second = (scene.world->wall.us - scene.began.us) / SECOND;
    const char *status = scene.script(scene.visits, second);
    if (scene.visits < VISITS_MAX)
        scene.at[scene.visits++] = second;
    pthread_mutex_unlock(&scene.lock);
    assert_non_null(strstr(visit->head, "Idempotency-Key: abc-123:complete\r\n"));
    return visit_answer(visit, status, scene.headers, "{}");
}

static const char *never(unsigned visit, int64_t second)
{
    (void)visit, (void)second;
    return "503 Service Unavailable";
}

static const char *limited_once(unsigned visit, int64_t second)
{
    (void)second;
    return visit ? "200 OK" : "429 Too Many Requests";
}

static const char *after_an_hour(unsigned visit, int64_t second)
{
    (void)visit;
    return second < 3600 ? "503 Service Unavailable" : "200 OK";
}

/* ---- sending --------------------------------------------------------------------------------- */

static void ignore_event(void *ctx, const struct watch_event *event)
{
    (void)ctx, (void)event;
}

static void ignore_counts(void *ctx, const struct watch_counts *counts)
{
    (void)ctx, (void)counts;
}

static void ignore_note(void *ctx, const char *sentence)
{
    (void)ctx, (void)sentence;
}

/* send delivers a receipt under a policy, until it is delivered or dead. */
static struct sender_counts send_receipt(struct world *world, const char *policy,
                                         const char *(*script)(unsigned visit, int64_t second),
                                         const char *headers)
{
    struct endpoint endpoint;
    struct target to;
    struct sender_counts counts;
    struct err err;
    struct slice job_id = SLICE("delivery");
    struct link link = {.call = call};
    struct watch watch = {ignore_event, ignore_counts, ignore_note, NULL};
    scene.world = world;
    scene.api = (struct api){.engine = world->engine};
    scene.began = world->wall;
    scene.script = script;
    scene.headers = headers;
    scene.visits = 0;
    push(world, arena_printf(&world->arena,
                             "{\"job_id\":\"delivery\",\"action\":\"deliver\",\"retry_policy\":%s,"
                             "\"idempotency_key\":\"abc-123:complete\",\"inputs\":{\"body\":%s}}",
                             policy, RECEIPT)
                    .ptr);
    endpoint_open(&endpoint, serve);
    struct slice url = arena_printf(&world->arena, "http://127.0.0.1:%u/", (unsigned)endpoint.port);
    assert_int_equal(target_of_url(url, DELIVERY_HTTP, &world->arena, &to, &err), STATUS_OK);
    struct sender_config config = {.link = &link,
                                   .watch = &watch,
                                   .to = &to,
                                   .job_ids = &job_id,
                                   .job_count = 1,
                                   .parallel = 1,
                                   .worker_id = "sender"};
    if (sender_run(&config, &counts, &err))
        fail_msg("%s", err.text);
    endpoint_close(&endpoint);
    return counts;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void a_receipt_is_sent_after_0_2_4_8_and_16_seconds_and_then_dead(void **state)
{
    static const int64_t expected[] = {0, 2, 6, 14, 30};
    struct world *world = *state;
    struct sender_counts counts = send_receipt(world, "\"receipts\"", never, "");
    assert_int_equal(counts.dead, 1);
    assert_int_equal(scene.visits, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(scene.at[i], expected[i]);
    assert_int_equal(job(world, "delivery").job.attempt, 5);
    assert_string_equal(what_happened(world, "delivery"),
                        "pushed leased retry-scheduled leased retry-scheduled leased "
                        "retry-scheduled leased retry-scheduled leased dead-lettered");
    assert_chain_holds(world);
}

static void a_retry_after_that_is_longer_is_kept(void **state)
{
    struct sender_counts counts =
        send_receipt(*state, "\"receipts\"", limited_once, "Retry-After: 70\r\n");
    assert_int_equal(counts.delivered, 1);
    assert_int_equal(scene.visits, 2);
    assert_int_equal(scene.at[1], 70);
}

static void a_retry_after_is_capped_by_the_policy(void **state)
{
    struct sender_counts counts =
        send_receipt(*state,
                     "{\"max_attempts\":5,\"initial_delay_seconds\":2,\"max_delay_seconds\":9,"
                     "\"jitter\":false}",
                     limited_once, "Retry-After: 86400\r\n");
    assert_int_equal(counts.delivered, 1);
    assert_int_equal(scene.at[1], 9);
}

static void an_endpoint_that_is_down_for_an_hour_gets_it_after_that(void **state)
{
    struct sender_counts counts = send_receipt(
        *state,
        "{\"max_attempts\":20,\"backoff_strategy\":\"fixed\",\"initial_delay_seconds\":400,"
        "\"jitter\":false}",
        after_an_hour, "");
    assert_int_equal(counts.delivered, 1);
    assert_int_equal(scene.visits, 10);
    assert_int_equal(scene.at[9], 3600);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_receipt_is_sent_after_0_2_4_8_and_16_seconds_and_then_dead),
        CASE(a_retry_after_that_is_longer_is_kept),
        CASE(a_retry_after_is_capped_by_the_policy),
        CASE(an_endpoint_that_is_down_for_an_hour_gets_it_after_that),
    };
    sigset_t signals; /* they are the sender's to wait for */
    halt_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
