/* link: a request and its answer, read. */
#include "crew/link.h"

/* status_of is what an HTTP status means to a run. */
static enum status status_of(int http)
{
    switch (http) {
    case 400:
    case 415:
    case 422:
        return STATUS_INVALID;
    case 401:
    case 403:
        return STATUS_REFUSED;
    case 404:
        return STATUS_NOT_FOUND;
    case 409:
        return STATUS_CONFLICT;
    case 413:
        return STATUS_TOO_LARGE;
    case 429:
        return STATUS_LIMIT;
    default:
        return http < 400 ? STATUS_OK : STATUS_UNAVAILABLE;
    }
}

/* say_error copies the answer's sentence. */
static enum status say_error(struct json value, int http, struct err *err)
{
    struct arena arena = {0};
    struct json error;
    struct slice text = {0};
    if (json_get(value, "error", &error))
        text = json_text(error, &arena);
    enum status status = status_of(http);
    if (text.len)
        err_set(err, status, "%.*s", SLICE_ARG(text));
    else
        err_set(err, status, "the answer was HTTP %d", http);
    arena_release(&arena);
    return status;
}

/* read_answer reads what was answered. */
static enum status read_answer(const struct buf *answer, int http, struct json *value,
                               struct err *err)
{
    enum status status = json_parse(buf_slice(answer), value, err);
    if (!status && http >= 400)
        status = say_error(*value, http, err);
    return status;
}

enum status link_ask(const struct link *link, const char *method, const char *path,
                     struct slice body, struct buf *answer, struct json *value, struct err *err)
{
    int http = 0;
    buf_clear(answer);
    *value = (struct json){0};
    enum status status = link->call(link->ctx, method, path, body, answer, &http, err);
    return status ? status : read_answer(answer, http, value, err);
}

enum status link_page(const struct link *link, const char *path, struct buf *answer,
                      struct json *value, int64_t *cursor, struct err *err)
{
    int http = 0;
    buf_clear(answer);
    *value = (struct json){0};
    *cursor = 0;
    enum status status = link->page(link->ctx, path, answer, cursor, &http, err);
    return status ? status : read_answer(answer, http, value, err);
}

const char *link_path(const char *before, struct slice name, struct arena *arena)
{
    struct buf path;
    const char *text = NULL;
    buf_init(&path, 8192);
    buf_add_str(&path, before);
    buf_add_percent(&path, name);
    if (!buf_status(&path, NULL))
        text = arena_dup(arena, buf_slice(&path)).ptr;
    buf_release(&path);
    return text;
}
