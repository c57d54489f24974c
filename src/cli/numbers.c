/* numbers: see numbers.h. */
#include "cli/numbers.h"

#include <inttypes.h>

#include "cli/text.h"
#include "cli/view.h"

#define NAME_COLUMNS 24

void numbers_heading(struct out *out, const char *text)
{
    out_str(out, "\n");
    out_styled(out, STYLE_BOLD, text);
    out_str(out, "\n");
}

/* print_name prints a name, padded to the column where the bars begin. */
static void print_name(struct out *out, struct slice name)
{
    struct buf clean;

    buf_init(&clean, 64 << 10);
    text_clean(name, TEXT_LINE, &clean);
    if (clean.len == 0)
        buf_add_str(&clean, "(none)");
    size_t columns = text_columns(buf_slice(&clean));
    out_format(out, "  %s%*s ", buf_str(&clean),
               columns < NAME_COLUMNS ? (int)(NAME_COLUMNS - columns) : 0, "");
    buf_release(&clean);
}

void numbers_bars(struct cli *cli, struct json counts)
{
    struct json_iter iter;
    struct json key = {0}, value;
    int64_t count, max = 0;

    json_iter_init(&iter, counts);
    while (json_next(&iter, &key, &value))
        if (json_int(value, &count) && count > max)
            max = count;
    if (max == 0)
        out_str(&cli->out, "  none\n");
    json_iter_init(&iter, counts);
    while (json_next(&iter, &key, &value)) {
        if (!json_int(value, &count) || count <= 0)
            continue;
        print_name(&cli->out, json_text(key, &cli->arena));
        view_bar(&cli->out, count, max, NUMBERS_BAR);
        out_format(&cli->out, " %" PRId64 "\n", count);
    }
}

void numbers_groups(struct cli *cli, struct json groups, int64_t total)
{
    struct json_iter iter;
    struct json group;

    json_iter_init(&iter, groups);
    while (json_next(&iter, NULL, &group)) {
        int64_t count = view_int(group, "count");
        out_format(&cli->out, "  %6" PRId64 "  %3.0f%%  ", count,
                   total > 0 ? 100.0 * (double)count / (double)total : 0);
        out_clean(&cli->out, view_text(group, "signature", &cli->arena));
        out_style(&cli->out, STYLE_DIM);
        out_str(&cli->out, "  ");
        out_clean(&cli->out, view_text(group, "fingerprint", &cli->arena));
        out_style(&cli->out, STYLE_PLAIN);
        out_str(&cli->out, "\n");
    }
}
