/* steward: a thread that does what a server does by itself beside its work: it brings letters back
 * (scanner.h), says that letters died (alerts.h) and takes in what other programs wrote (clerk.h).
 *
 *     open --> [ clerk | alerts | scanner, each at its time; or sleep until then ] --> close */
#ifndef LAZARET_BRIDGE_STEWARD_H
#define LAZARET_BRIDGE_STEWARD_H

#include "bridge/alerts.h"

struct steward;

/* struct steward_config: `{0}` but for `engine` and `server` has nothing to do.  Texts are copied;
 * `alerts.redaction` outlives the steward. */
struct steward_config {
    struct engine *engine;       /* it has its thread, and outlives the steward */
    const char *server;          /* the name of this server, as no other of the store has it */
    struct span scan_interval;   /* 0: no scanner */
    struct alerts_config alerts; /* neither target nor publish: no alerts */
    bool has_inbox;              /* other programs write into the store: there is a clerk */
    const struct seams *seams;   /* NULL: the world */
};

enum status steward_open(const struct steward_config *config, struct steward **out,
                         struct err *err);

/* steward_poke has the steward look at once: something was written by others.  Any thread. */
void steward_poke(struct steward *steward);

/* steward_close ends within a second, when the engine answers, and gives its duties up.  NULL is
 * fine. */
void steward_close(struct steward *steward);

/* struct steward_counts: for the metrics. */
struct steward_counts {
    uint64_t scans, replayed, refused; /* of the scanner */
    uint64_t left;                     /* at the last scan: letters that came back too often */
    uint64_t alerts_slack, alerts_webhook, alerts_nats;         /* messages */
    uint64_t alerts_firsts, alerts_digested, alerts_suppressed; /* letters */
    uint64_t alerts_failed;                                     /* messages that NATS never took */
    uint64_t inbox_imported, inbox_malformed, inbox_settled, inbox_ignored;
};

/* steward_counts reads them.  Any thread; NULL gives zeros. */
void steward_counts(struct steward *steward, struct steward_counts *out);

#endif
