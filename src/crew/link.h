/* link: how a crew talks to the engine: requests of INTERFACES 5, whoever carries them.
 *
 * Who uses it knows neither the connection nor the API behind it.  `call` may be used by several
 * threads at once. */
#ifndef LAZARET_CREW_LINK_H
#define LAZARET_CREW_LINK_H

#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/status.h"

struct link {
    /* call carries out one request and appends the answer's body, JSON, to `answer`; `*http` is its
     * status. STATUS_OK: there is an answer, whatever it says.  STATUS_UNAVAILABLE, STATUS_BUSY:
     * nobody can be reached. */
    enum status (*call)(void *ctx, const char *method, const char *path, struct slice body,
                        struct buf *answer, int *http, struct err *err);
    void *ctx;
};

/* link_ask calls and reads the answer; an answer that is an error (4xx, 5xx) becomes a status, with
 * its sentence in `err`.  `answer` is cleared first; `value` borrows from it. */
enum status link_ask(const struct link *link, const char *method, const char *path,
                     struct slice body, struct buf *answer, struct json *value, struct err *err);

#endif
