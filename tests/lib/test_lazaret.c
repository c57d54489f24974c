/* lazaret.h as an embedding program uses it: real threads, a real directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lazaret.h"

struct fixture {
    char directory[64];
    struct lz *lz;
    struct lz_tasks *tasks;
    struct lz_error error;
};

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != LZ_OK)                                                                       \
            fail_msg("%s: %s", #call, f->error.text);                                              \
    } while (0)

static void open_station(struct fixture *f)
{
    struct lz_options options = {.data = f->directory, .actor = "test", .lock_wait_ms = 10000};
    OK(lz_open(&options, &f->lz, &f->error));
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    snprintf(f->directory, sizeof(f->directory), "/tmp/lazaret-lib-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    open_station(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];
    lz_tasks_free(f->tasks);
    lz_close(f->lz);
    snprintf(command, sizeof(command), "rm -rf '%s'", f->directory);
    int removed = system(command);
    free(f);
    return removed;
}

/* contains asks for an answer of the API and looks for a text in it. */
static int contains(struct fixture *f, const char *target, const char *text)
{
    char *answer = NULL;
    int http = 0;
    lz_request(f->lz, "GET", target, NULL, &http, &answer, &f->error);
    int found = answer && strstr(answer, text) != NULL;
    if (!found)
        print_message("# %s: %d %s\n", target, http, answer ? answer : "(nothing)");
    lz_free(answer);
    return found;
}

