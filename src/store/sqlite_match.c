/* sqlite_match: from what a person types to a full-text query.
 *
 *     disk full       both words occur
 *     "disk full"     the words occur one after the other
 *     time*           a word begins so
 *
 * Every word becomes a quoted string, in which nothing is an operator, so that no input is an
 * error: `a-b (c` looks for a followed by b, and for c.  A word without a letter or digit restricts
 * nothing, and a query of only such words finds nothing. */
#include "store/sqlite.h"

/* A NUL would end the query for FTS5, so it separates words too. */
static bool is_blank(char c)
{
    return c == ' ' || c == '\0' || (c >= '\t' && c <= '\r');
}

/* next_word takes a word or a quoted phrase off the front; false at the end. */
static bool next_word(struct slice *rest, struct slice *word, bool *prefix)
{
    size_t i = 0, end;
    while (i < rest->len && is_blank(rest->ptr[i]))
        i++;
    if (i == rest->len)
        return false;
    bool quoted = rest->ptr[i] == '"';
    if (quoted)
        i++;
    for (end = i; end < rest->len; end++)
        if (quoted ? rest->ptr[end] == '"' : is_blank(rest->ptr[end]))
            break;
    *word = (struct slice){rest->ptr + i, end - i};
    if (quoted && end < rest->len)
        end++; /* the closing quote */
    *prefix = quoted ? end < rest->len && rest->ptr[end] == '*'
                     : word->len > 1 && word->ptr[word->len - 1] == '*';
    if (*prefix && quoted)
        end++;
    else if (*prefix)
        word->len--;
    *rest = (struct slice){rest->ptr + end, rest->len - end};
    return true;
}

size_t sqlite_match(struct slice q, struct buf *out)
{
    struct slice word;
    bool prefix;
    size_t count = 0;
    while (next_word(&q, &word, &prefix)) {
        buf_add_str(out, count++ ? " \"" : "\"");
        for (size_t i = 0; i < word.len; i++) {
            char c = word.ptr[i];
            if (c == '"')
                buf_add_char(out, '"');
            buf_add_char(out, c == '\0' ? ' ' : c);
        }
        buf_add_str(out, prefix ? "\" *" : "\"");
    }
    return count;
}
