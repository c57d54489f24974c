/* view: see view.h. */
#include "cli/view.h"

#include <inttypes.h>
#include <math.h>

struct json view_get(struct json object, const char *name)
{
    struct json value;
    json_get(object, name, &value);
    return value;
}

struct slice view_value(struct json value, struct arena *arena)
{
    struct slice nothing = {0};
    if (value.type == JSON_STRING)
        return json_text(value, arena);
    return value.type == JSON_NULL ? nothing : value.raw;
}

struct slice view_text(struct json object, const char *name, struct arena *arena)
{
    return view_value(view_get(object, name), arena);
}

int64_t view_int(struct json object, const char *name)
{
    int64_t value = 0;
    return json_int(view_get(object, name), &value) ? value : 0;
}

bool view_true(struct json object, const char *name)
{
    return view_get(object, name).type == JSON_TRUE;
}

struct instant view_time(struct json object, const char *name)
{
    struct arena arena = {0};
    struct instant t = INSTANT_NONE;
    struct slice text = view_text(object, name, &arena);

    if (text.len > 0 && instant_parse(text, &t, NULL) != STATUS_OK)
        t = INSTANT_NONE;
    arena_release(&arena);
    return t;
}

struct slice view_age(struct instant t, struct instant now, struct arena *arena)
{
    int64_t s = instant_since(now, t).us / 1000000;

    if (!instant_is_set(t))
        return SLICE("-");
    if (s < 0)
        s = 0;
    if (s < 120)
        return arena_printf(arena, "%" PRId64 "s", s);
    if (s < 7200)
        return arena_printf(arena, "%" PRId64 "m", s / 60);
    if (s < 172800)
        return arena_printf(arena, "%" PRId64 "h", s / 3600);
    return arena_printf(arena, "%" PRId64 "d", s / 86400);
}

struct slice view_span(double seconds, struct arena *arena)
{
    static const struct {
        double size;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}};

    if (seconds == 0)
        return SLICE("0s");
    if (seconds < 1)
        return arena_printf(arena, "%gms", round(seconds * 1e6) / 1e3);
    for (size_t i = 0; i < 3; i++) {
        if (seconds < units[i].size)
            continue;
        double whole = floor(seconds / units[i].size);
        double rest = floor((seconds - whole * units[i].size) / units[i + 1].size);
        if (rest < 1)
            return arena_printf(arena, "%.0f%s", whole, units[i].name);
        return arena_printf(arena, "%.0f%s %.0f%s", whole, units[i].name, rest, units[i + 1].name);
    }
    return arena_printf(arena, "%gs", round(seconds * 1e3) / 1e3);
}

struct slice view_count(int64_t count, const char *noun, struct arena *arena)
{
    return arena_printf(arena, "%" PRId64 " %s%s", count, noun, count == 1 ? "" : "s");
}

void view_bar(struct out *out, int64_t value, int64_t max, unsigned width)
{
    /* What is there at all shows. */
    unsigned len = max > 0 ? (unsigned)((double)value / (double)max * width + 0.5) : 0;
    if (value > 0 && len == 0)
        len = 1;
    for (unsigned i = 0; i < len; i++)
        out_str(out, out->unicode ? "█" : "#");
    out_format(out, "%*s", (int)(width - len), "");
}

void view_trend(struct out *out, struct json values)
{
    static const char *const high[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {" ", ".", ".", ":", ":", "-", "=", "+", "#"};
    struct json_iter iter;
    struct json value;
    int64_t count, max = 0;

    json_iter_init(&iter, values);
    while (json_next(&iter, NULL, &value))
        if (json_int(value, &count) && count > max)
            max = count;
    json_iter_init(&iter, values);
    while (json_next(&iter, NULL, &value)) {
        if (!json_int(value, &count) || count < 0)
            count = 0;
        size_t level = max > 0 ? (size_t)ceil((double)count / (double)max * 8) : 0;
        out_str(out, out->unicode ? high[level] : ascii[level]);
    }
}