static struct lz_lease *take(struct fixture *f, const char *worker)
{
    struct lz_lease *lease = NULL;
    size_t count = 0;
    OK(lz_lease(f->lz, &(struct lz_lease_options){.worker_id = worker}, &lease, &count, &f->error));
    assert_int_equal(count, 1);
    return lease;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void a_job_goes_from_push_to_done(void **state)
{
    struct fixture *f = *state;
    struct lz_pushed pushed;
    OK(lz_push(f->lz, "{\"action\":\"a\",\"job_id\":\"J 1/2\"}", &pushed, &f->error));
    assert_int_equal(pushed.created, 1);
    assert_string_equal(pushed.state, "pending");
    struct lz_lease *lease = take(f, "w1");
    assert_string_equal(lease->job_id, "J 1/2");
    assert_string_equal(lease->envelope, "{\"action\":\"a\",\"job_id\":\"J 1/2\"}");
    int cancelled = 7;
    OK(lz_heartbeat(f->lz, "w1", lease->lease_id, 0, &cancelled, &f->error));
    assert_int_equal(cancelled, 0);
    OK(lz_complete(f->lz, lease->lease_id, "{\"n\":1}", &f->error));
    assert_int_equal(lz_complete(f->lz, lease->lease_id, NULL, &f->error), LZ_LEASE_LOST);
    lz_leases_free(lease);
    char *job;
    OK(lz_job(f->lz, "J 1/2", &job, &f->error));
    assert_non_null(strstr(job, "\"state\":\"done\""));
    assert_non_null(strstr(job, "\"result\":{\"n\":1}"));
    lz_free(job);
}

static void a_failure_that_may_not_be_retried_is_a_letter(void **state)
{
    struct fixture *f = *state;
    struct lz_outcome outcome;
    OK(lz_push(f->lz, "{\"action\":\"a\"}", NULL, &f->error));
    struct lz_lease *lease = take(f, "w1");
    OK(lz_fail(f->lz, lease->lease_id, "{\"message\":\"bad\",\"retryable\":false}", &outcome,
               &f->error));
    lz_leases_free(lease);
    assert_string_equal(outcome.state, "dead");
    char *letter;
    OK(lz_letter(f->lz, outcome.dlq_id, &letter, &f->error));
    assert_non_null(strstr(letter, "\"reason\":\"not_retryable\""));
    lz_free(letter);
    OK(lz_review(f->lz, outcome.dlq_id, "retry", NULL, &f->error));
    assert_int_equal(lz_review(f->lz, outcome.dlq_id, "retry", NULL, &f->error), LZ_CONFLICT);
    assert_string_equal(f->error.text, "already recovered");
    assert_int_equal(lz_review(f->lz, outcome.dlq_id, "explode", NULL, &f->error), LZ_INVALID);
    lease = take(f, "w2");
    OK(lz_release(f->lz, lease->lease_id, &f->error));
    lz_leases_free(lease);
}

/* dead pushes job `job_id`, has it die at once, and copies its dlq_id. */
static void dead(struct fixture *f, const char *job_id, char dlq_id[64])
{
    char envelope[256];
    struct lz_outcome outcome;
    snprintf(envelope, sizeof(envelope),
             "{\"action\":\"a\",\"job_id\":\"%s\",\"inputs\":{\"n\":1}}", job_id);
    OK(lz_push(f->lz, envelope, NULL, &f->error));
    struct lz_lease *lease = take(f, "w1");
    OK(lz_fail(f->lz, lease->lease_id, "{\"message\":\"bad\",\"retryable\":false}", &outcome,
               &f->error));
    lz_leases_free(lease);
    memcpy(dlq_id, outcome.dlq_id, sizeof(outcome.dlq_id));
}

static void an_edit_keeps_the_envelope_as_it_was_pushed(void **state)
{
    struct fixture *f = *state;
    char dlq_id[64], target[128];
    dead(f, "J", dlq_id);
    OK(lz_review(f->lz, dlq_id, "retry", "{\"merge\":{\"inputs\":{\"n\":2}}}", &f->error));
    struct lz_lease *lease = take(f, "w1");
    assert_non_null(strstr(lease->envelope, "{\"n\":2}"));
    OK(lz_fail(f->lz, lease->lease_id, "{\"message\":\"bad\",\"retryable\":false}", NULL,
               &f->error));
    lz_leases_free(lease);
    snprintf(target, sizeof(target), "/api/v1/dlq/%s", dlq_id);
    assert_true(contains(f, target,
                         "\"original_payload\":{\"action\":\"a\",\"job_id\":\"J\","
                         "\"inputs\":{\"n\":1}}"));
    assert_true(contains(f, target,
                         "\"envelope\":{\"action\":\"a\",\"job_id\":\"J\","
                         "\"inputs\":{\"n\":2}}"));
    assert_true(contains(f, "/api/v1/jobs/J", "\"previous_envelopes\":[{"));
}

static void the_events_of_what_was_purged_are_still_found(void **state)
{
    struct fixture *f = *state;
    char dlq_id[64], target[128];
    char *answer;
    dead(f, "J", dlq_id);
    OK(lz_request(f->lz, "POST", "/api/v1/dlq/clear", "{\"job_id\":\"J\",\"force\":true}", NULL,
                  &answer, &f->error));
    assert_non_null(strstr(answer, "\"purged\":1"));
    lz_free(answer);
    assert_int_equal(lz_letter(f->lz, dlq_id, &answer, &f->error), LZ_NOT_FOUND);
    snprintf(target, sizeof(target), "/api/v1/audit?dlq_id=%s", dlq_id);
    assert_true(contains(f, target, "\"what\":\"purged\""));
    assert_true(contains(f, "/api/v1/audit?job_id=J", "\"what\":\"pushed\""));
}

static void bad_input_is_named_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(lz_push(f->lz, "{", NULL, &f->error), LZ_INVALID);
    assert_int_equal(lz_push(f->lz, "{\"action\":\"a\",\"priority\":12}", NULL, &f->error),
                     LZ_INVALID);
    assert_non_null(strstr(f->error.text, "priority"));
    OK(lz_push(f->lz, "{\"action\":\"a\"}", NULL, &f->error));
    struct lz_lease *lease = take(f, "w");
    assert_int_equal(lz_fail(f->lz, lease->lease_id, "{}", NULL, &f->error), LZ_INVALID);
    assert_non_null(strstr(f->error.text, "message"));
    assert_int_equal(lz_complete(f->lz, lease->lease_id, "{", &f->error), LZ_INVALID);
    OK(lz_complete(f->lz, lease->lease_id, NULL, &f->error));
    lz_leases_free(lease);
    assert_int_equal(lz_job(f->lz, "nope", NULL, &f->error), LZ_NOT_FOUND);
}

static void a_second_owner_is_told_who_the_first_is(void **state)
{
    struct fixture *f = *state;
    struct lz *second;
    struct lz_error error;
    char pid[32];
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    assert_int_equal(lz_open(&(struct lz_options){.data = f->directory}, &second, &error), LZ_BUSY);
    assert_non_null(strstr(error.text, pid));
}

