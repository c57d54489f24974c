/* ingest: dead letters that wait in JetStream, beside a bare consumer.
 *
 * The same messages, in a stream on disk of the same nats-server, are read in turns: by a pull
 * consumer that fetches as many at a time as Lazaret does, acknowledges each and forgets it; and by
 * `lazaret serve --nats`, which has each letter on disk before it acknowledges, in its own store
 * and in PostgreSQL.  Lazaret's clock runs from its line that it is ready until its statistics
 * count the last letter; what it has taken before that line is not counted.  The bare one's runs
 * from its subscription until the server knows of the last acknowledgement. */
#include <nats/nats.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench.h"
#include "core/uuid.h"
#include "drive.h"
#include "servers.h"
#include "talk.h"

#define STREAM "DLQ"
#define CONSUMER "lazaret-DLQ"
#define FETCH 1000        /* messages at a time, and */
#define PENDING_MAX 20000 /* that are not acknowledged: as src/bridge/ingest.c has it */
#define FETCH_MS 2000
#define PATIENCE_MS 120000
#define ROUNDS_MAX 3
#define ACK_WAIT_NS ((int64_t)60 * 1000000000)

struct rig {
    struct process nats, postgres;
    bool postgres_runs;
    size_t messages;
    natsConnection *link;
    jsCtx *jetstream;
    double bare[ROUNDS_MAX], embedded[ROUNDS_MAX], shared[ROUNDS_MAX]; /* messages a second */
};

/* check ends the program for a call of libnats that failed. */
static void check(natsStatus status, const char *what)
{
    if (status != NATS_OK)
        bench_die("%s: %s: %s", what, natsStatus_GetText(status), nats_GetLastError(NULL));
}

/* ---- what is read ------------------------------------------------------------------------------
 */

/* add_letter writes a message as the swarm's programs do. */
static void add_letter(struct buf *out, size_t number, struct random_state *random)
{
    char id[UUID_TEXT_LEN + 1], when[32];
    uint8_t bytes[16];
    uint64_t halves[2] = {random_next(random), random_next(random)};
    time_t now = time(NULL);
    struct tm parts;
    memcpy(bytes, halves, sizeof(bytes));
    uuid_format(uuid_v7((struct instant){.us = (int64_t)now * 1000000}, bytes), id);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    buf_addf(out,
             "{\"dlq_id\":\"%s\",\"original_subject\":\"swarm.task.request\","
             "\"original_payload\":{\"task_id\":\"task-%zu\",\"capability\":\"summarize\","
             "\"prompt\":\"Summarize the minutes of the meeting\",\"priority\":4},"
             "\"reason\":\"timeout_in_progress\",\"reason_detail\":\"no result within 300 s\","
             "\"failed_at\":\"%s\",\"retry_count\":2,\"max_retries\":2,\"retry_history\":["
             "{\"attempt\":1,\"attempted_at\":\"%s\",\"agent\":\"worker-%zu\","
             "\"failure_reason\":\"timeout\"},{\"attempt\":2,\"attempted_at\":\"%s\","
             "\"agent\":\"worker-%zu\",\"failure_reason\":\"timeout\"}],"
             "\"source\":\"dispatch\",\"recoverable\":true,\"recovered\":false}",
             id, number, when, when, number % 7, when, number % 5);
}

static void publish_all(struct rig *rig)
{
    struct random_state random = {1};
    struct buf letter;
    jsPubOptions patience;
    jsPubOptions_Init(&patience);
    patience.MaxWait = PATIENCE_MS;
    buf_init(&letter, 4096);
    for (size_t i = 0; i < rig->messages; i++) {
        buf_clear(&letter);
        add_letter(&letter, i, &random);
        check(js_PublishAsync(rig->jetstream, "dlq.task.execution_timeout", letter.ptr,
                              (int)letter.len, NULL),
              "publishing");
    }
    check(js_PublishAsyncComplete(rig->jetstream, &patience), "publishing");
    buf_release(&letter);
}

