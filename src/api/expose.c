/* expose: writing the text format of Prometheus. */
#include "api/expose.h"

#include <inttypes.h>

#include "base/number.h"

void expose_family(struct expose *expose, const char *name, const char *type, const char *help)
{
    expose->name = name;
    buf_addf(expose->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* put_value writes a label's value: a backslash, a quote and a newline are the three that the
 * format escapes. */
static void put_value(struct buf *out, struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '\n')
            buf_add_str(out, "\\n");
        else if (c == '\\' || c == '"')
            buf_add(out, (const char[]){'\\', c}, 2);
        else
            buf_add_char(out, c);
    }
}

/* begin_sample writes a sample up to its value. */
static void begin_sample(struct expose *expose, const char *suffix,
                         const struct expose_label *labels, size_t label_count)
{
    struct buf *out = expose->out;
    buf_add_str(out, expose->name);
    buf_add_str(out, suffix);
    for (size_t i = 0; i < label_count; i++) {
        buf_add_char(out, i ? ',' : '{');
        buf_add_str(out, labels[i].name);
        buf_add_str(out, "=\"");
        put_value(out, labels[i].value);
        buf_add_char(out, '"');
    }
    if (label_count)
        buf_add_char(out, '}');
    buf_add_char(out, ' ');
}

/* end_sample writes its value. */
static void end_sample(struct expose *expose, double value)
{
    char text[NUMBER_TEXT_SIZE];
    buf_add(expose->out, text, number_format(value, text));
    buf_add_char(expose->out, '\n');
}

void expose_int(struct expose *expose, int64_t value, const struct expose_label *labels,
                size_t label_count)
{
    begin_sample(expose, "", labels, label_count);
    buf_addf(expose->out, "%" PRId64 "\n", value);
}

void expose_double(struct expose *expose, double value, const struct expose_label *labels,
                   size_t label_count)
{
    begin_sample(expose, "", labels, label_count);
    end_sample(expose, value);
}

void expose_histogram(struct expose *expose, const double *bounds, const uint64_t *counts,
                      size_t bound_count, uint64_t above, double sum)
{
    char text[NUMBER_TEXT_SIZE];
    uint64_t count = 0;
    for (size_t i = 0; i <= bound_count; i++) {
        struct slice bound = SLICE("+Inf");
        if (i < bound_count) {
            size_t len = number_format(bounds[i], text);
            bound = (struct slice){text, len};
        }
        count += i < bound_count ? counts[i] : above;
        begin_sample(expose, "_bucket", EXPOSE_LABELS({"le", bound}));
        buf_addf(expose->out, "%" PRIu64 "\n", count);
    }
    begin_sample(expose, "_sum", EXPOSE_PLAIN);
    end_sample(expose, sum);
    begin_sample(expose, "_count", EXPOSE_PLAIN);
    buf_addf(expose->out, "%" PRIu64 "\n", count);
}
