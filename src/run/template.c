/* template: arguments, taken apart into texts and places once, and filled for each item.
 *
 * An argument without places is handed out as it is; one with places is put together in one piece,
 * after its length is known, so that an item that is too long costs nothing. */
#include "run/template.h"

#include "core/field.h"
#include "run/command.h"
#include "run/place.h"

#define SHOWN_MAX 60 /* bytes of an argument that an error repeats */

/* struct part: a piece of an argument: text, or a place for a field. */
struct part {
    struct slice text; /* of a place: as it stands in the template */
    struct slice path; /* of a place: the field; empty: the item itself */
    bool place;
};

struct argument {
    char *text; /* the whole, as it stands in the template */
    size_t len;
    struct part *parts; /* NULL: it has no places */
    size_t count;
};

struct template
{
    struct argument *arguments;
    size_t count;
};

/* ---- reading ----------------------------------------------------------------------------------
 */

/* braces reads "{}" or "{path}" at the beginning of a text; 0 when it is neither. */
static size_t braces(struct slice text, struct slice *path)
{
    size_t len;

    if (text.len < 2 || text.ptr[0] != '{')
        return 0;
    *path = (struct slice){text.ptr + 1, 0};
    if (text.ptr[1] == '}')
        return 2;
    len = place_path((struct slice){text.ptr + 1, text.len - 1});
    path->len = len;
    return len > 0 && len + 1 < text.len && text.ptr[len + 1] == '}' ? len + 2 : 0;
}

/* place_at reads a place at the beginning of a text, and returns its length; 0 when there is none.
 * `skip` is how much of the text is passed over then: a ${name} that is no place is left whole. */
static size_t place_at(struct slice text, struct slice *path, size_t *skip)
{
    size_t len;

    *skip = 1;
    if (text.ptr[0] == '{') {
        len = braces(text, path);
        /* {3} repeats, in the patterns of other tools: ${item.3} is the fourth of an array. */
        return len > 2 && path->ptr[0] >= '0' && path->ptr[0] <= '9' ? 0 : len;
    }
    if (text.ptr[0] != '$')
        return 0;
    len = braces((struct slice){text.ptr + 1, text.len - 1}, path);
    if (len == 0 || path->len == 0)
        return 0;
    *skip = len + 1;
    if (slice_is(*path, "item"))
        *path = SLICE("");
    else if (slice_starts(*path, SLICE("item.")))
        *path = (struct slice){path->ptr + 5, path->len - 5};
    else
        return 0;
    return len + 1;
}

/* split takes an argument apart.  `parts` is NULL: they are only counted. */
static size_t split(struct slice text, struct part *parts, bool *places)
{
    size_t count = 0, begin = 0, at = 0, skip;

    while (at < text.len) {
        struct part place = {.place = true};
        size_t len = place_at((struct slice){text.ptr + at, text.len - at}, &place.path, &skip);
        if (len == 0) {
            at += skip;
            continue;
        }
        place.text = (struct slice){text.ptr + at, len};
        if (at > begin && parts)
            parts[count] = (struct part){.text = {text.ptr + begin, at - begin}};
        count += at > begin;
        if (parts)
            parts[count] = place;
        count++;
        at += len;
        begin = at;
        *places = true;
    }
    if (at > begin && parts)
        parts[count] = (struct part){.text = {text.ptr + begin, at - begin}};
    return count + (at > begin);
}

static enum status read_argument(const char *text, struct arena *arena, struct argument *out,
                                 struct err *err)
{
    size_t len = strlen(text), count;
    bool places = false;

    out->text = arena_alloc(arena, len + 1);
    if (!out->text)
        return err_no_memory(err);
    memcpy(out->text, text, len);
    out->len = len;
    struct slice whole = {out->text, len};
    count = split(whole, NULL, &places);
    if (!places)
        return STATUS_OK;
    out->parts = arena_array(arena, count, sizeof(*out->parts));
    if (!out->parts)
        return err_no_memory(err);
    out->count = split(whole, out->parts, &places);
    return STATUS_OK;
}

enum status template_parse(const char *const *args, size_t count, struct arena *arena,
                           const struct template **out, struct err *err)
{
    struct template *template;
    enum status status = STATUS_OK;

    if (count == 0)
        return err_set(err, STATUS_INVALID, "there is no command: give one to run for each item");
    template = arena_alloc(arena, sizeof(*template));
    if (template)
        template->arguments = arena_array(arena, count, sizeof(*template->arguments));
    if (!template || !template->arguments)
        return err_no_memory(err);
    template->count = count;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = read_argument(args[i], arena, &template->arguments[i], err);
    if (status == STATUS_OK)
        *out = template;
    return status;
}

