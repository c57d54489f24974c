/* fuzz_envelope: any bytes as an envelope.
 *
 * What is refused must say why.  What is accepted is an object with an action, its texts are within
 * their limits, every slice lies in the body, the arena or a constant, and reading it again gives
 * the same. */
#include <stddef.h>
#include <stdint.h>

#include "core/envelope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(struct slice text, size_t max)
{
    if (text.len > 0 && envelope_name_check("text", text, max, NULL) != STATUS_OK)
        BUG("a text that may not stand there was accepted");
}

static void check_accepted(const struct envelope *e)
{
    const struct slice texts[] = {e->job_id,           e->trace_id,        e->requested_by,
                                  e->scope_lock,       e->action,          e->source,
                                  e->original_subject, e->idempotency_key, e->retry_key,
                                  e->run_id,           e->item_id};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        check_text(texts[i], ENVELOPE_ID_MAX);
    check_text(e->queue, ENVELOPE_QUEUE_MAX);
    BUG_ON(e->action.len == 0 || e->queue.len == 0);
    BUG_ON(e->priority < 0 || e->priority > 9 || e->attempt_count < 0 || e->max_runtime.us < 0);
    BUG_ON(e->inputs.type != JSON_OBJECT);
    BUG_ON(e->policy_name.len > 0 && e->policy_inline.raw.len > 0);
    BUG_ON((e->id_hash == 0) != (e->job_id.len == 0));
    BUG_ON((e->idempotency_hash == 0) != (e->idempotency_key.len == 0));
    BUG_ON((e->retry_key_hash == 0) != (e->retry_key.len == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice body = {(const char *)data, size};
    struct arena arena = {0};
    struct envelope envelope, again;
    struct err err = {0};

    if (envelope_parse(body, ENVELOPE_BODY_MAX, &arena, &envelope, &err) == STATUS_OK) {
        check_accepted(&envelope);
        BUG_ON(envelope_parse(body, size, &arena, &again, NULL) != STATUS_OK);
        BUG_ON(!slice_eq(again.action, envelope.action) || again.id_hash != envelope.id_hash);
        BUG_ON(envelope_parse(body, size - 1, &arena, &again, NULL) != STATUS_TOO_LARGE);
    } else {
        BUG_ON(err.text[0] == '\0');
    }
    arena_release(&arena);
    return 0;
}