static void *push_many(void *arg)
{
    struct fixture *f = arg;
    for (int i = 0; i < 200; i++)
        assert_int_equal(lz_push(f->lz, "{\"action\":\"a\",\"queue\":\"many\"}", NULL, NULL),
                         LZ_OK);
    return NULL;
}

static void *work_many(void *arg)
{
    struct fixture *f = arg;
    const char *queues[] = {"many", NULL};
    struct lz_lease_options options = {
        .worker_id = "w", .queues = queues, .count = 7, .wait_ms = 500};
    struct lz_lease *leases;
    size_t count = 1, done = 0;
    while (lz_lease(f->lz, &options, &leases, &count, NULL) == LZ_OK && count) {
        for (size_t i = 0; i < count; i++)
            done += lz_complete(f->lz, leases[i].lease_id, NULL, NULL) == LZ_OK;
        lz_leases_free(leases);
    }
    return (void *)done;
}

static void many_threads_lose_and_double_nothing(void **state)
{
    struct fixture *f = *state;
    pthread_t pushers[4], workers[4];
    size_t done = 0;
    for (int i = 0; i < 4; i++) {
        pthread_create(&pushers[i], NULL, push_many, f);
        pthread_create(&workers[i], NULL, work_many, f);
    }
    for (int i = 0; i < 4; i++) {
        void *n;
        pthread_join(pushers[i], NULL);
        pthread_join(workers[i], &n);
        done += (size_t)n;
    }
    assert_int_equal(done, 800);
    uint64_t events = 0;
    OK(lz_audit_verify(f->lz, &events, &f->error));
    assert_int_equal(events, 2400);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

struct counters {
    atomic_int runs, running, most;
    int fail_first; /* how many runs fail before one succeeds */
};

static int counting(const struct lz_task *task)
{
    struct counters *counters = task->ctx;
    int running = atomic_fetch_add(&counters->running, 1) + 1;
    int most = atomic_load(&counters->most);
    while (running > most && !atomic_compare_exchange_weak(&counters->most, &most, running))
        ;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_fetch_sub(&counters->running, 1);
    return atomic_fetch_add(&counters->runs, 1) < counters->fail_first ? 3 : 0;
}

static int hanging(const struct lz_task *task)
{
    atomic_int *begun = task->ctx;
    if (begun)
        atomic_store(begun, 1);
    while (!lz_task_cancelled(task))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return 0;
}

static void start(struct fixture *f, struct lz_tasks_options options, lz_handler handler, void *ctx)
{
    OK(lz_tasks_new(f->lz, &options, &f->tasks, &f->error));
    OK(lz_tasks_handle(f->tasks, "act", handler, ctx, &f->error));
    OK(lz_tasks_start(f->tasks, &f->error));
}

static void submit(struct fixture *f, struct lz_task_spec spec, struct lz_pushed *pushed)
{
    spec.action = spec.action ? spec.action : "act";
    OK(lz_tasks_submit(f->tasks, &spec, pushed, &f->error));
}

static void a_task_is_retried_by_its_policy_and_leaves_evidence(void **state)
{
    struct fixture *f = *state;
    struct counters counters = {.fail_first = 2};
    struct lz_pushed pushed;
    char target[256];
    start(f, (struct lz_tasks_options){.policy = "post-adjudication"}, counting, &counters);
    submit(
        f,
        (struct lz_task_spec){.retry_key = "R1:release",
                              .inputs = "{\"outcome\":\"release\",\"dispatch_reference\":\"D9\"}"},
        &pushed);
    OK(lz_tasks_idle(f->tasks, 20000, &f->error));
    assert_int_equal(counters.runs, 3);
    snprintf(target, sizeof(target), "/api/v1/audit?job_id=%s", pushed.job_id);
    assert_true(contains(f, target, "\"what\":\"retry-scheduled\""));
    assert_true(contains(f, target, "\"source\":\"post_adjudication_retry\""));
    assert_true(contains(f, target, "\"outcome\":\"release\""));
    assert_true(contains(f, target, "\"dispatch_reference\":\"D9\""));
    assert_true(contains(f, target, "\"next_retry_at\":"));
}

static void a_task_that_is_used_up_re_escalates_and_keeps_its_adjudication(void **state)
{
    struct fixture *f = *state;
    struct counters counters = {.fail_first = 1000};
    struct lz_pushed pushed;
    char *document;
    start(f, (struct lz_tasks_options){.policy = "post-adjudication"}, counting, &counters);
    submit(f, (struct lz_task_spec){.document = "{\"escrow_adjudication\":\"refund\"}"}, &pushed);
    OK(lz_tasks_idle(f->tasks, 20000, &f->error));
    assert_int_equal(counters.runs, 4);
    OK(lz_tasks_document(f->tasks, pushed.job_id, &document, &f->error));
    assert_non_null(strstr(document, "\"escrow_adjudication\":\"refund\""));
    assert_non_null(strstr(document, "\"settlement_progression_status\":\"dispute-ready\""));
    assert_non_null(strstr(document, "\"settlement_progression_reason_code\":\"escalate\""));
    assert_non_null(strstr(document, "\"settlement_progression_reason\":"
                                     "\"post-adjudication execution dead-lettered\""));
    assert_non_null(strstr(document, "\"dispute_lifecycle_status\":\"re-escalated\""));
    lz_free(document);
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/audit?job_id=%s", pushed.job_id);
    assert_true(contains(f, target, "\"what\":\"dead-lettered\""));
    assert_true(contains(f, target, "\"dead_lettered_at\":"));
}

static void a_waiting_retry_key_starts_nothing_new(void **state)
{
    struct fixture *f = *state;
    struct lz_pushed first, second;
    OK(lz_tasks_new(f->lz, NULL, &f->tasks, &f->error));
    submit(f, (struct lz_task_spec){.retry_key = "K"}, &first);
    submit(f, (struct lz_task_spec){.retry_key = "K"}, &second);
    assert_int_equal(first.created, 1);
    assert_int_equal(second.created, 0);
    assert_string_equal(first.job_id, second.job_id);
}

static void inputs_must_be_one_object(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"{},\"priority\":9", "[]", "{", "", "1"};
    OK(lz_tasks_new(f->lz, NULL, &f->tasks, &f->error));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lz_task_spec inputs = {.action = "act", .inputs = bad[i]};
        struct lz_task_spec document = {.action = "act", .document = bad[i]};
        assert_int_equal(lz_tasks_submit(f->tasks, &inputs, NULL, &f->error), LZ_INVALID);
        assert_int_equal(lz_tasks_submit(f->tasks, &document, NULL, &f->error), LZ_INVALID);
    }
    assert_true(contains(f, "/api/v1/jobs", "[]"));
}

