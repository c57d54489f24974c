/* pulse: a message and a timer. */
#include "run/pulse.h"

static void beat(struct loop_timer *timer)
{
    struct pulse *pulse = (struct pulse *)((char *)timer - offsetof(struct pulse, timer));
    struct jsonw w;
    loop_timer_set(pulse->loop, &pulse->timer, (struct span){pulse->lease.us / 3});
    if (pulse->sent)
        return;
    buf_clear(&pulse->message.body);
    jsonw_init(&w, &pulse->message.body);
    agentjob_held(pulse->job, pulse->lease_id, pulse->lease, &w);
    pulse->sent = true;
    courier_send(pulse->courier, &pulse->message);
}

/* names_lease says whether a list in the answer has our lease. */
static bool names_lease(const struct pulse *pulse, const char *list)
{
    struct json ids, id;
    struct json_iter iter;
    struct arena arena = {0};
    bool found = false;
    json_get(pulse->message.value, list, &ids);
    json_iter_init(&iter, ids);
    while (!found && json_next(&iter, NULL, &id))
        found = slice_eq(json_text(id, &arena), pulse->lease_id);
    arena_release(&arena);
    return found;
}

static void answered(struct message *message)
{
    struct pulse *pulse = message->owner;
    bool was_failing = pulse->failing;
    pulse->sent = false;
    pulse->failing = message->status != STATUS_OK;
    if (!pulse->lease_id.len)
        return;
    if (pulse->failing && !was_failing)
        pulse->told(pulse->ctx, PULSE_TROUBLE, message->err.text);
    else if (!pulse->failing && names_lease(pulse, "lost"))
        pulse->told(pulse->ctx, PULSE_LOST, NULL);
    else if (!pulse->failing && names_lease(pulse, "cancelled"))
        pulse->told(pulse->ctx, PULSE_CANCELLED, NULL);
}

void pulse_init(struct pulse *pulse)
{
    message_init(&pulse->message, "POST", "/api/v1/leases/heartbeat", answered, pulse);
    pulse->timer = (struct loop_timer){.fire = beat};
}

void pulse_release(struct pulse *pulse)
{
    pulse_end(pulse);
    message_release(&pulse->message);
}

void pulse_begin(struct pulse *pulse, struct slice lease_id)
{
    pulse->lease_id = lease_id;
    beat(&pulse->timer);
}

void pulse_end(struct pulse *pulse)
{
    loop_timer_clear(pulse->loop, &pulse->timer);
    pulse->lease_id = (struct slice){0};
}
