/* lazaret.c: the public functions over one data directory.
 *
 * Each is the same three steps: make a command of the arguments, have the engine carry it out, copy
 * the answer into memory of the caller's. */
#include "lib/lib.h"

#include <inttypes.h>
#include <unistd.h>

#include "api/api.h"
#include "base/mem.h"
#include "core/event.h"

/* ---- status ---------------------------------------------------------------------------------- */

static enum lz_status public_status(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return LZ_OK;
    case STATUS_INVALID:
    case STATUS_TOO_LARGE:
        return LZ_INVALID;
    case STATUS_NOT_FOUND:
        return LZ_NOT_FOUND;
    case STATUS_CONFLICT:
        return LZ_CONFLICT;
    case STATUS_REFUSED:
        return LZ_REFUSED;
    case STATUS_LIMIT:
        return LZ_LIMIT;
    case STATUS_LEASE_LOST:
        return LZ_LEASE_LOST;
    case STATUS_NO_MEMORY:
        return LZ_NO_MEMORY;
    case STATUS_BUSY:
        return LZ_BUSY;
    default:
        return LZ_STORE;
    }
}

const char *lz_status_name(enum lz_status status)
{
    static const char *const names[] = {
        [LZ_OK] = "ok",
        [LZ_INVALID] = "invalid",
        [LZ_NOT_FOUND] = "not_found",
        [LZ_CONFLICT] = "conflict",
        [LZ_REFUSED] = "refused",
        [LZ_LIMIT] = "limit",
        [LZ_LEASE_LOST] = "lease_lost",
        [LZ_NO_MEMORY] = "no_memory",
        [LZ_STORE] = "store",
        [LZ_BUSY] = "busy",
        [LZ_UNAVAILABLE] = "unavailable",
    };
    return (size_t)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown";
}

const char *lz_version(void)
{
    return LAZARET_VERSION;
}

void lz_free(void *ptr)
{
    mem_free(ptr);
}

enum lz_status lib_fail(struct lz_error *error, enum status status, const struct err *err)
{
    if (error) {
        error->status = public_status(status);
        snprintf(error->text, sizeof(error->text), "%s", err->text);
    }
    return public_status(status);
}

enum lz_status lib_ok(struct lz_error *error)
{
    if (error)
        *error = (struct lz_error){0};
    return LZ_OK;
}

static void copy_text(char *out, size_t size, struct slice text)
{
    size_t len = text.len < size - 1 ? text.len : size - 1;
    if (len)
        memcpy(out, text.ptr, len);
    out[len] = '\0';
}

/* ---- opening --------------------------------------------------------------------------------- */

static void config_from_options(const struct lz_options *options, struct station_config *config)
{
    config->data = options->data;
    config->lock_wait_ms = options->lock_wait_ms;
    config->engine.live_max = (size_t)options->live_jobs_max;
    config->engine.retention.done = span_from_seconds(options->keep_done_seconds);
    config->engine.retention.recovered = span_from_seconds(options->keep_recovered_seconds);
    config->engine.retention.discarded = span_from_seconds(options->keep_discarded_seconds);
}

enum lz_status lz_open(const struct lz_options *options, struct lz **out, struct lz_error *error)
{
    static const struct lz_options defaults;
    struct owner_config config = {0};
    struct err err = {0};
    if (!options)
        options = &defaults;
    config_from_options(options, &config.station);
    config.no_socket = options->no_socket;
    struct lz *lz = mem_zalloc(sizeof(*lz));
    if (!lz)
        return lib_fail(error, err_no_memory(&err), &err);
    buf_init(&lz->actor, ENVELOPE_ID_MAX);
    if (options->actor && *options->actor)
        buf_add_str(&lz->actor, options->actor);
    else
        buf_addf(&lz->actor, "lib:%ld", (long)getpid());
    enum status status = buf_status(&lz->actor, &err);
    if (status)
        err_prefix(&err, "actor");
    else
        status = owner_open(&config, &lz->owner, &err);
    if (status) {
        lz_close(lz);
        return lib_fail(error, status, &err);
    }
    lz->engine = owner_engine(lz->owner);
    *out = lz;
    return lib_ok(error);
}

