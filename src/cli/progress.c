/* progress: see progress.h.
 *
 * The live line is the last line of the terminal, without a line end:
 *
 *              counts (10 times a second at most)
 *             +--------------------+
 *             v                    |
 *     [none] ---- draw ----> [it stands] ---- close ----> [none]
 *                              |     ^
 *                              +-----+  a lasting line: taken away, the line written, put back
 *
 * Each of these is one write, so nothing can come between.  The terminal's width is asked each
 * time: a window that was resized needs no signal.  A program in the background does not draw: the
 * line belongs to whoever is in front.
 *
 * Time is the run's own (counts.elapsed). */
#include "cli/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/seams.h"
#include "cli/gauge.h"
#include "cli/letters.h"
#include "cli/text.h"
#include "cli/view.h"

#define DRAW_EVERY span_ms(100)
#define COUNTS_EVERY span_ms(10000) /* without a terminal */
#define INDENT "  "                 /* before the live line */
#define TEXT_COLUMNS 200            /* of a message or a name in a lasting line */
#define TEXT_BYTES ((size_t)4096)   /* of it that are looked at */
#define FRAME_MAX ((size_t)64 << 10)
#define EVENT_MAX ((size_t)64 << 20)

struct progress {
    struct cli *cli;
    const char *noun, *run_id;
    struct watch watch;
    struct out err; /* standard error */
    struct gauge gauge;
    struct watch_counts last; /* what was told last; `slowest` lies in the buffer of that name */
    struct buf slowest;
    struct span shown; /* when the counts were shown last */
    bool stands;       /* the live line does */
    struct buf frame;  /* what is written next */
};

/* keep_counts remembers what was told. */
static void keep_counts(struct progress *p, const struct watch_counts *counts)
{
    struct slice slowest = counts->slowest;

    if (slowest.len > TEXT_BYTES)
        slowest.len = TEXT_BYTES;
    buf_clear(&p->slowest);
    buf_add_slice(&p->slowest, slowest);
    p->last = *counts;
    p->last.slowest = buf_slice(&p->slowest);
    gauge_see(&p->gauge, counts);
}

/* write_frame writes what was put together, at once. */
static void write_frame(struct progress *p)
{
    if (buf_status(&p->frame, NULL) == STATUS_OK && p->frame.len > 0)
        fwrite(p->frame.ptr, 1, p->frame.len, p->err.file);
    buf_clear(&p->frame);
}

/* ---- sentences ------------------------------------------------------------------------------- */

/* add_text appends a job's text: on one line, made safe, not endless. */
static void add_text(struct progress *p, struct slice text)
{
    struct buf clean;

    if (text.len > TEXT_BYTES)
        text.len = TEXT_BYTES;
    buf_init(&clean, 4 * TEXT_BYTES);
    text_clean(text, TEXT_LINE, &clean);
    size_t fits = text_fit(buf_slice(&clean), TEXT_COLUMNS);
    buf_add(&p->frame, buf_str(&clean), fits);
    if (fits < clean.len)
        buf_add_str(&p->frame, p->err.unicode ? "…" : "...");
    buf_release(&clean);
}

/* add_name appends what the thing is called: its item, else its job. */
static void add_name(struct progress *p, const struct watch_event *event)
{
    add_text(p, event->label.len > 0     ? event->label
                : event->item_id.len > 0 ? event->item_id
                                         : event->job_id);
}

/* add_letter appends the beginning of a letter's id: enough to name it by. */
static void add_letter(struct progress *p, struct slice dlq_id)
{
    buf_add_str(&p->frame, "quarantined");
    if (dlq_id.len == 0)
        return;
    if (dlq_id.len > LETTERS_SHORT_ID)
        dlq_id.len = LETTERS_SHORT_ID;
    buf_add_str(&p->frame, " as ");
    add_text(p, dlq_id);
}

/* add_delay appends how long it is until `when`: to a tenth of a second, or ten milliseconds. */
static void add_delay(struct progress *p, struct instant when)
{
    const struct seams *world = seams_real();
    double seconds = span_to_seconds(instant_since(when, world->wall(world->ctx)));
    double unit = seconds < 0.995 ? 0.01 : seconds < 9.95 ? 0.1 : 1;
    struct arena arena = {0};

    seconds = round(seconds / unit) * unit;
    if (seconds <= 0) {
        buf_add_str(&p->frame, "again at once");
    } else {
        struct slice text = view_span(seconds, &arena);
        buf_addf(&p->frame, "again in %.*s", SLICE_ARG(text));
    }
    arena_release(&arena);
}

/* add_outcome appends what follows a failure. */
static void add_outcome(struct progress *p, const struct watch_event *event)
{
    if (event->what == WATCH_QUARANTINED)
        add_letter(p, event->dlq_id);
    else if (event->what == WATCH_SKIPPED)
        buf_add_str(&p->frame, "skipped");
    else
        add_delay(p, event->retry_at);
}