/* ---- filling ----------------------------------------------------------------------------------
 */

/* no_field says that an item has no such field, and what to write when "item." was too much. */
static enum status no_field(struct slice path, const struct item *item, struct err *err)
{
    struct slice rest = {path.ptr + 5, path.len - 5};
    struct json value;

    if (slice_starts(path, SLICE("item.")) && item_field(item->value, rest, &value)) {
        rest = field_head(rest, SHOWN_MAX);
        return err_set(err, STATUS_INVALID,
                       "the item has no field \"item\": write {%.*s}, or ${item.%.*s}",
                       SLICE_ARG(rest), SLICE_ARG(rest));
    }
    return item_missing(item, path, err);
}

/* value_of is what a place stands for. */
static enum status value_of(const struct part *part, const struct item *item, struct arena *arena,
                            struct slice *out, struct err *err)
{
    struct item field = *item;
    struct json value;

    if (part->path.len > 0) {
        if (!item_field(item->value, part->path, &value))
            return no_field(part->path, item, err);
        enum status status = item_from_value(value, arena, &field, err);
        if (status != STATUS_OK)
            return status;
    }
    if (field.bytes.len && memchr(field.bytes.ptr, '\0', field.bytes.len))
        return err_set(err, STATUS_INVALID,
                       "%.*s holds a NUL byte, which no argument can: let the command read "
                       "$LAZARET_ITEM_FILE",
                       SLICE_ARG(field_head(part->text, SHOWN_MAX)));
    *out = field.bytes;
    return STATUS_OK;
}

static enum status too_long(const struct argument *argument, size_t len, struct err *err)
{
    struct slice shown = field_head((struct slice){argument->text, argument->len}, SHOWN_MAX);

    return err_set(err, STATUS_INVALID,
                   "the argument %.*s%s gets %zu bytes, and one may have %u: let the command read "
                   "$LAZARET_ITEM_FILE",
                   SLICE_ARG(shown), shown.len < argument->len ? "..." : "", len, ARGUMENT_MAX);
}

/* fill_argument puts an argument together. */
static enum status fill_argument(const struct argument *argument, const struct item *item,
                                 struct arena *arena, char **out, struct err *err)
{
    struct slice *values;
    size_t len = 0;
    char *at;

    values = arena_array(arena, argument->count, sizeof(*values));
    if (!values)
        return err_no_memory(err);
    for (size_t i = 0; i < argument->count; i++) {
        const struct part *part = &argument->parts[i];
        enum status status = STATUS_OK;
        values[i] = part->text;
        if (part->place)
            status = value_of(part, item, arena, &values[i], err);
        if (status != STATUS_OK)
            return status;
        len += values[i].len;
    }
    if (len > ARGUMENT_MAX)
        return too_long(argument, len, err);
    *out = at = arena_alloc(arena, len + 1);
    if (!at)
        return err_no_memory(err);
    for (size_t i = 0; i < argument->count; at += values[i].len, i++)
        if (values[i].len)
            memcpy(at, values[i].ptr, values[i].len);
    return STATUS_OK;
}

enum status template_fill(const struct template *template, const struct item *item,
                          struct arena *arena, char ***out, struct err *err)
{
    char **argv = arena_array(arena, template->count + 1, sizeof(*argv));
    enum status status = STATUS_OK;

    if (!argv)
        return err_no_memory(err);
    for (size_t i = 0; i < template->count && status == STATUS_OK; i++) {
        const struct argument *argument = &template->arguments[i];
        argv[i] = argument->text;
        if (argument->parts)
            status = fill_argument(argument, item, arena, &argv[i], err);
        else if (argument->len > ARGUMENT_MAX)
            status = too_long(argument, argument->len, err);
    }
    if (status == STATUS_OK)
        *out = argv;
    return status;
}

/* ---- printing ---------------------------------------------------------------------------------
 */

/* is_typed_plainly says whether a person would type an argument without quotes: its texts need
 * none, and its places are {}, which a shell leaves alone. */
static bool is_typed_plainly(const struct argument *argument, bool first)
{
    bool plain = argument->parts != NULL;

    for (size_t i = 0; i < argument->count && plain; i++) {
        const struct part *part = &argument->parts[i];
        plain = part->place ? part->text.ptr[0] == '{' : command_is_plain(part->text, first);
    }
    return plain;
}

void template_print(const struct template *template, struct buf *out)
{
    for (size_t i = 0; i < template->count; i++) {
        const struct argument *argument = &template->arguments[i];
        struct slice text = {argument->text, argument->len};
        if (i > 0)
            buf_add_char(out, ' ');
        if (is_typed_plainly(argument, i == 0))
            buf_add_slice(out, text);
        else
            command_quote(text, i == 0, out);
    }
}
