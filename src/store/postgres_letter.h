/* postgres_letter: what the files of the shared store's letters share.
 *
 *     postgres_letter.c  one letter: its row    postgres_known.c  the letters of this turn
 *     postgres_place.c   places in time         postgres_list.c   pages of letters
 *     postgres_match.c   words to be found by, and to search for
 *     postgres_count.c   what is counted        postgres_group.c  groups of letters
 *     postgres_policy.c  policies, duties       postgres_purge.c  removing
 *     postgres_swarm.c   what others see and write: swarm_dlq, the inbox
 *     postgres_expect.c  letters that are known not to be there
 *
 * A letter that this turn makes waits in memory (s->letters), and with it what it changes in the
 * counters; pg_settled sends both.  What a turn read or wrote of a letter is known until its end,
 * as nobody else has the turn: writing it again needs no second look. */
#ifndef LAZARET_STORE_POSTGRES_LETTER_H
#define LAZARET_STORE_POSTGRES_LETTER_H

#include "store/postgres.h"
#include "store/table.h"

/* struct known_letter: what a job's letter is, as this turn knows it. */
struct known_letter {
    int64_t job_seq;
    int64_t position; /* 0: the job has no letter */
    enum letter_state state;
    bool recoverable;
    bool waits; /* its row is among s->letters */
    struct slice dlq_id, reason, source, queue, fingerprint, signature;
    struct instant failed_at;
    uint64_t origin;  /* of a letter from elsewhere: see letter_by_origin; 0: of no other */
    uint64_t id_hash; /* of dlq_id */
    uint32_t job_link, id_link, origin_link; /* of the tables */
};

/* struct missing: what was looked for, and is not there: an id of a letter, or an origin. */
struct missing {
    struct slice dlq_id; /* `ptr` is NULL for an origin */
    uint64_t hash;       /* of the id; the origin itself */
    uint32_t link;
};

/* struct position_hint: where the next letter that failed at an instant may have its place. */
struct position_hint {
    int64_t failed_at;
    int64_t next;
};
#define POSITION_HINTS 256 /* a power of two */

/* struct positions: sorted. */
struct positions {
    int64_t *items;
    size_t count, cap;
};

/* struct pg_counts: the letters of a turn, and what they change. */
struct pg_counts {
    struct arena arena;         /* texts of what is known */
    struct known_letter *known; /* an array; handles are indexes */
    uint32_t known_count, known_cap;
    struct table by_job, by_id, by_origin;
    bool waiting;            /* some of them wait */
    struct missing *missing; /* likewise: see postgres_letter_expect */
    uint32_t missing_count, missing_cap;
    struct table missing_table;

    struct positions given; /* by this turn */
    struct positions taken; /* by letters in the database, from `first` to `last` */
    int64_t first, last;    /* first > last: nothing was looked at */
    int64_t drift;          /* the farthest that a position of this turn is from its failed_at */
    int64_t drift_sent;     /* what the database was told of that */
    struct position_hint hints[POSITION_HINTS];

    struct pg_columns counts, groups, hours; /* what is added to the counters */
    struct pg_column shown;                  /* dlq_ids that swarm_dlq has to show */
    struct pg_words *words;                  /* NULL: not needed yet */
};

/* ---- the turn: called by postgres.c and postgres_job.c ---- */

/* pg_letters_open makes what letters need in memory (s->letters included); pg_letters_close frees
 * it, whether it was made or not. */
enum status pg_letters_open(struct postgres_store *s, struct err *err);
void pg_letters_close(struct postgres_store *s);
/* pg_letters_clear forgets the turn: after commit and rollback. */
void pg_letters_clear(struct postgres_store *s);
/* pg_letters_waiting says whether letters or counters wait. */
bool pg_letters_waiting(const struct postgres_store *s);
/* pg_letters_flush sends the letters and counters that wait: a part of pg_settled. */
enum status pg_letters_flush(struct postgres_store *s, struct err *err);
/* pg_swarm_flush has swarm_dlq show the letters of this turn: once, in commit, after pg_settled. */
enum status pg_swarm_flush(struct postgres_store *s, struct err *err);
/* pg_swarm_open looks at the relations of the swarm after the migration, and says in the log what
 * is wrong with them. */
enum status pg_swarm_open(struct postgres_store *s, struct err *err);
/* pg_letter_fresh says that a job that was buried has no letter yet: postgres_job_bury calls it for
 * a job without JOB_HAS_LETTER, so that its letter needs no look-up. */
enum status pg_letter_fresh(struct postgres_store *s, int64_t job_seq, struct err *err);

/* ---- postgres_letter.c ---- */

