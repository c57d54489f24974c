/* gauge: see gauge.h. */
#include "cli/gauge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/text.h"
#include "cli/view.h"

#define SAMPLE_EVERY span_ms(500)
#define RATE_ENDED_MIN 5         /* ends that the last seconds must have had to give a rate */
#define SLOW_AFTER span_ms(1000) /* what runs for less than this is not slow */
#define NAME_COLUMNS_MIN 8
#define NAME_BYTES_MAX ((size_t)1024)
#define PART_SIZE 48

/* ---- the rate -------------------------------------------------------------------------------- */

int64_t gauge_ended(const struct watch_counts *counts)
{
    return counts->done + counts->quarantined + counts->skipped + counts->handled +
           counts->cancelled;
}

int64_t gauge_left(const struct watch_counts *counts)
{
    int64_t left = counts->total - counts->before - gauge_ended(counts);
    return left > 0 ? left : 0;
}

static const struct gauge_sample *newest_kept(const struct gauge *gauge)
{
    return &gauge->samples[(gauge->next + GAUGE_SAMPLES - 1) % GAUGE_SAMPLES];
}

void gauge_see(struct gauge *gauge, const struct watch_counts *counts)
{
    gauge->newest = (struct gauge_sample){counts->elapsed, gauge_ended(counts)};
    if (gauge->count > 0 && counts->elapsed.us - newest_kept(gauge)->at.us < SAMPLE_EVERY.us)
        return;
    gauge->samples[gauge->next] = gauge->newest;
    gauge->next = (gauge->next + 1) % GAUGE_SAMPLES;
    if (gauge->count < GAUGE_SAMPLES)
        gauge->count++;
}

double gauge_rate(const struct gauge *gauge)
{
    const struct gauge_sample *oldest =
        &gauge->samples[(gauge->next + GAUGE_SAMPLES - gauge->count) % GAUGE_SAMPLES];
    struct gauge_sample newest = gauge->newest;
    struct span past = {gauge->count > 0 ? newest.at.us - oldest->at.us : 0};
    int64_t ended = newest.ended - oldest->ended;

    if (past.us >= 1000000 && ended >= RATE_ENDED_MIN)
        return (double)ended / span_to_seconds(past);
    if (newest.at.us >= 1000000 && newest.ended > 0)
        return (double)newest.ended / span_to_seconds(newest.at);
    return 0;
}

