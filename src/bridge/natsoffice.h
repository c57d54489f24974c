/* natsoffice: the NATS bridge of a server.
 *
 *     ingest      letters of the stream DLQ come in, and are acknowledged when they are on disk
 *     republish   letters from elsewhere that are brought back go out again (core/replay.h)
 *     announce    dead letters of this server's own jobs go out under their subject
 *
 * Each is a desk with a thread and a connection of its own.  Any number of servers may have an
 * office: they share the consumer, the queue of replays and the duty to announce.  While NATS is
 * away everything else works, and nothing is lost. */
#ifndef LAZARET_BRIDGE_NATSOFFICE_H
#define LAZARET_BRIDGE_NATSOFFICE_H

#include "bridge/natslink.h"
#include "engine/engine.h"

struct natsoffice;

struct natsoffice_config {
    struct engine *engine;        /* it outlives the office */
    struct natslink_options nats; /* but for the callbacks, which are the office's; copied */
    const char *server_name;      /* how this server is told from others; copied */
};

/* natsoffice_open starts the bridge.  That NATS is away is no error: it connects later, by itself.
 * STATUS_INVALID, STATUS_REFUSED: an option or the credentials are wrong. */
enum status natsoffice_open(const struct natsoffice_config *config, struct natsoffice **out,
                            struct err *err);

/* natsoffice_drain begins nothing new: what is under way is finished by natsoffice_close. */
void natsoffice_drain(struct natsoffice *office);

/* natsoffice_close finishes what is under way and disconnects.  What was not acknowledged is
 * delivered again, to this server or another.  NULL is fine. */
void natsoffice_close(struct natsoffice *office);

/* natsoffice_publish sends a message to whoever listens, and does not wait: false when there is no
 * connection, or the subject or the size is not accepted.  Any thread. */
bool natsoffice_publish(struct natsoffice *office, struct slice subject, struct slice body);

/* struct natsoffice_counts: what has happened since the start. */
struct natsoffice_counts {
    uint64_t ingested;         /* letters that were taken in, */
    uint64_t malformed;        /* those among them that were no letters, */
    uint64_t duplicates;       /* and those that were known */
    uint64_t replayed;         /* letters that were published again, */
    uint64_t refused;          /* and those that nobody took */
    uint64_t announced;        /* own letters that were published */
    uint64_t announce_skipped; /* and those that the stream refused for good */
    uint64_t reconnects;       /* of all desks */
    bool connected;            /* all desks are */
};
void natsoffice_counts(struct natsoffice *office, struct natsoffice_counts *out);

#endif