/* add_loss appends what became of an attempt that neither succeeded nor failed. */
static void add_loss(struct progress *p, const struct watch_event *event)
{
    if (event->what == WATCH_CANCELLED)
        buf_add_str(&p->frame, "cancelled");
    else if (event->what == WATCH_INTERRUPTED)
        buf_addf(&p->frame, "attempt %" PRIu32 " was interrupted; it will run again",
                 event->attempt);
    else
        buf_addf(&p->frame, "the lease of attempt %" PRIu32 " was lost; somebody else has it",
                 event->attempt);
}

/* ---- a terminal ------------------------------------------------------------------------------ */

static bool in_front(const struct progress *p)
{
    pid_t front = tcgetpgrp(fileno(p->err.file));
    return front < 0 || front == getpgrp();
}

/* add_live appends the live line, and add_clear what takes it away. */
static void add_live(struct progress *p)
{
    /* The last column stays free: on some terminals a character there begins the next line. */
    size_t columns = out_columns(&p->err) - 1, indent = sizeof INDENT - 1;

    if (!in_front(p))
        return;
    if (columns > indent) {
        buf_add_str(&p->frame, INDENT);
        columns -= indent;
    }
    gauge_print(&p->gauge, &p->last, &p->err, columns, &p->frame);
    p->stands = true;
}

static void add_clear(struct progress *p)
{
    if (p->stands)
        buf_add_str(&p->frame, "\r\033[K");
    p->stands = false;
}

static void terminal_counts(void *ctx, const struct watch_counts *counts)
{
    struct progress *p = ctx;

    keep_counts(p, counts);
    if (p->stands && counts->elapsed.us - p->shown.us < DRAW_EVERY.us)
        return;
    p->shown = counts->elapsed;
    add_clear(p);
    add_live(p);
    write_frame(p);
}

/* end_lasting ends a lasting line, puts the live one back and writes it all. */
static void end_lasting(struct progress *p, bool stood)
{
    buf_add_char(&p->frame, '\n');
    if (stood)
        add_live(p);
    write_frame(p);
}

static void add_mark(struct progress *p, enum style style, const char *mark)
{
    buf_addf(&p->frame, "%s%s%s ", out_code(&p->err, style), mark, out_code(&p->err, STYLE_PLAIN));
}

static void terminal_failure(struct progress *p, const struct watch_event *event)
{
    bool stood = p->stands;

    add_clear(p);
    add_mark(p, STYLE_RED, p->err.unicode ? "✗" : "x");
    add_name(p, event);
    buf_add_str(&p->frame, ": ");
    add_text(p, event->message.len > 0 ? event->message : SLICE("failed"));
    buf_addf(&p->frame, " (attempt %" PRIu32 ", ", event->attempt);
    add_outcome(p, event);
    buf_add_char(&p->frame, ')');
    end_lasting(p, stood);
}

static void terminal_loss(struct progress *p, const struct watch_event *event)
{
    bool stood = p->stands;

    add_clear(p);
    add_mark(p, STYLE_YELLOW, "!");
    add_name(p, event);
    buf_add_str(&p->frame, ": ");
    add_loss(p, event);
    end_lasting(p, stood);
}

static void terminal_event(void *ctx, const struct watch_event *event)
{
    switch (event->what) {
    case WATCH_QUARANTINED:
    case WATCH_SKIPPED:
        terminal_failure(ctx, event);
        break;
    case WATCH_CANCELLED:
    case WATCH_LOST:
        terminal_loss(ctx, event);
        break;
    case WATCH_STARTED:
    case WATCH_SUCCEEDED:
    case WATCH_RETRYING:
    case WATCH_HANDLED:
    case WATCH_INTERRUPTED:
        break;
    }
}

static void terminal_note(void *ctx, const char *sentence)
{
    struct progress *p = ctx;
    bool stood = p->stands;

    add_clear(p);
    text_clean(slice_of(sentence), TEXT_LINE, &p->frame);
    end_lasting(p, stood);
}

/* ---- no terminal ----------------------------------------------------------------------------- */

static void plain_event(void *ctx, const struct watch_event *event)
{
    struct progress *p = ctx;
    enum watch_what what = event->what;

    if (what == WATCH_STARTED || what == WATCH_SUCCEEDED || what == WATCH_HANDLED)
        return;
    buf_addf(&p->frame, "%s ", p->noun);
    add_name(p, event);
    buf_add_str(&p->frame, ": ");
    if (what == WATCH_CANCELLED || what == WATCH_INTERRUPTED || what == WATCH_LOST) {
        add_loss(p, event);
    } else {
        buf_addf(&p->frame, "attempt %" PRIu32 " failed", event->attempt);
        if (event->message.len > 0)
            buf_add_str(&p->frame, ": ");
        add_text(p, event->message);
        buf_add_str(&p->frame, "; ");
        add_outcome(p, event);
    }
    buf_add_char(&p->frame, '\n');
    write_frame(p);
}