void lz_close(struct lz *lz)
{
    if (!lz)
        return;
    owner_close(lz->owner);
    buf_release(&lz->actor);
    mem_free(lz);
}

/* ---- push ------------------------------------------------------------------------------------ */

enum lz_status lib_push(struct lz *lz, struct slice envelope, struct lz_pushed *out,
                        struct lz_error *error)
{
    struct arena arena = {0};
    struct err err = {0};
    struct push_item item = {0};
    struct push_command push = {
        .command = {.kind = COMMAND_PUSH, .actor = buf_slice(&lz->actor), .arena = &arena},
        .items = &item,
        .count = 1,
    };
    enum status status = envelope_parse(envelope, ENVELOPE_BODY_MAX, &arena, &item.envelope, &err);
    if (!status) {
        status = engine_call(lz->engine, &push.command);
        err = push.command.err;
    }
    if (!status && item.status) {
        status = item.status;
        err = item.err;
    }
    if (!status && out) {
        copy_text(out->job_id, sizeof(out->job_id), item.job_id);
        copy_text(out->state, sizeof(out->state), slice_of(job_state_name(item.state)));
        out->created = item.created;
    }
    arena_release(&arena);
    return status ? lib_fail(error, status, &err) : lib_ok(error);
}

enum lz_status lz_push(struct lz *lz, const char *envelope, struct lz_pushed *out,
                       struct lz_error *error)
{
    return lib_push(lz, slice_of(envelope), out, error);
}

/* ---- lease ----------------------------------------------------------------------------------- */

/* slices_of makes slices of a NULL-terminated array of strings. */
static const struct slice *slices_of(const char *const *texts, struct arena *arena, size_t *count,
                                     enum status *status, struct err *err)
{
    *count = 0;
    if (!texts)
        return NULL;
    while (texts[*count])
        (*count)++;
    struct slice *slices = arena_array(arena, *count + 1, sizeof(*slices));
    if (!slices)
        *status = err_no_memory(err);
    for (size_t i = 0; slices && i < *count; i++)
        slices[i] = slice_of(texts[i]);
    return slices;
}

static size_t text_size(struct slice text)
{
    return text.len + 1;
}

/* put_text copies a text behind the array of leases and moves `at` past it. */
static const char *put_text(char **at, struct slice text)
{
    const char *start = *at;
    copy_text(*at, text.len + 1, text);
    *at += text.len + 1;
    return start;
}

/* copy_leases makes one block of the leases and their texts, so that one call frees it. */
static struct lz_lease *copy_leases(const struct lease_command *lease)
{
    size_t size = (lease->count + 1) * sizeof(struct lz_lease);
    for (size_t i = 0; i < lease->count; i++) {
        const struct lease *from = &lease->leases[i];
        size += LEASE_ID_SIZE + text_size(from->job_id) + text_size(from->queue) +
                text_size(from->body);
    }
    struct lz_lease *out = mem_zalloc(size);
    if (!out)
        return NULL;
    char *at = (char *)&out[lease->count + 1];
    for (size_t i = 0; i < lease->count; i++) {
        const struct lease *from = &lease->leases[i];
        out[i] = (struct lz_lease){
            .lease_id = put_text(&at, slice_of(from->lease_id)),
            .job_id = put_text(&at, from->job_id),
            .queue = put_text(&at, from->queue),
            .attempt = from->attempt,
            .expires_at_us = from->expires_at.us,
            .envelope = put_text(&at, from->body),
            .envelope_len = from->body.len,
        };
    }
    return out;
}

/* give_back returns leases whose answer could not be delivered: no attempt is counted. */
static void give_back(struct lz *lz, const struct lease_command *lease)
{
    for (size_t i = 0; i < lease->count; i++)
        lz_release(lz, lease->leases[i].lease_id, NULL);
}

