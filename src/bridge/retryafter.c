/* retryafter: how long an endpoint asks to be left alone (RFC 9110, 10.2.3 and 5.6.7). */
#include "base/number.h"
#include "bridge/protocol.h"

#define NONE ((struct span){-1})
#define YEAR_US (INT64_C(31556952) * 1000000)

static struct slice trim(struct slice text)
{
    while (text.len > 0 && (*text.ptr == ' ' || *text.ptr == '\t')) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static bool is_digits(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    return text.len > 0;
}

/* seconds_of reads digits, as many as there are: what is too much is as much as a span holds. */
static struct span seconds_of(struct slice digits)
{
    double seconds;

    while (digits.len > 1 && *digits.ptr == '0') {
        digits.ptr++;
        digits.len--;
    }
    return span_from_seconds(number_double(digits, &seconds) ? seconds : 1e300);
}

/* ---- dates ----------------------------------------------------------------------------------- */

/* A form is written with a letter for each part, all else standing for itself:
 *     w, W  the day's name, short and long      m  the month's name
 *     d, e  its day, "06" and " 6"              y, Y  the year with two digits, with four
 *     t     the time of day, "08:49:37" */
static const char *const forms[] = {
    "w, d m Y t GMT", /* IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT */
    "W, d-m-y t GMT", /* RFC 850:     Sunday, 06-Nov-94 08:49:37 GMT */
    "w m e t Y",      /* asctime:     Sun Nov  6 08:49:37 1994 */
};

struct date {
    int year, month, day;
    bool short_year;
    char time[9];
};

/* take_name takes one of `count` names off the front and gives its number, from 1; 0 for none. */
static int take_name(struct slice *text, const char *const *names, int count, size_t len)
{
    for (int i = 0; i < count; i++) {
        struct slice name = slice_of(names[i]);
        name.len = len > 0 ? len : name.len;
        if (slice_starts(*text, name)) {
            text->ptr += name.len;
            text->len -= name.len;
            return i + 1;
        }
    }
    return 0;
}

static bool take_number(struct slice *text, size_t count, int *out)
{
    *out = 0;
    if (text->len < count || !is_digits((struct slice){text->ptr, count}))
        return false;
    for (size_t i = 0; i < count; i++)
        *out = *out * 10 + (text->ptr[i] - '0');
    text->ptr += count;
    text->len -= count;
    return true;
}

static bool take_literal(struct slice *text, char c)
{
    if (text->len == 0 || *text->ptr != c)
        return false;
    text->ptr++;
    text->len--;
    return true;
}

/* take_time takes eight bytes: whether they are a time is seen when the whole is put together. */
static bool take_time(struct slice *text, struct date *out)
{
    if (text->len < 8)
        return false;
    memcpy(out->time, text->ptr, 8);
    text->ptr += 8;
    text->len -= 8;
    return true;
}

static bool take_part(struct slice *text, char part, struct date *out)
{
    static const char *const days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                       "Friday", "Saturday", "Sunday"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

    switch (part) {
    case 'w':
        return take_name(text, days, 7, 3) != 0;
    case 'W':
        return take_name(text, days, 7, 0) != 0;
    case 'm':
        out->month = take_name(text, months, 12, 0);
        return out->month != 0;
    case 'e':
        if (take_literal(text, ' '))
            return take_number(text, 1, &out->day);
        return take_number(text, 2, &out->day);
    case 'd':
        return take_number(text, 2, &out->day);
    case 'Y':
        return take_number(text, 4, &out->year);
    case 'y':
        out->short_year = true;
        return take_number(text, 2, &out->year);
    case 't':
        return take_time(text, out);
    default:
        return take_literal(text, part);
    }
}

static bool read_date(struct slice text, const char *form, struct date *out)
{
    *out = (struct date){0};
    /* GMT is spelt with none of the letters that stand for parts. */
    for (; *form; form++)
        if (!take_part(&text, *form, out))
            return false;
    return text.len == 0;
}

/* instant_of finds the instant; false for a day or a time that there is not. */
static bool instant_of(const struct date *date, int year, struct instant *out)
{
    char text[64];

    snprintf(text, sizeof(text), "%04d-%02d-%02dT%sZ", year, date->month, date->day, date->time);
    return instant_parse(slice_of(text), out, NULL) == STATUS_OK;
}

/* instant_of_short chooses the century: a year that would be more than 50 years ahead has passed.
 */
static bool instant_of_short(const struct date *date, struct instant now, struct instant *out)
{
    const struct instant limit = instant_add(now, span_of(50, YEAR_US));

    if (instant_of(date, date->year + 2000, out) && !instant_before(limit, *out))
        return true;
    return instant_of(date, date->year + 1900, out);
}

struct span retry_after_parse(struct slice text, struct instant now)
{
    struct date date;
    struct instant at;

    text = trim(text);
    if (is_digits(text))
        return seconds_of(text);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (!read_date(text, forms[i], &date))
            continue;
        if (!(date.short_year ? instant_of_short(&date, now, &at)
                              : instant_of(&date, date.year, &at)))
            return NONE;
        return instant_since(instant_before(at, now) ? now : at, now);
    }
    return NONE;
}
