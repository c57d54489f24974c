/* number: exact reading and writing of decimal text.
 *
 * A number is taken apart into its significant digits and the power of ten of the last of them, so
 * that 100e-2, 1.0 and 1 are all the digit 1 and the power 0.  Nothing is allocated and nothing is
 * rounded before the end, however long the text. */
#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* A double is decided by 767 significant digits and by whether any other digit follows them. */
#define DIGITS_MAX 800

#define POWER_MAX (INT64_C(1) << 60) /* exponents saturate here: far over any text's length */
#define DOUBLE_POWER_MAX 10000 /* over this a double is infinite or zero, whatever its digits */

struct decimal {
    bool negative;
    struct slice digits; /* from the first to the last that is not 0; a '.' may be between them */
    size_t count;        /* how many digits that is; none when the number is zero */
    int64_t power;       /* the last digit's power of ten */
};

/* exponent_of reads the text behind an 'e'. */
static int64_t exponent_of(struct slice text)
{
    bool negative = text.ptr[0] == '-';
    int64_t value = 0;
    for (size_t i = negative || text.ptr[0] == '+'; i < text.len; i++)
        value = value < POWER_MAX / 10 ? value * 10 + (text.ptr[i] - '0') : POWER_MAX;
    return negative ? -value : value;
}

static struct decimal decimal_of(struct slice number)
{
    struct decimal d = {.negative = number.ptr[0] == '-'};
    const char *first = number.ptr + d.negative, *end = number.ptr + number.len;
    const char *mantissa_end = first;
    while (mantissa_end < end && (*mantissa_end | 0x20) != 'e')
        mantissa_end++;
    if (mantissa_end < end) {
        const char *exponent = mantissa_end + 1;
        d.power = exponent_of((struct slice){exponent, (size_t)(end - exponent)});
    }
    const char *point = memchr(first, '.', (size_t)(mantissa_end - first));
    if (!point)
        point = mantissa_end;

    const char *last = mantissa_end;
    while (first < last && (*first == '0' || *first == '.'))
        first++;
    while (last > first && (last[-1] == '0' || last[-1] == '.'))
        last--;
    d.digits = (struct slice){first, (size_t)(last - first)};
    d.count = d.digits.len - (first < point && point < last);
    d.power += last <= point ? point - last : point + 1 - last;
    return d;
}

bool number_int(struct slice text, int64_t *out)
{
    struct decimal d = decimal_of(text);
    if (d.count == 0) {
        *out = 0;
        return true;
    }
    /* Nineteen digits always fit in the uint64_t below. */
    if (d.power < 0 || d.power > 19 || d.count > 19 - (size_t)d.power)
        return false;

    uint64_t magnitude = 0;
    for (size_t i = 0; i < d.digits.len; i++)
        if (d.digits.ptr[i] != '.')
            magnitude = magnitude * 10 + (uint64_t)(d.digits.ptr[i] - '0');
    for (int64_t i = 0; i < d.power; i++)
        magnitude *= 10;
    if (magnitude > (uint64_t)INT64_MAX + d.negative)
        return false;
    *out = (int64_t)(d.negative ? 0 - magnitude : magnitude);
    return true;
}

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale_made;

static void c_locale_make(void)
{
    c_locale_made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale_made)
        BUG("there is no C locale");
}

/* c_locale is the locale in which a number has a point, whatever the program's own has. */
static locale_t c_locale(void)
{
    pthread_once(&c_locale_once, c_locale_make);
    return c_locale_made;
}

static double double_of(const char *text)
{
    return strtod_l(text, NULL, c_locale());
}

/* double_of_long rewrites a number of any length so that it fits: its first digits, a 1 in the
 * place of all others (so that it stays on its side of a half-way point), and the power. */
static double double_of_long(struct slice number)
{
    struct decimal d = decimal_of(number);
    char text[DIGITS_MAX + 32];
    size_t len = 0, kept = 0;

    if (d.negative)
        text[len++] = '-';
    for (size_t i = 0; i < d.digits.len && kept < DIGITS_MAX; i++) {
        if (d.digits.ptr[i] != '.') {
            text[len++] = d.digits.ptr[i];
            kept++;
        }
    }
    int64_t power = d.power + (int64_t)(d.count - kept);
    if (kept < d.count) {
        text[len++] = '1';
        power--;
    }
    if (kept == 0) {
        text[len++] = '0';
        power = 0;
    }
    if (power > DOUBLE_POWER_MAX)
        power = DOUBLE_POWER_MAX;
    if (power < -DOUBLE_POWER_MAX)
        power = -DOUBLE_POWER_MAX;
    snprintf(text + len, sizeof(text) - len, "e%d", (int)power);
    return double_of(text);
}

bool number_double(struct slice text, double *out)
{
    double number;
    char copy[64];
    if (text.len < sizeof(copy)) {
        memcpy(copy, text.ptr, text.len);
        copy[text.len] = '\0';
        number = double_of(copy);
    } else {
        number = double_of_long(text);
    }
    if (!isfinite(number))
        return false;
    *out = number;
    return true;
}

#define MICRO 1000000

/* micro_format writes a number that is a whole count of millionths, as times and settings are, and
 * gives the text that number_format would find by trying; 0 when the number is none.  Both the
 * count and MICRO are exact, so their quotient is the double nearest to the decimal text; that text
 * has at most fifteen digits, so a double's first fifteen are its own. */
static size_t micro_format(double number, char *out)
{
    if (!(number >= 1e-4 && number < 1e9)) /* beyond these there is an exponent, or a digit more */
        return 0;
    uint64_t count = (uint64_t)(number * MICRO + 0.5);
    if ((double)count / MICRO != number)
        return 0;
    char digits[NUMBER_TEXT_SIZE];
    size_t at = sizeof(digits);
    uint64_t whole = count / MICRO, part = count % MICRO;
    if (part) {
        int left = 6;
        for (; part % 10 == 0; part /= 10)
            left--;
        for (; left > 0; left--, part /= 10)
            digits[--at] = (char)('0' + part % 10);
        digits[--at] = '.';
    }
    do
        digits[--at] = (char)('0' + whole % 10);
    while (whole /= 10);
    size_t len = sizeof(digits) - at;
    memcpy(out, digits + at, len);
    out[len] = '\0';
    return len;
}

/* number_format tries the fewest digits first.  What a person wrote with up to fifteen comes back
 * with fifteen, without the zeros at the end; seventeen always read back the same.  Next to zero
 * doubles are so sparse that fewer can do. */
size_t number_format(double number, char *out)
{
    int len = (int)micro_format(number, out);
    if (len)
        return (size_t)len;
    locale_t program = uselocale(c_locale());
    for (int digits = fpclassify(number) == FP_SUBNORMAL ? 1 : 15; digits <= 17; digits++) {
        len = snprintf(out, NUMBER_TEXT_SIZE, "%.*g", digits, number);
        if (double_of(out) == number)
            break;
    }
    uselocale(program);
    return (size_t)len;
}
