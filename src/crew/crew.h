/* crew: so many attempts at a time, fed by leases and emptied by reports, whatever its craft is.
 *
 *     engine --leases--> waiting --slot is free--> running --ended--> outbox --results--> engine
 *
 * The crew takes leases ahead of need, but only as many as the commands' speed makes useful: with
 * quick commands a slot never waits for a commit, with slow ones next to nothing is held that
 * another worker could run.  Outcomes are reported in batches, in the order in which they came;
 * until the engine has acknowledged one it is kept and sent again.  Leases are kept alive by
 * heartbeats, which also tell of cancelled jobs and lost leases. */
#ifndef LAZARET_CREW_CREW_H
#define LAZARET_CREW_CREW_H

#include "crew/craft.h"
#include "crew/link.h"
#include "crew/watch.h"

struct crew;

/* struct crew_report: what the engine made of an outcome. */
struct crew_report {
    enum watch_what what;
    struct slice job_id, item_id, dlq_id;
    struct instant retry_at;
};

struct crew_config {
    struct loop *loop;
    const struct link *link;
    const struct watch *watch;
    struct craft craft;
    const char *worker_id;
    const char *const *queues; /* NULL: every queue */
    size_t queue_count;
    const char *const *capabilities;
    size_t capability_count;
    const char *const *scopes; /* that the worker is limited to; NULL: any */
    size_t scope_count;
    const char *const *permissions;
    size_t permission_count;
    const struct slice *job_ids; /* the only jobs that it takes; NULL: any */
    size_t job_id_count;
    unsigned parallel;
    bool alone;   /* nobody else can run these jobs: what was leased is kept, in its order */
    bool careful; /* after a failure nothing begins until it is known what follows */
    enum watch_what dead_is; /* what a death is called: WATCH_QUARANTINED or WATCH_SKIPPED */
    struct span lease;       /* how long a lease lasts without a heartbeat */
    struct span wait;        /* how long a request for leases waits for a job */
    /* reported is called for each outcome that the engine has taken down. */
    void (*reported)(void *ctx, const struct crew_report *report);
    /* idle is called when nothing runs, waits or is on its way, and no lease came: once for each
     * time that a request for leases came back empty. */
    void (*idle)(void *ctx);
    /* forbidden is called when the engine does not let us ask (a token that it does not know), or
     * says that it could never answer (no such queue's name).  NULL: it is tried again. */
    void (*forbidden)(void *ctx, enum status status, const struct err *err);
    void *ctx;
};

enum status crew_open(const struct crew_config *config, struct crew **out, struct err *err);
void crew_close(struct crew *crew); /* NULL is fine; it must be at rest */

/* crew_go begins, or goes on, taking leases. */
void crew_go(struct crew *crew);

/* crew_expect says how many of its named jobs (job_ids) have not come to their end: leases are
 * asked for only while there can be some. */
void crew_expect(struct crew *crew, size_t jobs);

/* crew_drain ends the taking: leases that wait are given back, what runs may finish.  `rested` is
 * called, from the loop, when everything is reported. */
void crew_drain(struct crew *crew, void (*rested)(void *ctx), void *ctx);

/* crew_stop ends what runs too: as interrupted, so that it will run again.  With `now` without time
 * to end well. */
void crew_stop(struct crew *crew, bool now);

/* crew_hurry, after crew_drain and crew_stop: what cannot be reported then is given up, and not
 * tried again and again.  The engine takes such a run for crashed when its lease ends. */
void crew_hurry(struct crew *crew);

/* crew_quit gives up on reports that cannot be delivered (the store is gone): `rested` is called
 * soon. */
void crew_quit(struct crew *crew);

/* crew_cut_off has the engine end the leases of a worker of that name which is gone: what it had
 * goes on at once, and does not count.  `message` is for the record; NULL: the engine's own words.
 */
enum status crew_cut_off(const struct link *link, const char *worker_id, const char *message,
                         struct err *err);

struct watch_counts crew_counts(
    const struct crew *crew); /* running, retrying, failed_attempts, slowest; the rest is 0 */
bool crew_is_idle(const struct crew *crew); /* nothing runs, waits or is to be reported */

#endif
