/* template: a command with places for the item: `{}` is the item, `{field.path}` a field of it.
 *
 * Arguments are filled one by one and handed to the command as they are: no shell sees them, and an
 * item can neither become two arguments nor an option's beginning that the user did not write. Only
 * `{}` and `{name.name...}` (letters, digits, "_", "-", array positions; a digit does not come
 * first) are places; any other brace is left as it is, so that awk '{print $1}' and grep 'a{3}'
 * mean what they say.  `${item}` and
 * `${item.path}` are places too; a `${name}` of another name is left whole.
 *
 * A script for a shell is different: what is put into it would be read as code.  There only
 * `${item}`, `${item.path}` (and other `${name.path}` that the caller knows, such as
 * `${map.total}`) are places, and they become references to variables of the environment
 * (`script_parse`), in quotes where the script has none. */
#ifndef LAZARET_RUN_TEMPLATE_H
#define LAZARET_RUN_TEMPLATE_H

#include "run/item.h"

#define ARGUMENT_MAX ((128u << 10) - 1) /* bytes that Linux takes as one argument */

struct template;

/* template_parse reads arguments into `arena`.  STATUS_INVALID when there are none. */
enum status template_parse(const char *const *args, size_t count, struct arena *arena,
                           const struct template **out, struct err *err);

/* template_fill makes the argument vector, with NULL at its end, in `arena`.  STATUS_INVALID when
 * the item has no such field, holds a NUL, or makes an argument over ARGUMENT_MAX bytes: the
 * sentence says which and what to do ($LAZARET_ITEM_FILE has an item of any size).  Arguments
 * without places are the template's own. */
enum status template_fill(const struct template *template, const struct item *item,
                          struct arena *arena, char ***out, struct err *err);

/* template_print appends the command as a person would type it, quoted where needed, places as they
 * stand. */
void template_print(const struct template *template, struct buf *out);

/* command_print appends an argument vector the same way: for `step_failed`.  A POSIX shell reads
 * the same arguments back. */
void command_print(char *const *argv, struct buf *out);

/* command_split splits a plain command line into arguments, without a shell: white space separates,
 * '...' and "..." group, a backslash takes the next character (inside of "..." only " \ $ and `, as
 * in a shell).  STATUS_INVALID, with the column, for an open quote, and for what only a shell can
 * do
 * (| & ; < > outside of quotes, ` and $( outside of single ones): "write it as `shell:`".  `args`
 * has NULL at its end. */
enum status command_split(struct slice line, struct arena *arena, const char ***args, size_t *count,
                          struct err *err);

/* struct script: a shell script and the variables that it needs. */
struct script_place {
    const char *variable; /* "LAZARET_P1" */
    struct slice name;    /* "item.file", "map.total" */
};

struct script {
    const char *text; /* to be given to `sh -c` */
    struct script_place *places;
    size_t place_count;
};

/* script_parse replaces every `${root}` and `${root.path}` whose root is in `roots` (ends in NULL)
 * by a reference to a variable; the same name has the same one.  STATUS_INVALID, with the column
 * (and the line, after the first), for one inside single quotes or a quoted here-document, where a
 * shell puts nothing in; for `${item...}` inside $(( )), where some shells run what is in it; and
 * for
 * `${root:-...}` and its like.  What a script evaluates a second time (eval, sh -c "...") is its
 * own business. */
enum status script_parse(struct slice text, const char *const *roots, struct arena *arena,
                         struct script *out, struct err *err);

#endif
