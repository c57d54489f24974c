/* record.c: how an event is written: its `why` is printed into one buffer, and the event is linked
 * to the one before it of the same job. */
#include "engine/internal.h"

void event_begin(struct engine *engine, struct jsonw *why)
{
    buf_clear(&engine->why);
    jsonw_init(why, &engine->why);
    jsonw_object(why);
}

/* event_remember keeps a copy of the event for the watcher, until the commit. */
static enum status event_remember(struct engine *engine, const struct event *event, struct err *err)
{
    if (engine->event_count == engine->event_cap) {
        size_t cap = engine->event_cap ? engine->event_cap * 2 : 64;
        struct event *events = arena_array(&engine->arena, cap, sizeof(*events));
        if (!events)
            return err_no_memory(err);
        if (engine->event_count)
            memcpy(events, engine->events, engine->event_count * sizeof(*events));
        engine->events = events;
        engine->event_cap = cap;
    }
    struct event copy = *event;
    copy.actor = arena_dup(&engine->arena, event->actor);
    copy.why = arena_dup(&engine->arena, event->why);
    if (!copy.actor.ptr || !copy.why.ptr)
        return err_no_memory(err);
    engine->events[engine->event_count++] = copy;
    return STATUS_OK;
}

enum status event_end(struct engine *engine, struct jsonw *why, struct slice actor, struct job *job,
                      const char *what, struct err *err)
{
    jsonw_object_end(why);
    enum status status = buf_status(&engine->why, err);
    if (status)
        return status;
    struct event event = {
        .at = engine->now,
        .actor = actor,
        .job_seq = job ? job->seq : 0,
        .previous_seq = job ? job->event_seq : 0,
        .what = slice_of(what),
        .why = buf_slice(&engine->why),
    };
    status = engine->store->event_append(engine->store, &event, err);
    if (status)
        return status;
    if (job)
        job->event_seq = event.seq;
    numbers_event(engine->counted);
    return engine->watch ? event_remember(engine, &event, err) : STATUS_OK;
}

void event_put_digest(struct jsonw *why, const char *key, const struct hash *digest)
{
    jsonw_key(why, key);
    buf_add_char(why->buf, '"');
    buf_add_hex(why->buf, digest->bytes, sizeof(digest->bytes));
    buf_add_char(why->buf, '"');
    why->comma = true;
}