static void make_stream(const struct rig *rig)
{
    const char *subjects[] = {"dlq.>"};
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    check(js_AddStream(NULL, rig->jetstream, &config, NULL, NULL), "making the stream");
}

/* check_stream makes sure that every message is there to be read. */
static void check_stream(const struct rig *rig)
{
    jsStreamInfo *info = NULL;
    check(js_GetStreamInfo(&info, rig->jetstream, STREAM, NULL, NULL), "asking for the stream");
    size_t count = (size_t)info->State.Msgs;
    jsStreamInfo_Destroy(info);
    if (count != rig->messages)
        bench_die("the stream has %zu messages, of %zu", count, rig->messages);
}

/* await_acks returns when the server has taken down all acknowledgements of a consumer. */
static void await_acks(const struct rig *rig, const char *consumer)
{
    for (int waited = 0; waited < PATIENCE_MS; waited++) {
        jsConsumerInfo *info = NULL;
        check(js_GetConsumerInfo(&info, rig->jetstream, STREAM, consumer, NULL, NULL),
              "asking for a consumer");
        bool all = info->NumAckPending == 0 && info->NumPending == 0;
        jsConsumerInfo_Destroy(info);
        if (all)
            return;
        usleep(1000);
    }
    bench_die("messages of %s were not acknowledged", consumer);
}

/* ---- the bare consumer -------------------------------------------------------------------------
 */

static double run_bare(const struct rig *rig, size_t round)
{
    char name[32];
    natsSubscription *subscription = NULL;
    jsSubOptions options;
    snprintf(name, sizeof(name), "bare-%zu", round);
    jsSubOptions_Init(&options);
    options.Config.AckWait = ACK_WAIT_NS;
    options.Config.MaxAckPending = PENDING_MAX;
    check(js_PullSubscribe(&subscription, rig->jetstream, "dlq.>", name, NULL, &options, NULL),
          "subscribing");
    int64_t start = clock_ns();
    for (size_t count = 0; count < rig->messages;) {
        natsMsgList list = {0};
        check(natsSubscription_Fetch(&list, subscription, FETCH, FETCH_MS, NULL), "fetching");
        for (int i = 0; i < list.Count; i++)
            check(natsMsg_Ack(list.Msgs[i], NULL), "acknowledging");
        count += (size_t)list.Count;
        natsMsgList_Destroy(&list);
    }
    await_acks(rig, name);
    double seconds = (double)(clock_ns() - start) / 1e9;
    natsSubscription_Unsubscribe(subscription);
    natsSubscription_Destroy(subscription);
    js_DeleteConsumer(rig->jetstream, STREAM, name, NULL, NULL);
    return (double)rig->messages / seconds;
}

/* ---- Lazaret -----------------------------------------------------------------------------------
 */

static size_t letters_of(struct link *link)
{
    struct answer answer;
    http_ask(&link->out, "GET", "/api/v1/dlq/stats", JSON_TYPE, (struct slice){0});
    link_send(link);
    link_receive(link, wire_http, &answer);
    answer_expect(&answer, 200, "the statistics");
    return number_of(answer.body, "\"total\":");
}

static double run_lazaret(const struct rig *rig, const char *store)
{
    char nats[URL_SIZE];
    const char *const flags[] = {"--nats", nats, store ? "--store" : NULL, store, NULL};
    struct process lazaret;
    struct link link;
    nats_url(&rig->nats, nats);
    lazaret_start_with(&lazaret, "lazaret", flags);
    int64_t start = clock_ns();
    link_connect(&link, lazaret.port);
    size_t before = letters_of(&link), count = before;
    while (count < rig->messages) {
        if (clock_ns() - start > (int64_t)PATIENCE_MS * 1000000)
            process_die(&lazaret, "does not take the messages");
        usleep(5000);
        count = letters_of(&link);
    }
    double seconds = (double)(clock_ns() - start) / 1e9;
    await_acks(rig, CONSUMER);
    if (letters_of(&link) != rig->messages)
        bench_die("%zu letters came of %zu messages", letters_of(&link), rig->messages);
    link_release(&link);
    process_stop(&lazaret);
    check(js_DeleteConsumer(rig->jetstream, STREAM, CONSUMER, NULL, NULL), "removing a consumer");
    return (double)(rig->messages - before) / seconds;
}

