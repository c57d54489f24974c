/* time: saturating arithmetic, and RFC 3339 by arithmetic of its own on the proleptic Gregorian
 * calendar, for the years 0001 to 9999.
 *
 * The calendar is counted in eras of 400 years (146,097 days) that begin on the first of March, so
 * that the leap day is the last of its year and every step is a division. */
#include "base/time.h"

#include <stdio.h>
#include <string.h>

#define US_PER_SECOND INT64_C(1000000)
#define US_PER_DAY (INT64_C(86400) * US_PER_SECOND)
#define DAYS_PER_ERA 146097
#define EPOCH_DAY 719468 /* 1970-01-01, counted from 0000-03-01 */

#define INSTANT_US_FIRST (INT64_C(-62135596800) * US_PER_SECOND) /* 0001-01-01T00:00:00Z */
#define INSTANT_US_LAST                                                                            \
    (INT64_C(253402300800) * US_PER_SECOND - 1) /* 9999-12-31T23:59:59.999999Z */

#define SPAN_SECONDS_MAX (INT64_C(36525) * 86400) /* a hundred years */

struct instant instant_add(struct instant t, struct span span)
{
    int64_t us;
    if (__builtin_add_overflow(t.us, span.us, &us))
        us = span.us < 0 ? INT64_MIN : INT64_MAX;
    return (struct instant){us};
}

struct span instant_since(struct instant later, struct instant earlier)
{
    int64_t us;
    if (__builtin_sub_overflow(later.us, earlier.us, &us))
        us = later.us < earlier.us ? INT64_MIN : INT64_MAX;
    return (struct span){us};
}

struct span span_from_seconds(double seconds)
{
    if (!(seconds > 0))
        return (struct span){0};
    if (seconds >= (double)SPAN_SECONDS_MAX)
        return span_seconds(SPAN_SECONDS_MAX);
    return (struct span){(int64_t)(seconds * US_PER_SECOND + 0.5)};
}

double span_to_seconds(struct span span)
{
    return (double)span.us / US_PER_SECOND;
}

struct date {
    int year;
    int month; /* 1 to 12 */
    int day;   /* 1 to 31 */
};

/* date_of_day is the date of a day counted from the epoch; for the years 0001 to 9999. */
static struct date date_of_day(int64_t day)
{
    int64_t from_march = day + EPOCH_DAY;
    int era = (int)(from_march / DAYS_PER_ERA);
    int day_of_era = (int)(from_march % DAYS_PER_ERA);
    int year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int march_month = (5 * day_of_year + 2) / 153; /* 0 is March */
    int month = march_month < 10 ? march_month + 3 : march_month - 9;
    return (struct date){
        .year = era * 400 + year_of_era + (month <= 2),
        .month = month,
        .day = day_of_year - (153 * march_month + 2) / 5 + 1,
    };
}

