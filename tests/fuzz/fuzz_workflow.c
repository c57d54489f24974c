/* fuzz_workflow: any bytes as a workflow file.
 *
 * What is refused must say where.  What is accepted must be whole: it has items and commands, its
 * commands can be filled or say why not, and its policy is one. */
#include <stddef.h>
#include <stdint.h>

#include "core/policy.h"
#include "run/workflow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* check_steps fills every command with an item; that it has no such field is a fine answer. */
static void check_steps(const struct steps *steps, const struct item *item, bool must_fill,
                        struct arena *arena)
{
    struct err err = {0};
    char **argv;

    for (size_t i = 0; i < steps->count; i++) {
        const struct step *step = &steps->steps[i];
        BUG_ON(step->text.len == 0 || step->timeout.us < 0);
        if (!step->template) {
            BUG_ON(!step->script.text || (must_fill && step->script.place_count > 0));
            continue;
        }
        enum status status = template_fill(step->template, item, arena, &argv, &err);
        BUG_ON(status == STATUS_OK && !argv[0]);
        BUG_ON(status != STATUS_OK && (must_fill || err.text[0] == '\0'));
    }
}

static void check_policy(struct slice text, struct arena *arena)
{
    struct json json;
    struct policy policy;
    struct err err = {0};

    if (json_parse(text, &json, &err) != STATUS_OK)
        BUG("%s", err.text);
    if (json.type != JSON_STRING && policy_parse(json, arena, &policy, &err) != STATUS_OK)
        BUG("%s", err.text);
}

static void check_workflow(const struct workflow *workflow, struct arena *arena)
{
    struct json value;
    struct item item;
    struct err err = {0};

    BUG_ON(json_parse(SLICE("{\"file\":\"a b\",\"map\":{\"total\":1}}"), &value, &err));
    BUG_ON(item_from_value(value, arena, &item, &err) != STATUS_OK);
    BUG_ON((workflow->input != NULL) == (workflow->items.type == JSON_ARRAY));
    BUG_ON(workflow->map.count == 0);
    check_steps(&workflow->setup, &item, true, arena);
    check_steps(&workflow->map, &item, false, arena);
    check_steps(&workflow->reduce, &item, false, arena);
    BUG_ON((workflow->on_failure == ON_FAILURE_CUSTOM) != (workflow->custom.len > 0));
    BUG_ON(workflow->failures_max == 0 || workflow->parallel_max < 0 || workflow->timeout.us < 0);
    if (workflow->policy.len > 0)
        check_policy(workflow->policy, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct workflow workflow;
    struct err err = {0};
    struct slice text = {(const char *)data, size};

    enum status status = workflow_parse(text, "w", &arena, &workflow, &err);
    if (status == STATUS_OK)
        check_workflow(&workflow, &arena);
    else
        BUG_ON(status == STATUS_INVALID && !strstr(err.text, "column"));
    BUG_ON(status != STATUS_OK && err.text[0] == '\0');
    arena_release(&arena);
    return 0;
}
