/* clerk: a page of the inbox is read, and carried out by two commands: imports, then settlements,
 * as a row is inserted before it is updated. */
#include "bridge/clerk.h"

#include "base/log.h"
#include "core/field.h"
#include "engine/letterform.h"

#define PAGE 500
#define LOOK span_seconds(1) /* from one look to the next */
#define BY_MAX 200           /* bytes of recovered_by */

/* struct round: one page. */
struct round {
    struct clerk *clerk;
    struct arena *arena;
    struct instant now;
    struct inbox_item *items;
    size_t count;
    struct import_item *imports;
    struct settle_item *settles;
    int64_t *import_seqs, *settle_seqs;
    size_t import_count, settle_count, settled_seqs; /* not every update settles something */
    size_t malformed;
};

static enum status read_inbox(struct engine *engine, struct store *store, void *ctx,
                              struct arena *arena, struct err *err)
{
    struct round *round = ctx;
    round->now = engine_now(engine);
    return store->inbox_list(store, PAGE, arena, &round->items, &round->count, err);
}

static struct slice text_of(struct json row, const char *name, struct arena *arena)
{
    struct json value;
    struct slice text = {0};
    if (json_get(row, name, &value) && value.type == JSON_STRING)
        text = json_text(value, arena);
    return text;
}

static enum tristate bool_of(struct json row, const char *name)
{
    struct json value;
    if (!json_get(row, name, &value) || (value.type != JSON_TRUE && value.type != JSON_FALSE))
        return UNSAID;
    return value.type == JSON_TRUE ? YES : NO;
}

/* take_identity has the letter of a row that is none be the row's all the same: it has its id, and
 * is recovered when the row is. */
static void take_identity(const struct round *round, const struct inbox_item *row,
                          struct letter *letter)
{
    struct json object;
    if (json_parse(row->body, &object, NULL) != STATUS_OK)
        return;
    struct slice id = text_of(object, "dlq_id", round->arena);
    if (id.len)
        letter->dlq_id = id;
    if (bool_of(object, "recovered") != YES)
        return;
    letter->state = LETTER_RECOVERED;
    letter->recovered_at = round->now;
    letter->recovered_by = field_head(text_of(object, "recovered_by", round->arena), BY_MAX);
}

/* take_new makes a letter of an inserted row. */
static enum status take_new(struct round *round, const struct inbox_item *row, struct err *err)
{
    struct import_item *item = &round->imports[round->import_count];
    struct letterform_origin origin = {.at = round->now};
    origin.seed = arena_printf(round->arena, "swarm_dlq:%lld", (long long)row->seq);
    if (!origin.seed.ptr)
        return err_no_memory(err);
    enum status status = letterform_read(row->body, &origin, round->arena, item, err);
    if (status == STATUS_INVALID || status == STATUS_TOO_LARGE) {
        struct err why = *err;
        round->malformed++;
        status = letterform_malformed(row->body, &origin, why.text, round->arena, item, err);
        if (status == STATUS_OK)
            take_identity(round, row, &item->letter);
    }
    if (status == STATUS_OK)
        round->import_seqs[round->import_count++] = row->seq;
    return status;
}

/* take_update settles the letter of an updated row: it says that it is recovered, or else whether
 * it may be.  What says neither leaves the inbox and changes nothing. */
static void take_update(struct round *round, const struct inbox_item *row)
{
    struct json object;
    struct settle_item *item = &round->settles[round->settle_count];
    round->settle_seqs[round->settled_seqs++] = row->seq;
    bool parsed = json_parse(row->body, &object, NULL) == STATUS_OK;
    bool recovered = parsed && bool_of(object, "recovered") == YES;
    item->recoverable = parsed && !recovered ? bool_of(object, "recoverable") : UNSAID;
    if (!recovered && item->recoverable == UNSAID) {
        atomic_fetch_add(&round->clerk->counts.ignored, 1);
        return;
    }
    struct slice at = text_of(object, "recovered_at", round->arena);
    item->dlq_id = text_of(object, "dlq_id", round->arena);
    item->by = field_head(text_of(object, "recovered_by", round->arena), BY_MAX);
    if (at.len && instant_parse(at, &item->at, NULL) != STATUS_OK)
        item->at = INSTANT_NONE;
    if (item->dlq_id.len)
        round->settle_count++;
}

