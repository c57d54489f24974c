/* suite: the contracts of store.h as cases that run on any implementation.
 *
 * A case gets a struct place: an open store somewhere, whatever that is for the implementation, and
 * a few words for what stores are used for.  Every word checks its status, so that a case says only
 * what it is about. */
#ifndef LAZARET_TESTS_STORE_SUITE_H
#define LAZARET_TESTS_STORE_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/hash.h"
#include "store/store.h"

/* struct store_kind: how an implementation is opened.  `directory` is a fresh one for the case. */
struct store_kind {
    const char *name;
    enum status (*open)(const char *directory, struct store **out, struct err *err);
    void (*renew)(void); /* before a case: what is opened is as new; NULL: the directory is */
    bool shared;         /* it may be open more than once: suite_shared.c is for it */
};

struct place {
    const struct store_kind *kind;
    char directory[64];
    struct store *store;
    struct arena arena; /* what the case reads */
    struct err err;
};

/* suite_run runs every case on a kind of store; the result of main(). */
int suite_run(const struct store_kind *kind);

int place_setup(void **state); /* for the cases; suite_run says which kind */
int place_teardown(void **state);

/* reopen closes the store and opens it again from the disk. */
void reopen(struct place *place);

#define NOON INT64_C(1790000000000000) /* an instant, in microseconds */
#define SECOND INT64_C(1000000)
#define HOUR (INT64_C(3600) * SECOND)

static inline struct instant at(int64_t us)
{
    return (struct instant){us};
}

/* assert_ok fails the case with the sentence of place->err. */
#define assert_ok(place, call) assert_ok_at((place), (call), #call, __FILE__, __LINE__)
void assert_ok_at(struct place *place, enum status status, const char *call, const char *file,
                  int line);

#define assert_slice(slice, text) assert_slice_at((slice), (text), __FILE__, __LINE__)
void assert_slice_at(struct slice slice, const char *text, const char *file, int line);

void begin(struct place *place);
void commit(struct place *place);
void rollback(struct place *place);

/* -- jobs -------------------------------------------------------------------------------------- */

/* job_on is a pending job of a queue that is not in the store yet, pushed at NOON. */
struct job job_on(struct place *place, const char *queue, const char *job_id);

/* insert writes a job with an envelope that says its id; within a transaction. */
struct job insert(struct place *place, struct job job, const char *job_id);

/* push is insert in a transaction of its own. */
struct job push(struct place *place, const char *queue, const char *job_id);

/* update writes a job; within a transaction. */
void update(struct place *place, const struct job *job, const char *worker);

/* ready lists the job_ids that a worker would get, separated by spaces, in the arena. */
const char *ready(struct place *place, const char *queue, const char *capability, size_t max);

/* live says whether a job is live, and copies it. */
bool live(struct place *place, int64_t seq, struct job *out);

/* finish ends a running or pending job as done; within a transaction. */
void finish(struct place *place, struct job job, const char *job_id, int64_t at_us);

/* -- letters ----------------------------------------------------------------------------------- */

/* letter_of is a dead letter of a job with some text in every field. */
struct letter letter_of(struct place *place, const struct job *job, const char *dlq_id,
                        int64_t failed_at);

/* bury takes a live job to the quarantine; within a transaction. */
void bury(struct place *place, struct job *job, struct letter *letter, const char *text);

/* dead pushes and buries a job of the queue "q" in a transaction of its own. */
struct letter dead(struct place *place, const char *dlq_id, int64_t failed_at);

/* put writes a letter; within a transaction. */
void put(struct place *place, struct letter *letter, const char *text, bool died);

/* listed lists the dlq_ids of a page, separated by spaces, in the arena. */
const char *listed(struct place *place, struct letter_filter filter);

/* ids joins texts by spaces into the arena. */
const char *joined(struct place *place, const struct slice *texts, size_t count);

/* -- the cases --------------------------------------------------------------------------------- */

struct cases {
    const struct CMUnitTest *tests;
    size_t count;
};

struct cases job_cases(void);
struct cases ready_cases(void);
struct cases body_cases(void);
struct cases find_cases(void);
struct cases letter_cases(void);
struct cases list_cases(void);
struct cases group_cases(void);
struct cases purge_cases(void);
struct cases event_cases(void);
struct cases name_cases(void);
struct cases shared_cases(void); /* of those that are `shared` */

#define CASE(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)
#define CASES(array) ((struct cases){(array), sizeof(array) / sizeof((array)[0])})

#endif