/* day_of_date counts a valid date of the years 0001 to 9999 from the epoch. */
static int64_t day_of_date(struct date date)
{
    int year = date.year - (date.month <= 2);
    int march_month = date.month > 2 ? date.month - 3 : date.month + 9;
    int year_of_era = year % 400;
    int day_of_year = (153 * march_month + 2) / 5 + date.day - 1;
    int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (int64_t)(year / 400) * DAYS_PER_ERA + day_of_era - EPOCH_DAY;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

/* put_digits writes `value` with `count` digits and returns where it ended. */
static char *put_digits(char *out, int value, int count)
{
    for (int i = count; i-- > 0; value /= 10)
        out[i] = (char)('0' + value % 10);
    return out + count;
}

void instant_format(struct instant t, char *out)
{
    int64_t us = t.us;
    if (us < INSTANT_US_FIRST)
        us = INSTANT_US_FIRST;
    if (us > INSTANT_US_LAST)
        us = INSTANT_US_LAST;

    /* Counted from the first instant, both parts are positive. */
    int64_t since = us - INSTANT_US_FIRST;
    struct date date = date_of_day(since / US_PER_DAY + INSTANT_US_FIRST / US_PER_DAY);
    int second = (int)(since % US_PER_DAY / US_PER_SECOND);
    int fraction = (int)(since % US_PER_SECOND);

    out = put_digits(out, date.year, 4);
    *out++ = '-';
    out = put_digits(out, date.month, 2);
    *out++ = '-';
    out = put_digits(out, date.day, 2);
    *out++ = 'T';
    out = put_digits(out, second / 3600, 2);
    *out++ = ':';
    out = put_digits(out, second / 60 % 60, 2);
    *out++ = ':';
    out = put_digits(out, second % 60, 2);
    if (fraction) {
        *out++ = '.';
        out = fraction % 1000 ? put_digits(out, fraction, 6) : put_digits(out, fraction / 1000, 3);
    }
    *out++ = 'Z';
    *out = '\0';
}

void instant_print(struct instant t, struct buf *out)
{
    char text[INSTANT_TEXT_SIZE];
    instant_format(t, text);
    buf_add_str(out, text);
}

/* take_digits reads exactly `count` digits from the front of `text`. */
static bool take_digits(struct slice *text, int count, int *out)
{
    int value = 0;
    if (text->len < (size_t)count)
        return false;
    for (int i = 0; i < count; i++) {
        char c = text->ptr[i];
        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (c - '0');
    }
    text->ptr += count;
    text->len -= (size_t)count;
    *out = value;
    return true;
}

/* take_one reads one byte that must be among `wanted`; it returns it, or 0. */
static char take_one(struct slice *text, const char *wanted)
{
    if (text->len == 0 || text->ptr[0] == '\0' || !strchr(wanted, text->ptr[0]))
        return '\0';
    text->len--;
    return *text->ptr++;
}

/* take_fraction reads what may follow the seconds: a point and any number of digits. */
static bool take_fraction(struct slice *text, int *us)
{
    *us = 0;
    if (!take_one(text, "."))
        return true;
    int unit = US_PER_SECOND / 10, digit;
    if (!take_digits(text, 1, &digit))
        return false;
    do {
        *us += digit * unit;
        unit /= 10;
    } while (take_digits(text, 1, &digit));
    return true;
}

/* take_offset reads "Z" or "+hh:mm" as minutes east of UTC; false when it is neither. */
static bool take_offset(struct slice *text, int *minutes)
{
    char sign = take_one(text, "Zz+-");
    if (sign != '+' && sign != '-') {
        *minutes = 0;
        return sign != '\0';
    }
    int hour, minute;
    if (!take_digits(text, 2, &hour) || !take_one(text, ":") || !take_digits(text, 2, &minute))
        return false;
    if (hour > 23 || minute > 59)
        return false;
    *minutes = sign == '-' ? -(hour * 60 + minute) : hour * 60 + minute;
    return true;
}

struct parts {
    struct date date;
    int hour, minute, second;
    int us;
    int offset_minutes; /* east of UTC */
};

static bool take_parts(struct slice text, struct parts *p)
{
    return take_digits(&text, 4, &p->date.year) && take_one(&text, "-") &&
           take_digits(&text, 2, &p->date.month) && take_one(&text, "-") &&
           take_digits(&text, 2, &p->date.day) && take_one(&text, "Tt ") &&
           take_digits(&text, 2, &p->hour) && take_one(&text, ":") &&
           take_digits(&text, 2, &p->minute) && take_one(&text, ":") &&
           take_digits(&text, 2, &p->second) && take_fraction(&text, &p->us) &&
           take_offset(&text, &p->offset_minutes) && text.len == 0;
}

enum status instant_parse(struct slice text, struct instant *out, struct err *err)
{
    struct parts p;
    if (!take_parts(text, &p))
        return err_set(err, STATUS_INVALID,
                       "not a time as RFC 3339 has it, such as 2026-02-13T06:22:00Z");
    if (p.date.year < 1)
        return err_set(err, STATUS_INVALID, "not a time: the years are 0001 to 9999");
    if (p.date.month < 1 || p.date.month > 12)
        return err_set(err, STATUS_INVALID, "not a time: there is no month %d", p.date.month);
    if (p.date.day < 1 || p.date.day > days_in_month(p.date.year, p.date.month))
        return err_set(err, STATUS_INVALID, "not a time: %04d-%02d has no day %d", p.date.year,
                       p.date.month, p.date.day);
    if (p.hour > 23 || p.minute > 59 || p.second > 60)
        return err_set(err, STATUS_INVALID, "not a time: there is no %02d:%02d:%02d", p.hour,
                       p.minute, p.second);

    /* A leap second is the last of a day in UTC, and counts as the second after it. */
    int utc_minute = (p.hour * 60 + p.minute - p.offset_minutes + 2880) % 1440;
    if (p.second == 60 && utc_minute != 1439)
        return err_set(err, STATUS_INVALID, "not a time: a leap second is at 23:59:60 UTC only");

    int64_t second = (int64_t)(p.hour * 60 + p.minute - p.offset_minutes) * 60 + p.second;
    int64_t us = day_of_date(p.date) * US_PER_DAY + second * US_PER_SECOND + p.us;
    if (us < INSTANT_US_FIRST || us > INSTANT_US_LAST)
        return err_set(err, STATUS_INVALID, "not a time: in UTC the years are 0001 to 9999");
    *out = (struct instant){us};
    return STATUS_OK;
}
