/* link: how a crew talks to the engine: requests of INTERFACES 5, whoever carries them.
 *
 * Who uses it knows neither the connection nor the API behind it.  `call` may be used by several
 * threads at once. */
#ifndef LAZARET_CREW_LINK_H
#define LAZARET_CREW_LINK_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/status.h"

struct link {
    /* call carries out one request (`path` may have a query after a "?") and appends the answer's
     * body, JSON, to `answer`; `*http` is its status. STATUS_OK: there is an answer, whatever it
     * says.  STATUS_UNAVAILABLE, STATUS_BUSY: nobody can be reached. */
    enum status (*call)(void *ctx, const char *method, const char *path, struct slice body,
                        struct buf *answer, int *http, struct err *err);
    /* page is call for a GET of a listing: `*cursor` becomes what stands as `cursor` in the query
     * for the next page; 0: this one is the last.  NULL where nobody reads listings. */
    enum status (*page)(void *ctx, const char *path, struct buf *answer, int64_t *cursor, int *http,
                        struct err *err);
    void *ctx;
};

/* link_ask calls and reads the answer; an answer that is an error (4xx, 5xx) becomes a status, with
 * its sentence in `err`.  `answer` is cleared first; `value` borrows from it. */
enum status link_ask(const struct link *link, const char *method, const char *path,
                     struct slice body, struct buf *answer, struct json *value, struct err *err);

/* link_page is link_ask for a page of a listing. */
enum status link_page(const struct link *link, const char *path, struct buf *answer,
                      struct json *value, int64_t *cursor, struct err *err);

/* link_path is `before` and a name, percent-encoded; NULL when memory is exhausted. */
const char *link_path(const char *before, struct slice name, struct arena *arena);

#endif
