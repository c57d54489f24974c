/* api: the table of routes, and the errors.
 *
 * A path is matched segment by segment, the first route that fits wins, so a fixed name stands
 * before the {id} that would also match it.  A trailing slash does not matter.  When only the
 * method is wrong the answer is 405, when no route has the path 404. */
#include "api/api.h"

#include "api/call.h"
#include "api/routes.h"
#include "core/letter.h"

#define ANSWER_MAX ((size_t)1 << 30) /* bytes of an answer; pages end long before it */

struct route {
    const char *method;
    const char *pattern;
    enum status (*handler)(struct call *call);
    const char *params; /* the query parameters it knows, with spaces between */
    int argument;       /* for a handler that serves several routes */
};

#define LETTER_PARAMS                                                                              \
    "recovered reason source limit queue state signature fingerprint error_type q job_id "         \
    "trace_id agent actor eligible recoverable after before attempts_min attempts_max sort cursor"

static const struct route routes[] = {
    {"POST", "/api/v1/jobs", jobs_push, "", 0},
    {"GET", "/api/v1/jobs", jobs_list, "state queue limit cursor", 0},
    {"GET", "/api/v1/jobs/{id}", jobs_get, "", 0},
    {"POST", "/api/v1/jobs/{id}/cancel", jobs_cancel, "", 0},

    {"POST", "/api/v1/leases", leases_take, "", 0},
    {"POST", "/api/v1/leases/heartbeat", leases_heartbeat, "", 0},
    {"POST", "/api/v1/leases/release", leases_release, "", 0},
    {"POST", "/api/v1/results", results_report, "", 0},

    {"GET", "/api/v1/dlq", dlq_list, LETTER_PARAMS, 0},
    {"GET", "/api/v1/dlq/stats", dlq_stats, "", 0},
    {"GET", "/api/v1/dlq/like", dlq_like, "prefix limit", 0},
    {"GET", "/api/v1/dlq/analyze", analyze_letters, "job_id", 0},
    {"GET", "/api/v1/dlq/groups", groups_list, "all limit cursor", 0},
    {"GET", "/api/v1/dlq/groups/{id}", groups_get, "", 0},
    {"POST", "/api/v1/dlq/groups/{id}/retry", groups_review, "", REVIEW_RETRY},
    {"POST", "/api/v1/dlq/groups/{id}/discard", groups_review, "", REVIEW_DISCARD},
    {"POST", "/api/v1/dlq/groups/{id}/resolve", groups_set, "", GROUP_RESOLVED},
    {"POST", "/api/v1/dlq/groups/{id}/ignore", groups_set, "", GROUP_IGNORED},
    {"POST", "/api/v1/dlq/groups/{id}/reopen", groups_set, "", GROUP_OPEN},
    {"POST", "/api/v1/dlq/retry-all", bulk_retry_all, "", 0},
    {"POST", "/api/v1/dlq/retry", bulk_review, "", REVIEW_RETRY},
    {"POST", "/api/v1/dlq/discard", bulk_review, "", REVIEW_DISCARD},
    {"POST", "/api/v1/dlq/purge", purge_old, "", 0},
    {"POST", "/api/v1/dlq/clear", purge_run, "", 0},
    {"POST", "/api/v1/dlq/import", import_letters, "job_id", 0},
    {"GET", "/api/v1/dlq/{id}", dlq_get, "", 0},
    {"POST", "/api/v1/dlq/{id}/retry", dlq_review, "", REVIEW_RETRY},
    {"POST", "/api/v1/dlq/{id}/discard", dlq_review, "", REVIEW_DISCARD},
    {"POST", "/api/v1/dlq/{id}/rollback", dlq_review, "", REVIEW_ROLLBACK},
    {"POST", "/api/v1/dlq/{id}/escalate", dlq_review, "", REVIEW_ESCALATE},
    {"POST", "/api/v1/dlq/{id}/restore", dlq_review, "", REVIEW_RESTORE},

    {"GET", "/api/v1/queues", queues_list, "", 0},
    {"POST", "/api/v1/queues/{id}/pause", queues_pause, "", true},
    {"POST", "/api/v1/queues/{id}/resume", queues_pause, "", false},

    {"GET", "/api/v1/policies", policies_list, "", 0},
    {"POST", "/api/v1/policies/simulate", policies_simulate, "", 0},
    {"GET", "/api/v1/policies/{id}", policies_get, "", 0},
    {"PUT", "/api/v1/policies/{id}", policies_put, "", 0},
    {"GET", "/api/v1/policies/{id}/explain", policies_explain, "", 0},

    {"GET", "/api/v1/audit", audit_list, "job_id dlq_id after limit", 0},
    {"GET", "/api/v1/audit/head", audit_head, "", 0},
    {"GET", "/api/v1/audit/verify", audit_verify, "after", 0},

    {"GET", "/api/v1/status", status_get, "", 0},
};

#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

/* ---- errors ---------------------------------------------------------------------------------- */

