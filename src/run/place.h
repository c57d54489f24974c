/* place: how the path of a place is written, in templates and in scripts: "name.name.0". */
#ifndef LAZARET_RUN_PLACE_H
#define LAZARET_RUN_PLACE_H

#include "base/json.h"
#include "base/slice.h"

/* place_is_name is true for what a name may have in it. */
static inline bool place_is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || (unsigned char)c >= 0x80;
}

/* place_path is the length of the path that a text begins with: names with single dots between
 * them. 0 when there is none. */
static inline size_t place_path(struct slice text)
{
    bool name = false; /* the name that is being read has a character */
    size_t len = 0;

    for (; len < text.len && (text.ptr[len] == '.' || place_is_name(text.ptr[len])); len++) {
        if (text.ptr[len] == '.' && !name)
            return 0;
        name = text.ptr[len] != '.';
    }
    return name && json_utf8_valid((struct slice){text.ptr, len}) ? len : 0;
}

#endif
