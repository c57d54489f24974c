/* mask: see mask.h.  First the words are gathered, then each text is replaced by a masked one. */
#include "api/mask.h"

/* struct masking: the rules, what they mask in the envelopes, and where the texts go. */
struct masking {
    const struct redaction *redaction;
    struct redact_words words;
    struct arena *arena;
    struct err *err;
};

/* keep puts what was printed into the arena. */
static enum status keep(struct masking *masking, struct buf *text, enum status status,
                        struct slice *out)
{
    if (status == STATUS_OK)
        status = buf_status(text, masking->err);
    if (status == STATUS_OK) {
        struct slice copy = arena_dup(masking->arena, buf_slice(text));
        if (copy.ptr)
            *out = copy;
        else
            status = err_no_memory(masking->err);
    }
    buf_release(text);
    return status;
}

/* mask_envelope masks by the rules alone: the rest stays byte for byte. */
static enum status mask_envelope(struct masking *masking, struct slice *document)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    redact(masking->redaction, *document, &text);
    return keep(masking, &text, STATUS_OK, document);
}

/* mask_document masks by `rules` and then what repeats a word; one that is not there stays so. */
static enum status mask_document(struct masking *masking, const struct redaction *rules,
                                 struct slice *document)
{
    struct buf text, whole;
    if (document->len == 0)
        return STATUS_OK;
    buf_init(&text, SIZE_MAX);
    buf_init(&whole, SIZE_MAX);
    redact(rules, *document, &text);
    enum status status = buf_status(&text, masking->err);
    if (status == STATUS_OK)
        redact_strings(&masking->words, buf_slice(&text), &whole);
    buf_release(&text);
    return keep(masking, &whole, status, document);
}

static enum status mask_text(struct masking *masking, struct slice *text)
{
    struct buf masked;
    buf_init(&masked, SIZE_MAX);
    redact_text(&masking->words, *text, &masked);
    return keep(masking, &masked, STATUS_OK, text);
}

static enum status gather(struct masking *masking, struct slice document)
{
    return redact_gather(masking->redaction, document, masking->arena, &masking->words,
                         masking->err);
}

/* gather_all gathers from the envelope in force and from those before it. */
static enum status gather_all(struct masking *masking, struct slice body,
                              const struct slice *previous, size_t count)
{
    enum status status = gather(masking, body);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = gather(masking, previous[i]);
    return status;
}

/* mask_attempts masks the records of failures, in a copy of the list. */
static enum status mask_attempts(struct masking *masking, struct attempt_record **attempts,
                                 size_t count)
{
    const struct redaction *rules = redaction_failures(masking->redaction);
    struct attempt_record *copy = arena_array(masking->arena, count + 1, sizeof(*copy));
    enum status status = STATUS_OK;
    if (!copy)
        return err_no_memory(masking->err);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        copy[i] = (*attempts)[i];
        status = mask_document(masking, rules, &copy[i].failure);
    }
    *attempts = copy;
    return status;
}

/* mask_previous masks the envelopes of before, likewise in a copy. */
static enum status mask_previous(struct masking *masking, struct slice **previous, size_t count)
{
    struct slice *copy = arena_array(masking->arena, count + 1, sizeof(*copy));
    enum status status = STATUS_OK;
    if (!copy)
        return err_no_memory(masking->err);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        copy[i] = (*previous)[i];
        status = mask_envelope(masking, &copy[i]);
    }
    *previous = copy;
    return status;
}

/* mask_artifacts masks the artifacts, which are a member of a failure's record. */
static enum status mask_artifacts(struct masking *masking, struct slice *artifacts)
{
    struct json record, value = {0};
    struct slice whole;
    if (artifacts->len == 0)
        return STATUS_OK;
    whole = arena_printf(masking->arena, "{\"artifacts\":%.*s}", SLICE_ARG(*artifacts));
    if (!whole.ptr)
        return err_no_memory(masking->err);
    enum status status = mask_document(masking, redaction_failures(masking->redaction), &whole);
    if (status == STATUS_OK && json_parse(whole, &record, NULL) == STATUS_OK &&
        record.type == JSON_OBJECT)
        json_get(record, "artifacts", &value);
    *artifacts = value.raw.len ? value.raw : SLICE("\"[redacted]\"");
    return status;
}

