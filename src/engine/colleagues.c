/* colleagues: the workers of other servers that share the store.
 *
 * A worker asks one server, and only that one can give it a job.  But whether anybody could do a
 * job that nobody took (unassigned.c) is a question about all of them: a job is not to be turned
 * away as forbidden because the one worker that may see it asks elsewhere.  So every server writes
 * down, now and then, who its live workers are, and reads what the others wrote when it judges. */
#include "engine/colleagues.h"

#define NOTE_EVERY span_seconds(10)
#define NOTE_LASTS span_seconds(40)
#define NOTE_MAX ((size_t)1 << 20) /* bytes; workers past it are left out */

static void print_names(struct jsonw *out, const char *key, struct match_list list)
{
    jsonw_key(out, key);
    jsonw_array(out);
    for (size_t i = 0; i < list.count; i++)
        jsonw_string(out, list.names[i]);
    jsonw_array_end(out);
}

static void print_workers(struct engine *engine, struct buf *text)
{
    struct jsonw out;
    jsonw_init(&out, text);
    jsonw_array(&out);
    const struct worker *worker = workers_newest(engine->workers);
    for (; worker && text->len < NOTE_MAX; worker = worker->older) {
        if (!worker_is_live(worker, engine->now))
            continue;
        jsonw_object(&out);
        jsonw_put_string(&out, "worker_id", worker->claim.worker_id);
        print_names(&out, "queues", worker->claim.queues);
        print_names(&out, "capabilities", worker->claim.capabilities);
        print_names(&out, "scopes", worker->claim.scopes);
        print_names(&out, "permissions", worker->claim.permissions);
        jsonw_object_end(&out);
    }
    jsonw_array_end(&out);
}

bool colleagues_wanted(const struct engine *engine)
{
    return engine->store->roster_put && engine->config.server.len &&
           (workers_count(engine->workers) || engine->roster_known) &&
           !instant_before(engine->now, engine->roster_at);
}

enum status colleagues_note(struct engine *engine, struct err *err)
{
    buf_clear(&engine->text);
    print_workers(engine, &engine->text);
    enum status status = buf_status(&engine->text, err);
    struct roster roster = {.server = engine->config.server,
                            .until = instant_add(engine->now, NOTE_LASTS),
                            .body = buf_slice(&engine->text)};
    engine->roster_at = instant_add(engine->now, NOTE_EVERY);
    engine->roster_known = workers_count(engine->workers) > 0;
    return status ? status : engine->store->roster_put(engine->store, &roster, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_names(struct json object, const char *key, struct arena *arena,
                       struct match_list *out)
{
    struct json list, value;
    struct json_iter iter;
    if (!json_get(object, key, &list) || list.type != JSON_ARRAY)
        return true;
    struct slice *names = arena_array(arena, json_count(list), sizeof(*names));
    if (!names)
        return false;
    *out = (struct match_list){.names = names};
    json_iter_init(&iter, list);
    while (json_next(&iter, NULL, &value))
        names[out->count++] = json_text(value, arena);
    return true;
}

static bool read_worker(struct json object, struct arena *arena, struct worker_claim *out)
{
    struct json id;
    *out = (struct worker_claim){0};
    if (json_get(object, "worker_id", &id))
        out->worker_id = json_text(id, arena);
    return read_names(object, "queues", arena, &out->queues) &&
           read_names(object, "capabilities", arena, &out->capabilities) &&
           read_names(object, "scopes", arena, &out->scopes) &&
           read_names(object, "permissions", arena, &out->permissions);
}

/* read_roster adds the workers of one server. */
static bool read_roster(struct slice body, struct arena *arena, struct colleagues *out)
{
    struct json list, value;
    struct json_iter iter;
    if (json_parse(body, &list, NULL) || list.type != JSON_ARRAY)
        return true;
    struct worker_claim *claims =
        arena_array(arena, out->count + json_count(list), sizeof(*claims));
    if (!claims)
        return false;
    if (out->count)
        memcpy(claims, out->claims, out->count * sizeof(*claims));
    out->claims = claims;
    json_iter_init(&iter, list);
    while (json_next(&iter, NULL, &value))
        if (!read_worker(value, arena, &claims[out->count++]))
            return false;
    return true;
}

enum status colleagues_read(struct engine *engine, struct arena *arena, struct colleagues *out,
                            struct err *err)
{
    struct roster *rosters;
    size_t count;
    *out = (struct colleagues){0};
    if (!engine->store->roster_list || !engine->config.server.len)
        return STATUS_OK;
    enum status status =
        engine->store->roster_list(engine->store, engine->now, arena, &rosters, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        if (!slice_eq(rosters[i].server, engine->config.server) &&
            !read_roster(rosters[i].body, arena, out))
            status = err_no_memory(err);
    return status;
}
