/* fixture: an engine over a real SQLite file, in virtual time and without a thread. */
#ifndef LAZARET_TESTS_ENGINE_FIXTURE_H
#define LAZARET_TESTS_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"

/* struct world: the clocks, the engine and everything that a test made. */
struct world {
    struct seams seams;
    struct instant wall;
    struct span steady;
    uint64_t random;
    char directory[64];
    struct engine_config config;
    struct engine *engine;
    struct arena arena;
};

int world_setup(void **state);
int world_teardown(void **state);

/* world_reopen closes the engine and opens it again from the disk. */
void world_reopen(struct world *world);

/* world_pass lets time pass, and the timers run. */
void world_pass(struct world *world, int64_t ms);

/* world_jump moves the wall clock alone. */
void world_jump(struct world *world, int64_t seconds);

/* run submits a command and carries it out. */
enum status run(struct world *world, struct command *command, enum command_kind kind);

/* The commands that tests need, in one call each.  Answers live in world->arena. */
struct push_item push(struct world *world, const char *envelope);
struct lease lease(struct world *world, const char *queue); /* fails the test when there is none */
size_t lease_count(struct world *world, const char *queue); /* takes all there are */
struct result_item complete(struct world *world, const struct lease *lease);
struct result_item report_failed(struct world *world, const struct lease *lease,
                                 const char *failure);
struct review_item review(struct world *world, enum review_action action, struct slice dlq_id);
struct job_row job(struct world *world, const char *job_id);
struct letter letter(struct world *world, struct slice dlq_id);

/* what_happened is the list of a job's events, as "pushed leased completed". */
const char *what_happened(struct world *world, const char *job_id);

/* assert_chain_holds walks all events and checks each hash. */
void assert_chain_holds(struct world *world);

#endif
