#include "report.h"

#include <math.h>
#include <stdarg.h>

#include "base/jsonw.h"
#include "base/status.h"

static bool entry_misses(const struct report_entry *entry)
{
    switch (entry->goal.kind) {
    case GOAL_AT_LEAST:
        return !(entry->value >= entry->goal.bound);
    case GOAL_AT_MOST:
        return !(entry->value <= entry->goal.bound);
    case GOAL_NONE:
        break;
    }
    return false;
}

static const char *report_add(struct report *report, double value, struct goal goal, bool ratio,
                              const char *format, va_list args)
    __attribute__((format(printf, 5, 0)));

static const char *report_add(struct report *report, double value, struct goal goal, bool ratio,
                              const char *format, va_list args)
{
    BUG_ON(report->count == REPORT_ENTRIES_MAX);
    struct report_entry *entry = &report->entries[report->count++];
    vsnprintf(entry->name, sizeof(entry->name), format, args);
    entry->value = value;
    entry->goal = goal;
    entry->ratio = ratio;
    if (goal.kind == GOAL_NONE)
        return "";
    if (!report->judges)
        return "(too small to judge)";
    return entry_misses(entry) ? "MISSED" : "ok";
}

const char *report_ratio(struct report *report, double value, struct goal goal, const char *format,
                         ...)
{
    va_list args;
    va_start(args, format);
    const char *verdict = report_add(report, value, goal, true, format, args);
    va_end(args);
    return verdict;
}

const char *report_figure(struct report *report, double value, struct goal goal, const char *format,
                          ...)
{
    va_list args;
    va_start(args, format);
    const char *verdict = report_add(report, value, goal, false, format, args);
    va_end(args);
    return verdict;
}

/* rounded keeps what can be believed: three places of a small number, none of a large one. */
static double rounded(double value)
{
    return fabs(value) < 1000 ? round(value * 1000) / 1000 : round(value);
}

static void print_kind(const struct report *report, bool ratio, struct jsonw *out)
{
    jsonw_object(out);
    for (size_t i = 0; i < report->count; i++)
        if (report->entries[i].ratio == ratio)
            jsonw_put_double(out, report->entries[i].name, rounded(report->entries[i].value));
    jsonw_object_end(out);
}

void report_print(const struct report *report, struct buf *out)
{
    struct jsonw json;
    jsonw_init(&json, out);
    jsonw_object(&json);
    jsonw_key(&json, "ratios");
    print_kind(report, true, &json);
    jsonw_key(&json, "figures");
    print_kind(report, false, &json);
    jsonw_key(&json, "missed");
    jsonw_array(&json);
    for (size_t i = 0; report->judges && i < report->count; i++)
        if (entry_misses(&report->entries[i]))
            jsonw_string(&json, slice_of(report->entries[i].name));
    jsonw_array_end(&json);
    jsonw_object_end(&json);
    buf_add_char(out, '\n');
}

const char *thousands(double value, char out[THOUSANDS_SIZE])
{
    char digits[THOUSANDS_SIZE];
    int len = snprintf(digits, sizeof(digits), "%.0f", value < 0 ? 0 : value);
    size_t at = 0;
    for (int i = 0; i < len && at + 2 < THOUSANDS_SIZE; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}