static double run_shared(const struct rig *rig, size_t round)
{
    char statement[64], name[32], url[URL_SIZE];
    snprintf(name, sizeof(name), "ingest_%zu", round);
    snprintf(statement, sizeof(statement), "CREATE DATABASE %s", name);
    postgres_do(&rig->postgres, "postgres", statement);
    postgres_url(&rig->postgres, name, url);
    return run_lazaret(rig, url);
}

/* ---- all ---------------------------------------------------------------------------------------
 */

static void report_line(struct bench *bench, const char *name, const char *what, double *rates,
                        size_t rounds)
{
    char text[THOUSANDS_SIZE];
    double rate = median(rates, rounds);
    report_figure(bench->report, rate, (struct goal){0}, "ingest_%s_per_s", name);
    printf("  %-44s %9s/s", what, thousands(rate, text));
}

static double ratio_of(const double *rates, const double *bare, size_t rounds)
{
    double ratio[ROUNDS_MAX];
    for (size_t i = 0; i < rounds; i++)
        ratio[i] = rates[i] / bare[i];
    return median(ratio, rounds);
}

static void report_all(struct bench *bench, struct rig *rig, size_t rounds)
{
    struct goal none = {0}, goal = {GOAL_AT_LEAST, 0.5};
    double ratio = ratio_of(rig->embedded, rig->bare, rounds);
    double shared = ratio_of(rig->shared, rig->bare, rounds);
    report_line(bench, "bare", "a bare consumer that only acks", rig->bare, rounds);
    printf("\n");
    report_line(bench, "embedded", "lazaret, its own store", rig->embedded, rounds);
    const char *verdict = report_ratio(bench->report, ratio, goal, "ingest_to_bare");
    printf("   ratio %.2f  %s\n", ratio, verdict);
    if (rig->postgres_runs) {
        report_line(bench, "postgres", "lazaret, PostgreSQL", rig->shared, rounds);
        report_ratio(bench->report, shared, none, "ingest_postgres_to_bare");
        printf("   ratio %.2f\n", shared);
    }
    fflush(stdout);
}

static void connect_to(struct rig *rig)
{
    char url[URL_SIZE];
    nats_url(&rig->nats, url);
    check(natsConnection_ConnectTo(&rig->link, url), "connecting");
    check(natsConnection_JetStream(&rig->jetstream, rig->link, NULL), "JetStream");
}

void ingest_run(struct bench *bench)
{
    struct rig rig = {.messages = bench->quick ? 500 : 20000};
    size_t rounds = bench->quick ? 1 : ROUNDS_MAX;
    char text[THOUSANDS_SIZE];
    printf("\n%s dead letters from JetStream, %d at a time (goal: 0.5 of a bare consumer)\n",
           thousands((double)rig.messages, text), FETCH);
    if (!nats_start(&rig.nats))
        return;
    connect_to(&rig);
    make_stream(&rig);
    publish_all(&rig);
    check_stream(&rig);
    rig.postgres_runs = postgres_start(&rig.postgres);
    for (size_t round = 0; round < rounds; round++) {
        bench_progress("ingest: round %zu of %zu", round + 1, rounds);
        rig.bare[round] = run_bare(&rig, round);
        rig.embedded[round] = run_lazaret(&rig, NULL);
        if (rig.postgres_runs)
            rig.shared[round] = run_shared(&rig, round);
    }
    report_all(bench, &rig, rounds);
    jsCtx_Destroy(rig.jetstream);
    natsConnection_Destroy(rig.link);
    process_stop(&rig.nats);
    process_stop(&rig.postgres);
}
