/* alert: see alert.h. */
#include "bridge/alert.h"

#include "base/jsonw.h"

static void print_group(const struct alert_group *group, struct jsonw *w)
{
    jsonw_object(w);
    jsonw_put_string(w, "fingerprint", group->fingerprint);
    jsonw_put_string(w, "signature", group->signature);
    jsonw_put_string(w, "reason", group->reason);
    jsonw_put_string(w, "source", group->source);
    jsonw_put_string(w, "queue", group->queue);
    jsonw_put_int(w, "count", group->count);
    jsonw_put_string(w, "sample_dlq_id", group->sample_dlq_id);
    jsonw_put_instant(w, "first_seen", group->first_seen);
    jsonw_put_instant(w, "last_seen", group->last_seen);
    jsonw_object_end(w);
}

void alert_print(const struct alert *alert, struct buf *out)
{
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_str(&w, "event", "dead_letters");
    jsonw_put_bool(&w, "first", alert->first);
    jsonw_put_double(&w, "window_seconds", span_to_seconds(alert->window));
    jsonw_key(&w, "groups");
    jsonw_array(&w);
    for (size_t i = 0; i < alert->group_count; i++)
        print_group(&alert->groups[i], &w);
    jsonw_array_end(&w);
    jsonw_put_int(&w, "more_groups", (int64_t)alert->more_groups);
    jsonw_put_int(&w, "total", alert->total);
    jsonw_put_instant(&w, "at", alert->at);
    jsonw_object_end(&w);
}