static const int http_statuses[STATUS_COUNT] = {
    [STATUS_OK] = 200,          [STATUS_INVALID] = 400,    [STATUS_NOT_FOUND] = 404,
    [STATUS_CONFLICT] = 409,    [STATUS_REFUSED] = 403,    [STATUS_LIMIT] = 429,
    [STATUS_TOO_LARGE] = 413,   [STATUS_LEASE_LOST] = 409, [STATUS_NO_MEMORY] = 503,
    [STATUS_IO] = 503,          [STATUS_FULL] = 503,       [STATUS_READ_ONLY] = 503,
    [STATUS_CORRUPT] = 503,     [STATUS_FOREIGN] = 503,    [STATUS_BUSY] = 503,
    [STATUS_UNAVAILABLE] = 503,
};

/* answer_error replaces whatever was written with the error. */
static void answer_error(struct call *call, enum status status)
{
    struct api_answer *answer = call->answer;
    BUG_ON(status == STATUS_OK || status >= STATUS_COUNT);
    answer->status = call->http_status ? call->http_status : http_statuses[status];
    answer->cursor = 0;
    if (status == STATUS_LIMIT && answer->retry_after_s < 1)
        answer->retry_after_s = 1;
    buf_clear(&answer->body);
    jsonw_init(&call->out, &answer->body);
    jsonw_object(&call->out);
    jsonw_put_str(&call->out, "error", call->err.text[0] ? call->err.text : status_name(status));
    jsonw_put_str(&call->out, "code", call->code ? call->code : status_name(status));
    jsonw_put_text(&call->out, "job_id", call->error_job_id);
    if (answer->retry_after_s)
        jsonw_put_int(&call->out, "retry_after", answer->retry_after_s);
    jsonw_object_end(&call->out);
    buf_add_char(&answer->body, '\n');
}

/* ---- routing --------------------------------------------------------------------------------- */

/* next_segment takes "/name" off the front of a path. */
static bool next_segment(struct slice *path, struct slice *segment)
{
    if (path->len == 0 || path->ptr[0] != '/')
        return false;
    const char *begin = path->ptr + 1;
    size_t rest = path->len - 1;
    const char *end = rest ? memchr(begin, '/', rest) : NULL;
    size_t len = end ? (size_t)(end - begin) : rest;
    *segment = (struct slice){begin, len};
    *path = (struct slice){begin + len, rest - len};
    return true;
}

/* match says whether a path fits a pattern; `id` is what stands for its {...}, still encoded. */
static bool match(const char *pattern, struct slice path, struct slice *id)
{
    struct slice rest = slice_of(pattern), want, have;
    *id = (struct slice){0};
    while (next_segment(&rest, &want)) {
        if (!next_segment(&path, &have) || have.len == 0)
            return false;
        if (want.ptr[0] == '{')
            *id = have;
        else if (!slice_eq(want, have))
            return false;
    }
    return path.len == 0;
}

static enum status no_route(struct call *call, const struct route *other)
{
    if (!other)
        return err_set(&call->err, STATUS_NOT_FOUND, "no such path");
    call->http_status = 405;
    call->code = "method_not_allowed";
    return err_set(&call->err, STATUS_INVALID, "%s is not allowed here; try %s",
                   call->request->method, other->method);
}

static enum status dispatch(struct call *call)
{
    struct slice path = call->request->path, id = {0};
    const struct route *found = NULL, *other = NULL;
    if (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    for (size_t i = 0; i < ROUTE_COUNT && !found; i++) {
        if (!match(routes[i].pattern, path, &id))
            continue;
        if (strcmp(routes[i].method, call->request->method) == 0)
            found = &routes[i];
        else if (!other)
            other = &routes[i];
    }
    if (!found)
        return no_route(call, other);
    enum status status = query_parse(call, found->params);
    if (status == STATUS_OK && id.len)
        status = url_decode(id, false, &call->arena, &call->id, &call->err);
    if (status != STATUS_OK)
        return status;
    call->argument = found->argument;
    return found->handler(call);
}

/* finish ends the body.  An answer that could not be kept whole is no answer. */
static enum status finish(struct call *call)
{
    buf_add_char(&call->answer->body, '\n');
    enum status status = buf_status(&call->answer->body, &call->err);
    if (status == STATUS_TOO_LARGE)
        return err_set(&call->err, STATUS_UNAVAILABLE,
                       "the answer has over %zu bytes: ask for a smaller page", ANSWER_MAX);
    return status;
}

void api_answer_init(struct api_answer *answer)
{
    *answer = (struct api_answer){0};
    buf_init(&answer->body, ANSWER_MAX);
}

void api_answer_release(struct api_answer *answer)
{
    buf_release(&answer->body);
    *answer = (struct api_answer){0};
}

void api_call(struct engine *engine, const struct api_request *request, struct api_answer *answer)
{
    struct call call = {.engine = engine, .request = request, .answer = answer};
    answer->status = 200;
    answer->cursor = 0;
    answer->retry_after_s = 0;
    buf_clear(&answer->body);
    jsonw_init(&call.out, &answer->body);
    enum status status = dispatch(&call);
    if (status == STATUS_OK)
        status = finish(&call);
    if (status != STATUS_OK)
        answer_error(&call, status);
    arena_release(&call.arena);
}
