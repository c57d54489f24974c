/* summary: see summary.h. */
#include "cli/summary.h"

#include <inttypes.h>
#include <math.h>

#include "base/jsonw.h"
#include "cli/gauge.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/view.h"

#define GROUPS_SHOWN 10
#define LINE_MAX_BYTES ((size_t)16 << 20)

/* struct quarantine: what the run has there.  `known` is false when it was not asked, or in vain.
 */
struct quarantine {
    bool known;
    int64_t total, group_count;
    struct json groups; /* the largest first; borrows from `reply` */
    struct reply reply;
};

/* ask looks at the quarantine, when there can be something in it. */
static int ask(struct cli *cli, const struct summary_facts *facts, struct quarantine *q)
{
    struct buf query;

    if (!facts->run_id || (facts->counts.quarantined == 0 && facts->counts.before == 0))
        return 0;
    buf_init(&query, 4096);
    request_query(&query, "job_id", slice_of(facts->run_id));
    int code = request_send(cli, "GET", "/api/v1/dlq/analyze", buf_slice(&query), (struct slice){0},
                            &q->reply);
    buf_release(&query);
    if (code != 0)
        return code;
    q->known = true;
    q->total = view_int(q->reply.value, "total");
    q->group_count = view_int(q->reply.value, "group_count");
    q->groups = view_get(q->reply.value, "groups");
    return 0;
}

/* ---- for a person ---------------------------------------------------------------------------- */

static void show_count(struct out *out, int64_t count, const char *word, enum style style)
{
    if (count == 0)
        return;
    out_str(out, ", ");
    if (style != STYLE_PLAIN)
        out_style(out, style);
    out_format(out, "%" PRId64 " %s", count, word);
    if (style != STYLE_PLAIN)
        out_style(out, STYLE_PLAIN);
}

/* show_time prints how long it took, and how fast it went. */
static void show_time(struct cli *cli, const struct watch_counts *counts)
{
    double seconds = span_to_seconds(counts->elapsed);
    char rate[GAUGE_RATE_SIZE];

    if (seconds < 59.95) {
        out_format(&cli->out, ", in %.1f s", seconds);
    } else {
        struct slice span = view_span(round(seconds), &cli->arena);
        out_format(&cli->out, ", in %.*s", SLICE_ARG(span));
    }
    if (gauge_ended(counts) > 0 && seconds > 0)
        out_format(&cli->out, " (%s)",
                   gauge_rate_text((double)gauge_ended(counts) / seconds, rate));
}

/* all_here says whether the quarantine of the run is what this command put there: not with what an
 * earlier one did, and without what somebody brought back meanwhile. */
static bool all_here(const struct summary_facts *facts, const struct quarantine *q)
{
    return q->known && q->total == facts->counts.quarantined;
}

static void show_counts(struct cli *cli, const struct summary_facts *facts,
                        const struct quarantine *q)
{
    const struct watch_counts *counts = &facts->counts;
    struct out *out = &cli->out;
    struct slice all = view_count(counts->total - counts->before, facts->noun, &cli->arena);

    out_format(out, "%.*s: ", SLICE_ARG(all));
    out_format(out, "%" PRId64 " done", counts->done);
    show_count(out, counts->quarantined, "quarantined", STYLE_RED);
    if (counts->quarantined > 0 && all_here(facts, q)) {
        struct slice groups = view_count(q->group_count, "group", &cli->arena);
        out_format(out, " in %.*s", SLICE_ARG(groups));
    }
    show_count(out, counts->skipped, "skipped", STYLE_RED);
    show_count(out, counts->handled, "handled", STYLE_PLAIN);
    show_count(out, counts->cancelled, "cancelled", STYLE_PLAIN);
    if (facts->run_id)
        show_count(out, gauge_left(counts), counts->total_final ? "left" : "or more left",
                   STYLE_YELLOW);
    else
        show_count(out, counts->retrying, "to be tried again", STYLE_YELLOW);
    show_time(cli, counts);
    if (counts->before > 0)
        out_format(out, "; %" PRId64 " had ended before", counts->before);
    out_str(out, "\n");
}

static void show_groups(struct cli *cli, const struct summary_facts *facts,
                        const struct quarantine *q)
{
    struct json_iter iter;
    struct json group;
    int64_t shown = 0;

    if (!all_here(facts, q)) {
        struct slice all = view_count(q->total, facts->noun, &cli->arena);
        struct slice groups = view_count(q->group_count, "group", &cli->arena);
        out_format(&cli->out, "In the quarantine: %.*s of this run, in %.*s\n", SLICE_ARG(all),
                   SLICE_ARG(groups));
    }
    json_iter_init(&iter, q->groups);
    while (shown < GROUPS_SHOWN && json_next(&iter, NULL, &group)) {
        out_format(&cli->out, "  %6" PRId64 "  ", view_int(group, "count"));
        out_clean(&cli->out, view_text(group, "signature", &cli->arena));
        out_style(&cli->out, STYLE_DIM);
        out_str(&cli->out, "  ");
        out_clean(&cli->out, view_text(group, "fingerprint", &cli->arena));
        out_style(&cli->out, STYLE_PLAIN);
        out_str(&cli->out, "\n");
        shown++;
    }
    if (q->group_count > shown)
        out_format(&cli->out, "  and %" PRId64 " more\n", q->group_count - shown);
}

/* show_command prints a command that can be typed next, about the same quarantine as this one.
 * `before` is what stands before the word: a flag, or nothing. */