const char *gauge_rate_text(double rate, char out[GAUGE_RATE_SIZE])
{
    const char *unit = "/s";

    if (rate < 1) {
        rate *= 60;
        unit = "/min";
    }
    if (rate < 1) {
        rate *= 60;
        unit = "/h";
    }
    /* "%g" leaves a zero after the point out. */
    rate = rate < 9.95 ? round(rate * 10) / 10 : round(rate);
    snprintf(out, GAUGE_RATE_SIZE, "%.9g%s", rate, unit);
    return out;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* enum part: in the order in which they stand. */
enum part {
    PART_DONE,
    PART_RUNNING,
    PART_RETRYING,
    PART_QUARANTINED,
    PART_SKIPPED,
    PART_HANDLED,
    PART_CANCELLED,
    PART_FAILURES,
    PART_EARLIER,
    PART_RATE,
    PART_ETA,
    PART_SLOWEST,
    PART_COUNT
};

/* In this order they go when there is no room.  What is done stays. */
static const enum part dispensable[] = {
    PART_SLOWEST, PART_FAILURES, PART_EARLIER, PART_HANDLED,  PART_CANCELLED,  PART_SKIPPED,
    PART_RATE,    PART_RUNNING,  PART_ETA,     PART_RETRYING, PART_QUARANTINED};

struct parts {
    char text[PART_COUNT][PART_SIZE]; /* empty: not shown */
    struct buf name;                  /* of the slowest, clean; its part is what follows it */
    const char *between, *cut;
};

static void put_count(struct parts *parts, enum part part, int64_t count, const char *word)
{
    if (count > 0)
        snprintf(parts->text[part], PART_SIZE, "%" PRId64 " %s", count, word);
}

/* put_done says of how many, unless that is only what there was so far: of jobs that a worker is
 * given one by one. */
static void put_done(struct parts *parts, const struct watch_counts *counts)
{
    char *text = parts->text[PART_DONE];

    if (counts->total_final || gauge_left(counts) > counts->running + counts->retrying)
        snprintf(text, PART_SIZE, "%" PRId64 "/%" PRId64 "%s done", counts->done,
                 counts->total - counts->before, counts->total_final ? "" : "+");
    else
        snprintf(text, PART_SIZE, "%" PRId64 " done", counts->done);
}

static void put_speed(struct parts *parts, const struct gauge *gauge,
                      const struct watch_counts *counts)
{
    double rate = gauge_rate(gauge);
    struct arena arena = {0};

    if (rate > 0)
        gauge_rate_text(rate, parts->text[PART_RATE]);
    if (rate > 0 && counts->total_final && gauge_left(counts) > 0) {
        struct slice eta = view_span(ceil((double)gauge_left(counts) / rate), &arena);
        snprintf(parts->text[PART_ETA], PART_SIZE, "ETA %.*s", SLICE_ARG(eta));
    }
    arena_release(&arena);
}

static void put_slowest(struct parts *parts, const struct watch_counts *counts)
{
    struct slice name = counts->slowest;
    struct arena arena = {0};

    if (name.len == 0 || counts->slowest_for.us < SLOW_AFTER.us)
        return;
    if (name.len > NAME_BYTES_MAX)
        name.len = NAME_BYTES_MAX;
    text_clean(name, TEXT_LINE, &parts->name);
    struct slice age = view_span(floor(span_to_seconds(counts->slowest_for)), &arena);
    snprintf(parts->text[PART_SLOWEST], PART_SIZE, " %.*s", SLICE_ARG(age));
    arena_release(&arena);
}

static void fill(struct parts *parts, const struct gauge *gauge, const struct watch_counts *counts)
{
    put_done(parts, counts);
    put_count(parts, PART_RUNNING, counts->running, "running");
    put_count(parts, PART_RETRYING, counts->retrying, "retrying");
    put_count(parts, PART_QUARANTINED, counts->quarantined, "quarantined");
    put_count(parts, PART_SKIPPED, counts->skipped, "skipped");
    put_count(parts, PART_HANDLED, counts->handled, "handled");
    put_count(parts, PART_CANCELLED, counts->cancelled, "cancelled");
    put_count(parts, PART_FAILURES, counts->failed_attempts,
              counts->failed_attempts == 1 ? "failure" : "failures");
    put_count(parts, PART_EARLIER, counts->before, "earlier");
    put_speed(parts, gauge, counts);
    put_slowest(parts, counts);
}

#define SLOWEST_BEFORE "slowest: "

/* part_columns is how wide a part is, without the slowest one's name. */
static size_t part_columns(const struct parts *parts, enum part part)
{
    size_t columns = text_columns(slice_of(parts->text[part]));
    return part == PART_SLOWEST && columns > 0 ? columns + sizeof SLOWEST_BEFORE - 1 : columns;
}

/* parts_columns is how wide all of it is, without the name. */
static size_t parts_columns(const struct parts *parts)
{
    size_t columns = 0;
    for (enum part part = 0; part < PART_COUNT; part++)
        if (parts->text[part][0])
            columns +=
                part_columns(parts, part) + (part > 0 ? text_columns(slice_of(parts->between)) : 0);
    return columns;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* name_columns is what is needed for the name: it may be shortened. */
static size_t name_columns(const struct parts *parts)
{
    if (!parts->text[PART_SLOWEST][0])
        return 0;
    return least(text_columns(buf_slice(&parts->name)), NAME_COLUMNS_MIN);
}

/* make_room lets parts go until the others fit. */
static void make_room(struct parts *parts, size_t columns)
{
    for (size_t i = 0; i < sizeof dispensable / sizeof *dispensable; i++) {
        if (parts_columns(parts) + name_columns(parts) <= columns)
            return;
        parts->text[dispensable[i]][0] = '\0';
    }
}

/* add_cut appends clean text, and when it is wider than `columns` what fits of it and a mark. */
static void add_cut(struct buf *line, struct slice text, size_t columns, const char *mark)
{
    size_t mark_columns = text_columns(slice_of(mark));

    if (text_columns(text) <= columns) {
        buf_add_slice(line, text);
        return;
    }
    buf_add(line, text.ptr, text_fit(text, columns > mark_columns ? columns - mark_columns : 0));
    if (columns >= mark_columns)
        buf_add_str(line, mark);
}

static void add_part(const struct parts *parts, enum part part, const struct out *out, size_t room,
                     struct buf *line)
{
    static const enum style styles[PART_COUNT] = {
        [PART_RETRYING] = STYLE_YELLOW, [PART_QUARANTINED] = STYLE_RED, [PART_SLOWEST] = STYLE_DIM};
    bool styled = styles[part] != STYLE_PLAIN;

    buf_add_str(line, part > 0 ? parts->between : "");
    buf_add_str(line, styled ? out_code(out, styles[part]) : "");
    if (part == PART_SLOWEST) {
        buf_add_str(line, SLOWEST_BEFORE);
        add_cut(line, buf_slice(&parts->name), room, parts->cut);
    }
    if (part == PART_DONE)
        add_cut(line, slice_of(parts->text[part]), room, parts->cut);
    else
        buf_add_str(line, parts->text[part]);
    buf_add_str(line, styled ? out_code(out, STYLE_PLAIN) : "");
}

void gauge_print(const struct gauge *gauge, const struct watch_counts *counts,
                 const struct out *out, size_t columns, struct buf *line)
{
    struct parts parts = {.between = out->terminal && out->unicode ? " · " : ", ",
                          .cut = out->unicode ? "…" : "~"};

    buf_init(&parts.name, 4 * NAME_BYTES_MAX);
    fill(&parts, gauge, counts);
    make_room(&parts, columns);
    /* What is left is the slowest one's; when even the first part is too wide, all is the first's.
     */
    size_t others = parts_columns(&parts);
    for (enum part part = 0; part < PART_COUNT; part++) {
        size_t room = part == PART_SLOWEST ? columns - others : columns;
        if (parts.text[part][0])
            add_part(&parts, part, out, room, line);
    }
    buf_release(&parts.name);
}
