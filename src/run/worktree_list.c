/* worktree_list: lists of files as git gives them, for people: bounded, and with a count of the
 * rest. */
#include <inttypes.h>

#include "run/worktree_parts.h"

#define LIST_MAX (4u << 10) /* bytes of a list */
#define REST_MAX 40         /* bytes that say how many more there are */

/* struct list: one that is being written. */
struct list {
    struct buf *out;
    size_t begin;  /* where it begins in `out` */
    uint64_t rest; /* entries that had no room */
};

static void put_entry(struct list *list, struct slice name, const char *what)
{
    size_t used = list->out->len - list->begin;
    size_t more = name.len + strlen(what) + 3;

    if (list->rest > 0 || used + more + REST_MAX > LIST_MAX) {
        list->rest++;
        return;
    }
    if (used > 0)
        buf_add_str(list->out, ", ");
    buf_add_slice(list->out, name);
    if (*what)
        buf_addf(list->out, " %s", what);
}

/* put_rest ends a list.  Of one that is not whole nobody has counted the end. */
static void put_rest(struct list *list, bool whole)
{
    bool empty = list->out->len == list->begin;

    if (!whole)
        buf_add_str(list->out, empty ? "many files" : ", and many more");
    else if (list->rest > 0)
        buf_addf(list->out, "%s%" PRIu64 " %s", empty ? "" : ", and ", list->rest,
                 empty ? "files with long names" : "more");
}

/* next_name cuts the text in front of the next NUL off; false when there is none. */
static bool next_name(struct slice *text, struct slice *name)
{
    const char *end = text->len > 0 ? memchr(text->ptr, '\0', text->len) : NULL;

    if (!end)
        return false;
    *name = (struct slice){text->ptr, (size_t)(end - text->ptr)};
    *text = (struct slice){end + 1, text->len - name->len - 1};
    return true;
}

/* state_name says what the two letters of git status mean: in the index, and in the working tree.
 */
static const char *state_name(char index, char tree)
{
    char state = tree != ' ' ? tree : index;

    if (index == '?')
        return "untracked";
    if (index == 'U' || tree == 'U' || (index == tree && (index == 'A' || index == 'D')))
        return "in conflict";
    return state == 'A' ? "added" : state == 'D' ? "deleted" : "modified";
}

void worktree_changes(struct slice status, bool whole, struct buf *out)
{
    struct list list = {.out = out, .begin = out->len};
    struct slice entry;

    while (next_name(&status, &entry))
        if (entry.len > 3) /* two letters and a space are in front */
            put_entry(&list, (struct slice){entry.ptr + 3, entry.len - 3},
                      state_name(entry.ptr[0], entry.ptr[1]));
    put_rest(&list, whole);
}

void worktree_names(struct slice names, bool whole, struct buf *out)
{
    struct list list = {.out = out, .begin = out->len};
    struct slice name;

    while (next_name(&names, &name))
        put_entry(&list, name, "");
    put_rest(&list, whole);
}
