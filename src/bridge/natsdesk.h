/* natsdesk: what the desks of the NATS office share: a thread and a connection of its own.
 *
 * A desk has its own connection, so that a flood at one does not hold up the others, and so that it
 * can give its connection up and make another when libnats has lost it, alone. */
#ifndef LAZARET_BRIDGE_NATSDESK_H
#define LAZARET_BRIDGE_NATSDESK_H

#include <pthread.h>
#include <stdatomic.h>

#include "bridge/natslink.h"
#include "bridge/natsoffice.h"

/* struct natstally: what the desks count. */
struct natstally {
    atomic_uint_fast64_t ingested, duplicates, malformed, replayed, refused, announced,
        announce_skipped, reconnects;
};

struct natsdesk {
    const char *name; /* "ingest", ...: stands in the log and in the connection's name */
    const struct natsoffice_config *config; /* the office's copy */
    struct engine *engine;
    struct natstally *tally;
    void (*work)(struct natsdesk *desk);  /* one round: it returns to be called again */
    void (*leave)(struct natsdesk *desk); /* destroys what was made of the connection; NULL: none */
    void (*linked)(struct natsdesk *desk, bool connected); /* from any thread; NULL: nothing */

    struct natslink *link;
    pthread_mutex_t link_lock; /* held while the link is renewed, and by who uses it from outside */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t woken;
    bool stopping;
    struct err said; /* the trouble that the log has told; of the desk's thread alone */
};

/* natsdesk_open connects and starts the thread.  The fields above the empty line are given.  That
 * no server can be reached is no error: the desk goes on trying. */
enum status natsdesk_open(struct natsdesk *desk, struct err *err);

/* natsdesk_stop tells the thread to end after what it is at. */
void natsdesk_stop(struct natsdesk *desk);

/* natsdesk_close waits for the thread and closes the connection.  A desk that was not opened is
 * fine. */
void natsdesk_close(struct natsdesk *desk);

bool natsdesk_stopping(struct natsdesk *desk);

/* natsdesk_rest waits for so long, or until the desk is to stop: then it is true. */
bool natsdesk_rest(struct natsdesk *desk, unsigned ms);

/* natsdesk_trouble logs what is wrong, once, as long as it lasts; natsdesk_fine says that it is
 * over. */
void natsdesk_trouble(struct natsdesk *desk, const struct err *err);
void natsdesk_fine(struct natsdesk *desk);

/* natsdesk_steady_us is a time that never jumps. */
int64_t natsdesk_steady_us(void);

/* natsdesk_call has the engine carry out a command, by this desk. */
enum status natsdesk_call(struct natsdesk *desk, struct command *command, enum command_kind kind,
                          struct arena *arena);

#endif
