/* fuzz_template: a first line as a command, the rest as the item that it is filled with; and all of
 * it as a script.
 *
 * A command that is split, filled and printed is split into the same arguments again.  A script
 * that is accepted is the same text, but for references in the place of places, and quotes around
 * them. */
#include <stddef.h>
#include <stdint.h>

#include "run/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* check_printed reads back what was printed. */
static void check_printed(char *const *argv, struct arena *arena)
{
    const char **again;
    size_t count = 0;
    struct buf text;

    buf_init(&text, 1 << 24);
    command_print(argv, &text);
    BUG_ON(command_split(buf_slice(&text), arena, &again, &count, NULL) != STATUS_OK);
    for (size_t i = 0; i < count; i++)
        BUG_ON(!argv[i] || strcmp(argv[i], again[i]) != 0);
    BUG_ON(argv[count]);
    buf_release(&text);
}

static void check_command(struct slice line, const struct item *item, struct arena *arena)
{
    const struct template *template = NULL;
    const char **args = NULL;
    size_t count = 0;
    struct err err = {0};
    char **argv = NULL;
    struct buf text;

    if (command_split(line, arena, &args, &count, &err) != STATUS_OK) {
        BUG_ON(err.text[0] == '\0' || args);
        return;
    }
    if (template_parse(args, count, arena, &template, &err) != STATUS_OK) {
        BUG_ON(count != 0);
        return;
    }
    buf_init(&text, 1 << 24);
    template_print(template, &text);
    BUG_ON(buf_status(&text, NULL) != STATUS_OK);
    buf_release(&text);
    if (template_fill(template, item, arena, &argv, &err) == STATUS_OK)
        check_printed(argv, arena);
    else
        BUG_ON(err.text[0] == '\0' || argv);
}

/* put_back appends a script's text with its places as they were. */
static void put_back(const struct script *script, struct buf *out)
{
    const char *at = script->text, *next;

    while ((next = strstr(at, "${LAZARET_P")) != NULL) {
        size_t number = strtoul(next + 11, NULL, 10);
        buf_add(out, at, (size_t)(next - at));
        if (number >= 1 && number <= script->place_count) {
            buf_add_str(out, "${");
            buf_add_slice(out, script->places[number - 1].name);
            buf_add_char(out, '}');
        }
        at = strchr(next, '}');
        at = at ? at + 1 : next + strlen(next);
    }
    buf_add_str(out, at);
}

/* without_quotes takes double quotes out, as those around references are not in the script. */
static struct slice without_quotes(struct slice text, struct arena *arena)
{
    char *out = arena_alloc(arena, text.len + 1);
    size_t len = 0;

    BUG_ON(!out);
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] != '"')
            out[len++] = text.ptr[i];
    return (struct slice){out, len};
}

static void check_script(struct slice text, struct arena *arena)
{
    static const char *const roots[] = {"item", "map", NULL};
    struct script script = {0};
    struct err err = {0};
    struct buf back;

    if (script_parse(text, roots, arena, &script, &err) != STATUS_OK) {
        BUG_ON(err.text[0] == '\0' || script.text);
        return;
    }
    if (text.len && memmem(text.ptr, text.len, "LAZARET_P", 9))
        return;
    buf_init(&back, 1 << 24);
    put_back(&script, &back);
    BUG_ON(!slice_eq(without_quotes(buf_slice(&back), arena), without_quotes(text, arena)));
    buf_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - (const char *)data) : size;
    struct slice line = {(const char *)data, len}, rest = {0};
    struct arena arena = {0};
    struct item item;
    struct json value;

    if (newline)
        rest = (struct slice){newline + 1, size - len - 1};
    BUG_ON(item_from_line(rest, &arena, &item, NULL) != STATUS_OK);
    check_command(line, &item, &arena);
    if (json_parse(rest, &value, NULL) == STATUS_OK) {
        BUG_ON(item_from_value(value, &arena, &item, NULL) != STATUS_OK);
        BUG_ON(json_parse(item.value.raw, &value, NULL) != STATUS_OK);
        check_command(line, &item, &arena);
    }
    check_script((struct slice){(const char *)data, size}, &arena);
    arena_release(&arena);
    return 0;
}
