/* postgres: whole lives of jobs on PostgreSQL, beside graphile-worker and pg-boss on the same
 * server, with the same settings, each in a database of its own.
 *
 * Ten hands push and ten hands work at the same time, whoever is measured: one job a request (and a
 * transaction, where the queue is the client's library), or a hundred.  The clock runs from the
 * first push until the end of the last job is committed; connections and tables are there before.
 * The three run in turns.  Everything is disconnected after each turn, so that PostgreSQL has
 * counted all rows that died, and what was written is on disk before the next. */
#include <inttypes.h>
#include <unistd.h>

#include "base/json.h"
#include "bench.h"
#include "lives.h"
#include "servers.h"

#define HANDS 10
#define BODY_BYTES 300
#define ROUNDS_MAX 4
#define QUIET_MS 10000
#define TURN_SECONDS 3 /* about */

/* struct mode: one of the two ways, and how much of it. */
struct mode {
    const char *name; /* in figures, and to the peers */
    const char *what;
    size_t batch;
    size_t trial_jobs; /* by which it is seen how many each can do in a turn */
    size_t jobs_max;   /* of a turn */
};

static const struct mode one = {"one", "one job at a time", 1, 300, 20000};
static const struct mode batch = {"batch", "a hundred jobs at a time", 100, 5000, 200000};

/* struct contestant: one of the three, over the rounds. */
struct contestant {
    const char *name;    /* in figures; its database is called so, too */
    const char *package; /* NULL: ours */
    struct process process;
    bool runs;
    int processes; /* that the peer is the fastest with */
    size_t turn_jobs;
    double rate[ROUNDS_MAX], wal[ROUNDS_MAX], dead[ROUNDS_MAX];
    double postgres_cpu_seconds, own_cpu_seconds, jobs;
    double client_cpu_seconds; /* of ours: part of its own */
};

struct rig {
    struct bench *bench;
    const struct mode *mode;
    struct process postgres;
    struct load load;
    struct contestant all[3]; /* ours first */
    size_t rounds;
};

/* ---- a turn ------------------------------------------------------------------------------------
 */

static double wal_bytes(const struct rig *rig)
{
    return postgres_number(&rig->postgres, "postgres",
                           "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')");
}

/* await_quiet returns when nobody is connected to the database: its counters are complete then. */
static void await_quiet(const struct rig *rig, const struct contestant *contestant)
{
    char query[128];
    snprintf(query, sizeof(query), "SELECT count(*) FROM pg_stat_activity WHERE datname = '%s'",
             contestant->name);
    for (int waited = 0; postgres_number(&rig->postgres, "postgres", query) > 0; waited += 20) {
        if (waited >= QUIET_MS)
            bench_die("%s does not disconnect", contestant->name);
        usleep(20000);
    }
}

static double run_ours(struct rig *rig, struct contestant *ours, size_t jobs)
{
    char url[URL_SIZE];
    const char *const flags[] = {"--store", url, NULL};
    struct lives_outcome outcome;
    postgres_url(&rig->postgres, ours->name, url);
    lazaret_start_with(&ours->process, ours->name, flags);
    struct lives_plan plan = {.ports = &ours->process.port,
                              .port_count = 1,
                              .load = &rig->load,
                              .jobs = jobs,
                              .hands = HANDS,
                              .batch = rig->mode->batch};
    int64_t cpu = process_cpu_ns(&ours->process);
    lives_run(&plan, &outcome);
    ours->client_cpu_seconds += outcome.client_cpu_seconds;
    ours->own_cpu_seconds +=
        (double)(process_cpu_ns(&ours->process) - cpu) / 1e9 + outcome.client_cpu_seconds;
    process_stop(&ours->process);
    return outcome.seconds;
}

static double member(struct json object, const char *name)
{
    struct json value;
    double number = 0;
    json_get(object, name, &value);
    if (value.type != JSON_NUMBER || sscanf(value.raw.ptr, "%lf", &number) != 1)
        bench_die("a peer said nothing of %s", name);
    return number;
}

static double run_peer(const struct rig *rig, struct contestant *peer, size_t jobs)
{
    char line[512];
    struct json object;
    struct err err = {0};
    int len = snprintf(line, sizeof(line), "%s %zu %d %d %zu %d\n", rig->mode->name, jobs,
                       peer->processes, HANDS, rig->mode->batch, BODY_BYTES);
    int64_t cpu = process_family_cpu_ns(&peer->process);
    if (write(peer->process.in, line, (size_t)len) != len)
        bench_die("%s does not listen", peer->name);
    process_line(&peer->process, line, sizeof(line));
    bench_check(json_parse(slice_of(line), &object, &err), &err, "reading what a peer says");
    if ((size_t)member(object, "done") != jobs)
        bench_die("%s ended other jobs than it was given: %s", peer->name, line);
    peer->own_cpu_seconds += (double)(process_family_cpu_ns(&peer->process) - cpu) / 1e9;
    return member(object, "seconds");
}