static enum status sort_out(struct round *round, struct err *err)
{
    enum status status = STATUS_OK;
    round->imports = arena_array(round->arena, round->count, sizeof(*round->imports));
    round->settles = arena_array(round->arena, round->count, sizeof(*round->settles));
    round->import_seqs = arena_array(round->arena, round->count, sizeof(*round->import_seqs));
    round->settle_seqs = arena_array(round->arena, round->count, sizeof(*round->settle_seqs));
    if (!round->imports || !round->settles || !round->import_seqs || !round->settle_seqs)
        return err_no_memory(err);
    for (size_t i = 0; !status && i < round->count; i++) {
        if (round->items[i].is_new)
            status = take_new(round, &round->items[i], err);
        else
            take_update(round, &round->items[i]);
    }
    return status;
}

/* carry_imports makes the letters. */
static enum status carry_imports(struct round *round, struct err *err)
{
    struct clerk_counts *counts = &round->clerk->counts;
    struct import_command command = {.items = round->imports,
                                     .count = round->import_count,
                                     .inbox = round->import_seqs,
                                     .inbox_count = round->import_count};
    if (!round->import_count)
        return STATUS_OK;
    enum status status = seat_ask(round->clerk->seat, &command.command, COMMAND_IMPORT, "swarm_dlq",
                                  round->arena, err);
    if (status)
        return status;
    for (size_t i = 0; i < command.count; i++) {
        const struct import_item *item = &round->imports[i];
        if (item->status)
            log_line(LOG_ERROR, "swarm_dlq: row \"%.*s\" is not taken as a letter: %s",
                     SLICE_ARG(item->letter.dlq_id), item->err.text);
        atomic_fetch_add(item->created ? &counts->imported : &counts->ignored, 1);
    }
    atomic_fetch_add(&counts->malformed, round->malformed);
    return STATUS_OK;
}

/* carry_settles settles.  A letter that is not dead any more was settled by somebody else before;
 * one that is not there was purged. */
static enum status carry_settles(struct round *round, struct err *err)
{
    struct clerk_counts *counts = &round->clerk->counts;
    struct settle_command command = {.items = round->settles,
                                     .count = round->settle_count,
                                     .inbox = round->settle_seqs,
                                     .inbox_count = round->settled_seqs};
    if (!round->settled_seqs)
        return STATUS_OK;
    enum status status = seat_ask(round->clerk->seat, &command.command, COMMAND_SETTLE, "swarm_dlq",
                                  round->arena, err);
    for (size_t i = 0; !status && i < command.count; i++)
        atomic_fetch_add(round->settles[i].status ? &counts->ignored : &counts->settled, 1);
    return status;
}

/* carry carries one page out, and says whether there may be another. */
static enum status carry(struct clerk *clerk, struct arena *arena, bool *more, struct err *err)
{
    struct round round = {.clerk = clerk, .arena = arena};
    *more = false;
    enum status status = seat_read(clerk->seat, read_inbox, &round, arena, err);
    if (status || round.count == 0)
        return status;
    status = sort_out(&round, err);
    if (!status)
        status = carry_imports(&round, err);
    if (!status)
        status = carry_settles(&round, err);
    *more = !status && round.count == PAGE;
    return status;
}

void clerk_init(struct clerk *clerk, const struct seat *seat)
{
    *clerk = (struct clerk){.seat = seat};
}

struct span clerk_run(struct clerk *clerk)
{
    struct arena arena = {0};
    struct err err = {0};
    enum status status;
    bool more;
    do {
        status = carry(clerk, &arena, &more, &err);
        arena_reset(&arena);
    } while (!status && more && !seat_ended(clerk->seat));
    arena_release(&arena);
    seat_say(&clerk->trouble, "swarm_dlq", status, &err);
    return (struct span){seat_now(clerk->seat).us + LOOK.us};
}