/* moved says whether there is anything to tell after `before`. */
static bool moved(const struct watch_counts *before, const struct watch_counts *counts)
{
    return gauge_ended(before) != gauge_ended(counts) || before->running != counts->running ||
           before->failed_attempts != counts->failed_attempts || before->total != counts->total;
}

static void plain_counts(void *ctx, const struct watch_counts *counts)
{
    struct progress *p = ctx;

    gauge_see(&p->gauge, counts);
    if (counts->elapsed.us - p->shown.us < COUNTS_EVERY.us || !moved(&p->last, counts))
        return;
    keep_counts(p, counts);
    p->shown = counts->elapsed;
    gauge_print(&p->gauge, &p->last, &p->err, SIZE_MAX, &p->frame);
    buf_add_char(&p->frame, '\n');
    write_frame(p);
}

static void plain_note(void *ctx, const char *sentence)
{
    struct progress *p = ctx;

    text_clean(slice_of(sentence), TEXT_LINE, &p->frame);
    buf_add_char(&p->frame, '\n');
    write_frame(p);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *event_name(enum watch_what what)
{
    static const char *const names[] = {
        [WATCH_STARTED] = "started",     [WATCH_SUCCEEDED] = "succeeded",
        [WATCH_RETRYING] = "retrying",   [WATCH_QUARANTINED] = "quarantined",
        [WATCH_SKIPPED] = "skipped",     [WATCH_HANDLED] = "handled",
        [WATCH_CANCELLED] = "cancelled", [WATCH_INTERRUPTED] = "interrupted",
        [WATCH_LOST] = "lost",
    };
    return names[what];
}

/* json_begin begins an object in the frame, and json_end writes it as a line. */
static void json_begin(struct progress *p, struct jsonw *w, const char *name)
{
    jsonw_init(w, &p->frame);
    jsonw_object(w);
    jsonw_put_str(w, "event", name);
    jsonw_put_text(w, "run_id", slice_of(p->run_id));
}

static void json_end(struct progress *p, struct jsonw *w)
{
    jsonw_object_end(w);
    if (buf_status(&p->frame, NULL) == STATUS_OK)
        out_json(&p->cli->out, buf_slice(&p->frame));
    buf_clear(&p->frame);
}

static void json_event(void *ctx, const struct watch_event *event)
{
    struct progress *p = ctx;
    struct jsonw w;

    json_begin(p, &w, event_name(event->what));
    jsonw_put_text(&w, "job_id", event->job_id);
    jsonw_put_text(&w, "item_id", event->item_id);
    if (event->attempt > 0)
        jsonw_put_int(&w, "attempt", event->attempt);
    if (event->what != WATCH_STARTED)
        jsonw_put_int(&w, "duration_ms", event->duration.us / 1000);
    jsonw_put_text(&w, "error_type", event->error_type);
    jsonw_put_text(&w, "message", event->message);
    jsonw_put_text(&w, "dlq_id", event->dlq_id);
    if (event->what == WATCH_RETRYING)
        jsonw_put_instant(&w, "retry_at", event->retry_at);
    jsonw_put_text(&w, "artifact", event->artifact);
    json_end(p, &w);
}

/* json_counts has what is told reach its reader several times a second, and not a write an event.
 */
static void json_counts(void *ctx, const struct watch_counts *counts)
{
    struct progress *p = ctx;

    (void)counts;
    fflush(p->cli->out.file);
}

static void json_note(void *ctx, const char *sentence)
{
    struct progress *p = ctx;
    struct jsonw w;

    json_begin(p, &w, "note");
    jsonw_put_str(&w, "message", sentence);
    json_end(p, &w);
    fflush(p->cli->out.file);
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* has_lines says whether the terminal can take a line back. */
static bool has_lines(void)
{
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") != 0;
}

static struct watch choose(struct progress *p)
{
    if (p->cli->json)
        return (struct watch){json_event, json_counts, json_note, p};
    if (p->err.terminal && has_lines())
        return (struct watch){terminal_event, terminal_counts, terminal_note, p};
    p->err.terminal = p->err.color = false;
    return (struct watch){plain_event, plain_counts, plain_note, p};
}

enum status progress_open(struct cli *cli, const char *noun, const char *run_id,
                          struct progress **out, struct err *err)
{
    struct progress *p = mem_zalloc(sizeof *p);

    if (!p)
        return err_no_memory(err);
    p->cli = cli;
    p->noun = noun;
    p->run_id = run_id;
    out_init(&p->err, stderr, args_has(&cli->args, "no-color"));
    buf_init(&p->slowest, TEXT_BYTES);
    buf_init(&p->frame, cli->json ? EVENT_MAX : FRAME_MAX);
    p->watch = choose(p);
    *out = p;
    return STATUS_OK;
}

const struct watch *progress_watch(struct progress *progress)
{
    return &progress->watch;
}

void progress_close(struct progress *progress)
{
    if (!progress)
        return;
    add_clear(progress);
    write_frame(progress);
    buf_release(&progress->slowest);
    buf_release(&progress->frame);
    mem_free(progress);
}
