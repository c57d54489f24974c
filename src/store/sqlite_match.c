/* sqlite_match: from what a person types to a full-text query.
 *
 *     disk full       both words occur
 *     "disk full"     the words occur one after the other
 *     time*           a word begins so
 *
 * Every word becomes a quoted string, in which nothing is an operator, so that no input is an
 * error: `a-b (c` looks for a followed by b, and for c.  A word without a letter or digit restricts
 * nothing, and a query of only such words finds nothing. */
#include "store/phrase.h"
#include "store/sqlite.h"

size_t sqlite_match(struct slice q, struct buf *out)
{
    struct slice word;
    bool prefix;
    size_t count = 0;
    while (phrase_next(&q, &word, &prefix)) {
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
