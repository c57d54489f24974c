/* progress_driver: tells a progress and a summary what a run would tell, for test_progress.py.
 *
 *     progress_driver [--json] [--no-color] [--data DIR] [--server URL] [--noun NOUN] [--run ID]
 *                     [--analysis FILE] [STEP]...
 *
 * Steps are carried out in order:
 *
 *     --event OBJECT     what, job_id, item_id, dlq_id, attempt, duration_ms, retry_in_ms,
 *                        error_type, message, artifact; a text may also be given as NAME_hex
 *     --counts OBJECT    the members of struct watch_counts; elapsed_ms, slowest_ms
 *     --note TEXT
 *     --wait-for-line    reads a line of standard input
 *     --summary OBJECT   closes the progress and shows the summary of the last counts: stopped,
 *                        interrupted
 *
 * An OBJECT may be given as @FILE.
 *
 * What the rest of the program would answer is made here: flags are those above, and the one
 * request that is known is answered with FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <locale.h>

#include "cli/progress.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/summary.h"
#include "cli/view.h"

#define FILE_MAX_BYTES (16 << 20)

static struct driver {
    struct cli cli;
    struct progress *progress;
    struct watch_counts counts;
    struct arena arena; /* what was told */
    bool no_color;
    const char *data, *server, *noun, *run, *analysis;
} driver;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "progress_driver: %s\n", what);
    exit(99);
}

static void read_file(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "r");
    char part[4096];
    size_t len;

    if (!file)
        die(path);
    while ((len = fread(part, 1, sizeof part, file)) > 0)
        buf_add(out, part, len);
    fclose(file);
}

/* ---- the rest of the program ----------------------------------------------------------------- */

bool args_has(const struct args *args, const char *name)
{
    (void)args;
    return strcmp(name, "no-color") == 0 && driver.no_color;
}

const char *args_value(const struct args *args, const char *name)
{
    (void)args;
    return strcmp(name, "data") == 0     ? driver.data
           : strcmp(name, "server") == 0 ? driver.server
                                         : NULL;
}

void request_query(struct buf *query, const char *key, struct slice value)
{
    buf_addf(query, "%s=%.*s;", key, SLICE_ARG(value));
}

void reply_release(struct reply *reply)
{
    buf_release(&reply->answer.body);
}

int request_send(struct cli *cli, const char *method, const char *path, struct slice query,
                 struct slice body, struct reply *reply)
{
    struct slice wanted = arena_printf(&cli->arena, "job_id=%s;", driver.run);
    struct err err;

    if (strcmp(method, "GET") != 0 || strcmp(path, "/api/v1/dlq/analyze") != 0 || body.len > 0 ||
        !slice_eq(query, wanted))
        die("another request than the one for the groups");
    *reply = (struct reply){0};
    buf_init(&reply->answer.body, FILE_MAX_BYTES);
    if (!driver.analysis)
        return say_error(CLI_STORE, "nobody answers");
    read_file(driver.analysis, &reply->answer.body);
    if (json_parse(buf_slice(&reply->answer.body), &reply->value, &err) != STATUS_OK)
        die(err.text);
    return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static struct json parse(const char *text)
{
    struct json value;
    struct err err;
    struct buf file;

    buf_init(&file, FILE_MAX_BYTES);
    if (text[0] == '@')
        read_file(text + 1, &file);
    struct slice given = text[0] == '@' ? buf_slice(&file) : slice_of(text);
    given = arena_dup(&driver.arena, given);
    buf_release(&file);
    if (json_parse(given, &value, &err) != STATUS_OK || value.type != JSON_OBJECT)
        die("a step's value must be an object");
    return value;
}

/* text_member is a text, or the bytes that NAME_hex gives. */
static struct slice text_member(struct json object, const char *name, struct arena *arena)
{
    char hex_name[64];
    snprintf(hex_name, sizeof hex_name, "%s_hex", name);
    struct slice hex = view_text(object, hex_name, arena);
    char *bytes = arena_alloc(arena, hex.len / 2 + 1);

