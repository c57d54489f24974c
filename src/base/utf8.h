/* utf8: stepping over text, for what reads and what writes it. */
#ifndef LAZARET_BASE_UTF8_H
#define LAZARET_BASE_UTF8_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* utf8_step measures the sequence at the beginning of `left` bytes, of which there is one at least.
 * When `valid` is false the length is that of the maximal subpart: what one U+FFFD stands for. */
static inline size_t utf8_step(const uint8_t *at, size_t left, bool *valid)
{
    uint8_t lead = at[0];
    uint8_t low = 0x80, high = 0xBF; /* the bounds of the second byte (Unicode, table 3-7) */
    size_t len;

    *valid = lead < 0x80;
    if (lead < 0xC2 || lead > 0xF4)
        return 1;
    if (lead < 0xE0) {
        len = 2;
    } else if (lead < 0xF0) {
        len = 3;
        low = lead == 0xE0 ? 0xA0 : low;   /* shorter forms exist below */
        high = lead == 0xED ? 0x9F : high; /* surrogates are above */
    } else {
        len = 4;
        low = lead == 0xF0 ? 0x90 : low;
        high = lead == 0xF4 ? 0x8F : high; /* U+10FFFF is the last */
    }
    if (left < 2 || at[1] < low || at[1] > high)
        return 1;
    for (size_t i = 2; i < len; i++)
        if (i >= left || (at[i] & 0xC0) != 0x80)
            return i;
    *valid = true;
    return len;
}

/* utf8_plain is how many bytes from `at` on stand for themselves inside a JSON string: ASCII but
 * for control characters, the quote and the backslash.  Eight are looked at at a time: each test
 * sets the high bit of a byte that meets it, exactly so up to the first one. */
static inline size_t utf8_plain(const uint8_t *at, size_t left)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
    size_t n = 0;
    for (; left - n >= 8; n += 8) {
        uint64_t word;
        memcpy(&word, at + n, sizeof(word));
        word = le64toh(word);
        uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
        uint64_t special =
            ((word - ones * 0x20) | (quote - ones) | (backslash - ones) | word) & highs;
        /* Bytes of 0x80 and more are special whatever the subtractions made of them. */
        if (special)
            return n + (size_t)__builtin_ctzll(special) / 8;
    }
    while (n < left && at[n] >= 0x20 && at[n] < 0x80 && at[n] != '"' && at[n] != '\\')
        n++;
    return n;
}

#endif
