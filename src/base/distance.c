/* distance: of Damerau and Levenshtein, in a table. */
#include "base/distance.h"

#include <stdint.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t distance(struct slice a, struct slice b)
{
    size_t d[DISTANCE_TEXT_MAX + 1][DISTANCE_TEXT_MAX + 1];

    if (a.len > DISTANCE_TEXT_MAX || b.len > DISTANCE_TEXT_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= a.len; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= b.len; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        for (size_t j = 1; j <= b.len; j++) {
            size_t change = d[i - 1][j - 1] + (a.ptr[i - 1] != b.ptr[j - 1]);
            d[i][j] = least(change, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.len][b.len];
}
