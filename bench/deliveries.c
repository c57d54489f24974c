/* deliveries: receipts on their whole way through the program to an endpoint that is well, beside a
 * bare loop over libcurl's multi interface that sends the same bodies to the same endpoint over as
 * many connections; and to a hundred hosts, with and without one that is dead.
 *
 * The jobs are pushed while their queue is paused.  The clock runs from when it is resumed until
 * the endpoint has every receipt and the engine has taken down that they are done: leases, reports
 * and their commits are all paid for.  The bare loop reads nothing, writes nothing down and decides
 * nothing. */
#include <curl/curl.h>
#include <poll.h>

#include "base/mem.h"
#include "bench.h"
#include "drive.h"
#include "process.h"
#include "receiver.h"
#include "talk.h"

#define WIDTH 32 /* requests under way to one host: the program's default */
#define BATCH 1000
#define ROUNDS_MAX 5
#define WAIT_MS_MAX 120000
#define BODY_SIZE 512

/* ---- receipts ---------------------------------------------------------------------------------
 */

/* receipt_write writes a receipt of about 300 bytes. */
static int receipt_write(char out[BODY_SIZE], size_t number)
{
    return snprintf(out, BODY_SIZE,
                    "{\"lease_id\":\"lease-%08zu\",\"task_id\":\"task-%08zu\","
                    "\"worker_id\":\"worker-7\",\"status\":\"complete\",\"summary\":"
                    "\"the invoice was rendered, signed and sent to the customer\","
                    "\"artifact_pointers\":[{\"kind\":\"file\",\"uri\":"
                    "\"s3://invoices/2026/%08zu.pdf\",\"size\":48213}],"
                    "\"completed_at\":\"2026-11-16T06:00:00Z\"}",
                    number, number, number);
}

/* host_write writes the address of a host of the receiver. */
static void host_write(char *out, size_t size, const struct receiver *receiver, size_t host)
{
    snprintf(out, size, "http://127.0.0.%zu:%d/receipts", host + 1, receiver->port);
}

static void add_envelope(struct buf *out, const struct receiver *receiver, size_t number)
{
    char body[BODY_SIZE], url[64];
    receipt_write(body, number);
    host_write(url, sizeof(url), receiver, number % receiver->hosts);
    buf_addf(out,
             "{\"action\":\"deliver\",\"queue\":\"deliveries\",\"source\":\"receipts\","
             "\"retry_policy\":\"receipts\",\"idempotency_key\":\"lease-%08zu:complete\","
             "\"required_capabilities\":[\"deliver\"],\"inputs\":{\"target\":\"%s\","
             "\"kind\":\"http\",\"body\":%s}}\n",
             number, receiver->hosts == 1 ? "here" : url, body);
}

/* struct run: what one round of one side took. */
struct run {
    double seconds;
    double cpu_seconds; /* of who sends */
};

/* ---- Lazaret ----------------------------------------------------------------------------------
 */

/* ask sends one request and returns its answer, valid until the next. */
static struct answer ask(struct link *link, const char *method, const char *path, const char *type,
                         struct slice body)
{
    struct answer answer = {0};
    http_ask(&link->out, method, path, type, body);
    link_send(link);
    link_receive(link, wire_http, &answer);
    return answer;
}

static void push_all(struct link *link, const struct receiver *receiver, size_t count)
{
    struct buf body;
    buf_init(&body, (size_t)1 << 24);
    for (size_t number = 0; number < count;) {
        buf_clear(&body);
        for (size_t i = 0; i < BATCH && number < count; i++)
            add_envelope(&body, receiver, number++);
        struct answer answer = ask(link, "POST", "/api/v1/jobs", NDJSON_TYPE, buf_slice(&body));
        if (answer.status != 200 && answer.status != 201)
            bench_die("jobs were answered with %d: %.*s", answer.status, SLICE_ARG(answer.body));
    }
    buf_release(&body);
}

/* waiting_of is how many deliveries have not ended. */
static size_t waiting_of(struct link *link)
{
    static const char *const states[] = {"\"pending\":", "\"scheduled\":", "\"running\":"};
    struct answer answer = ask(link, "GET", "/api/v1/queues", JSON_TYPE, (struct slice){0});
    size_t count = 0;
    answer_expect(&answer, 200, "the queues");
    if (!skip_to(&answer.body, "\"deliveries\""))
        bench_die("the server has no queue of deliveries");
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        count += number_of(answer.body, states[i]);
    return count;
}

/* wait_until waits for so many requests to have come, and then for no more than `left` deliveries
 * not to have ended. */
