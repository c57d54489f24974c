/* workflow_steps: the commands of a workflow.
 *
 *     steps = step | [step, ...] | {commands: [step, ...]}
 *     step  = "a plain line" | [an, argument, list] | {shell: script} | {run: line or list}
 *
 * In `map` a list of plain words is one command, as on the command line; elsewhere each text in a
 * list is a line of its own.  An argument may be a number or true or false: it stands for its text.
 */
#include <stdio.h>

#include "core/field.h"
#include "run/workflow_internal.h"

#define STEP_MUST "a command line, a list of arguments, or one of shell: and run:"
#define COMMANDS "commands"

/* What the original tool can do as a step and this one cannot. */
static const char *const foreign_kinds[] = {"claude",  "analyze",    "test",    "goal_seek",
                                            "foreach", "write_file", "handler", "command"};

/* struct reading: a step that is being read. */
struct reading {
    struct step step;
    struct json shell, run;
    struct json commit_required;
};

static const struct flow_key step_keys[] = {
    {"shell", flow_value, .offset = offsetof(struct reading, shell)},
    {"run", flow_value, .offset = offsetof(struct reading, run)},
    {"timeout", flow_time, .offset = offsetof(struct reading, step.timeout)},
    {"commit_required", flow_value, .offset = offsetof(struct reading, commit_required)},
};
static const struct flow_section step_section = FLOW_SECTION("a step", step_keys);

static const struct flow_key text_key = {.name = "a command"};

/* ---- commands ------------------------------------------------------------------------------- */

static bool is_argument(struct json value)
{
    return value.type == JSON_STRING || value.type == JSON_NUMBER || value.type == JSON_TRUE ||
           value.type == JSON_FALSE;
}

/* within places an error that counts lines and columns from the beginning of a text. */
static enum status within(struct flow *flow, struct json value, const char *what,
                          enum status status)
{
    if (status == STATUS_INVALID)
        err_prefix(flow->err, "in %s", what);
    return flow_at(flow, value, status);
}

/* print_text is a command as a person would type it. */
static enum status print_text(struct flow *flow, const struct template *template, struct slice *out)
{
    struct buf text;

    buf_init(&text, SIZE_MAX / 2);
    template_print(template, &text);
    enum status status = buf_status(&text, flow->err);
    if (status == STATUS_OK)
        *out = arena_dup(flow->arena, buf_slice(&text));
    if (status == STATUS_OK && !out->ptr)
        status = err_no_memory(flow->err);
    buf_release(&text);
    return status;
}

/* make_command makes a step of arguments; `at` is the command's place. */
static enum status make_command(struct flow *flow, enum workflow_phase phase, struct json at,
                                const char **args, size_t count, struct step *out)
{
    if (count == 0 || args[0][0] == '\0')
        return flow_wrong(flow, at, "a command begins with the name of a program");
    enum status status = template_parse(args, count, flow->arena, &out->template, flow->err);
    if (status == STATUS_OK && !out->text.len)
        status = print_text(flow, out->template, &out->text);
    if (status != STATUS_OK || phase != WORKFLOW_REDUCE)
        return flow_at(flow, at, status);
    for (size_t i = 0; i < count; i++) {
        args[i] = workflow_places_of_item(slice_of(args[i]), flow->arena);
        if (!args[i])
            return err_no_memory(flow->err);
    }
    status = template_parse(args, count, flow->arena, &out->template, flow->err);
    return flow_at(flow, at, status);
}

/* read_line reads a plain line: arguments without a shell. */
static enum status read_line(struct flow *flow, enum workflow_phase phase, struct json value,
                             struct step *out)
{
    const char **args;
    size_t count;
    enum status status = flow_script(flow, &text_key, value, &out->text);

    if (status != STATUS_OK)
        return status;
    status = command_split(out->text, flow->arena, &args, &count, flow->err);
    if (status != STATUS_OK)
        return within(flow, value, "the line", status);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = workflow_places_check(flow, phase, value, slice_of(args[i]), false);
    return status == STATUS_OK ? make_command(flow, phase, value, args, count, out) : status;
}

