/* export: dead letters as files for other programs and other people.
 *
 *     json       an array of whole letters: what `import` reads back
 *     csv        one line a letter, RFC 4180; formulas are defused (csv_field)
 *     receipts   the receipts system's file
 *     map        a directory (mapdir.c) */
#include <inttypes.h>

#include "bridge/receiptfile.h"
#include "cli/letters.h"
#include "cli/mapdir.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/sink.h"
#include "cli/text.h"
#include "cli/view.h"
#include "core/delivery.h"

#define LINE_MAX_BYTES ((size_t)256 << 20)

struct export
{
    struct cli *cli;
    struct sink sink;
    struct buf line;
    int64_t count;
};

/* ---- json ------------------------------------------------------------------------------------ */

static int json_letter(void *ctx, struct json letter)
{
    struct export *e = ctx;
    int code = sink_json(&e->sink, e->count++ > 0 ? SLICE(",\n") : SLICE("[\n"));
    return code != 0 ? code : sink_json(&e->sink, letter.raw);
}

/* array_end closes an array that json_letter or receipt_letter began. */
static int array_end(struct export *e)
{
    return sink_json(&e->sink, e->count > 0 ? SLICE("\n]\n") : SLICE("[]\n"));
}

/* ---- receipts -------------------------------------------------------------------------------- */

static int receipt_letter(void *ctx, struct json letter)
{
    struct export *e = ctx;

    buf_clear(&e->line);
    buf_add_str(&e->line, e->count > 0 ? ",\n" : "[\n");
    if (!receiptfile_print(letter, &e->line))
        return 0;
    e->count++;
    if (buf_status(&e->line, NULL) != STATUS_OK)
        return say_no_memory();
    return sink_json(&e->sink, buf_slice(&e->line));
}

/* receipts_only narrows the query: other letters have no place in a file of receipts. */
static int receipts_only(const struct args *args, struct buf *query)
{
    const char *source = args_value(args, "source");

    if (!source)
        request_query(query, "source", SLICE(DELIVERY_SOURCE_RECEIPTS));
    else if (strcmp(source, DELIVERY_SOURCE_RECEIPTS) != 0)
        return say_error(CLI_USAGE,
                         "--format receipts exports letters of source " DELIVERY_SOURCE_RECEIPTS
                         " alone, not of \"%s\"",
                         source);
    return 0;
}

/* ---- csv ------------------------------------------------------------------------------------- */

static const char *const csv_columns[] = {"dlq_id",
                                          "job_id",
                                          "item_id",
                                          "state",
                                          "reason",
                                          "reason_detail",
                                          "queue",
                                          "source",
                                          "trace_id",
                                          "failed_at",
                                          "first_attempt",
                                          "last_attempt",
                                          "failure_count",
                                          "max_retries",
                                          "error_signature",
                                          "fingerprint",
                                          "error_message",
                                          "agent_id",
                                          "recoverable",
                                          "reprocess_eligible",
                                          "manual_review_required",
                                          "escalated",
                                          "replay_safety",
                                          "redrive_count",
                                          "recovered_at",
                                          "recovered_by",
                                          "original_subject",
                                          "original_payload"};
#define CSV_COLUMNS (sizeof csv_columns / sizeof *csv_columns)

/* csv_field appends a field.  What a spreadsheet would take for a formula gets an apostrophe before
 * it; control characters go, as a CSV file is plain text. */
static void csv_field(struct buf *out, struct slice text)
{
    struct buf clean;

    buf_init(&clean, LINE_MAX_BYTES);
    if (text.len > 0 && strchr("=+-@\t\r\n", text.ptr[0]))
        buf_add_char(&clean, '\'');
    text_clean(text, TEXT_BLOCK, &clean);
    bool quote = strpbrk(buf_str(&clean), ",\"\n\t '") != NULL;
    if (quote)
        buf_add_char(out, '"');
    for (size_t i = 0; i < clean.len; i++) {
        if (clean.ptr[i] == '"')
            buf_add_char(out, '"');
        buf_add_char(out, clean.ptr[i]);
    }
    if (quote)
        buf_add_char(out, '"');
    if (clean.status != STATUS_OK)
        out->status = clean.status;
    buf_release(&clean);
}

