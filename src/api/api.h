/* api: the resources of INTERFACES 5 as requests and answers, whatever carries them.
 *
 * A request is a method, a path, a query and a body; an answer is an HTTP status and a body.  The
 * command line and the library hand requests to api_call() inside the process; a server carries
 * them out with an api_run, which holds no thread while it waits for the engine.  So each resource
 * is read, checked, carried out and printed in one place.
 *
 *     api.c        the table of routes, and the errors
 *     jobs.c       /api/v1/jobs
 *     dlq.c        /api/v1/dlq
 *     ...          one file for each resource */
#ifndef LAZARET_API_API_H
#define LAZARET_API_API_H

#include "api/role.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "core/redact.h"
#include "engine/engine.h"

struct expose;
struct meter;
struct receipts;
struct targets;

/* struct api: what requests are carried out on.  The caller keeps it, unchanged, for as long as
 * anything asks. */
struct api {
    struct engine *engine;
    const struct redaction *redaction; /* masks views below ROLE_REVIEWER; NULL: nothing */
    struct meter *meter;               /* the carrier's numbers, for /metrics; NULL: none */
    struct receipts *receipts;         /* receipts that were sent, likewise; NULL: not counted */
    const struct targets *targets;     /* where deliveries may go; NULL: nowhere */
    bool no_metrics;                   /* GET /metrics is not answered */
    /* outside writes what other parts of the process count, for /metrics; NULL: nothing.  Any
     * thread, several at once. */
    void (*outside)(void *ctx, struct expose *expose);
    void *outside_ctx;
};

struct api_request {
    const char *method; /* "GET", "POST", "PUT" */
    struct slice path;  /* "/api/v1/dlq/0192..." : percent-encoded */
    struct slice query; /* "reason=timeout&limit=5": percent-encoded, without the "?" */
    struct slice body;
    struct slice content_type; /* empty: JSON */
    struct slice actor;        /* who asks: stands in every event */
    enum role role;            /* and as what */
    bool actor_proven;         /* by a token: a body that claims another actor is not believed */
};

struct api_answer {
    int status;               /* an HTTP status */
    struct buf body;          /* JSON and a newline, unless `content_type` says otherwise */
    const char *content_type; /* NULL: JSON */
    int64_t cursor;           /* of a listing: X-Next-Cursor; 0: no next page */
    int64_t retry_after_s;    /* of 429 and 503: Retry-After; 0: none */
    const char *allow;        /* of 405: Allow; NULL: none */
};

void api_answer_init(struct api_answer *answer);
void api_answer_release(struct api_answer *answer);

/* api_answer_error makes an answer of an error that a carrier found: {"error","code"}. */
void api_answer_error(struct api_answer *answer, int http_status, const char *code,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* api_call carries out one request and fills the answer; it always has a status and a body.  It
 * waits for the engine: never on the engine's thread. */
void api_call(struct api *api, const struct api_request *request, struct api_answer *answer);

/* ---- without holding a thread -----------------------------------------------------------------
 */

/* struct api_run: a request on its way.
 *
 *     api_run_new --> api_run_step --+-- API_DONE ----> the answer is there
 *                          ^         +-- API_ENGINE --> api_run_submit ... wake --+
 *                          |         +-- API_SLOW ----> api_run_block, by a thread that may wait
 *                          |         `-- API_EVENTS --> a stream: the carrier's business
 *                          +------------------------------------------------------+   */
struct api_run;

enum api_progress {
    API_DONE,   /* the answer is filled */
    API_ENGINE, /* the engine has something to do: api_run_submit, then step again */
    API_SLOW,   /* many steps follow: api_run_block does them all; then the answer is filled */
    API_EVENTS, /* GET /api/v1/events, permitted: the carrier has to stream */
};

/* api_run_new begins.  The request's texts and the answer are the caller's, and stay until
 * api_run_free.  NULL when memory is exhausted. */
struct api_run *api_run_new(struct api *api, const struct api_request *request,
                            struct api_answer *answer);
enum api_progress api_run_step(struct api_run *run);

/* api_run_submit hands the work to the engine.  `wake` is called on the engine's thread when it is
 * done, perhaps before this returns; it must not wait, and not step. */
void api_run_submit(struct api_run *run, void (*wake)(void *ctx), void *ctx);

/* api_run_block does what is left, waiting for the engine as often as it takes. */
void api_run_block(struct api_run *run);

/* api_run_abandon says that nobody waits for the answer: a lease that waits for a job ends its wait
 * soon.  Only between api_run_submit and the step after its wake.  Any thread. */
void api_run_abandon(struct api_run *run);

/* api_run_undelivered says that the answer did not reach the asker: leases that it handed out are
 * given back, and count as no attempt.  The engine must have answered what was submitted, whether
 * or not a step followed.  Any thread but the engine's. */
void api_run_undelivered(struct api_run *run);

/* api_run_waits says that the engine may keep it for long: somebody should look whether the asker
 * is still there. */
bool api_run_waits(const struct api_run *run);

/* api_run_leased says that the answer hands out leases. */
bool api_run_leased(const struct api_run *run);

/* api_run_param is a parameter of the query, decoded; empty: it has none of that name. */
struct slice api_run_param(struct api_run *run, const char *name);

/* api_run_route is the pattern of the route, such as "/api/v1/jobs/{id}"; "none" when there is
 * none.  For logs and metrics. */
const char *api_run_route(const struct api_run *run);

void api_run_free(struct api_run *run); /* NULL is fine */

/* api_route_find is the number of the route for a method and a path, from 0; -1: none.
 * api_route_pattern and api_route_method are what the table says of it; NULL: there is no such
 * route. api_route_role is who may ask. */
int api_route_find(const char *method, struct slice path);
const char *api_route_pattern(int route);
const char *api_route_method(int route);
enum role api_route_role(int route);

#endif