/* no_argument says what is wrong with an entry of an argument list.  {} and {file} without quotes
 * are mappings to YAML, which is the mistake to expect. */
static enum status no_argument(struct flow *flow, struct json value)
{
    if (value.type == JSON_OBJECT)
        return flow_wrong(flow, value,
                          "an argument must be a text: a place for the item stands in quotes, "
                          "\"{}\" or \"{file}\"");
    return flow_at(flow, value, field_wrong("an argument", "a text or a number", value, flow->err));
}

static enum status read_argument(struct flow *flow, enum workflow_phase phase, struct json value,
                                 const char **out)
{
    struct slice text = value.raw;

    if (!is_argument(value))
        return no_argument(flow, value);
    if (value.type == JSON_STRING)
        text = json_text(value, flow->arena);
    text = text.ptr ? arena_dup(flow->arena, text) : text;
    if (!text.ptr)
        return err_no_memory(flow->err);
    if (memchr(text.ptr, '\0', text.len))
        return flow_wrong(flow, value, "an argument may not have a NUL in it");
    *out = text.ptr;
    return workflow_places_check(flow, phase, value, text, false);
}

static enum status read_arguments(struct flow *flow, enum workflow_phase phase, struct json list,
                                  struct step *out)
{
    const char **args = arena_array(flow->arena, json_count(list) + 1, sizeof(*args));
    struct json_iter iter;
    struct json value;
    size_t count = 0;
    enum status status = STATUS_OK;

    if (!args)
        return err_no_memory(flow->err);
    json_iter_init(&iter, list);
    while (status == STATUS_OK && json_next(&iter, NULL, &value))
        status = read_argument(flow, phase, value, &args[count++]);
    return status == STATUS_OK ? make_command(flow, phase, list, args, count, out) : status;
}

static enum status read_script(struct flow *flow, enum workflow_phase phase, struct json value,
                               struct step *out)
{
    static const struct flow_key key = {.name = "shell"};
    enum status status = flow_script(flow, &key, value, &out->text);

    if (status == STATUS_OK)
        status = workflow_places_check(flow, phase, value, out->text, true);
    if (status != STATUS_OK)
        return status;
    status =
        script_parse(out->text, workflow_places_roots(phase), flow->arena, &out->script, flow->err);
    return within(flow, value, "the script", status);
}

enum status workflow_steps_aside(struct flow *flow, const struct flow_key *key, struct json value,
                                 void *field)
{
    struct slice *script = field;
    enum status status = flow_script(flow, key, value, script);

    return status == STATUS_OK ? workflow_places_check(flow, WORKFLOW_ASIDE, value, *script, true)
                               : status;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* check_kind refuses steps of the original tool, and places that lack their quotes. */
static enum status check_kind(struct flow *flow, struct json object)
{
    struct json_iter iter;
    struct json key, value;

    if (json_count(object) == 0)
        return no_argument(flow, object);
    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        for (size_t i = 0; i < sizeof(foreign_kinds) / sizeof(foreign_kinds[0]); i++)
            if (json_string_is(key, foreign_kinds[i]))
                return flow_wrong(flow, key,
                                  "a step of the kind \"%s\" can not be run here: a step has "
                                  "shell: (a script) or run: (a command)",
                                  foreign_kinds[i]);
        bool ours = json_string_is(key, "shell") || json_string_is(key, "run");
        if (!ours && value.type == JSON_NULL && json_count(object) == 1)
            return no_argument(flow, object);
    }
    return STATUS_OK;
}

/* read_commit reads commit_required, which is a matter of the items' worktrees. */
static enum status read_commit(struct flow *flow, enum workflow_phase phase, struct json value,
                               struct step *out)
{
    static const struct flow_key key = {.name = "commit_required"};

    if (!value.raw.len)
        return STATUS_OK;
    if (phase != WORKFLOW_MAP)
        return flow_wrong(flow, value, "commit_required: is for the steps of map, not of %s",
                          workflow_places_phase(phase));
    return flow_bool(flow, &key, value, &out->commit_required);
}

