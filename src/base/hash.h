/* hash: SHA-256, and a 64-bit digest of it for in-memory indexes that is the same on every run. */
#ifndef LAZARET_BASE_HASH_H
#define LAZARET_BASE_HASH_H

#include <stdint.h>

#include "base/slice.h"

#define HASH_SIZE 32

struct hash {
    uint8_t bytes[HASH_SIZE];
};

/* hash_sha256 digests `count` parts, one after the other. */
struct hash hash_sha256(const struct slice *parts, size_t count);

/* hash64 is the first eight bytes of the SHA-256, never 0: 0 means "no key" in the indexes. */
uint64_t hash64(struct slice text);

#endif