/* turn has one of them run its jobs, and looks at what it left behind. */
static void turn(struct rig *rig, struct contestant *contestant, size_t round)
{
    size_t jobs = contestant->turn_jobs;
    postgres_do(&rig->postgres, "postgres", "CHECKPOINT");
    double wal = wal_bytes(rig);
    int64_t cpu = process_family_cpu_ns(&rig->postgres);
    double seconds =
        contestant->package ? run_peer(rig, contestant, jobs) : run_ours(rig, contestant, jobs);
    contestant->wal[round] = (wal_bytes(rig) - wal) / (double)jobs;
    await_quiet(rig, contestant);
    contestant->postgres_cpu_seconds += (double)(process_family_cpu_ns(&rig->postgres) - cpu) / 1e9;
    contestant->rate[round] = (double)jobs / seconds;
    contestant->jobs += (double)jobs;
    contestant->dead[round] =
        postgres_number(&rig->postgres, contestant->name,
                        "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables");
}

/* ---- before it begins
 * ---------------------------------------------------------------------------------
 */

/* size_turn has a turn take about TURN_SECONDS, by how long a trial took. */
static void size_turn(const struct rig *rig, struct contestant *contestant, double trial_seconds)
{
    const struct mode *mode = rig->mode;
    double jobs = (double)mode->trial_jobs / trial_seconds * TURN_SECONDS;
    double most = (double)mode->jobs_max, least = (double)mode->trial_jobs;
    size_t whole = (size_t)(jobs > most ? most : jobs < least ? least : jobs);
    contestant->turn_jobs = whole - whole % mode->batch;
}

/* choose_processes keeps what is faster here: workers in the process that pushes, or in another. */
static void choose_processes(const struct rig *rig, struct contestant *peer)
{
    double best_seconds = 0;
    int best = 1;
    for (int i = 0; i <= 2; i++) {
        peer->processes = i ? i : 1; /* the first one twice: it warms up, and makes the tables */
        bench_progress("%s: trying %d process%s", peer->name, peer->processes,
                       peer->processes > 1 ? "es" : "");
        double seconds = run_peer(rig, peer, rig->mode->trial_jobs);
        if (i > 0 && (best_seconds == 0 || seconds < best_seconds)) {
            best = peer->processes;
            best_seconds = seconds;
        }
    }
    peer->processes = best;
    peer->own_cpu_seconds = 0;
    size_turn(rig, peer, best_seconds);
}

static void make_database(const struct rig *rig, const struct contestant *contestant)
{
    char statement[64];
    snprintf(statement, sizeof(statement), "CREATE DATABASE %s", contestant->name);
    postgres_do(&rig->postgres, "postgres", statement);
}

static void prepare(struct rig *rig)
{
    rig->all[0] = (struct contestant){.name = "lazaret", .runs = true};
    rig->all[1] = (struct contestant){.name = "graphile", .package = "graphile-worker"};
    rig->all[2] = (struct contestant){.name = "pgboss", .package = "pg-boss"};
    make_database(rig, &rig->all[0]);
    rig->all[0].turn_jobs = rig->mode->trial_jobs;
    if (!rig->bench->quick) {
        size_turn(rig, &rig->all[0], run_ours(rig, &rig->all[0], rig->mode->trial_jobs));
        rig->all[0].own_cpu_seconds = rig->all[0].client_cpu_seconds = 0;
    }
    for (size_t i = 1; i < 3 && !rig->bench->quick; i++) {
        char url[URL_SIZE];
        struct contestant *peer = &rig->all[i];
        postgres_url(&rig->postgres, peer->name, url);
        make_database(rig, peer);
        peer->runs = node_start(&peer->process, peer->package, url);
        if (peer->runs)
            choose_processes(rig, peer);
    }
}

/* ---- reporting ---------------------------------------------------------------------------------
 */

