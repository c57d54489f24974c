/* api_fixture: requests to a real engine, with its thread, over a real SQLite file. */
#ifndef LAZARET_TESTS_ENGINE_API_FIXTURE_H
#define LAZARET_TESTS_ENGINE_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "api/api.h"
#include "base/json.h"
#include "base/mem.h"

/* struct desk: an engine and the answer to the last request. */
struct desk {
    char directory[64];
    struct engine_config config;
    struct engine *engine;
    struct api api; /* on that engine */
    struct api_answer answer;
    struct json json;         /* the answer's body */
    const char *content_type; /* of the next requests; NULL: JSON */
    enum role role;           /* likewise; ROLE_NONE: admin */
    struct arena arena;       /* what tests keep */
};

static inline void api_open(struct desk *api)
{
    struct err err = {0};
    char path[128];
    snprintf(path, sizeof(path), "%s/lazaret.db", api->directory);
    struct store_config store = {.path = path, .seams = seams_real()};
    struct engine_config config = api->config;
    config.seams = seams_real();
    if (store_sqlite_open(&store, &config.store, &err) || engine_new(&config, &api->engine, &err) ||
        engine_start(api->engine, &err))
        fail_msg("%s", err.text);
    api->api.engine = api->engine;
}

static inline int api_setup(void **state)
{
    struct desk *api = mem_zalloc(sizeof(*api));
    assert_non_null(api);
    snprintf(api->directory, sizeof(api->directory), "/tmp/lazaret-api-XXXXXX");
    assert_non_null(mkdtemp(api->directory));
    api_answer_init(&api->answer);
    api_open(api);
    *state = api;
    return 0;
}

static inline int api_teardown(void **state)
{
    struct desk *api = *state;
    char command[128];
    engine_free(api->engine);
    snprintf(command, sizeof(command), "rm -rf '%s'", api->directory);
    int removed = system(command);
    api_answer_release(&api->answer);
    arena_release(&api->arena);
    mem_free(api);
    return removed;
}

/* api_send carries out a request of any bytes; `target` is a path with an optional query.  Every
 * answer must be one JSON value and a newline. */
static inline int api_send(struct desk *api, const char *method, const char *target,
                           struct slice body)
{
    const char *mark = strchr(target, '?');
    struct slice all = slice_of(target);
    struct api_request request = {.method = method,
                                  .path =
                                      mark ? (struct slice){target, (size_t)(mark - target)} : all,
                                  .query = mark ? slice_of(mark + 1) : (struct slice){0},
                                  .body = body,
                                  .content_type = slice_of(api->content_type),
                                  .actor = SLICE("test"),
                                  .role = api->role ? api->role : ROLE_ADMIN};
    struct err err;
    api_call(&api->api, &request, &api->answer);
    struct slice text = buf_slice(&api->answer.body);
    assert_true(text.len > 1);
    assert_int_equal(text.ptr[text.len - 1], '\n');
    if (json_parse(text, &api->json, &err) != STATUS_OK)
        fail_msg("%s %s answers no JSON (%s): %s", method, target, err.text, text.ptr);
    return api->answer.status;
}

static inline int api_get(struct desk *api, const char *target)
{
    return api_send(api, "GET", target, (struct slice){0});
}

static inline int api_post(struct desk *api, const char *target, const char *body)
{
    return api_send(api, "POST", target, slice_of(body));
}

/* api_value follows a path such as "results.0.code" into the last answer; false: nothing there. */
static inline bool api_value(struct desk *api, const char *path, struct json *out)
{
    struct json value = api->json;
    while (*path) {
        char name[64];
        size_t len = strcspn(path, ".");
        assert_true(len < sizeof(name));
        memcpy(name, path, len);
        name[len] = '\0';
        path += len + (path[len] == '.');
        if (value.type == JSON_ARRAY) {
            struct json_iter iter;
            long index = strtol(name, NULL, 10);
            json_iter_init(&iter, value);
            for (long i = 0; i <= index; i++)
                if (!json_next(&iter, NULL, &value))
                    return false;
        } else if (!json_get(value, name, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

/* api_text is what stands at a path: a string's text, any other value's JSON; kept in the arena. */
static inline const char *api_text(struct desk *api, const char *path)
{
    struct json value;
    if (!api_value(api, path, &value))
        return "(nothing)";
    struct slice text = value.type == JSON_STRING ? json_text(value, &api->arena) : value.raw;
    text = arena_dup(&api->arena, text);
    assert_non_null(text.ptr);
    return text.ptr;
}

static inline size_t api_count(struct desk *api, const char *path)
{
    struct json value;
    assert_true(api_value(api, path, &value));
    return json_count(value);
}

#define assert_answer(api, path, expected) assert_string_equal(api_text(api, path), expected)

/* api_ok sends a request that must succeed, and shows the answer when it does not. */
static inline void api_ok(struct desk *api, const char *method, const char *target,
                          const char *body)
{
    int status = api_send(api, method, target, slice_of(body));
    if (status / 100 != 2)
        fail_msg("%s %s answers %d: %s", method, target, status, buf_str(&api->answer.body));
}

/* api_lease takes one job and returns its lease_id. */
static inline const char *api_lease(struct desk *api)
{
    api_ok(api, "POST", "/api/v1/leases", "{\"worker_id\":\"w1\"}");
    assert_int_equal(api_count(api, "leases"), 1);
    return api_text(api, "leases.0.lease_id");
}

/* api_result reports an outcome for a lease; `rest` is the JSON after the lease_id. */
static inline void api_result(struct desk *api, const char *lease_id, const char *rest)
{
    struct slice body = arena_printf(&api->arena, "{\"lease_id\":\"%s\",%s}", lease_id, rest);
    api_ok(api, "POST", "/api/v1/results", body.ptr);
}

/* api_dead makes a job that has failed for good, and returns its dlq_id.  `members` are members of
 * the envelope and `failure` is the failure, as JSON. */
static inline const char *api_dead(struct desk *api, const char *members, const char *failure)
{
    struct slice envelope =
        arena_printf(&api->arena, "{\"action\":\"work\",\"retry_policy\":{\"max_attempts\":1}%s%s}",
                     *members ? "," : "", members);
    api_ok(api, "POST", "/api/v1/jobs", envelope.ptr);
    const char *lease_id = api_lease(api);
    struct slice rest = arena_printf(&api->arena, "\"status\":\"failed\",\"failure\":%s", failure);
    api_result(api, lease_id, rest.ptr);
    assert_answer(api, "results.0.state", "dead");
    return api_text(api, "results.0.dlq_id");
}

/* api_path is a path with an id in it. */
static inline const char *api_path(struct desk *api, const char *format, const char *id)
{
    struct buf path;
    buf_init(&path, 4096);
    const char *mark = strstr(format, "%s");
    assert_non_null(mark);
    buf_add(&path, format, (size_t)(mark - format));
    buf_add_str(&path, id);
    buf_add_str(&path, mark + 2);
    struct slice text = arena_dup(&api->arena, buf_slice(&path));
    buf_release(&path);
    return text.ptr;
}

#endif