static void show_command(struct cli *cli, const char *command, const char *before,
                         struct slice word)
{
    static const char *const flags[] = {"data", "server"};
    struct out *out = &cli->out;

    out_format(out, "lazaret %s ", command);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const char *value = args_value(&cli->args, flags[i]);
        if (!value)
            continue;
        out_format(out, "--%s ", flags[i]);
        out_word(out, slice_of(value));
        out_str(out, " ");
    }
    out_format(out, "%s%s", before, *before ? " " : "");
    out_word(out, word);
}

static void show_line(struct cli *cli, const char *label, const char *command, struct slice run)
{
    out_format(&cli->out, "%-8s", label);
    show_command(cli, command, "--job-id", run);
    out_str(&cli->out, "\n");
}

/* show_failed says how to look at what failed and how to run it again. */
static void show_failed(struct cli *cli, const char *run_id, const struct quarantine *q)
{
    struct slice run = slice_of(run_id);
    struct json_iter iter;
    struct json first;

    show_line(cli, "Look:", "dlq list", run);
    show_line(cli, "Groups:", "dlq analyze", run);
    out_format(&cli->out, "%-8s", "Again:");
    /* A run may be called like a flag. */
    show_command(cli, "dlq retry", *run_id == '-' ? "--" : "", run);
    json_iter_init(&iter, q->groups);
    if (q->group_count > 1 && json_next(&iter, NULL, &first)) {
        out_str(&cli->out, "    (one group: ");
        show_command(cli, "dlq retry", "--group", view_text(first, "fingerprint", &cli->arena));
        out_str(&cli->out, ")");
    }
    out_str(&cli->out, "\n");
    if (view_get(q->reply.value, "eligible").type == JSON_NUMBER && q->total > 0 &&
        view_int(q->reply.value, "eligible") == 0)
        out_str(&cli->out, "        All of it needs review: --force runs it again all the same.\n");
}

/* show_end says why it ended early. */
static void show_end(struct cli *cli, const struct summary_facts *facts)
{
    if (facts->stopped) {
        out_str(&cli->out, "Stopped: ");
        out_clean(&cli->out, slice_of(facts->stopped));
        out_str(&cli->out, "\n");
    } else if (facts->interrupted) {
        out_str(&cli->out, gauge_left(&facts->counts) > 0
                               ? "Interrupted: what was running is recorded, and will run again\n"
                               : "Interrupted\n");
    }
}

static void show(struct cli *cli, const struct summary_facts *facts, const struct quarantine *q)
{
    const struct watch_counts *counts = &facts->counts;

    show_counts(cli, facts, q);
    show_end(cli, facts);
    if (q->total > 0)
        show_groups(cli, facts, q);
    if (facts->run_id && (q->known ? q->total : counts->quarantined) > 0)
        show_failed(cli, facts->run_id, q);
    if (facts->run_id && (gauge_left(counts) > 0 || !counts->total_final))
        show_line(cli, "Go on:", "map --resume", slice_of(facts->run_id));
}

/* ---- for a program --------------------------------------------------------------------------- */

static void put_groups(struct jsonw *w, const struct quarantine *q)
{
    struct json_iter iter;
    struct json group;

    jsonw_put_int(w, "group_count", q->group_count);
    jsonw_key(w, "groups");
    jsonw_array(w);
    json_iter_init(&iter, q->groups);
    while (json_next(&iter, NULL, &group))
        jsonw_raw(w, group.raw);
    jsonw_array_end(w);
}

static void put_counts(struct jsonw *w, const struct watch_counts *counts)
{
    const struct {
        const char *name;
        int64_t count;
    } members[] = {{"total", counts->total},
                   {"before", counts->before},
                   {"done", counts->done},
                   {"quarantined", counts->quarantined},
                   {"skipped", counts->skipped},
                   {"handled", counts->handled},
                   {"cancelled", counts->cancelled},
                   {"left", gauge_left(counts)},
                   {"failed_attempts", counts->failed_attempts},
                   {"elapsed_ms", counts->elapsed.us / 1000}};

    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        jsonw_put_int(w, members[i].name, members[i].count);
    jsonw_put_bool(w, "total_final", counts->total_final);
}

static int print_json(struct cli *cli, const struct summary_facts *facts,
                      const struct quarantine *q)
{
    struct buf line;
    struct jsonw w;

    buf_init(&line, LINE_MAX_BYTES);
    jsonw_init(&w, &line);
    jsonw_object(&w);
    jsonw_put_str(&w, "event", "summary");
    jsonw_put_text(&w, "run_id", slice_of(facts->run_id));
    put_counts(&w, &facts->counts);
    jsonw_put_bool(&w, "interrupted", facts->interrupted);
    jsonw_put_text(&w, "stopped", slice_of(facts->stopped));
    put_groups(&w, q);
    jsonw_object_end(&w);
    int code = buf_status(&line, NULL) == STATUS_OK ? 0 : say_no_memory();
    if (code == 0)
        out_json(&cli->out, buf_slice(&line));
    buf_release(&line);
    return code;
}

int summary_show(struct cli *cli, const struct summary_facts *facts)
{
    struct quarantine q = {0};
    int asked = ask(cli, facts, &q), printed = 0;

    if (cli->json)
        printed = print_json(cli, facts, &q);
    else
        show(cli, facts, &q);
    reply_release(&q.reply);
    return asked != 0 ? asked : printed;
}