enum status mask_letter(const struct redaction *mask, struct letter_view *view, struct arena *arena,
                        struct err *err)
{
    struct masking masking = {.redaction = mask, .arena = arena, .err = err};
    struct letter *letter = &view->letter;
    struct slice *texts[] = {&letter->reason_detail, &letter->signature, &letter->item_id};
    if (!mask)
        return STATUS_OK;
    enum status status = gather_all(&masking, view->body, view->previous, view->previous_count);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && status == STATUS_OK; i++)
        status = mask_text(&masking, texts[i]);
    if (status == STATUS_OK)
        status = mask_attempts(&masking, &view->attempts, view->attempt_count);
    if (status == STATUS_OK)
        status = mask_artifacts(&masking, &letter->artifacts);
    if (status == STATUS_OK)
        status = mask_envelope(&masking, &view->original);
    return status == STATUS_OK ? mask_envelope(&masking, &view->body) : status;
}

enum status mask_job(const struct redaction *mask, struct job_view *view, struct arena *arena,
                     struct err *err)
{
    struct masking masking = {.redaction = mask, .arena = arena, .err = err};
    if (!mask)
        return STATUS_OK;
    enum status status = gather_all(&masking, view->body, view->previous, view->previous_count);
    if (status == STATUS_OK)
        status = mask_attempts(&masking, &view->attempts, view->attempt_count);
    if (status == STATUS_OK)
        status = mask_document(&masking, mask, &view->result);
    if (status == STATUS_OK)
        status = mask_document(&masking, mask, &view->document);
    if (status == STATUS_OK)
        status = mask_previous(&masking, &view->previous, view->previous_count);
    return status == STATUS_OK ? mask_envelope(&masking, &view->body) : status;
}

enum status mask_signature(const struct redaction *mask, struct slice body, struct arena *arena,
                           struct slice *signature, struct err *err)
{
    struct masking masking = {.redaction = mask, .arena = arena, .err = err};
    enum status status = mask ? gather(&masking, body) : STATUS_OK;
    return mask && status == STATUS_OK ? mask_text(&masking, signature) : status;
}

/* gather_letter gathers from the payload of a letter; one that is gone has nothing to say. */
static enum status gather_letter(struct masking *masking, struct store *store, struct slice dlq_id)
{
    struct letter letter;
    struct stored_envelope stored;
    enum status status = store->letter_get(store, dlq_id, masking->arena, &letter, masking->err);
    if (status == STATUS_OK)
        status =
            store->envelope_get(store, letter.envelope_seq, masking->arena, &stored, masking->err);
    if (status == STATUS_OK)
        status = gather(masking, stored.body);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status mask_groups(const struct redaction *mask, struct store *store,
                        struct letter_group *groups, size_t count, struct arena *arena,
                        struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; mask && i < count && status == STATUS_OK; i++) {
        struct masking masking = {.redaction = mask, .arena = arena, .err = err};
        for (size_t s = 0; s < groups[i].sample_count && status == STATUS_OK; s++)
            status = gather_letter(&masking, store, groups[i].sample_ids[s]);
        if (status == STATUS_OK)
            status = mask_text(&masking, &groups[i].signature);
    }
    return status;
}

/* ---- what may not be asked --------------------------------------------------------------------
 */

void mask_refuse(struct call *call, const char *what)
{
    if (call_mask(call))
        call_fail(call, STATUS_REFUSED,
                  "%s: searching in payloads is for reviewers here, as the answer would tell what "
                  "is redacted",
                  what);
}

/* check_operation refuses an operation that reads a place which is masked. */
static void check_operation(struct call *call, struct json operation)
{
    struct json op = {0}, pointer = {0};
    json_get(operation, "op", &op);
    bool tests = json_string_is(op, "test");
    if (!tests && !json_string_is(op, "copy") && !json_string_is(op, "move"))
        return;
    json_get(operation, tests ? "path" : "from", &pointer);
    struct slice text = json_text(pointer, &call->arena);
    if (text.ptr && redact_reaches(call_mask(call), text, &call->arena))
        call_fail(call, STATUS_REFUSED,
                  "patch: \"%.*s\" is redacted: only a reviewer may copy, move or test it",
                  SLICE_ARG(text));
}

void mask_check_patch(struct call *call, struct slice patch)
{
    struct json_iter iter;
    struct json operations, operation;
    if (!call_mask(call) || patch.len == 0 || json_parse(patch, &operations, NULL) != STATUS_OK)
        return;
    json_iter_init(&iter, operations);
    while (json_next(&iter, NULL, &operation))
        check_operation(call, operation);
}
