/* nkey: base32, CRC-16 (XMODEM) and one call of OpenSSL. */
#include "bridge/nkey.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdint.h>

#define KEY_LEN 32
#define SEED_BYTES (2 + KEY_LEN + 2)
#define PUBLIC_BYTES (1 + KEY_LEN + 2)
#define PREFIX_SEED (18U << 3) /* S */
#define PREFIX_USER (20U << 3) /* U */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

static uint16_t crc16(const uint8_t *bytes, size_t len)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint16_t)(bytes[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000U ? (unsigned)crc << 1 ^ 0x1021U : (unsigned)crc << 1);
    }
    return crc;
}

/* decode reads base32 into exactly `len` bytes; false when there is another character, or bits
 * are left that are not 0. */
static bool decode(struct slice text, uint8_t *out, size_t len)
{
    uint32_t bits = 0;
    unsigned count = 0;
    size_t used = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char *at = memchr(alphabet, text.ptr[i], sizeof(alphabet) - 1);
        if (!at)
            return false;
        bits = bits << 5 | (uint32_t)(at - alphabet);
        count += 5;
        if (count >= 8) {
            if (used == len)
                return false;
            count -= 8;
            out[used++] = (uint8_t)(bits >> count);
            bits &= (1U << count) - 1;
        }
    }
    return used == len && bits == 0;
}

static void encode(const uint8_t *bytes, size_t len, char *out)
{
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | bytes[i];
        for (count += 8; count >= 5; bits &= (1U << count) - 1) {
            count -= 5;
            *out++ = alphabet[bits >> count & 31U];
        }
    }
    if (count > 0)
        *out++ = alphabet[bits << (5 - count) & 31U];
    *out = '\0';
}

struct slice nkey_find(struct slice text)
{
    static const char space[] = " \t\r\n";
    size_t at = 0;
    while (at < text.len) {
        size_t start = at;
        while (at < text.len && !strchr(space, text.ptr[at]))
            at++;
        if (at - start == NKEY_SEED_LEN && memcmp(text.ptr + start, "SU", 2) == 0)
            return (struct slice){text.ptr + start, NKEY_SEED_LEN};
        at++;
    }
    return (struct slice){0};
}

/* derive makes the public half of a private key. */
static bool derive(const uint8_t *private, uint8_t *public)
{
    size_t len = KEY_LEN;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private, KEY_LEN);
    bool made = key && EVP_PKEY_get_raw_public_key(key, public, &len) == 1 && len == KEY_LEN;
    EVP_PKEY_free(key);
    return made;
}

enum status nkey_public(struct slice seed, char out[NKEY_PUBLIC_LEN + 1], struct err *err)
{
    uint8_t bytes[SEED_BYTES], public[PUBLIC_BYTES] = {PREFIX_USER};
    enum status status = STATUS_OK;

    bool good = seed.len == NKEY_SEED_LEN && decode(seed, bytes, sizeof(bytes));
    good = good && bytes[0] == (PREFIX_SEED | PREFIX_USER >> 5) && bytes[1] == 0 &&
           crc16(bytes, SEED_BYTES - 2) ==
               (bytes[SEED_BYTES - 2] | (unsigned)bytes[SEED_BYTES - 1] << 8);
    if (!good)
        status = err_set(err, STATUS_INVALID, "it is damaged, or no seed of a user");
    else if (!derive(bytes + 2, public + 1))
        status = err_set(err, STATUS_INVALID, "OpenSSL cannot make a public key of it");
    if (!status) {
        uint16_t crc = crc16(public, 1 + KEY_LEN);
        public[1 + KEY_LEN] = (uint8_t)crc;
        public[2 + KEY_LEN] = (uint8_t)(crc >> 8);
        encode(public, sizeof(public), out);
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return status;
}