enum lz_status lz_lease(struct lz *lz, const struct lz_lease_options *options,
                        struct lz_lease **out, size_t *count, struct lz_error *error)
{
    static const struct lz_lease_options nobody;
    struct arena arena = {0};
    struct err err = {0};
    enum status status = STATUS_OK;
    *out = NULL;
    *count = 0;
    if (!options)
        options = &nobody;
    struct lease_command lease = {
        .command = {.kind = COMMAND_LEASE, .arena = &arena},
        .worker_id = slice_of(options->worker_id),
        .max = options->count ? options->count : 1,
        .lease = span_ms(options->lease_ms),
        .wait = span_ms(options->wait_ms),
    };
    struct ready_query *query = &lease.query;
    query->queues = slices_of(options->queues, &arena, &query->queue_count, &status, &err);
    query->capabilities =
        slices_of(options->capabilities, &arena, &query->capability_count, &status, &err);
    lease.command.actor = arena_printf(&arena, "worker:%.*s", SLICE_ARG(lease.worker_id));
    if (!status && !lease.command.actor.ptr)
        status = err_no_memory(&err);
    if (!status) {
        status = engine_call(lz->engine, &lease.command);
        err = lease.command.err;
    }
    struct lz_lease *leases = NULL;
    if (!status && lease.count && !(leases = copy_leases(&lease))) {
        give_back(lz, &lease);
        status = err_no_memory(&err);
    }
    if (!status) {
        *out = leases;
        *count = lease.count;
    }
    arena_release(&arena);
    return status ? lib_fail(error, status, &err) : lib_ok(error);
}

void lz_leases_free(struct lz_lease *leases)
{
    mem_free(leases);
}

enum lz_status lz_heartbeat(struct lz *lz, const char *worker_id, const char *lease_id,
                            uint32_t lease_ms, int *cancelled, struct lz_error *error)
{
    struct arena arena = {0};
    struct err err = {0};
    struct heartbeat_item item = {.lease_id = slice_of(lease_id)};
    struct heartbeat_command heartbeat = {
        .command = {.kind = COMMAND_HEARTBEAT, .actor = buf_slice(&lz->actor), .arena = &arena},
        .worker_id = slice_of(worker_id),
        .lease = span_ms(lease_ms),
        .items = &item,
        .count = 1,
    };
    enum status status = engine_call(lz->engine, &heartbeat.command);
    err = heartbeat.command.err;
    if (!status && item.outcome == HEARTBEAT_LOST)
        status = err_set(&err, STATUS_LEASE_LOST,
                         "the lease is unknown or has ended: stop, the job is no longer yours");
    if (!status && cancelled)
        *cancelled = item.outcome == HEARTBEAT_CANCELLED;
    arena_release(&arena);
    return status ? lib_fail(error, status, &err) : lib_ok(error);
}

enum lz_status lz_release(struct lz *lz, const char *lease_id, struct lz_error *error)
{
    struct arena arena = {0};
    struct release_item item = {.lease_id = slice_of(lease_id)};
    struct release_command release = {
        .command = {.kind = COMMAND_RELEASE, .actor = buf_slice(&lz->actor), .arena = &arena},
        .items = &item,
        .count = 1,
    };
    enum status status = engine_call(lz->engine, &release.command);
    arena_release(&arena);
    if (status)
        return lib_fail(error, status, &release.command.err);
    if (item.status) {
        struct err err;
        return lib_fail(error, err_set(&err, item.status, "the lease is unknown or has ended"),
                        &err);
    }
    return lib_ok(error);
}

/* ---- results --------------------------------------------------------------------------------- */

enum lz_status lib_resolve(struct lz *lz, struct slice actor, struct result_item *item,
                           struct arena *arena, struct lz_error *error)
{
    struct resolve_command resolve = {
        .command = {.kind = COMMAND_RESOLVE, .actor = actor, .arena = arena},
        .items = item,
        .count = 1,
    };
    enum status status = engine_call(lz->engine, &resolve.command);
    if (status)
        return lib_fail(error, status, &resolve.command.err);
    return item->status ? lib_fail(error, item->status, &item->err) : lib_ok(error);
}

