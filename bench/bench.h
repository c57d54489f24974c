/* bench: what the scenarios share: how big they are, where they write, and how they measure.
 *
 * A benchmark that cannot measure has nothing to say: whatever fails here ends the program with one
 * sentence, by bench_die. */
#ifndef LAZARET_BENCH_BENCH_H
#define LAZARET_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/engine.h"
#include "report.h"

/* struct bench: one run. */
struct bench {
    struct report *report;
    bool quick; /* small sizes: shows that everything works, measures nothing worth keeping */
};

/* The scenarios, in the order in which they run. */
void live_run(struct bench *bench);       /* a million live jobs: memory, opening */
void throughput_run(struct bench *bench); /* the engine beside a bare SQLite loop */
void latency_run(struct bench *bench);    /* one job a command */
void letters_run(struct bench *bench);    /* ten thousand and a million dead letters */
/* and over HTTP: */
void posts_run(struct bench *bench);     /* single posts beside beanstalkd's puts */
void batches_run(struct bench *bench);   /* batches beside the engine without a server */
void lifecycle_run(struct bench *bench); /* whole lives beside BullMQ's */
void waiting_run(struct bench *bench);   /* long polls, and connections that do nothing */
/* and of commands: */
void map_true_run(struct bench *bench);   /* items of /bin/true beside xargs and GNU parallel */
void map_memory_run(struct bench *bench); /* what an item that waits takes of the memory */
void map_start_run(struct bench *bench);  /* a million items: how soon the first command runs */
/* and of deliveries: */
void deliveries_run(struct bench *bench); /* receipts beside a bare libcurl loop */
void dead_host_run(struct bench *bench);  /* a hundred hosts, with and without a dead one */
/* and on PostgreSQL: */
void postgres_one_run(struct bench *bench);   /* lives of single jobs beside other queues on it */
void postgres_batch_run(struct bench *bench); /* likewise, a hundred at a time */
void two_servers_run(struct bench *bench);    /* from one server to the other, and both together */
/* and from NATS: */
void ingest_run(struct bench *bench); /* dead letters beside a bare consumer that only acks */

/* bench_die removes the scratch files and ends the program. */
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* bench_check is bench_die for a status that is not STATUS_OK. */
void bench_check(enum status status, const struct err *err, const char *what);
/* bench_array is mem_array that cannot fail. */
void *bench_array(size_t count, size_t size);
/* bench_progress says on standard error what takes so long. */
void bench_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- files ----------------------------------------------------------------------------------- */

/* scratch_open makes the directory that the scenarios write in: under $TMPDIR, else beside the
 * program.  scratch_close removes it, and so does a signal that ends the program. */
void scratch_open(void);
void scratch_close(void);

enum scratch { SCRATCH_ENGINE, SCRATCH_BARE, SCRATCH_COUNT };
const char *scratch_path(enum scratch which); /* of a database */
void scratch_remove(enum scratch which);      /* with its log; a file that is not there is fine */

/* scratch_folder makes a directory for a server in there; the path is valid until the next call. */
const char *scratch_folder(const char *name);
void scratch_folder_remove(const char *name);
/* scratch_open_to_others lets other users through to a folder in there that is theirs. */
void scratch_open_to_others(void);

/* bench_store opens the embedded store in a scratch file, bench_engine an engine with a thread. */
struct store *bench_store(enum scratch which);
struct engine *bench_engine(enum scratch which);

/* ---- measuring ------------------------------------------------------------------------------- */

int64_t clock_ns(void); /* steady */
int64_t cpu_ns(void);   /* what this process has used of the processors */

/* percentile sorts `values` and returns the one that a `share` (0 to 1) of them is not above. */
double percentile(double *values, size_t count, double share);
double median(double *values, size_t count);

/* written_bytes is what this process has sent to the disk so far, by /proc/self/io; 0 when the
 * system does not tell. */
int64_t written_bytes(void);

/* memory_bytes is the memory of this process but for what SQLite holds (its page cache), after
 * everything that is free was given back to the system. */
int64_t memory_bytes(void);

/* struct random_state: numbers that are the same in every run (splitmix64). */
struct random_state {
    uint64_t state;
};
uint64_t random_next(struct random_state *random);

#endif