static void wait_until(const struct process *lazaret, struct link *link,
                       const struct receiver *receiver, size_t came, size_t left)
{
    int waited = 0;
    while (receiver_count(receiver) < came || waiting_of(link) > left) {
        if (waited++ == WAIT_MS_MAX || !process_alive(lazaret))
            process_die(lazaret, "did not deliver everything");
        poll(NULL, 0, 1);
    }
}

/* run_lazaret has `count` receipts delivered, spread over the hosts; those of a host that is `dead`
 * are not waited for. */
static struct run run_lazaret(struct receiver *receiver, size_t count, bool dead)
{
    struct process lazaret;
    struct link link = {0};
    char config[512];
    size_t lost = dead ? count / receiver->hosts : 0;

    snprintf(config, sizeof(config),
             "deliveries:\n  parallel_per_host: %d\n  allow: [127.0.0.0/8]\n"
             "targets:\n  here:\n    url: http://127.0.0.1:%d/receipts\n    kind: http\n",
             WIDTH, receiver->port);
    lazaret_serve(&lazaret, config);
    link_connect(&link, lazaret.port);
    struct answer answer =
        ask(&link, "POST", "/api/v1/queues/deliveries/pause", JSON_TYPE, SLICE("{}"));
    answer_expect(&answer, 200, "pausing");
    push_all(&link, receiver, count);
    receiver_forget(receiver);

    int64_t cpu = process_cpu_ns(&lazaret), start = clock_ns();
    answer = ask(&link, "POST", "/api/v1/queues/deliveries/resume", JSON_TYPE, SLICE("{}"));
    answer_expect(&answer, 200, "resuming");
    wait_until(&lazaret, &link, receiver, count - lost, lost);
    struct run run = {(double)(clock_ns() - start) / 1e9,
                      (double)(process_cpu_ns(&lazaret) - cpu) / 1e9};
    if (receiver_count(receiver) != count - lost)
        bench_die("%zu receipts came, of %zu", receiver_count(receiver), count - lost);
    link_release(&link);
    if (dead)
        process_kill(&lazaret); /* what goes to that host would be waited for */
    else
        process_stop(&lazaret);
    return run;
}

/* ---- the bare loop ----------------------------------------------------------------------------
 */

/* struct sender: the loop. */
struct sender {
    CURLM *multi;
    struct curl_slist *headers;
    char (*bodies)[BODY_SIZE]; /* one for each request under way */
    char url[64];
    size_t next, count, ended;
};

static size_t drop(char *bytes, size_t size, size_t count, void *ctx)
{
    (void)bytes;
    (void)ctx;
    return size * count;
}

static CURL *easy_new(struct sender *sender, size_t index)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        bench_die("no handle of libcurl");
    curl_easy_setopt(easy, CURLOPT_URL, sender->url);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, sender->headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, sender->bodies[index]);
    return easy;
}

/* send_next has a handle send the next receipt; false when there is none. */
static bool send_next(struct sender *sender, CURL *easy)
{
    char *body = NULL;
    if (sender->next == sender->count)
        return false;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &body);
    long len = receipt_write(body, sender->next++);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, len);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_multi_add_handle(sender->multi, easy);
    return true;
}

static void take_ended(struct sender *sender)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(sender->multi, &left))) {
        CURL *easy = message->easy_handle;
        long status = 0;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        if (message->data.result != CURLE_OK || status != 200)
            bench_die("the bare loop: %s, status %ld", curl_easy_strerror(message->data.result),
                      status);
        sender->ended++;
        curl_multi_remove_handle(sender->multi, easy);
        if (!send_next(sender, easy))
            curl_easy_cleanup(easy);
    }
}

static struct run run_bare(struct receiver *receiver, size_t count)
{
    struct sender sender = {.multi = curl_multi_init(), .count = count};
    int running;
    host_write(sender.url, sizeof(sender.url), receiver, 0);
    sender.bodies = bench_array(WIDTH, sizeof(*sender.bodies));
    sender.headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!sender.multi || !sender.headers)
        bench_die("no handle of libcurl");
    receiver_forget(receiver);

    int64_t cpu = cpu_ns(), start = clock_ns();
    for (size_t i = 0; i < WIDTH; i++) {
        CURL *easy = easy_new(&sender, i);
        if (!send_next(&sender, easy))
            curl_easy_cleanup(easy);
    }
    while (sender.ended < count) {
        curl_multi_perform(sender.multi, &running);
        take_ended(&sender);
        if (sender.ended < count)
            curl_multi_poll(sender.multi, NULL, 0, 1000, NULL);
    }
    struct run run = {(double)(clock_ns() - start) / 1e9, (double)(cpu_ns() - cpu) / 1e9};
    if (receiver_count(receiver) != count)
        bench_die("%zu requests came of the bare loop, of %zu", receiver_count(receiver), count);
    curl_multi_cleanup(sender.multi);
    curl_slist_free_all(sender.headers);
    mem_free(sender.bodies);
    return run;
}

