/* source: see source.h.
 *
 *     source_open --> (not begun) --source_next--> begin: the mark is dropped, the format found,
 *                          ^                       a document read whole and checked
 *                          `--source_rewind-- records, until the end
 *
 * A JSON document stays in the buffer of `lines`, and its values are slices of it. */
#include "run/source.h"

#include <stdlib.h>
#include <strings.h>

#include "core/field.h"

#define NAME_MAX_SHOWN 40 /* bytes of a member's name that an error proposes */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_blank(struct slice text)
{
    size_t i = 0;

    while (i < text.len && is_space(text.ptr[i]))
        i++;
    return i == text.len;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static bool ends_with(const char *name, const char *ending)
{
    size_t len = strlen(name), end = strlen(ending);

    return len > end && strcasecmp(name + len - end, ending) == 0;
}

/* format_of is what can be told without looking at the input. */
static enum items_format format_of(const struct items_config *config)
{
    if (config->format != ITEMS_DETECT)
        return config->format;
    if (ends_with(config->path, ".json"))
        return ITEMS_JSON;
    if (ends_with(config->path, ".ndjson") || ends_with(config->path, ".jsonl"))
        return ITEMS_NDJSON;
    return config->json_path ? ITEMS_JSON : ITEMS_DETECT;
}

enum status source_open(struct source *source, const struct items_config *config, struct err *err)
{
    enum status status = STATUS_OK;

    *source = (struct source){.lines = {.fd = -1, .wake = -1}, .format = format_of(config)};
    if (config->json_path && source->format != ITEMS_JSON)
        return err_set(err, STATUS_INVALID,
                       "the path %s selects from a JSON document, and %s is %s: leave the path out",
                       config->json_path,
                       strcmp(config->path, "-") == 0 ? "standard input" : config->path,
                       source->format == ITEMS_NDJSON ? "NDJSON" : "a list of lines");
    if (config->json_path)
        status = jsonpath_parse(slice_of(config->json_path), &source->arena, &source->path, err);
    if (status != STATUS_OK) {
        err_prefix(err, "the path %s", config->json_path);
        return status;
    }
    return lines_open(&source->lines, config->path, err);
}

void source_close(struct source *source)
{
    lines_close(&source->lines);
    arena_release(&source->arena);
}

/* ---- errors -----------------------------------------------------------------------------------
 */

size_t source_flaw(const struct err *err, const char **what)
{
    static const char head[] = "not valid JSON at byte ";
    char *end;

    BUG_ON(strncmp(err->text, head, sizeof(head) - 1) != 0);
    size_t byte = strtoul(err->text + sizeof(head) - 1, &end, 10);
    BUG_ON(end[0] != ':' || end[1] != ' ' || byte == 0);
    *what = end + 2;
    return byte;
}

/* invalid turns what json_parse said about a text that begins at line `line` into a line and a
 * column, which counts characters. */
static enum status invalid(const struct source *source, struct slice text, int64_t line,
                           const struct err *found, struct err *err)
{
    const char *what;
    size_t byte = source_flaw(found, &what), column = 1;

    for (size_t i = 0; i + 1 < byte && i < text.len; i++) {
        column += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
        if (text.ptr[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return err_set(err, STATUS_INVALID, "%s: line %lld, column %zu: %s", source->lines.name,
                   (long long)line, column, what);
}

void source_blame(const struct source *source, const struct record *record, struct err *err)
{
    err_prefix(err, "%s: %s %lld", source->lines.name,
               source->format == ITEMS_JSON ? "element" : "line", (long long)record->number);
}

/* ---- a JSON document --------------------------------------------------------------------------
 */

/* likely_name is the first member that has an array, when its name needs no quotes in a path. */
static struct slice likely_name(struct json object)
{
    struct json_iter iter;
    struct json key, value;

    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value)) {
        struct slice name = {key.raw.ptr + 1, key.raw.len - 2};
        bool plain = name.len > 0 && name.len <= NAME_MAX_SHOWN;
        for (size_t i = 0; i < name.len && plain; i++) {
            char c = name.ptr[i];
            plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                    (i > 0 && c >= '0' && c <= '9');
        }
        if (value.type == JSON_ARRAY && plain)
            return name;
    }
    return SLICE("items");
}

/* no_array says what to do with a document of which nobody said where its items are. */
static enum status no_array(const struct source *source, struct err *err)
{
    bool object = source->root.type == JSON_OBJECT;
    struct slice name = object ? likely_name(source->root) : (struct slice){0};

    if (!object)
        return err_set(err, STATUS_INVALID, "%s: is not an array but one value: %.*s",
                       source->lines.name, SLICE_ARG(field_head(source->root.raw, NAME_MAX_SHOWN)));
    return err_set(err, STATUS_INVALID,
                   "%s: is an object, not an array: give --json-path to say which values are the "
                   "items, such as --json-path '$.%.*s[*]'",
                   source->lines.name, SLICE_ARG(name));
}

/* refuse_document says what is wrong with a text that is no JSON document. */
static enum status refuse_document(const struct source *source, struct slice text,
                                   const struct err *found, struct err *err)
{
    struct json first;
    struct slice rest;

    if (is_blank(text))
        return err_set(err, STATUS_INVALID, "%s: there is no JSON in it", source->lines.name);
    if (json_parse_prefix(text, &first, &rest, NULL) != STATUS_OK)
        return invalid(source, text, 1, found, err);
    return err_set(err, STATUS_INVALID,
                   "%s: more follows the first value, and a JSON document is one: one value a line "
                   "is NDJSON, and its file's name ends in .ndjson",
                   source->lines.name);
}

/* read_document reads the whole input and checks it.  Stopped, it has nothing in it. */
static enum status read_document(struct source *source, struct err *err)
{
    enum status status = STATUS_OK;
    struct err found = {0};

    while (status == STATUS_OK && !source->lines.ended && !lines_stopped(&source->lines))
        status = lines_more(&source->lines, SOURCE_DOCUMENT_MAX, err);
    if (status == STATUS_TOO_LARGE)
        return err_set(
            err, status,
            "%s: has more than %zu bytes, and a JSON document is read whole: write it as "
            "NDJSON, one value a line",
            source->lines.name, SOURCE_DOCUMENT_MAX);
    if (status != STATUS_OK || lines_stopped(&source->lines))
        return status;
    struct slice text = lines_ahead(&source->lines);
    if (json_parse(text, &source->root, &found) != STATUS_OK)
        return refuse_document(source, text, &found, err);
    if (!source->path && source->root.type != JSON_ARRAY)
        return no_array(source, err);
    if (!source->path)
        return jsonpath_parse(SLICE("$[*]"), &source->arena, &source->path, err);
    return STATUS_OK;
}

static enum status begin_walk(struct source *source, struct err *err)
{
    source->walk = jsonpath_begin(source->path, source->root, &source->arena);
    return source->walk ? STATUS_OK : err_no_memory(err);
}

/* ---- records ----------------------------------------------------------------------------------
 */

/* drop_mark leaves out a byte-order mark.  It reads on only while what is there may become one. */
static enum status drop_mark(struct source *source, struct err *err)
{
    const struct slice mark = SLICE("\xEF\xBB\xBF");
    enum status status = STATUS_OK;
    struct slice ahead = lines_ahead(&source->lines);

    while (status == STATUS_OK && ahead.len < mark.len && slice_starts(mark, ahead) &&
           !source->lines.ended) {
        status = lines_more(&source->lines, LINES_LINE_MAX, err);
        ahead = lines_ahead(&source->lines);
    }
    if (status == STATUS_OK && slice_starts(ahead, mark))
        lines_skip(&source->lines, mark.len);
    return status;
}

/* begin does what stands before the first record. */
static enum status begin(struct source *source, struct err *err)
{
    enum status status = drop_mark(source, err);

    if (status == STATUS_OK && source->format == ITEMS_DETECT)
        status = source_detect(source, err);
    if (status == STATUS_OK && source->format == ITEMS_JSON)
        status = read_document(source, err);
    if (status == STATUS_OK && source->format == ITEMS_JSON && !lines_stopped(&source->lines))
        status = begin_walk(source, err);
    source->begun = status == STATUS_OK;
    return status;
}

/* next_line yields a line, or the value of one; those with nothing in them are left out. */
static enum status next_line(struct source *source, struct record *out, bool *more, struct err *err)
{
    struct err found = {0};
    enum status status;
    struct slice text;
    bool lines = source->format == ITEMS_LINES;

    do
        status = lines_next(&source->lines, &text, more, err);
    while (status == STATUS_OK && *more && (lines ? text.len == 0 : is_blank(text)));
    if (status != STATUS_OK || !*more)
        return status;
    *out = (struct record){.line = lines, .text = text, .number = source->lines.number};
    if (!lines && json_parse(text, &out->value, &found) != STATUS_OK)
        return invalid(source, text, out->number, &found, err);
    return STATUS_OK;
}

enum status source_next(struct source *source, struct record *out, bool *more, struct err *err)
{
    enum status status = source->begun ? STATUS_OK : begin(source, err);

    *more = false;
    if (status != STATUS_OK || lines_stopped(&source->lines))
        return status;
    if (source->format != ITEMS_JSON)
        return next_line(source, out, more, err);
    *out = (struct record){.number = source->number + 1};
    *more = jsonpath_next(source->walk, &out->value);
    source->number += *more;
    return STATUS_OK;
}

bool source_repeats(const struct source *source)
{
    return source->lines.file;
}

enum status source_rewind(struct source *source, struct err *err)
{
    source->number = 0;
    if (source->format == ITEMS_JSON)
        return begin_walk(source, err);
    lines_rewind(&source->lines);
    return drop_mark(source, err);
}
