/* receipt_scene: an engine with dead receipts, and a file of them. */
#ifndef LAZARET_TESTS_BRIDGE_RECEIPT_SCENE_H
#define LAZARET_TESTS_BRIDGE_RECEIPT_SCENE_H

#include "engine/api_fixture.h"

#include <sys/stat.h>

#include "bridge/receiptfile.h"

#define TIMEOUT "{\"class\":\"timeout\",\"message\":\"no answer\"}"
#define RECEIPT(lease)                                                                             \
    "{\"lease_id\":\"" lease                                                                       \
    "\",\"task_id\":\"t\",\"worker_id\":\"w\",\"status\":\"complete\",\"n\": 1.50}"

/* struct scene: an engine, a link to it and the path of a file. */
struct scene {
    struct desk *desk;
    struct link link;
    char path[128];
    bool unreachable;               /* the link answers nothing */
    size_t body_max;                /* larger requests are refused whole; 0: none is */
    void (*before)(struct scene *); /* called once, before the next page is listed */
    struct arena arena;
};

/* ---- the link -------------------------------------------------------------------------------- */

static inline enum status carry(struct scene *scene, const char *method, const char *path,
                                struct slice body, struct buf *answer, int64_t *cursor, int *http,
                                struct err *err)
{
    const char *mark = strchr(path, '?');
    struct api_request request = {.method = method,
                                  .path = {path, mark ? (size_t)(mark - path) : strlen(path)},
                                  .query = slice_of(mark ? mark + 1 : NULL),
                                  .body = body,
                                  .actor = SLICE("test"),
                                  .role = ROLE_ADMIN};
    struct api_answer got;
    if (scene->unreachable)
        return err_set(err, STATUS_UNAVAILABLE, "nobody answers");
    if (scene->body_max && body.len > scene->body_max) {
        buf_add_str(answer, "{\"error\":\"the body is too large\"}");
        *http = 413;
        return STATUS_OK;
    }
    api_answer_init(&got);
    api_call(&scene->desk->api, &request, &got);
    buf_add_slice(answer, buf_slice(&got.body));
    *http = got.status;
    *cursor = got.cursor;
    api_answer_release(&got);
    return STATUS_OK;
}

static inline enum status call(void *ctx, const char *method, const char *path, struct slice body,
                               struct buf *answer, int *http, struct err *err)
{
    int64_t cursor;
    return carry(ctx, method, path, body, answer, &cursor, http, err);
}

static inline enum status page(void *ctx, const char *path, struct buf *answer, int64_t *cursor,
                               int *http, struct err *err)
{
    struct scene *scene = ctx;
    void (*before)(struct scene *) = scene->before;
    if (before) {
        scene->before = NULL;
        before(scene);
    }
    return carry(scene, "GET", path, (struct slice){0}, answer, cursor, http, err);
}

static inline int setup(void **state)
{
    struct scene *scene = mem_zalloc(sizeof(*scene));
    void *desk;
    assert_non_null(scene);
    api_setup(&desk);
    scene->desk = desk;
    scene->link = (struct link){.call = call, .page = page, .ctx = scene};
    snprintf(scene->path, sizeof(scene->path), "%s/dlq/receipts.json", scene->desk->directory);
    *state = scene;
    return 0;
}