static void no_more_handlers_run_at_once_than_allowed(void **state)
{
    struct fixture *f = *state;
    struct counters counters = {0};
    start(f, (struct lz_tasks_options){.concurrency = 3}, counting, &counters);
    for (int i = 0; i < 40; i++)
        submit(f, (struct lz_task_spec){0}, NULL);
    OK(lz_tasks_idle(f->tasks, 30000, &f->error));
    assert_int_equal(counters.runs, 40);
    assert_in_range(counters.most, 1, 3);
}

static void a_handler_that_hangs_fails_its_task_and_others_go_on(void **state)
{
    struct fixture *f = *state;
    struct counters counters = {0};
    struct lz_pushed hung, other;
    char target[256];
    OK(lz_tasks_new(f->lz, &(struct lz_tasks_options){.concurrency = 1, .timeout_seconds = 0.05},
                    &f->tasks, &f->error));
    OK(lz_tasks_handle(f->tasks, "hang", hanging, NULL, &f->error));
    OK(lz_tasks_handle(f->tasks, "act", counting, &counters, &f->error));
    OK(lz_tasks_start(f->tasks, &f->error));
    submit(f, (struct lz_task_spec){.action = "hang"}, &hung);
    submit(f, (struct lz_task_spec){0}, &other);
    OK(lz_tasks_idle(f->tasks, 30000, &f->error));
    assert_int_equal(counters.runs, 1);
    snprintf(target, sizeof(target), "/api/v1/jobs/%s", hung.job_id);
    assert_true(contains(f, target, "\"state\":\"dead\""));
    assert_true(contains(f, target, "\"error_type\":\"Timeout\""));
    assert_true(contains(f, target, "\"attempt\":4"));
}

static void an_action_without_a_handler_is_quarantined_with_its_name(void **state)
{
    struct fixture *f = *state;
    struct counters counters = {0};
    start(f, (struct lz_tasks_options){0}, counting, &counters);
    submit(f, (struct lz_task_spec){.action = "unheard_of"}, NULL);
    OK(lz_tasks_idle(f->tasks, 20000, &f->error));
    assert_true(contains(f, "/api/v1/dlq", "no handler for action"));
}

