/* select: freezing a choice of letters. */
#include "api/select.h"

#include "api/mask.h"

const struct filter *selection_expression(struct call *call, struct slice text)
{
    const struct filter *expression = NULL;
    struct err err;
    enum status status = filter_parse(text, &call->arena, &expression, &err);
    if (status != STATUS_OK)
        call_fail(call, status, "filter: %s", err.text);
    else if (filter_reads_item(expression) || filter_reads_signature(expression))
        mask_refuse(call, "filter");
    return call->status == STATUS_OK ? expression : NULL;
}

bool selection_matches(const struct filter *expression, const struct letter *letter,
                       struct slice body)
{
    struct json payload = {0};
    json_parse(body, &payload, NULL);
    return filter_match(expression, letter_item(letter, payload), letter);
}

bool id_list_push(struct id_list *list, struct slice dlq_id, struct arena *arena)
{
    struct slice copy = arena_dup(arena, dlq_id);
    if (!copy.ptr)
        return false;
    if (!list->first || list->first->begin == 0) {
        struct id_chunk *chunk = arena_alloc(arena, sizeof(*chunk));
        if (!chunk)
            return false;
        chunk->begin = SELECT_CHUNK;
        chunk->next = list->first;
        list->first = chunk;
    }
    list->first->ids[--list->first->begin] = copy;
    list->count++;
    return true;
}

/* machine_may says whether a machine may replay the letter: what failed may pass by itself, and
 * nobody has to look at it first. */
static bool machine_may(const struct letter *letter)
{
    return letter->eligible && !letter->review && !letter->escalated;
}

/* struct freezing: a selection that is being made. */
struct freezing {
    struct call *call;
    struct selection *selection;
};

static enum status choose(void *ctx, const struct letter_view *view)
{
    struct freezing *freezing = ctx;
    struct selection *selection = freezing->selection;
    if (selection->expression &&
        !selection_matches(selection->expression, &view->letter, view->body))
        return STATUS_OK;
    bool skip = selection->machine && !machine_may(&view->letter);
    struct id_list *list = skip ? &selection->skipped : &selection->chosen;
    if (!id_list_push(list, view->letter.dlq_id, &freezing->call->arena))
        return err_no_memory(&freezing->call->err);
    return STATUS_OK;
}

enum status selection_freeze(struct call *call, struct selection *selection)
{
    struct freezing freezing = {call, selection};
    bool bodies = selection->expression && filter_reads_item(selection->expression);
    return letters_walk(call, &selection->filter, bodies, choose, &freezing);
}