enum lz_status lz_complete(struct lz *lz, const char *lease_id, const char *result,
                           struct lz_error *error)
{
    struct arena arena = {0};
    struct err err = {0};
    struct result_item item = {.lease_id = slice_of(lease_id), .result = slice_of(result)};
    struct json json;
    if (item.result.len && json_parse(item.result, &json, &err)) {
        err_prefix(&err, "result");
        return lib_fail(error, STATUS_INVALID, &err);
    }
    enum lz_status status = lib_resolve(lz, buf_slice(&lz->actor), &item, &arena, error);
    arena_release(&arena);
    return status;
}

enum lz_status lz_fail(struct lz *lz, const char *lease_id, const char *failure,
                       struct lz_outcome *out, struct lz_error *error)
{
    struct arena arena = {0};
    struct err err = {0};
    struct json json;
    struct result_item item = {.lease_id = slice_of(lease_id), .failed = true};
    enum status status = json_parse(slice_of(failure), &json, &err);
    if (!status)
        status = failure_parse(json, &arena, &item.failure, &err);
    enum lz_status result = LZ_OK;
    if (status) {
        err_prefix(&err, "failure");
        result = lib_fail(error, status, &err);
    } else {
        result = lib_resolve(lz, buf_slice(&lz->actor), &item, &arena, error);
    }
    if (result == LZ_OK && out) {
        *out = (struct lz_outcome){.next_retry_at_us = item.next_retry_at.us};
        copy_text(out->state, sizeof(out->state), slice_of(job_state_name(item.state)));
        copy_text(out->dlq_id, sizeof(out->dlq_id), item.dlq_id);
    }
    arena_release(&arena);
    return result;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum status status_of_http(int http)
{
    switch (http) {
    case 404:
        return STATUS_NOT_FOUND;
    case 409:
        return STATUS_CONFLICT;
    case 401:
    case 403:
        return STATUS_REFUSED;
    case 429:
        return STATUS_LIMIT;
    default:
        return http < 400 ? STATUS_OK : http < 500 ? STATUS_INVALID : STATUS_IO;
    }
}

/* answer_error reads the sentence of an error answer. */
static enum status answer_error(const struct api_answer *answer, struct err *err)
{
    enum status status = status_of_http(answer->status);
    struct arena arena = {0};
    struct json json, sentence;
    if (status && !json_parse(buf_slice(&answer->body), &json, err) &&
        json_get(json, "error", &sentence)) {
        struct slice text = json_text(sentence, &arena);
        err_set(err, status, "%.*s", SLICE_ARG(text));
    }
    arena_release(&arena);
    return status;
}

enum lz_status lz_request(struct lz *lz, const char *method, const char *target, const char *body,
                          int *http_status, char **text, struct lz_error *error)
{
    struct err err = {0};
    struct slice whole = slice_of(target);
    const char *mark = memchr(whole.ptr, '?', whole.len);
    size_t path_len = mark ? (size_t)(mark - whole.ptr) : whole.len;
    struct api_request request = {
        .method = method,
        .path = {whole.ptr, path_len},
        .query = mark ? slice_of(mark + 1) : (struct slice){0},
        .body = slice_of(body),
        .actor = buf_slice(&lz->actor),
        .role = ROLE_ADMIN,
    };
    struct api_answer answer;
    api_answer_init(&answer);
    api_call(owner_api(lz->owner), &request, &answer);
    enum status status = answer_error(&answer, &err);
    if (http_status)
        *http_status = answer.status;
    if (text && !(*text = mem_strdup(buf_str(&answer.body))))
        status = err_no_memory(&err);
    api_answer_release(&answer);
    return status ? lib_fail(error, status, &err) : lib_ok(error);
}

/* request_at makes a target of a path and an id, percent-encoded, and carries out the request.  On
 * an error there is no answer. */
static enum lz_status request_at(struct lz *lz, const char *method, const char *path,
                                 const char *id, const char *action, const char *body, char **text,
                                 struct lz_error *error)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    struct buf target;
    struct err err = {0};
    buf_init(&target, 4096);
    buf_add_str(&target, path);
    for (const char *c = id ? id : ""; *c; c++) {
        if (strchr(plain, *c))
            buf_add_char(&target, *c);
        else
            buf_addf(&target, "%%%02X", (unsigned)(unsigned char)*c);
    }
    buf_add_str(&target, action);
    enum status status = buf_status(&target, &err);
    char *answer = NULL;
    enum lz_status result =
        status ? lib_fail(error, status, &err)
               : lz_request(lz, method, buf_str(&target), body, NULL, &answer, error);
    buf_release(&target);
    if (result == LZ_OK && text) {
        *text = answer;
        answer = NULL;
    }
    lz_free(answer);
    return result;
}