static enum status read_run(struct flow *flow, enum workflow_phase phase, struct json value,
                            struct step *out)
{
    if (value.type == JSON_STRING)
        return read_line(flow, phase, value, out);
    if (value.type == JSON_ARRAY)
        return read_arguments(flow, phase, value, out);
    return flow_at(flow, value,
                   field_wrong("run", "a command line or a list of arguments", value, flow->err));
}

static enum status read_object(struct flow *flow, enum workflow_phase phase, struct json object,
                               struct step *out)
{
    struct reading r = {0};
    enum status status = check_kind(flow, object);

    if (status == STATUS_OK)
        status = flow_keys(flow, &step_section, object, &r);
    if (status != STATUS_OK)
        return status;
    if ((r.shell.raw.len > 0) == (r.run.raw.len > 0))
        return flow_wrong(flow, object, "a step has either shell: (a script) or run: (a command)");
    status = read_commit(flow, phase, r.commit_required, &r.step);
    if (status == STATUS_OK)
        status = r.shell.raw.len ? read_script(flow, phase, r.shell, &r.step)
                                 : read_run(flow, phase, r.run, &r.step);
    if (status == STATUS_OK)
        *out = r.step;
    return status;
}

static enum status read_step(struct flow *flow, enum workflow_phase phase, struct json value,
                             struct step *out)
{
    switch (value.type) {
    case JSON_STRING:
        return read_line(flow, phase, value, out);
    case JSON_ARRAY:
        return read_arguments(flow, phase, value, out);
    case JSON_OBJECT:
        return read_object(flow, phase, value, out);
    default:
        return flow_at(flow, value, field_wrong("a step", STEP_MUST, value, flow->err));
    }
}

/* is_command says whether a list is one command: in `map`, when all of it are words. */
static bool is_command(enum workflow_phase phase, struct json list)
{
    struct json_iter iter;
    struct json value;

    json_iter_init(&iter, list);
    while (json_next(&iter, NULL, &value))
        if (!is_argument(value))
            return false;
    return phase == WORKFLOW_MAP;
}

static enum status read_list(struct flow *flow, enum workflow_phase phase, struct json list,
                             struct steps *out)
{
    struct step *steps = arena_array(flow->arena, json_count(list) + 1, sizeof(*steps));
    struct json_iter iter;
    struct json value;
    size_t count = 0;
    enum status status = STATUS_OK;

    if (!steps)
        return err_no_memory(flow->err);
    json_iter_init(&iter, list);
    while (status == STATUS_OK && json_next(&iter, NULL, &value))
        status = read_step(flow, phase, value, &steps[count++]);
    if (status == STATUS_OK)
        *out = (struct steps){steps, count};
    return status;
}

static enum status read_commands(struct flow *flow, enum workflow_phase phase, struct json object,
                                 struct steps *out)
{
    static const struct flow_key keys[] = {{COMMANDS, flow_value, .offset = 0}};
    struct flow_section section = FLOW_SECTION(workflow_places_phase(phase), keys);
    struct json commands = {0};
    enum status status = flow_keys(flow, &section, object, &commands);

    if (status != STATUS_OK)
        return status;
    if (commands.type != JSON_ARRAY)
        return flow_at(flow, commands,
                       field_wrong(COMMANDS, "a list of steps", commands, flow->err));
    return read_list(flow, phase, commands, out);
}

static enum status read_one(struct flow *flow, enum workflow_phase phase, struct json value,
                            struct steps *out)
{
    struct step *step = arena_alloc(flow->arena, sizeof(*step));

    if (!step)
        return err_no_memory(flow->err);
    enum status status = read_step(flow, phase, value, step);
    if (status == STATUS_OK)
        *out = (struct steps){step, 1};
    return status;
}

enum status workflow_steps_read(struct flow *flow, enum workflow_phase phase, struct json value,
                                struct steps *out)
{
    struct json commands;

    if (value.type == JSON_OBJECT && json_get(value, COMMANDS, &commands))
        return read_commands(flow, phase, value, out);
    if (value.type == JSON_ARRAY && !(json_count(value) > 0 && is_command(phase, value)))
        return read_list(flow, phase, value, out);
    return read_one(flow, phase, value, out);
}
