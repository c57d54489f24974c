/* letterview: gathering what is printed of a letter. */
#include "engine/letterview.h"

enum status envelope_read(struct store *store, int64_t envelope_seq, struct arena *arena,
                          struct slice *out, struct err *err)
{
    struct stored_envelope stored;
    enum status status = store->envelope_get(store, envelope_seq, arena, &stored, err);
    if (status == STATUS_OK)
        *out = stored.body;
    return status == STATUS_NOT_FOUND
               ? err_set(err, STATUS_CORRUPT, "the store is damaged: envelope %lld is missing",
                         (long long)envelope_seq)
               : status;
}

enum status letter_body_read(struct store *store, const struct letter *letter, struct arena *arena,
                             struct slice *out, struct err *err)
{
    return envelope_read(store, letter->envelope_seq, arena, out, err);
}

enum status envelopes_read_previous(struct store *store, const struct job *job, struct arena *arena,
                                    struct slice **out, size_t *count, struct err *err)
{
    int64_t *seqs;
    size_t total;
    *count = 0;
    if (job->redrive_count == 0)
        return STATUS_OK;
    enum status status = store->envelope_list(store, job->seq, arena, &seqs, &total, err);
    if (status != STATUS_OK)
        return status;
    *out = arena_array(arena, total + 1, sizeof(**out));
    if (!*out)
        return err_no_memory(err);
    for (size_t i = 0; i + 1 < total && status == STATUS_OK; i++)
        status = envelope_read(store, seqs[i], arena, &(*out)[(*count)++], err);
    return status;
}

enum status letter_view_read(struct store *store, const struct letter *letter, struct arena *arena,
                             struct letter_view *out, struct err *err)
{
    struct letter_view view = {.letter = *letter};
    enum status status = envelope_read(store, letter->envelope_seq, arena, &view.body, err);
    if (status == STATUS_OK)
        status = envelopes_read_previous(store, &letter->job, arena, &view.previous,
                                         &view.previous_count, err);
    if (status == STATUS_OK)
        status = store->attempt_list(store, letter->job.seq, arena, &view.attempts,
                                     &view.attempt_count, err);
    if (status != STATUS_OK)
        return status;
    view.original = view.previous_count ? view.previous[0] : view.body;
    *out = view;
    return status;
}

struct json letter_item(const struct letter *letter, struct json payload)
{
    struct json inputs, item;
    if (letter->foreign || json_get(payload, "item", &item))
        return letter->foreign ? payload : item;
    json_get(payload, "inputs", &inputs);
    if (letter->item_id.len && json_get(inputs, "item", &item))
        return item;
    return inputs;
}
