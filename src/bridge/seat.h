/* seat: how the station's own helpers (scanner, alerts, clerk) ask the engine, and how they come to
 * a duty: something that one server at a time does for all that share a store. */
#ifndef LAZARET_BRIDGE_SEAT_H
#define LAZARET_BRIDGE_SEAT_H

#include <stdatomic.h>

#include "engine/engine.h"

/* struct seat: one for each server.  It outlives those who use it, all on one thread. */
struct seat {
    struct engine *engine;
    enum status (*call)(struct engine *engine, struct command *command); /* engine_call */
    const struct seams *seams;
    struct slice server;      /* the name of this server, as no other has it */
    const atomic_bool *ended; /* what is under way is to end soon; NULL: never */
};

bool seat_ended(const struct seat *seat);
struct span seat_now(const struct seat *seat); /* the steady clock */

/* seat_ask has a command carried out, `actor` being "WHAT:SERVER".  The status is the answer's, and
 * `err` what it says. */
enum status seat_ask(const struct seat *seat, struct command *command, enum command_kind kind,
                     const char *what, struct arena *arena, struct err *err);

/* seat_read runs a function on the engine's thread, which may only read the store. */
enum status seat_read(const struct seat *seat,
                      enum status (*read)(struct engine *engine, struct store *store, void *ctx,
                                          struct arena *arena, struct err *err),
                      void *ctx, struct arena *arena, struct err *err);

/* struct seat_duty: a duty as this server knows it.  Set `name` and `ttl`. */
struct seat_duty {
    const char *name;
    struct span ttl;
    bool held;          /* it is this server's, as far as is known */
    struct span until;  /* on the steady clock: without an answer it is not, from then on */
    struct span ask_at; /* when to ask again */
    int64_t cursor;     /* how far it has come */
};

/* seat_hold asks for the duty, or for more time of it, when it is time to.  `held` is the answer;
 * it is kept through a failure until the time is over. */
enum status seat_hold(const struct seat *seat, struct seat_duty *duty, struct err *err);

/* seat_advance sets the cursor of a duty that is held.  When it turns out to be another's, `held`
 * is false afterwards, and nothing was set. */
enum status seat_advance(const struct seat *seat, struct seat_duty *duty, int64_t cursor,
                         struct err *err);

/* seat_leave gives a duty up, so that another server need not wait. */
void seat_leave(const struct seat *seat, struct seat_duty *duty);

/* struct seat_trouble: what a helper's log said last.  `{0}`: all is well. */
struct seat_trouble {
    struct err said;
};

/* seat_say logs what a run came to: a trouble that lasts once, and once that it is over. */
void seat_say(struct seat_trouble *trouble, const char *what, enum status status,
              const struct err *err);

#endif
