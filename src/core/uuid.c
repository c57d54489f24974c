/* uuid: version 7 of RFC 9562.
 *
 *     bytes 0-5   milliseconds since 1970, most significant first
 *     byte  6     0111 and four random bits
 *     byte  7     random
 *     byte  8     10 and six random bits
 *     bytes 9-15  random */
#include "core/uuid.h"

struct uuid uuid_v7(struct instant now, const uint8_t random[10])
{
    struct uuid uuid;
    uint64_t ms = now.us > 0 ? (uint64_t)now.us / 1000 : 0;

    for (int i = 0; i < 6; i++)
        uuid.bytes[i] = (uint8_t)(ms >> (8 * (5 - i)));
    memcpy(uuid.bytes + 6, random, 10);
    uuid.bytes[6] = (uint8_t)(0x70 | (uuid.bytes[6] & 0x0f));
    uuid.bytes[8] = (uint8_t)(0x80 | (uuid.bytes[8] & 0x3f));
    return uuid;
}

/* dash_before says whether a dash stands before byte `i` in the text: 8-4-4-4-12 digits. */
static bool dash_before(int i)
{
    return i == 4 || i == 6 || i == 8 || i == 10;
}

void uuid_format(struct uuid uuid, char out[UUID_TEXT_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        if (dash_before(i))
            *out++ = '-';
        *out++ = digits[uuid.bytes[i] >> 4];
        *out++ = digits[uuid.bytes[i] & 0x0f];
    }
    *out = '\0';
}

/* hex_value is the value of a digit, or -1. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool uuid_parse(struct slice text, struct uuid *out)
{
    struct uuid uuid;

    if (text.len != UUID_TEXT_LEN)
        return false;
    const char *at = text.ptr;
    for (int i = 0; i < 16; i++) {
        if (dash_before(i) && *at++ != '-')
            return false;
        int high = hex_value(at[0]);
        int low = hex_value(at[1]);
        if (high < 0 || low < 0)
            return false;
        uuid.bytes[i] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    *out = uuid;
    return true;
}