    if (hex.len == 0)
        return view_text(object, name, arena);
    for (size_t i = 0; i < hex.len / 2; i++) {
        char digits[3] = {hex.ptr[2 * i], hex.ptr[2 * i + 1], '\0'};
        bytes[i] = (char)strtol(digits, NULL, 16);
    }
    return (struct slice){bytes, hex.len / 2};
}

static enum watch_what what_of(struct json object)
{
    static const char *const names[] = {"started",     "succeeded",   "retrying",
                                        "quarantined", "skipped",     "handled",
                                        "cancelled",   "interrupted", "lost"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_string_is(view_get(object, "what"), names[i]))
            return (enum watch_what)i;
    die("no such event");
}

static void tell_event(const struct watch *watch, struct json object)
{
    struct arena arena = {0};
    const struct seams *world = seams_real();
    struct watch_event event = {
        .what = what_of(object),
        .job_id = text_member(object, "job_id", &arena),
        .item_id = text_member(object, "item_id", &arena),
        .dlq_id = text_member(object, "dlq_id", &arena),
        .attempt = (uint32_t)view_int(object, "attempt"),
        .duration = span_ms(view_int(object, "duration_ms")),
        .error_type = text_member(object, "error_type", &arena),
        .message = text_member(object, "message", &arena),
        .artifact = text_member(object, "artifact", &arena),
    };

    if (event.what == WATCH_RETRYING)
        event.retry_at =
            instant_add(world->wall(world->ctx), span_ms(view_int(object, "retry_in_ms")));
    watch->event(watch->ctx, &event);
    arena_release(&arena);
}

static void tell_counts(const struct watch *watch, struct json object)
{
    driver.counts = (struct watch_counts){
        .total = view_int(object, "total"),
        .total_final = view_true(object, "total_final"),
        .done = view_int(object, "done"),
        .failed_attempts = view_int(object, "failed_attempts"),
        .retrying = view_int(object, "retrying"),
        .quarantined = view_int(object, "quarantined"),
        .skipped = view_int(object, "skipped"),
        .handled = view_int(object, "handled"),
        .cancelled = view_int(object, "cancelled"),
        .running = view_int(object, "running"),
        .before = view_int(object, "before"),
        .elapsed = span_ms(view_int(object, "elapsed_ms")),
        .slowest = text_member(object, "slowest", &driver.arena),
        .slowest_for = span_ms(view_int(object, "slowest_ms")),
    };
    watch->counts(watch->ctx, &driver.counts);
}

static int show_summary(struct json object)
{
    struct slice stopped = view_text(object, "stopped", &driver.cli.arena);
    struct summary_facts facts = {
        .noun = driver.noun,
        .run_id = driver.run,
        .counts = driver.counts,
        .stopped = stopped.len > 0 ? arena_dup(&driver.cli.arena, stopped).ptr : NULL,
        .interrupted = view_true(object, "interrupted"),
    };

    progress_close(driver.progress);
    driver.progress = NULL;
    return summary_show(&driver.cli, &facts);
}

static void wait_for_line(void)
{
    int c;
    while ((c = getchar()) != '\n' && c != EOF)
        ;
}

/* step carries out one step, and is the exit code of a summary. */
static int step(const char *name, const char *value)
{
    const struct watch *watch = driver.progress ? progress_watch(driver.progress) : NULL;
    struct json object = strcmp(name, "--note") != 0 ? parse(value) : (struct json){0};

    if (!watch)
        die("the summary is the last step");
    if (strcmp(name, "--event") == 0)
        tell_event(watch, object);
    else if (strcmp(name, "--counts") == 0)
        tell_counts(watch, object);
    else if (strcmp(name, "--note") == 0)
        watch->note(watch->ctx, value);
    else if (strcmp(name, "--summary") == 0)
        return show_summary(object);
    else
        die(name);
    return 0;
}

/* read_option takes the flags that stand before the steps; false: the word is a step. */
static bool read_option(char **argv, int argc, int *at)
{
    const struct {
        const char *name, **value;
    } options[] = {{"--data", &driver.data},
                   {"--server", &driver.server},
                   {"--noun", &driver.noun},
                   {"--run", &driver.run},
                   {"--analysis", &driver.analysis}};

    if (strcmp(argv[*at], "--json") == 0)
        return driver.cli.json = true, ++*at;
    if (strcmp(argv[*at], "--no-color") == 0)
        return driver.no_color = true, ++*at;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(argv[*at], options[i].name) != 0 || *at + 1 >= argc)
            continue;
        *options[i].value = argv[*at + 1];
        *at += 2;
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct err err;
    int at = 1, code = 0;

    setlocale(LC_CTYPE, "");
    driver.noun = "item";
    while (at < argc && read_option(argv, argc, &at))
        ;
    out_init(&driver.cli.out, stdout, driver.no_color);
    if (progress_open(&driver.cli, driver.noun, driver.run, &driver.progress, &err) != STATUS_OK)
        die(err.text);
    while (at < argc) {
        const char *name = argv[at++];
        if (strcmp(name, "--wait-for-line") == 0) {
            wait_for_line();
            continue;
        }
        if (at == argc)
            die("a step needs a value");
        code = step(name, argv[at++]);
    }
    progress_close(driver.progress);
    int written = out_finish(&driver.cli.out);
    arena_release(&driver.cli.arena);
    arena_release(&driver.arena);
    return code != 0 ? code : written;
}
