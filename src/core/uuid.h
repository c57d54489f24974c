/* uuid: version 7 identifiers (RFC 9562): time first, so that they sort by when they were made. */
#ifndef LAZARET_CORE_UUID_H
#define LAZARET_CORE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/time.h"

#define UUID_TEXT_LEN 36

struct uuid {
    uint8_t bytes[16];
};

/* uuid_v7 makes an identifier of a time and ten random bytes. */
struct uuid uuid_v7(struct instant now, const uint8_t random[10]);

/* uuid_format writes the 36 characters and a NUL. */
void uuid_format(struct uuid uuid, char out[UUID_TEXT_LEN + 1]);

/* uuid_parse reads the canonical form, in either case. */
bool uuid_parse(struct slice text, struct uuid *out);

#endif
