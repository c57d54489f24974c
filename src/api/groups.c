/* groups: /api/v1/dlq/groups: letters that failed for the same cause, seen and treated as one. */
#include "api/dlq_bulk.h"
#include "api/mask.h"
#include "api/print.h"
#include "api/review.h"
#include "api/routes.h"
#include "core/envelope.h"

/* struct group_page: groups in the order of the store, the last seen first.  Those without a dead
 * letter are left out unless `all` asks for them. */
struct group_page {
    const struct redaction *mask;
    bool all;
    int64_t cursor;
    size_t limit;
    struct letter_group *groups;
    size_t count;
    bool more;
};

/* take adds the groups that are wanted to the page, as many as there is room for. */
static void take(struct group_page *page, const struct letter_group *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (page->count == page->limit) {
            page->more = true;
            return;
        }
        page->cursor = found[i].last_seen.us;
        if (page->all || found[i].count > 0)
            page->groups[page->count++] = found[i];
    }
}

#define GROUP_READS_MAX 8 /* pages of the store that one read looks at for a page without gaps */

static enum status read_groups(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    struct group_page *page = ctx;
    page->groups = arena_array(arena, page->limit, sizeof(*page->groups));
    if (!page->groups)
        return err_no_memory(err);
    for (int reads = 0; reads < GROUP_READS_MAX && !page->more; reads++) {
        struct letter_group *found;
        size_t count;
        enum status status = store->group_list(store, engine_now(engine), page->cursor,
                                               page->limit + 1, arena, &found, &count, err);
        if (status != STATUS_OK)
            return status;
        take(page, found, count);
        if (count <= page->limit)
            return mask_groups(page->mask, store, page->groups, page->count, arena, err);
    }
    page->more = true;
    return mask_groups(page->mask, store, page->groups, page->count, arena, err);
}

static enum status listed(struct call *call, enum status status)
{
    const struct group_page *page = call->state;
    if (status != STATUS_OK)
        return status;
    jsonw_array(&call->out);
    for (size_t i = 0; i < page->count; i++)
        print_group(&call->out, &page->groups[i]);
    jsonw_array_end(&call->out);
    if (page->more)
        call->answer->cursor = page->cursor;
    return STATUS_OK;
}

enum status groups_list(struct call *call)
{
    struct group_page *page = call_alloc(call, sizeof(*page));
    if (!page)
        return call->status;
    page->mask = call_mask(call);
    page->all = query_tristate(call, "all") == YES;
    page->cursor = query_cursor(call);
    page->limit = query_limit(call);
    if (call->status != STATUS_OK)
        return call->status;
    return call_read_then(call, read_groups, page, listed);
}

struct group_query {
    const struct redaction *mask;
    struct slice fingerprint;
    struct letter_group group;
};

static enum status read_group(struct engine *engine, struct store *store, void *ctx,
                              struct arena *arena, struct err *err)
{
    struct group_query *query = ctx;
    enum status status =
        store->group_get(store, query->fingerprint, engine_now(engine), arena, &query->group, err);
    return status == STATUS_OK ? mask_groups(query->mask, store, &query->group, 1, arena, err)
                               : status;
}

static enum status no_group(struct call *call)
{
    return err_set(&call->err, STATUS_NOT_FOUND, "no group \"%.*s\"", SLICE_ARG(call->id));
}

static enum status got(struct call *call, enum status status)
{
    const struct group_query *query = call->state;
    if (status == STATUS_NOT_FOUND)
        return no_group(call);
    if (status == STATUS_OK)
        print_group(&call->out, &query->group);
    return status;
}

enum status groups_get(struct call *call)
{
    struct group_query *query = call_alloc(call, sizeof(*query));
    if (query)
        *query = (struct group_query){.mask = call_mask(call), .fingerprint = call->id};
    return call_read_then(call, read_group, query, got);
}

/* groups_review retries or discards exactly the letters that are in the group now. */
enum status groups_review(struct call *call)
{
    enum review_action action = (enum review_action)call->argument;
    struct json body = body_object(call, action == REVIEW_RETRY ? "force " REVIEW_RETRY_MEMBERS
                                                                : "force " REVIEW_MEMBERS);
    struct review_command command;
    struct group_query query = {.fingerprint = call->id};
    struct selection selection = {
        .filter = {.has_state = true, .state = LETTER_DEAD, .fingerprint = call->id}};
    review_read(call, body, action, SLICE("api-retry"), &command);
    bool force = body_bool(call, body, "force", false);
    selection.machine = action == REVIEW_RETRY && !force;
    if (call->status != STATUS_OK)
        return call->status;
    enum status status = call_read(call, read_group, &query, &call->arena);
    if (status == STATUS_NOT_FOUND)
        return no_group(call);
    if (status == STATUS_OK)
        status = selection_freeze(call, &selection);
    if (status != STATUS_OK)
        return status;
    return bulk_answer(call, &command, &selection);
}

static enum status set(struct call *call, enum status status)
{
    const struct group_command *command = call->state;
    if (status == STATUS_NOT_FOUND)
        return no_group(call);
    if (status != STATUS_OK)
        return status;
    jsonw_object(&call->out);
    jsonw_put_str(&call->out, "status", group_status_name(command->status));
    jsonw_put_string(&call->out, "fingerprint", call->id);
    jsonw_object_end(&call->out);
    return STATUS_OK;
}

/* groups_set says what a person thinks of the group; its letters stay as they are. */
enum status groups_set(struct call *call)
{
    struct json body = body_object(call, REVIEW_MEMBERS);
    struct slice actor = body_text(call, body, "actor", ENVELOPE_ID_MAX);
    struct slice note = body_text(call, body, "note", BODY_NOTE_MAX);
    struct group_command *command = call_alloc(call, sizeof(*command));
    if (call->status != STATUS_OK)
        return call->status;
    command->command = call_command_by(call, COMMAND_GROUP, actor);
    command->fingerprint = call->id;
    command->note = note;
    command->status = (enum group_status)call->argument;
    return call_then(call, &command->command, set, command);
}