/* The columns of a letter, in the order of pg_letter_read. */
#define PG_LETTER_COLUMNS                                                                          \
    "position, " PG_JOB_COLUMNS("job_") ", dlq_id, job_id, run_id, item_id, trace_id, queue, "     \
                                        "original_subject, reason, reason_detail, source, "        \
                                        "signature, fingerprint, error_type, agent, artifacts, "   \
                                        "recovered_by, envelope_seq, state, replay_safety, "       \
                                        "failed_at, first_attempt_at, last_attempt_at, "           \
                                        "recovered_at, failure_count, max_attempts, "              \
                                        "recoverable, eligible, review, escalated, foreign_body"
#define PG_LETTER_COLUMN_COUNT 51

enum status pg_letter_read(struct postgres_store *s, const PGresult *rows, int row,
                           struct arena *arena, struct letter *out, struct err *err);
/* pg_letter_rows reads all rows of an answer, which it clears. */
enum status pg_letter_rows(struct postgres_store *s, PGresult *rows, struct arena *arena,
                           struct letter **out, size_t *count, struct err *err);

/* ---- postgres_known.c ---- */

void pg_known_init(struct pg_counts *counts);
void pg_known_release(struct pg_counts *counts);
void pg_known_clear(struct pg_counts *counts);
/* pg_known_job and pg_known_id borrow what this turn knows until it learns more; NULL: nothing. */
const struct known_letter *pg_known_job(const struct pg_counts *counts, int64_t job_seq);
const struct known_letter *pg_known_id(const struct pg_counts *counts, struct slice dlq_id);
/* pg_known_put keeps what a letter is; `waits`: its row does.  False when memory is exhausted. */
bool pg_known_put(struct pg_counts *counts, const struct letter *letter, bool waits);
/* pg_known_none keeps that a job has no letter. */
bool pg_known_none(struct pg_counts *counts, int64_t job_seq);
/* pg_known_origin is a letter of this origin that this turn has read or written: one that waits, if
 * there is one; NULL: none. */
const struct known_letter *pg_known_origin(const struct pg_counts *counts, uint64_t origin);
/* pg_known_settled says that the rows that waited were sent. */
void pg_known_settled(struct pg_counts *counts);

/* ---- postgres_expect.c ---- */

void pg_missing_init(struct pg_counts *counts);
void pg_missing_release(struct pg_counts *counts);
void pg_missing_clear(struct pg_counts *counts);
/* pg_missing_id and pg_missing_origin say that this turn has looked for a letter in vain, and
 * written none since. */
bool pg_missing_id(const struct pg_counts *counts, struct slice dlq_id);
bool pg_missing_origin(const struct pg_counts *counts, uint64_t origin);

/* ---- postgres_place.c ---- */

/* pg_place finds the place of a letter that failed at `failed_at`, and takes it. */
enum status pg_place(struct postgres_store *s, struct instant failed_at, int64_t *out,
                     struct err *err);
/* pg_places_flush keeps how far places are from their times: a question about a time must look that
 * far. */
enum status pg_places_flush(struct postgres_store *s, struct err *err);
void pg_places_clear(struct pg_counts *counts);
void pg_places_release(struct pg_counts *counts);

/* ---- postgres_match.c ---- */

/* pg_words_add appends the words of a text as a tsvector in text form. */
enum status pg_words_add(struct pg_counts *counts, struct slice text, struct buf *out,
                         struct err *err);
/* pg_match appends the tsquery, in text form, for what a person typed; it stays empty when there is
 * nothing to look for. */
enum status pg_match(struct pg_counts *counts, struct slice q, struct buf *out, struct err *err);
void pg_words_free(struct pg_words *words);

/* ---- postgres_count.c ---- */

void pg_counts_init(struct pg_counts *counts);
void pg_counts_release(struct pg_counts *counts);
void pg_counts_clear(struct pg_counts *counts);
bool pg_counts_waiting(const struct pg_counts *counts);
/* pg_counts_flush sends what is to be added to the counters. */
enum status pg_counts_flush(struct postgres_store *s, struct err *err);
/* pg_count_change keeps the counters and groups when a letter becomes `now`; `before` is NULL for
 * one that is new, `now` is NULL for one that is purged. */
enum status pg_count_change(struct postgres_store *s, const struct known_letter *before,
                            const struct known_letter *now, bool died, struct err *err);
int64_t pg_hour_of(struct instant t); /* the beginning of its hour, in microseconds */
#define PG_HOUR_US INT64_C(3600000000)

/* ---- postgres_swarm_schema.c ---- */

/* The relations of the swarm, which migration 1 makes last. */
extern const char pg_swarm_relations[];

/* ---- postgres_swarm.c ---- */

/* pg_swarm_show has swarm_dlq show a letter, or that it is gone, when the turn is committed. */
enum status pg_swarm_show(struct postgres_store *s, struct slice dlq_id, struct err *err);

#endif