/* ---- beside the bare loop ---------------------------------------------------------------------
 */

/* struct column: what the rounds of one side came to. */
struct column {
    double rate[ROUNDS_MAX], cpu_us[ROUNDS_MAX];
};

static void column_take(struct column *column, size_t round, struct run run, size_t count)
{
    column->rate[round] = (double)count / run.seconds;
    column->cpu_us[round] = run.cpu_seconds * 1e6 / (double)count;
}

static void report_column(struct bench *bench, struct column *column, size_t rounds,
                          const char *name, const char *shown)
{
    char text[THOUSANDS_SIZE];
    struct goal none = {0};
    double rate = median(column->rate, rounds), cpu = median(column->cpu_us, rounds);
    report_figure(bench->report, rate, none, "deliver_%s_per_s", name);
    report_figure(bench->report, cpu, none, "deliver_%s_cpu_us", name);
    printf("  %-52s %9s %9.1f\n", shown, thousands(rate, text), cpu);
}

void deliveries_run(struct bench *bench)
{
    struct receiver receiver;
    struct column ours, bare;
    double ratio[ROUNDS_MAX];
    char text[THOUSANDS_SIZE];
    size_t count = bench->quick ? 500 : 10000, rounds = bench->quick ? 1 : ROUNDS_MAX;

    printf("\n%s receipts of 300 bytes to one endpoint, %d connections; median of %zu round%s in "
           "turns\n",
           thousands((double)count, text), WIDTH, rounds, rounds == 1 ? "" : "s");
    receiver_start(&receiver, 1, false);
    for (size_t round = 0; round < rounds; round++) {
        bench_progress("deliveries: round %zu of %zu", round + 1, rounds);
        column_take(&ours, round, run_lazaret(&receiver, count, false), count);
        column_take(&bare, round, run_bare(&receiver, count), count);
        ratio[round] = ours.rate[round] / bare.rate[round];
    }
    receiver_stop(&receiver);
    printf("  %-52s %9s %9s\n", "", "each s", "CPU us");
    report_column(bench, &ours, rounds, "lazaret", "lazaret serve, from a queue to done");
    report_column(bench, &bare, rounds, "bare", "a bare libcurl multi loop");
    double middle = median(ratio, rounds);
    struct goal goal = {GOAL_AT_LEAST, 0.5};
    const char *verdict = report_ratio(bench->report, middle, goal, "deliver_to_bare");
    printf("  %-52s %9.2f  goal >= 0.5  %s\n", "rate to that of the bare loop", middle, verdict);
    fflush(stdout);
}

/* ---- a dead host ------------------------------------------------------------------------------
 */

static double rate_of_living(size_t hosts, size_t count, bool dead)
{
    struct receiver receiver;
    receiver_start(&receiver, hosts, dead);
    struct run run = run_lazaret(&receiver, count, dead);
    receiver_stop(&receiver);
    return (double)(dead ? count - count / hosts : count) / run.seconds;
}

void dead_host_run(struct bench *bench)
{
    double well[ROUNDS_MAX], ill[ROUNDS_MAX], ratio[ROUNDS_MAX];
    char text[THOUSANDS_SIZE];
    struct goal none = {0}, goal = {GOAL_AT_LEAST, 0.9};
    size_t hosts = bench->quick ? 10 : 100, count = bench->quick ? 500 : 10000;
    size_t rounds = bench->quick ? 1 : ROUNDS_MAX;

    printf("\n%s receipts to %zu hosts, all well, and one of them dead; median of %zu round%s in "
           "turns\n",
           thousands((double)count, text), hosts, rounds, rounds == 1 ? "" : "s");
    for (size_t round = 0; round < rounds; round++) {
        bench_progress("deliveries to %zu hosts: round %zu of %zu", hosts, round + 1, rounds);
        well[round] = rate_of_living(hosts, count, false);
        ill[round] = rate_of_living(hosts, count, true);
        ratio[round] = ill[round] / well[round];
    }
    double before = median(well, rounds), after = median(ill, rounds);
    report_figure(bench->report, before, none, "dead_host_none_per_s");
    report_figure(bench->report, after, none, "dead_host_one_per_s");
    printf("  %-52s %9s\n", "deliveries each second, all hosts are well", thousands(before, text));
    printf("  %-52s %9s\n", "to the others when one does not answer", thousands(after, text));
    double middle = median(ratio, rounds);
    const char *verdict = report_ratio(bench->report, middle, goal, "dead_host");
    printf("  %-52s %9.2f  goal >= 0.9  %s\n", "rate with it to that without", middle, verdict);
    fflush(stdout);
}