static inline int teardown(void **state)
{
    struct scene *scene = *state;
    void *desk = scene->desk;
    arena_release(&scene->arena);
    mem_free(scene);
    return api_teardown(&desk);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* beside is the path of the file with an ending; kept. */
static inline const char *beside(struct scene *scene, const char *ending)
{
    return arena_printf(&scene->arena, "%s%s", scene->path, ending).ptr;
}

static inline void write_at(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static inline void put(struct scene *scene, const char *text)
{
    char directory[128];
    snprintf(directory, sizeof(directory), "%s/dlq", scene->desk->directory);
    mkdir(directory, 0700);
    write_at(scene->path, text);
}

static inline bool is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

/* text_of is the content of the file; kept. */
static inline const char *text_of(struct scene *scene)
{
    struct buf text;
    char chunk[4096];
    size_t got;
    FILE *file = fopen(scene->path, "r");
    assert_non_null(file);
    buf_init(&text, 64 << 20);
    while ((got = fread(chunk, 1, sizeof(chunk), file)) > 0)
        buf_add(&text, chunk, got);
    fclose(file);
    struct slice kept = arena_dup(&scene->arena, buf_slice(&text));
    buf_release(&text);
    return kept.ptr;
}

static inline size_t entries_of(struct scene *scene)
{
    struct json json;
    assert_int_equal(json_parse(slice_of(text_of(scene)), &json, NULL), STATUS_OK);
    assert_int_equal(json.type, JSON_ARRAY);
    return json_count(json);
}

static inline struct receiptfile_counts sync_ok(struct scene *scene)
{
    struct receiptfile_counts counts;
    struct err err;
    if (receiptfile_sync(&scene->link, scene->path, NULL, &counts, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return counts;
}

/* assert_refused syncs, which must fail and leave the file as it is. */
static inline void assert_refused(struct scene *scene, enum status status, const char *why)
{
    struct err err = {0};
    const char *before = text_of(scene);
    assert_int_equal(receiptfile_sync(&scene->link, scene->path, NULL, NULL, &err), status);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" says nothing of \"%s\"", err.text, why);
    assert_string_equal(text_of(scene), before);
    assert_false(is_there(beside(scene, ".tmp")));
}

/* peek_ok counts what there would be to do, which must change nothing: no file, lock or letter. */
static inline size_t peek_ok(struct scene *scene, const char *path, bool mirror,
                             struct receiptfile_counts *counts)
{
    struct err err;
    size_t count;
    const char *directory = arena_printf(&scene->arena, "%s/dlq", scene->desk->directory).ptr;
    bool directory_was = is_there(directory), lock_was = is_there(beside(scene, ".lock"));
    const char *before = is_there(scene->path) ? text_of(scene) : NULL;
    api_ok(scene->desk, "GET", "/api/v1/audit/head", "");
    const char *head = api_text(scene->desk, "hash");
    if (receiptfile_peek(&scene->link, path, mirror, &count, counts, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    api_ok(scene->desk, "GET", "/api/v1/audit/head", "");
    assert_answer(scene->desk, "hash", head);
    assert_int_equal(is_there(directory), directory_was);
    assert_int_equal(is_there(beside(scene, ".lock")), lock_was);
    assert_int_equal(is_there(scene->path), before != NULL);
    if (before)
        assert_string_equal(text_of(scene), before);
    return count;
}

/* ---- letters --------------------------------------------------------------------------------- */

static inline size_t letters(struct scene *scene, const char *state)
{
    struct desk *desk = scene->desk;
    assert_int_equal(
        api_get(desk, arena_printf(&scene->arena, "/api/v1/dlq?source=receipts&limit=1000&state=%s",
                                   state)
                          .ptr),
        200);
    return json_count(desk->json);
}

/* dies makes a receipt that could not be delivered, and returns its dlq_id. */
static inline const char *dies(struct scene *scene, const char *receipt)
{
    return api_dead(
        scene->desk,
        arena_printf(&scene->arena, "\"source\":\"receipts\",\"inputs\":{\"body\":%s}", receipt)
            .ptr,
        TIMEOUT);
}

static inline void act(struct scene *scene, const char *dlq_id, const char *action,
                       const char *body)
{
    api_ok(scene->desk, "POST",
           arena_printf(&scene->arena, "/api/v1/dlq/%s/%s", dlq_id, action).ptr, body);
}

/* dies_again replays a letter, in vain. */
static inline void dies_again(struct scene *scene, const char *dlq_id)
{
    act(scene, dlq_id, "retry", "");
    api_ok(scene->desk, "POST", "/api/v1/leases",
           "{\"worker_id\":\"w1\",\"queues\":[\"default\",\"deliveries\"],"
           "\"capabilities\":[\"deliver\"]}");
    api_result(scene->desk, api_text(scene->desk, "leases.0.lease_id"),
               "\"status\":\"failed\",\"failure\":{\"class\":\"client_error\",\"message\":\"no\"}");
    assert_answer(scene->desk, "results.0.state", "dead");
}

/* failed_at is when a letter died, to the second: as an entry has it. */
static inline const char *failed_at(struct scene *scene, const char *dlq_id)
{
    api_ok(scene->desk, "GET", api_path(scene->desk, "/api/v1/dlq/%s", dlq_id), "");
    const char *text = api_text(scene->desk, "failed_at");
    return arena_printf(&scene->arena, "%.19sZ", text).ptr;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