enum lz_status lz_job(struct lz *lz, const char *job_id, char **answer, struct lz_error *error)
{
    return request_at(lz, "GET", "/api/v1/jobs/", job_id, "", NULL, answer, error);
}

enum lz_status lz_cancel(struct lz *lz, const char *job_id, struct lz_error *error)
{
    return request_at(lz, "POST", "/api/v1/jobs/", job_id, "/cancel", NULL, NULL, error);
}

enum lz_status lz_letters(struct lz *lz, const char *query, char **answer, struct lz_error *error)
{
    struct buf target;
    char *text = NULL;
    buf_init(&target, 1 << 16);
    buf_addf(&target, "/api/v1/dlq%s%s", query && *query ? "?" : "", query ? query : "");
    enum lz_status status = lz_request(lz, "GET", buf_str(&target), NULL, NULL, &text, error);
    buf_release(&target);
    if (status == LZ_OK) {
        *answer = text;
        text = NULL;
    }
    lz_free(text);
    return status;
}

enum lz_status lz_letter(struct lz *lz, const char *dlq_id, char **answer, struct lz_error *error)
{
    return request_at(lz, "GET", "/api/v1/dlq/", dlq_id, "", NULL, answer, error);
}

enum lz_status lz_review(struct lz *lz, const char *dlq_id, const char *action, const char *body,
                         struct lz_error *error)
{
    struct err err = {0};
    struct buf tail;
    enum review_action known = 0;
    action = action ? action : "";
    while (known < REVIEW_COUNT && strcmp(action, review_action_name(known)) != 0)
        known++;
    if (known == REVIEW_COUNT) {
        err_set(&err, STATUS_INVALID,
                "action: \"%.40s\" is not one of retry, discard, rollback, escalate, restore",
                action);
        return lib_fail(error, STATUS_INVALID, &err);
    }
    buf_init(&tail, 64);
    buf_addf(&tail, "/%s", action);
    enum lz_status status =
        request_at(lz, "POST", "/api/v1/dlq/", dlq_id, buf_str(&tail), body, NULL, error);
    buf_release(&tail);
    return status;
}

enum lz_status lz_audit_verify(struct lz *lz, uint64_t *events, struct lz_error *error)
{
    char *answer = NULL;
    struct err err = {0};
    struct arena arena = {0};
    struct json json, ok, value;
    int64_t number = 0;
    enum lz_status status =
        lz_request(lz, "GET", "/api/v1/audit/verify", NULL, NULL, &answer, error);
    if (status == LZ_OK && !json_parse(slice_of(answer), &json, &err)) {
        if (json_get(json, "events", &value) && json_int(value, &number) && events)
            *events = (uint64_t)number;
        if (json_get(json, "ok", &ok) && ok.type == JSON_FALSE) {
            struct slice text = {0};
            if (json_get(json, "error", &value))
                text = json_text(value, &arena);
            if (json_get(json, "seq", &value))
                json_int(value, &number);
            err_set(&err, STATUS_CONFLICT, "event %" PRId64 ": %.*s", number, SLICE_ARG(text));
            status = lib_fail(error, STATUS_CONFLICT, &err);
        }
    }
    arena_release(&arena);
    lz_free(answer);
    return status;
}