static void report_ratio_to(struct rig *rig, struct contestant *peer)
{
    double ratio[ROUNDS_MAX];
    for (size_t i = 0; i < rig->rounds; i++)
        ratio[i] = rig->all[0].rate[i] / peer->rate[i];
    double middle = median(ratio, rig->rounds);
    struct goal goal = {GOAL_AT_LEAST, 5};
    const char *verdict = report_ratio(rig->bench->report, middle, goal, "postgres_%s_to_%s",
                                       rig->mode->name, peer->name);
    printf("   ratio %.2f  %s", middle, verdict);
}

static void report_contestant(struct rig *rig, struct contestant *who)
{
    struct report *report = rig->bench->report;
    const char *mode = rig->mode->name;
    struct goal none = {0};
    char rates[THOUSANDS_SIZE], bytes[THOUSANDS_SIZE], half[THOUSANDS_SIZE], end[THOUSANDS_SIZE];
    double rate = median(who->rate, rig->rounds), wal = median(who->wal, rig->rounds);
    double dead_half = who->dead[rig->rounds > 1 ? rig->rounds / 2 - 1 : 0];
    double dead_end = who->dead[rig->rounds - 1];
    report_figure(report, rate, none, "postgres_%s_%s_per_s", mode, who->name);
    report_figure(report, wal, none, "postgres_%s_%s_wal_bytes_a_job", mode, who->name);
    report_figure(report, dead_half, none, "postgres_%s_%s_dead_rows_half", mode, who->name);
    report_figure(report, dead_end, none, "postgres_%s_%s_dead_rows_end", mode, who->name);
    report_figure(report, who->postgres_cpu_seconds * 1e6 / who->jobs, none,
                  "postgres_%s_%s_postgres_us_a_job", mode, who->name);
    report_figure(report, who->own_cpu_seconds * 1e6 / who->jobs, none,
                  "postgres_%s_%s_own_us_a_job", mode, who->name);
    printf("  %-12s %9s %9.0f %9.0f %9s %9s %9s", who->name, thousands(rate, rates),
           who->postgres_cpu_seconds * 1e6 / who->jobs, who->own_cpu_seconds * 1e6 / who->jobs,
           thousands(wal, bytes), thousands(dead_half, half), thousands(dead_end, end));
}

static void report_all(struct rig *rig)
{
    printf("  %-12s %9s %9s %9s %9s %9s %9s\n", "", "", "postgres", "own", "WAL bytes", "dead rows",
           "dead rows");
    printf("  %-12s %9s %9s %9s %9s %9s %9s\n", "", "jobs/s", "us a job", "us a job", "a job",
           "half-way", "end");
    for (size_t i = 0; i < 3; i++) {
        struct contestant *who = &rig->all[i];
        if (!who->runs)
            continue;
        report_contestant(rig, who);
        if (who->package)
            report_ratio_to(rig, who);
        printf("\n");
    }
    printf("  lazaret: %.0f of its own us a job are the load's\n",
           rig->all[0].client_cpu_seconds * 1e6 / rig->all[0].jobs);
    for (size_t i = 1; i < 3; i++)
        if (rig->all[i].runs)
            printf("  %s was fastest in %d process%s\n", rig->all[i].name, rig->all[i].processes,
                   rig->all[i].processes > 1 ? "es" : "");
    fflush(stdout);
}

/* ---- the scenarios -----------------------------------------------------------------------------
 */

static void measure(struct bench *bench, const struct mode *mode)
{
    static struct rig rig;
    struct mode small = *mode;
    rig = (struct rig){.bench = bench, .mode = mode, .rounds = bench->quick ? 1 : ROUNDS_MAX};
    printf("\nlives of jobs on PostgreSQL, %s, %d hands that push and %d that work (goal: 5 times "
           "the others)\n",
           mode->what, HANDS, HANDS);
    if (!postgres_start(&rig.postgres))
        return;
    if (bench->quick) {
        small.trial_jobs = 5 * mode->batch + 50;
        rig.mode = &small;
    }
    load_init(&rig.load, &(struct shape){.count = 1000, .body_bytes = BODY_BYTES});
    prepare(&rig);
    for (size_t round = 0; round < rig.rounds; round++) {
        bench_progress("PostgreSQL, %s: round %zu of %zu", mode->name, round + 1, rig.rounds);
        for (size_t i = 0; i < 3; i++)
            if (rig.all[i].runs)
                turn(&rig, &rig.all[i], round);
    }
    report_all(&rig);
    for (size_t i = 1; i < 3; i++)
        process_stop(&rig.all[i].process);
    process_stop(&rig.postgres);
    load_release(&rig.load);
}

void postgres_one_run(struct bench *bench)
{
    measure(bench, &one);
}

void postgres_batch_run(struct bench *bench)
{
    measure(bench, &batch);
}
