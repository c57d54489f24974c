/* api: the resources of INTERFACES 5 as requests and answers, whatever carries them.
 *
 * A request is a method, a path, a query and a body; an answer is an HTTP status and JSON.  The
 * command line and the library hand requests to api_call() inside the process; a server hands it
 * what came over a socket.  So each resource is read, checked, carried out and printed in one
 * place.
 *
 *     api.c        the table of routes, and the errors
 *     jobs.c       /api/v1/jobs, leases, results
 *     dlq.c        /api/v1/dlq
 *     ...          one file for each resource */
#ifndef LAZARET_API_API_H
#define LAZARET_API_API_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "engine/engine.h"

struct api_request {
    const char *method; /* "GET", "POST", "PUT" */
    struct slice path;  /* "/api/v1/dlq/0192..." : percent-encoded */
    struct slice query; /* "reason=timeout&limit=5": percent-encoded, without the "?" */
    struct slice body;
    struct slice content_type; /* empty: JSON */
    struct slice actor;        /* who asks: stands in every event */
};

struct api_answer {
    int status;            /* an HTTP status */
    struct buf body;       /* JSON and a newline */
    int64_t cursor;        /* of a listing: X-Next-Cursor; 0: no next page */
    int64_t retry_after_s; /* of 429: Retry-After; 0: none */
};

void api_answer_init(struct api_answer *answer);
void api_answer_release(struct api_answer *answer);

/* api_call carries out one request and fills the answer; it always has a status and a body. */
void api_call(struct engine *engine, const struct api_request *request, struct api_answer *answer);

#endif
