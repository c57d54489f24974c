/* alertpost: see alertpost.h. */
#include "bridge/alertpost.h"

#include "base/hash.h"
#include "bridge/slack.h"
#include "core/delivery.h"

#define MESSAGE_MAX (768 << 10) /* above what an alert comes to, and below what a job may have */
#define KEY_BYTES 8             /* of a digest, in an id */

/* print makes a message in the arena. */
static enum status print(void (*printer)(const struct alert *alert, struct buf *out),
                         const struct alert *alert, struct arena *arena, struct slice *out,
                         struct err *err)
{
    struct buf text;
    buf_init(&text, MESSAGE_MAX);
    printer(alert, &text);
    enum status status = buf_status(&text, err);
    *out = arena_dup(arena, buf_slice(&text));
    buf_release(&text);
    return status || out->ptr ? status : err_no_memory(err);
}

enum status alertpost_json(const struct alert *alert, struct arena *arena, struct slice *out,
                           struct err *err)
{
    return print(alert_print, alert, arena, out, err);
}

/* name_of names a message: the same one has the same name, and no other, of this store or another.
 */
static struct slice name_of(const struct alert *alert, const char *target, int64_t from, int64_t to,
                            struct arena *arena)
{
    struct slice none = {0};
    struct slice parts[] = {alert->group_count ? alert->groups[0].fingerprint : none,
                            {"", 1},
                            alert->group_count ? alert->groups[0].sample_dlq_id : none};
    struct hash hash = hash_sha256(parts, sizeof(parts) / sizeof(parts[0]));
    char digest[2 * KEY_BYTES + 1];
    for (size_t i = 0; i < KEY_BYTES; i++)
        snprintf(digest + 2 * i, 3, "%02x", hash.bytes[i]);
    return arena_printf(arena, "alert:%s:%s:%s:%lld-%lld", target,
                        alert->first ? "first" : "digest", digest, (long long)from, (long long)to);
}

/* envelope_of makes the job that delivers a message. */
static enum status envelope_of(const struct delivery_order *order, struct arena *arena,
                               struct envelope *out, struct err *err)
{
    struct buf text;
    buf_init(&text, ENVELOPE_BODY_MAX);
    delivery_print(order, &text);
    enum status status = buf_status(&text, err);
    struct slice kept = arena_dup(arena, buf_slice(&text));
    buf_release(&text);
    if (status)
        return status;
    if (!kept.ptr)
        return err_no_memory(err);
    return envelope_parse(kept, ENVELOPE_BODY_MAX, arena, out, err);
}

enum status alertpost_add(struct alertpost *post, const struct alert *alert, const char *target,
                          enum delivery_kind kind, int64_t from, int64_t to, struct err *err)
{
    struct delivery_order order = {.target = slice_of(target),
                                   .has_kind = true,
                                   .kind = kind,
                                   .source = SLICE(ALERTPOST_SOURCE),
                                   .key = name_of(alert, target, from, to, post->arena)};
    struct slice body;
    BUG_ON(post->count == ALERTPOST_MAX);
    order.job_id = order.key;
    if (!order.key.ptr)
        return err_no_memory(err);
    enum status status =
        print(kind == DELIVERY_SLACK ? slack_print : alert_print, alert, post->arena, &body, err);
    if (!status)
        status = json_parse(body, &order.body, err);
    if (!status)
        status = envelope_of(&order, post->arena, &post->items[post->count].envelope, err);
    if (!status)
        post->kinds[post->count++] = kind;
    return status;
}

enum status alertpost_push(struct alertpost *post, struct err *err)
{
    struct push_command command = {.items = post->items, .count = post->count};
    enum status status = STATUS_OK;
    if (post->count)
        status = seat_ask(post->seat, &command.command, COMMAND_PUSH, "alerts", post->arena, err);
    for (size_t i = 0; !status && i < post->count; i++) {
        const struct push_item *item = &post->items[i];
        /* Other bytes under the same name: it was handed over, when less was known of the group. */
        bool known = item->status == STATUS_CONFLICT || (!item->status && !item->created);
        if (item->status && !known) {
            *err = item->err;
            status = item->status;
        }
        post->slack += !item->status && !known && post->kinds[i] == DELIVERY_SLACK;
        post->other += !item->status && !known && post->kinds[i] != DELIVERY_SLACK;
    }
    return status;
}