/* csv_value is a column's text: a member of the letter or, for the error, of the last attempt. */
static struct slice csv_value(struct json letter, const char *column, struct arena *arena)
{
    struct json_iter iter;
    struct json last = {0}, failure;

    if (strcmp(column, "error_message") != 0 && strcmp(column, "agent_id") != 0)
        return view_text(letter, column, arena);
    json_iter_init(&iter, view_get(letter, "failure_history"));
    while (json_next(&iter, NULL, &failure))
        last = failure;
    return view_text(last, column, arena);
}

static int csv_line(struct export *e, struct json letter, bool heading)
{
    struct arena arena = {0};

    buf_clear(&e->line);
    for (size_t i = 0; i < CSV_COLUMNS; i++) {
        if (i > 0)
            buf_add_char(&e->line, ',');
        csv_field(&e->line,
                  heading ? slice_of(csv_columns[i]) : csv_value(letter, csv_columns[i], &arena));
    }
    buf_add_str(&e->line, "\r\n");
    arena_release(&arena);
    if (buf_status(&e->line, NULL) != STATUS_OK)
        return say_no_memory();
    return sink_plain(&e->sink, buf_slice(&e->line));
}

static int csv_letter(void *ctx, struct json letter)
{
    struct export *e = ctx;
    e->count++;
    return csv_line(e, letter, false);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int export_file(struct export *e, const char *path, const char *format, struct slice query)
{
    bool csv = strcmp(format, "csv") == 0;
    int (*visit)(void *, struct json) = csv                               ? csv_letter
                                        : strcmp(format, "receipts") == 0 ? receipt_letter
                                                                          : json_letter;
    int code = sink_open(&e->sink, e->cli, path);

    if (code != 0)
        return code;
    if (csv)
        code = csv_line(e, (struct json){0}, true);
    if (code == 0)
        code = letters_each(e->cli, query, 0, visit, e, NULL);
    if (code == 0 && !csv)
        code = array_end(e);
    return sink_close(&e->sink, code);
}

static int map_letter(void *ctx, struct json letter)
{
    struct mapdir *dir = ctx;
    return mapdir_add(dir, letter);
}

static int export_map(struct export *e, const char *path, struct slice query)
{
    struct mapdir dir;
    int code;

    if (strcmp(path, "-") == 0)
        return say_error(CLI_USAGE, "a map export is a directory: it cannot go to standard output");
    code = mapdir_create(&dir, e->cli, path);
    if (code == 0)
        code = letters_each(e->cli, query, 0, map_letter, &dir, NULL);
    if (code == 0)
        code = mapdir_commit(&dir, args_value(&e->cli->args, "job-id"));
    e->count = dir.count;
    mapdir_release(&dir);
    return code;
}

int cmd_export(struct cli *cli)
{
    struct export e = {.cli = cli};
    const char *path = cli->args.operands[0];
    const char *format = args_value(&cli->args, "format");
    struct buf query;
    int code;

    buf_init(&query, 64 << 10);
    buf_init(&e.line, LINE_MAX_BYTES);
    code = letters_query(cli, &query);
    if (code == 0 && format && strcmp(format, "receipts") == 0)
        code = receipts_only(&cli->args, &query);
    if (code == 0 && format && strcmp(format, "map") == 0)
        code = export_map(&e, path, buf_slice(&query));
    else if (code == 0)
        code = export_file(&e, path, format ? format : "json", buf_slice(&query));
    if (code == 0 && strcmp(path, "-") != 0) {
        struct slice count = view_count(e.count, "dead letter", &cli->arena);
        if (cli->json)
            out_format(&cli->out, "{\"exported\":%" PRId64 "}\n", e.count);
        else
            out_format(&cli->out, "%.*s exported to %s\n", SLICE_ARG(count), path);
    }
    buf_release(&query);
    buf_release(&e.line);
    return code;
}
