/* nats_scene: a nats-server, an engine with a thread, and an office between them. */
#ifndef LAZARET_TESTS_BRIDGE_NATS_SCENE_H
#define LAZARET_TESTS_BRIDGE_NATS_SCENE_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "bridge/natsoffice.h"
#include "bridge/natsserver.h"

#define PATIENCE_ROUNDS 20000 /* of 5 ms */

/* struct scene: `{0}` is one where nothing was opened. */
struct scene {
    struct natsserver server;
    char directory[64];
    struct seams seams;
    struct engine *engine;
    struct natsoffice *office;
    natsConnection *client; /* the test's own */
    jsCtx *js;
    struct arena arena;
};

/* While it is set no commit succeeds; or no letter can become recovered. */
extern atomic_bool commits_fail, recoveries_fail;

/* The store finds a letter with this id impossible. */
#define POISON_ID "poison"

/* How far the engine's clocks are ahead of the world's. */
extern atomic_int_fast64_t clock_ahead_us;

/* UNTIL waits for a condition, for long, and fails the test when it does not come true. */
#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        int rounds_left = PATIENCE_ROUNDS;                                                         \
        while (!(condition) && --rounds_left)                                                      \
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);                               \
        if (!rounds_left)                                                                          \
            fail_msg("in vain: %s", #condition);                                                   \
    } while (0)

int scene_setup(void **state);       /* all of it, and the stream is there */
int scene_setup_apart(void **state); /* without the office */
int scene_teardown(void **state);

void office_open_now(struct scene *scene);
void office_close_now(struct scene *scene);
void client_open(struct scene *scene);
void client_close(struct scene *scene);

/* has_stream says that the consumer is there. */
bool has_consumer(struct scene *scene);

/* send puts a message into a stream. */
void send_bytes(struct scene *scene, const char *subject, const void *bytes, size_t len);
void send_text(struct scene *scene, const char *subject, const char *text);

struct natsoffice_counts counts(struct scene *scene);
bool all_acknowledged(struct scene *scene);

/* make_stream makes a stream; `config` (NULL: none) says more than its name and subject. */
void make_stream(struct scene *scene, const char *name, const char *subject,
                 const jsStreamConfig *config);

/* find_told finds the message of a letter in the stream of dead letters, and how often it is there;
 * NULL: it is not. */
natsMsg *find_told(struct scene *scene, const char *dlq_id, int *times);

/* letters lists the letters, the oldest first. */
struct letter *letters(struct scene *scene, size_t *count);
size_t letter_count(struct scene *scene);
struct letter letter_now(struct scene *scene, const char *dlq_id);
struct slice payload_of_letter(struct scene *scene, const struct letter *letter);

/* retry brings a letter back, and returns what the review said; bring_back waits until it is not
 * recovering any more. */
struct review_item retry(struct scene *scene, const char *dlq_id);
enum letter_state bring_back(struct scene *scene, const char *dlq_id);

/* die runs a job to its death, for `reason` (or none), and returns its letter's id. */
const char *die(struct scene *scene, const char *job_id, const char *reason);

/* die_of is die, with so many bytes more in the envelope. */
const char *die_of(struct scene *scene, const char *job_id, const char *reason, int padding);

/* last_why is the `why` of the newest event of a kind. */
const char *last_why(struct scene *scene, const char *what);

/* has_text says whether a text is in another. */
bool has_text(struct slice text, const char *part);

#endif
