/* workflow_places: what may be put into a command, and where.
 *
 *     setup    nothing: there is no item yet
 *     map      the item: ${item}, ${item.path}; in arguments also {} and {path}
 *     reduce   ${map.successful} and the others in `results`
 *     aside    nothing: the scripts of `validate` and `custom` find the item in their environment
 *
 * This looks for what was meant as a place and is none there: left alone, it would reach the
 * command as it stands, or as an empty text.  A ${name} of another name is the shell's. */
#include <stdio.h>

#include "core/field.h"
#include "run/place.h"
#include "run/workflow_internal.h"

#define SHOWN_MAX 60 /* bytes of a place that an error repeats */

static const char *const item_root[] = {"item", NULL};
static const char *const map_root[] = {"map", NULL};
static const char *const no_root[] = {NULL};

static const struct {
    const char *name;
    const char *const *roots;
    const char *no_item; /* why there is none */
} phases[] = {
    [WORKFLOW_SETUP] = {"setup", no_root, "there is no item yet"},
    [WORKFLOW_MAP] = {"map", item_root, ""},
    [WORKFLOW_REDUCE] = {"reduce", map_root,
                         "the items are done, and ${map.results} says what became of them"},
    [WORKFLOW_ASIDE] = {"this script", no_root, "the item is in $LAZARET_ITEM"},
};

static const char *const results[] = {"successful", "failed", "total", "results", "results_file"};

const char *workflow_places_phase(enum workflow_phase phase)
{
    return phases[phase].name;
}

const char *const *workflow_places_roots(enum workflow_phase phase)
{
    return phases[phase].roots;
}

/* struct place: what stands between braces, as template.c and script.c see it. */
struct place {
    struct slice text; /* with its braces and the dollar sign, if there is one */
    struct slice root; /* "item" of ${item.file}; empty in {} */
    struct slice path; /* "file"; empty: none */
    bool dollar;
};

/* place_at reads the place whose brace opens at `at`; false when it is no place but any other use
 * of braces, such as ${name:-default} or {print $1}. */
static bool place_at(struct slice text, size_t at, struct place *out)
{
    struct slice rest = {text.ptr + at + 1, text.len - at - 1};
    size_t len = place_path(rest), root = 0;

    if (len == rest.len || rest.ptr[len] != '}')
        return false;
    while (root < len && rest.ptr[root] != '.')
        root++;
    size_t path = root < len ? root + 1 : len;
    bool dollar = len > 0 && at > 0 && text.ptr[at - 1] == '$';
    *out = (struct place){{rest.ptr - 1 - dollar, len + 2 + dollar},
                          {rest.ptr, root},
                          {rest.ptr + path, len - path},
                          dollar};
    return true;
}

/* is_escaped says whether an odd number of backslashes stands before a byte. */
static bool is_escaped(struct slice text, size_t at)
{
    size_t count = 0;

    while (count < at && text.ptr[at - 1 - count] == '\\')
        count++;
    return count % 2 == 1;
}

static bool is_result(struct slice path)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (slice_is(path, results[i]))
            return true;
    return false;
}

static enum status no_item(struct flow *flow, enum workflow_phase phase, struct json at,
                           struct slice shown, bool script)
{
    const char *more = "";

    if (script && slice_is(shown, "${item}"))
        more = " (a variable of the script's own is written $item)";
    else if (!script && shown.ptr[0] == '{')
        more = "; where the braces stand for themselves, write the command as shell:";
    return flow_wrong(flow, at, "%.*s can not be put into %s: %s%s", SLICE_ARG(shown),
                      phases[phase].name, phases[phase].no_item, more);
}

/* check_result is for what begins with `map`. */
static enum status check_result(struct flow *flow, enum workflow_phase phase, struct json at,
                                const struct place *place, struct slice shown)
{
    if (phase != WORKFLOW_REDUCE)
        return flow_wrong(flow, at, "%.*s can not be put into %s: it is known in reduce",
                          SLICE_ARG(shown), phases[phase].name);
    if (is_result(place->path))
        return STATUS_OK;
    return flow_wrong(flow, at,
                      "%.*s is unknown; there are ${map.successful}, ${map.failed}, ${map.total}, "
                      "${map.results} and ${map.results_file}",
                      SLICE_ARG(shown));
}

static enum status check_place(struct flow *flow, enum workflow_phase phase, struct json at,
                               const struct place *place, bool script)
{
    struct slice shown = field_head(place->text, SHOWN_MAX);
    bool of_map = slice_is(place->root, "map");

    if (place->dollar && slice_is(place->root, "item"))
        return phase == WORKFLOW_MAP ? STATUS_OK : no_item(flow, phase, at, shown, script);
    /* Without a path, and not where results are, `map` is a name like any other. */
    if (place->dollar && of_map && (place->path.len || phase == WORKFLOW_REDUCE))
        return check_result(flow, phase, at, place, shown);
    if (script || place->dollar || phase == WORKFLOW_MAP)
        return STATUS_OK;
    if (of_map && phase == WORKFLOW_REDUCE)
        return check_result(flow, phase, at, place, shown);
    return no_item(flow, phase, at, shown, script);
}

/* check_other is for braces at `brace` that are no place, in arguments: ${item[0]} and ${item:-x}
 * are meant as one.  (In a script script_parse finds them.) */
static enum status check_other(struct flow *flow, enum workflow_phase phase, struct json at,
                               struct slice text, size_t brace)
{
    struct slice rest = {text.ptr + brace + 1, text.len - brace - 1};

    if (brace == 0 || text.ptr[brace - 1] != '$')
        return STATUS_OK;
    for (const char *const *root = phases[phase].roots; *root; root++) {
        size_t len = strlen(*root);
        const char *close = memchr(rest.ptr, '}', rest.len);
        struct slice shown = {rest.ptr - 2, close ? (size_t)(close - rest.ptr) + 3 : rest.len + 2};
        if (slice_starts(rest, slice_of(*root)) && len < rest.len && !place_is_name(rest.ptr[len]))
            return flow_wrong(flow, at,
                              "%.*s can not be put in: a place is ${%s.name}, or ${%s.list.0} for "
                              "the first of a list",
                              SLICE_ARG(field_head(shown, SHOWN_MAX)), *root, *root);
    }
    return STATUS_OK;
}

enum status workflow_places_check(struct flow *flow, enum workflow_phase phase, struct json at,
                                  struct slice text, bool script)
{
    enum status status = STATUS_OK;
    struct place place;

    for (size_t i = 0; i < text.len && status == STATUS_OK; i++) {
        if (text.ptr[i] != '{')
            continue;
        if (!place_at(text, i, &place))
            status = script ? STATUS_OK : check_other(flow, phase, at, text, i);
        else if (!script || (place.dollar && !is_escaped(text, i - 1)))
            status = check_place(flow, phase, at, &place, script);
    }
    return status;
}

const char *workflow_places_of_item(struct slice argument, struct arena *arena)
{
    static const struct slice item = SLICE("item.");
    size_t count = 0, len = 0;
    struct place place;

    for (size_t i = 0; i < argument.len; i++)
        count += argument.ptr[i] == '{';
    char *made = arena_alloc(arena, argument.len + count * item.len + 1);
    for (size_t i = 0; made && i < argument.len; i++) {
        made[len++] = argument.ptr[i];
        bool opens = argument.ptr[i] == '{' && place_at(argument, i, &place);
        if (opens && place.dollar && slice_is(place.root, "map")) {
            memcpy(made + len, item.ptr, item.len);
            len += item.len;
        }
    }
    return made;
}
