/* invoices.c: the worked example: background tasks that fail in the four usual ways, and what
 * becomes of them.
 *
 *     ada    is billed at once
 *     bob    needs three runs: the mail server is down for a moment (503), and the policy permits
 * retries cleo   has no valid address: nothing that a retry could mend, so it is quarantined after
 * one run; a person corrects the address and brings it back dora   hangs: the handler times out,
 * every time, until its attempts are used up erik   is refused by the payment provider:
 * quarantined, and left there to be looked at
 *
 * Usage: invoices DIRECTORY.  Afterwards `lazaret --data DIRECTORY dlq list` shows what is left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lazaret.h>

static void die(const char *what, const struct lz_error *error)
{
    fprintf(stderr, "invoices: %s: %s\n", what, error->text);
    exit(1);
}

/* send_invoice is the handler: a task's inputs say to whom, and so how it goes. */
static int send_invoice(const struct lz_task *task)
{
    if (strstr(task->inputs, "\"bob\"") && task->attempt_count < 3) {
        lz_task_fail(task, "{\"http_status\":503,\"message\":\"mail server unavailable\"}");
        return 1;
    }
    if (strstr(task->inputs, "cleo-at-example")) {
        lz_task_fail(
            task,
            "{\"class\":\"invalid_input\",\"message\":\"address 'cleo-at-example' has no domain\","
            "\"step_failed\":\"render address\"}");
        return 1;
    }
    if (strstr(task->inputs, "\"erik\"")) {
        lz_task_fail(task,
                     "{\"http_status\":402,\"message\":\"payment provider refused account 88231\","
                     "\"step_failed\":\"charge\"}");
        return 1;
    }
    while (strstr(task->inputs, "\"dora\"") && !lz_task_cancelled(task))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    lz_task_result(task, "{\"sent\":true}");
    return 0;
}

static void submit(struct lz_tasks *tasks, const char *name, const char *address, char task_id[201])
{
    struct lz_error error;
    struct lz_pushed pushed;
    char inputs[256], key[64];
    snprintf(inputs, sizeof(inputs), "{\"customer\":\"%s\",\"address\":\"%s\"}", name, address);
    snprintf(key, sizeof(key), "invoice:%s:2026-11", name);
    struct lz_task_spec spec = {.action = "send_invoice", .retry_key = key, .inputs = inputs};
    if (lz_tasks_submit(tasks, &spec, &pushed, &error) != LZ_OK)
        die("submit", &error);
    memcpy(task_id, pushed.job_id, sizeof(pushed.job_id));
    printf("submitted  %-5s %s\n", name,
           pushed.created ? "" : "(already waiting: nothing started)");
}

/* field copies the first "name": value of a flat piece of JSON, without quotes. */
static void field(const char *json, const char *name, char *out, size_t size)
{
    char key[64];
    snprintf(key, sizeof(key), "\"%s\":", name);
    const char *at = strstr(json, key);
    size_t n = 0;
    if (at)
        for (at += strlen(key); *at && !strchr(",}", *at) && n + 1 < size; at++)
            if (*at != '"')
                out[n++] = *at;
    out[n] = '\0';
}

static void tell(struct lz *lz, const char *name, const char *task_id)
{
    struct lz_error error;
    char *job;
    char state[32], attempts[32];
    if (lz_job(lz, task_id, &job, &error) != LZ_OK)
        die("job", &error);
    field(job, "state", state, sizeof(state));
    field(job, "attempt", attempts, sizeof(attempts));
    printf("%-10s %-5s after %s run%s\n", state, name, attempts, strcmp(attempts, "1") ? "s" : "");
    lz_free(job);
}

static void wait_idle(struct lz_tasks *tasks)
{
    struct lz_error error;
    if (lz_tasks_idle(tasks, 60000, &error) != LZ_OK)
        die("idle", &error);
}

/* correct_and_retry brings cleo's invoice back with another address. */
static void correct_and_retry(struct lz *lz)
{
    struct lz_error error;
    char *letters;
    char dlq_id[64];
    if (lz_letters(lz, "q=cleo", &letters, &error) != LZ_OK)
        die("letters", &error);
    field(letters, "dlq_id", dlq_id, sizeof(dlq_id));
    lz_free(letters);
    if (lz_review(lz, dlq_id, "retry",
                  "{\"actor\":\"human:ada\",\"note\":\"asked cleo for the address\","
                  "\"patch\":[{\"op\":\"replace\",\"path\":\"/inputs/"
                  "address\",\"value\":\"cleo@example.org\"}]}",
                  &error) != LZ_OK)
        die("retry", &error);
    printf("brought back cleo, with a corrected address\n");
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"ada", "bob", "cleo", "dora", "erik"};
    static const char *const addresses[] = {"ada@example.org", "bob@example.org", "cleo-at-example",
                                            "dora@example.org", "erik@example.org"};
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    char ids[COUNT][201];
    char again[201];
    struct lz *lz;
    struct lz_tasks *tasks;
    struct lz_error error;
    uint64_t events;

    if (argc != 2) {
        fprintf(stderr, "usage: invoices DIRECTORY\n");
        return 2;
    }
    if (lz_open(&(struct lz_options){.data = argv[1], .actor = "app:invoices"}, &lz, &error) !=
        LZ_OK)
        die("open", &error);
    struct lz_tasks_options options = {
        .queue = "invoices", .concurrency = 4, .timeout_seconds = 0.2};
    if (lz_tasks_new(lz, &options, &tasks, &error) != LZ_OK ||
        lz_tasks_handle(tasks, "send_invoice", send_invoice, NULL, &error) != LZ_OK)
        die("tasks", &error);

    for (int i = 0; i < COUNT; i++)
        submit(tasks, names[i], addresses[i], ids[i]);
    submit(tasks, "ada", "ada@example.org", again);

    if (lz_tasks_start(tasks, &error) != LZ_OK)
        die("start", &error);
    wait_idle(tasks);
    for (int i = 0; i < COUNT; i++)
        tell(lz, names[i], ids[i]);

    correct_and_retry(lz);
    wait_idle(tasks);
    tell(lz, "cleo", ids[2]);

    lz_tasks_free(tasks);
    if (lz_audit_verify(lz, &events, &error) != LZ_OK)
        die("audit", &error);
    printf("verified   %llu events: the chain holds\n", (unsigned long long)events);
    lz_close(lz);
    return 0;
}