static void a_manager_that_stops_gives_running_tasks_back_as_crashed(void **state)
{
    struct fixture *f = *state;
    struct lz_pushed pushed;
    char target[256];
    atomic_int begun = 0;
    start(f, (struct lz_tasks_options){0}, hanging, &begun);
    submit(f, (struct lz_task_spec){0}, &pushed);
    snprintf(target, sizeof(target), "/api/v1/jobs/%s", pushed.job_id);
    while (!atomic_load(&begun))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    lz_tasks_free(f->tasks);
    f->tasks = NULL;
    assert_true(contains(f, target, "\"class\":\"crashed\""));
}

static void tasks_survive_a_restart(void **state)
{
    struct fixture *f = *state;
    struct counters counters = {0};
    OK(lz_tasks_new(f->lz, NULL, &f->tasks, &f->error));
    for (int i = 0; i < 5; i++)
        submit(f, (struct lz_task_spec){0}, NULL);
    lz_tasks_free(f->tasks);
    lz_close(f->lz);
    open_station(f);
    start(f, (struct lz_tasks_options){0}, counting, &counters);
    OK(lz_tasks_idle(f->tasks, 20000, &f->error));
    assert_int_equal(counters.runs, 5);
}

/* run_and_hang is the process that is killed: it tells when its handler runs. */
static int tell_and_hang(const struct lz_task *task)
{
    if (write(*(int *)task->ctx, "x", 1) != 1)
        return 1;
    for (;;)
        pause();
}

static void what_a_killed_process_ran_is_retried(void **state)
{
    struct fixture *f = *state;
    struct counters counters = {0};
    struct lz_pushed pushed;
    char target[256], byte;
    int ends[2];
    OK(lz_tasks_new(f->lz, NULL, &f->tasks, &f->error));
    submit(f, (struct lz_task_spec){0}, &pushed);
    lz_tasks_free(f->tasks);
    lz_close(f->lz);
    f->tasks = NULL;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        open_station(f);
        start(f, (struct lz_tasks_options){0}, tell_and_hang, &ends[1]);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    open_station(f);
    start(f, (struct lz_tasks_options){0}, counting, &counters);
    OK(lz_tasks_idle(f->tasks, 60000, &f->error));
    assert_int_equal(counters.runs, 1);
    snprintf(target, sizeof(target), "/api/v1/jobs/%s", pushed.job_id);
    assert_true(contains(f, target, "\"state\":\"done\""));
    assert_true(contains(f, target, "\"attempt\":2"));
    /* It was killed before the first heartbeat, which says that a job has begun. */
    assert_true(contains(f, target, "\"reason\":\"timeout_assigned\""));
}

static void the_policy_unit_gives_the_background_schedule(void **state)
{
    struct lz_retry_policy policy = {.max_retry_attempts = 3, .base_delay_seconds = 0.025};
    static const double delays[] = {0.025, 0.05, 0.1};
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        assert_true(lz_should_schedule_retry(&policy, n));
        assert_true(lz_delay_for_attempt(&policy, n) == delays[n - 1]);
    }
    assert_false(lz_should_schedule_retry(&policy, 4));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_a_killed_process_ran_is_retried),
        TEST(a_job_goes_from_push_to_done),
        TEST(a_failure_that_may_not_be_retried_is_a_letter),
        TEST(an_edit_keeps_the_envelope_as_it_was_pushed),
        TEST(the_events_of_what_was_purged_are_still_found),
        TEST(bad_input_is_named_and_changes_nothing),
        TEST(a_second_owner_is_told_who_the_first_is),
        TEST(many_threads_lose_and_double_nothing),
        TEST(a_task_is_retried_by_its_policy_and_leaves_evidence),
        TEST(a_task_that_is_used_up_re_escalates_and_keeps_its_adjudication),
        TEST(a_waiting_retry_key_starts_nothing_new),
        TEST(inputs_must_be_one_object),
        TEST(no_more_handlers_run_at_once_than_allowed),
        TEST(a_handler_that_hangs_fails_its_task_and_others_go_on),
        TEST(an_action_without_a_handler_is_quarantined_with_its_name),
        TEST(a_manager_that_stops_gives_running_tasks_back_as_crashed),
        TEST(tasks_survive_a_restart),
        TEST(the_policy_unit_gives_the_background_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
