/* repeat: see repeat.h.  The same bytes under the same job_id are one push, however often they are
 * sent; that is what makes a push safe. */
#include "cli/repeat.h"

#include "base/json.h"
#include "base/jsonw.h"

static bool is_push(const struct api_request *request)
{
    return strcmp(request->method, "POST") == 0 && slice_is(request->path, "/api/v1/jobs");
}

static bool has_id(struct json envelope)
{
    struct json id;
    return json_get(envelope, "job_id", &id) && id.type == JSON_STRING && id.raw.len > 2;
}

/* all_have_ids is for the body of a push: an envelope or an array of them. */
static bool all_have_ids(struct slice body)
{
    struct json value, envelope;
    struct json_iter iter;

    if (json_parse(body, &value, NULL) != STATUS_OK)
        return false;
    if (value.type != JSON_ARRAY)
        return has_id(value);
    json_iter_init(&iter, value);
    while (json_next(&iter, NULL, &envelope))
        if (!has_id(envelope))
            return false;
    return true;
}

bool repeat_safe(const struct api_request *request)
{
    if (strcmp(request->method, "GET") == 0 || slice_is(request->path, "/api/v1/policies/simulate"))
        return true;
    return is_push(request) && all_have_ids(request->body);
}

/* is_own says whether a result is about the job of the envelope's own id. */
static bool is_own(struct json envelope, struct json result, struct arena *arena)
{
    struct json sent, known;

    if (!json_get(envelope, "job_id", &sent) || !json_get(result, "job_id", &known))
        return false;
    return slice_eq(json_text(sent, arena), json_text(known, arena));
}

/* settle_one writes a result again, as created when it is. */
static void settle_one(struct json envelope, struct json result, struct jsonw *w)
{
    struct arena arena = {0};
    struct json_iter iter;
    struct json key, value, error;
    bool own = !json_get(result, "error", &error) && is_own(envelope, result, &arena);

    jsonw_object(w);
    json_iter_init(&iter, result);
    while (json_next(&iter, &key, &value)) {
        jsonw_key_slice(w, json_text(key, &arena));
        if (own && json_string_is(key, "created"))
            jsonw_bool(w, true);
        else
            jsonw_raw(w, value.raw);
    }
    jsonw_object_end(w);
    arena_release(&arena);
}

/* settle_all writes the whole answer again.  Results stand in the order of the envelopes. */
static void settle_all(struct json sent, struct json answered, struct jsonw *w)
{
    struct json_iter envelopes, results;
    struct json envelope, result;

    if (sent.type != JSON_ARRAY) {
        settle_one(sent, answered, w);
        return;
    }
    json_get(answered, "results", &result);
    json_iter_init(&envelopes, sent);
    json_iter_init(&results, result);
    jsonw_object(w);
    jsonw_key(w, "results");
    jsonw_array(w);
    while (json_next(&results, NULL, &result)) {
        if (!json_next(&envelopes, NULL, &envelope))
            envelope = (struct json){0};
        settle_one(envelope, result, w);
    }
    jsonw_array_end(w);
    jsonw_object_end(w);
}

enum status repeat_settle(const struct api_request *request, struct api_answer *answer,
                          struct err *err)
{
    struct json sent, answered;
    struct jsonw w;
    struct buf body;

    if (!is_push(request) || answer->status >= 300 ||
        json_parse(request->body, &sent, NULL) != STATUS_OK ||
        json_parse(buf_slice(&answer->body), &answered, NULL) != STATUS_OK)
        return STATUS_OK;
    buf_init(&body, answer->body.max);
    jsonw_init(&w, &body);
    settle_all(sent, answered, &w);
    buf_add_char(&body, '\n');
    enum status status = buf_status(&body, err);
    if (status == STATUS_OK) {
        buf_clear(&answer->body);
        buf_add_slice(&answer->body, buf_slice(&body));
        status = buf_status(&answer->body, err);
    }
    buf_release(&body);
    return status;
}
