/* select: freezing a choice of letters. */
#include "api/select.h"

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
    if (selection->expression) {
        struct json payload = {0};
        json_parse(view->body, &payload, NULL);
        if (!filter_match(selection->expression, letter_item(&view->letter, payload),
                          &view->letter))
            return STATUS_OK;
    }
    bool skip = selection->machine && !machine_may(&view->letter);
    struct id_list *list = skip ? &selection->skipped : &selection->chosen;
    if (!id_list_push(list, view->letter.dlq_id, &freezing->call->arena))
        return err_no_memory(&freezing->call->err);
    return STATUS_OK;
}

enum status selection_freeze(struct call *call, struct selection *selection)
{
    struct freezing freezing = {call, selection};
    return letters_walk(call, &selection->filter, selection->expression != NULL, choose, &freezing);
}
