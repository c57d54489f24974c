/* call: one request while it is carried out: what every resource's file works with.
 *
 * A handler reads its input (query.., body.h) and says what the engine is to do and what follows
 * (call_then, call_read_then); what follows writes the answer through `out`, or asks the engine
 * again.  No thread is held meanwhile: what must outlive the handler is in the call's arena.  Each
 * step returns STATUS_OK, or a status with `err` filled; api.c turns that into the error answer.
 *
 *     enum status jobs_cancel(struct call *call)
 *     {
 *         ...
 *         return call_then(call, &cancel->command, cancelled, cancel);
 *     }
 *     static enum status cancelled(struct call *call, enum status status) ...
 *
 * A handler of a slow route (api.c says which) has a thread to itself: it may also wait, as often
 * as it likes (call_run, call_read).
 *
 * Readers of input are sticky: the first thing that is wrong is kept in `status` and `err`, and
 * everything that is read after it is a default.  So a handler reads all it needs and asks once.
 *
 *     struct slice queue = query_text(call, "queue");
 *     int64_t limit = query_limit(call);
 *     if (call->status != STATUS_OK)
 *         return call->status; */
#ifndef LAZARET_API_CALL_H
#define LAZARET_API_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "base/jsonw.h"
#include "core/failure.h"

#define PAGE_LIMIT_DEFAULT 50
#define PAGE_LIMIT_MAX 1000
#define PAGE_BYTES_MAX (16u << 20) /* a page that holds this much ends early, with a cursor */

/* struct call_param: one parameter of the query, decoded. */
struct call_param {
    struct slice name, value;
};

struct call;

/* call_next is the step that follows when the engine is done.  `status` is what it answered; when
 * that is an error, call->err has its sentence. */
typedef enum status (*call_next)(struct call *call, enum status status);

struct call {
    struct api *api;
    struct engine *engine; /* the api's */
    const struct api_request *request;
    struct api_answer *answer;
    struct arena arena; /* everything that this call allocates; freed at its end */
    struct slice id;    /* the {...} segment of the path, decoded; empty: the route has none */
    int argument;       /* the route's, such as an enum review_action */
    struct call_param *params; /* the query */
    size_t param_count;
    struct jsonw out;          /* writes the answer's body */
    enum status status;        /* the first thing that was wrong with the input */
    struct err err;            /* and the sentence for it, or for what the handler returns */
    int http_status;           /* of an error: instead of the one its status maps to; 0: that one */
    const char *code;          /* likewise for its code; NULL: that one */
    struct slice error_job_id; /* of an error: the job that is in the way; empty: none */
    struct command *command;   /* what the engine has to do next; NULL: nothing */
    call_next next;            /* the step after it */
    void *state;               /* the handler's own, for that step */
    bool may_wait;             /* this thread may wait for the engine: the route is slow */
    struct lease_command *leased; /* jobs that the answer hands out; NULL: none */
};

/* call_fail keeps the first error of the input and returns the call's status. */
enum status call_fail(struct call *call, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* call_forgive forgets the error of one entry, so that the next can be read. */
void call_forgive(struct call *call);

/* call_alloc is zeroed memory of the call's arena; NULL, with the call failed, when it is
 * exhausted. */
void *call_alloc(struct call *call, size_t size);

/* call_command is the head of a command of this call, by its actor. */
struct command call_command(struct call *call, enum command_kind kind);

/* call_command_by is the same for an actor that the body names; an empty one is the call's.  An
 * asker who is known by a token cannot be another. */
struct command call_command_by(struct call *call, enum command_kind kind, struct slice claimed);

/* call_mask is what this asker may not see; NULL: it sees everything. */
const struct redaction *call_mask(const struct call *call);

/* call_then has the engine carry out a command, and `next` follow it.  `state` is kept in
 * call->state.  The command and what it points to live in the call's arena. */
enum status call_then(struct call *call, struct command *command, call_next next, void *state);

/* call_run has the engine carry out a command, and waits.  Its error becomes the call's. */
enum status call_run(struct call *call, struct command *command);

typedef enum status (*call_reader)(struct engine *engine, struct store *store, void *ctx,
                                   struct arena *arena, struct err *err);

/* call_read_then has `read` run on the engine's thread, with `ctx` (which becomes call->state) and
 * answers in the call's arena, and `next` follow it. */
enum status call_read_then(struct call *call, call_reader read, void *ctx, call_next next);

/* call_read has `read` run on the engine's thread, with answers in `arena`, and waits. */
enum status call_read(struct call *call, call_reader read, void *ctx, struct arena *arena);

/* call_now is the time that the engine goes by.  It waits. */
enum status call_now(struct call *call, struct instant *out);

/* ---- the query ------------------------------------------------------------------------------- */

/* query_parse decodes the query.  A parameter that `known` (names with spaces between) does not
 * list, or that stands twice, is an error. */
enum status query_parse(struct call *call, const char *known);

/* An absent parameter and an empty one are the same: the default. */
struct slice query_text(struct call *call, const char *name);
int64_t query_int(struct call *call, const char *name, int64_t min, int64_t max, int64_t fallback);
enum tristate query_tristate(struct call *call, const char *name); /* true or false */
struct instant query_instant(struct call *call, const char *name); /* RFC 3339 */
size_t query_limit(struct call *call);                             /* `limit` of a page */
int64_t query_cursor(struct call *call);                           /* `cursor` of a page */

/* url_decode undoes percent-encoding.  `plus` says that "+" is a space.  What comes out must be
 * UTF-8 without a NUL. */
enum status url_decode(struct slice text, bool plus, struct arena *arena, struct slice *out,
                       struct err *err);

/* words_have says whether `words` (with single spaces between) has `word` among them. */
bool words_have(const char *words, struct slice word);

#endif
