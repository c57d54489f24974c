/* openapi: the description of the API, openapi.json, inside the program.  scripts/embed makes the
 * constants when the program is built. */
#ifndef LAZARET_API_OPENAPI_H
#define LAZARET_API_OPENAPI_H

#include <stddef.h>

extern const char openapi_json[];     /* ends with a newline, and a NUL */
extern const size_t openapi_json_len; /* without the NUL */

#endif
