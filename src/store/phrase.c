/* phrase: see phrase.h. */
#include "store/phrase.h"

/* A NUL would end the query for FTS5, so it separates words too. */
static bool is_blank(char c)
{
    return c == ' ' || c == '\0' || (c >= '\t' && c <= '\r');
}

bool phrase_next(struct slice *rest, struct slice *word, bool *prefix)
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
