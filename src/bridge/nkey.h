/* nkey: the public half of an nkey, which NATS knows a user by.
 *
 * A seed is base32 (without padding) of two prefix bytes, 32 bytes of an Ed25519 private key and a
 * CRC-16 over all of it; a user's begins with SU.  The public key is base32 of one prefix byte, 32
 * bytes and their CRC-16, and begins with U. */
#ifndef LAZARET_BRIDGE_NKEY_H
#define LAZARET_BRIDGE_NKEY_H

#include "base/slice.h"
#include "base/status.h"

#define NKEY_SEED_LEN 58
#define NKEY_PUBLIC_LEN 56

/* nkey_find finds the seed in the text of a file: the first word that begins with SU and has its
 * length, whatever lines are around it.  Empty when there is none. */
struct slice nkey_find(struct slice text);

/* nkey_public derives the public key.  STATUS_INVALID when the seed is no user's seed, without
 * repeating it. */
enum status nkey_public(struct slice seed, char out[NKEY_PUBLIC_LEN + 1], struct err *err);

#endif
