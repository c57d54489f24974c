/* recover: dead receipts to their endpoint, as the receipts system's operators do it.
 *
 *     read the file --> no entries: done
 *          |
 *          v
 *     does the endpoint answer?  -- no --> say so and change nothing; with --wait, wait for it
 *          | yes
 *          v
 *     each entry is sent once --> delivered: it leaves the file
 *                            `--> failed: logged, and kept
 *
 * Entries go in waves.  Those of a wave are claimed: no server delivers them meanwhile, and should
 * this process be killed they are dead again in a minute.  An endpoint that goes away stops the
 * waves (or, with --wait, has them wait): what was not sent stays as it is. */
#include <inttypes.h>

#include "base/jsonw.h"
#include "bridge/receiptfile.h"
#include "bridge/sender.h"
#include "cli/endpoint.h"
#include "cli/request.h"
#include "cli/runlink.h"
#include "cli/say.h"
#include "cli/view.h"

#define WAVE_MAX 1000 /* entries that are sent at once */
#define PARALLEL_DEFAULT 8

struct recovery {
    struct cli *cli;
    struct link link;
    struct target to;
    struct target to_mcp; /* for receipts that were sent over MCP, when nothing else is said */
    bool by_letter;       /* the kind is that of each letter */
    const char *path;
    bool mirror; /* the file is the one that mirrors the quarantine */
    bool patient;
    unsigned parallel;
    struct receipt_entry *entries;
    size_t count;
    size_t next;                 /* the first that was not tried */
    struct receipt_entry *later; /* to be tried when all others were */
    size_t later_count;
    struct slice job_ids[WAVE_MAX];
    struct receipt_entry *wave[WAVE_MAX]; /* the entries of these jobs */
    bool unreached[WAVE_MAX];             /* and whether nobody was there for them */
    size_t wave_count;
    size_t recovered, failed;
    bool begun; /* letters were claimed: something has changed */
    bool stopped, gone;
};

/* ---- what is shown --------------------------------------------------------------------------- */

static const struct receipt_entry *entry_of(const struct recovery *r, struct slice job_id)
{
    for (size_t i = 0; i < r->wave_count; i++)
        if (slice_eq(r->job_ids[i], job_id))
            return r->wave[i];
    return NULL;
}

static void on_event(void *ctx, const struct watch_event *event)
{
    const struct recovery *r = ctx;
    const struct receipt_entry *entry = entry_of(r, event->job_id);
    if (entry && event->what == WATCH_QUARANTINED)
        say_note("%.*s: %.*s", SLICE_ARG(entry->label), SLICE_ARG(event->message));
}

static void on_counts(void *ctx, const struct watch_counts *counts)
{
    (void)ctx, (void)counts;
}

static void on_note(void *ctx, const char *sentence)
{
    (void)ctx;
    say_note("%s", sentence);
}

static void on_absence(void *ctx, const char *sentence)
{
    const struct recovery *r = ctx;
    say_note("%s; waiting for %.*s", sentence, SLICE_ARG(r->to.url));
}

/* ---- is somebody there? ---------------------------------------------------------------------- */

/* reach looks whether the endpoint answers, and with --wait waits for it. */
static int reach(struct recovery *r)
{
    struct watch patience = {.event = on_event, .counts = on_counts, .note = on_absence, .ctx = r};
    struct err err = {0};
    enum status status = sender_probe(&r->to, r->patient ? &patience : NULL, &err);

    if (status == STATUS_CONFLICT) {
        r->stopped = true;
        return 0;
    }
    if (status == STATUS_OK)
        return 0;
    say_error(CLI_STORE, "%s", err.text);
    if (!r->begun)
        say_hint("nothing was changed: try again later, or with --wait");
    return CLI_STORE;
}

/* ---- waves ----------------------------------------------------------------------------------- */

static void add(struct recovery *r, struct receipt_entry *entry)
{
    r->job_ids[r->wave_count] = entry->job_id;
    r->unreached[r->wave_count] = false;
    r->wave[r->wave_count++] = entry;
}

/* add_to_wave takes an entry into the wave, when its letter could be claimed. */
static void add_to_wave(struct recovery *r, size_t begin, struct json result)
{
    struct slice dlq_id = view_text(result, "dlq_id", &r->cli->arena);
    struct slice error = view_text(result, "error", &r->cli->arena);
    struct receipt_entry *entry = &r->entries[begin];
    while (entry < &r->entries[r->next] && !slice_eq(entry->dlq_id, dlq_id))
        entry++;
    if (entry == &r->entries[r->next])
        return;
    if (error.len > 0 && !entry->again &&
        slice_is(view_text(result, "code", &r->cli->arena), "conflict")) {
        entry->again = true; /* another of the same receipt is on its way: after that */
        r->later[r->later_count++] = *entry;
        return;
    }
    if (error.len > 0) {
        say_note("%.*s: %.*s", SLICE_ARG(entry->label), SLICE_ARG(error));
        r->failed++;
        return;
    }
    add(r, entry);
}

/* join takes an entry into the wave whose letter was brought back already, by somebody who was
 * stopped perhaps: who names its job gets it, unless it is being sent. */
static int join(struct recovery *r, struct receipt_entry *entry)
{
    add(r, entry);
    return endpoint_take_over(r->cli, entry->job_id);
}

/* claim brings the letters of the next wave back, to be sent by this process alone. */
static int claim(struct recovery *r)
{
    struct reply reply = {0};
    struct buf body;
    struct jsonw w;
    struct json_iter iter;
    struct json result;
    size_t begin = r->next;
    int code = 0;

    r->begun = true;
    r->wave_count = 0;
    buf_init(&body, 1 << 20);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    jsonw_key(&w, "ids");
    jsonw_array(&w);
    for (; code == 0 && r->next < r->count && r->next - begin < r->parallel; r->next++) {
        struct receipt_entry *entry = &r->entries[r->next];
        if (entry->recovering)
            code = join(r, entry);
        else
            jsonw_string(&w, entry->dlq_id);
    }
    jsonw_array_end(&w);
    jsonw_put_bool(&w, "hold", true);
    jsonw_put_bool(&w, "claim", true);
    jsonw_put_bool(&w, "force", true);
    jsonw_put_int(&w, "max_retries", 1);
    jsonw_put_str(&w, "note", "dlq recover");
    jsonw_object_end(&w);
    if (code == 0 && r->wave_count < r->next - begin)
        code = request_send(r->cli, "POST", "/api/v1/dlq/retry", (struct slice){0},
                            buf_slice(&body), &reply);
    json_iter_init(&iter, code == 0 ? view_get(reply.value, "results") : (struct json){0});
    while (json_next(&iter, NULL, &result))
        add_to_wave(r, begin, result);
    reply_release(&reply);
    buf_release(&body);
    return code;
}

/* send_wave delivers what was claimed. */
static int send_wave(struct recovery *r)
{
    struct watch watch = {.event = on_event, .counts = on_counts, .note = on_note, .ctx = r};
    struct sender_counts counts;
    struct err err = {0};
    struct sender_config config = {.link = &r->link,
                                   .watch = &watch,
                                   .to = &r->to,
                                   .to_mcp = r->by_letter ? &r->to_mcp : NULL,
                                   .unreached = r->unreached,
                                   .job_ids = r->job_ids,
                                   .job_count = r->wave_count,
                                   .parallel = r->parallel,
                                   .worker_id = endpoint_worker(r->cli, "recover")};
    if (!config.worker_id)
        return say_no_memory();
    if (!r->wave_count)
        return 0;
    enum status status = sender_run(&config, &counts, &err);
    if (status != STATUS_OK)
        return say_error(runlink_exit(status), "%s", err.text);
    r->recovered += counts.delivered;
    r->failed += counts.dead + counts.cancelled;
    r->stopped = counts.stopped;
    for (size_t i = 0; i < r->wave_count; i++) {
        r->gone = r->gone || r->unreached[i];
        if (!r->unreached[i] || !r->patient)
            continue;
        r->wave[i]->recovering = false; /* it is dead again */
        r->later[r->later_count++] = *r->wave[i];
        r->failed--;
    }
    return 0;
}

/* take_later goes on with those that had to wait; false: there are none. */
static bool take_later(struct recovery *r)
{
    if (!r->later_count)
        return false;
    memcpy(r->entries, r->later, r->later_count * sizeof(*r->entries));
    r->count = r->later_count;
    r->next = r->later_count = 0;
    return true;
}

static int send_all(struct recovery *r)
{
    int code = 0;
    while (code == 0 && !r->stopped && (r->next < r->count || take_later(r))) {
        if (r->gone)
            code = reach(r);
        r->gone = false;
        if (code == 0 && !r->stopped)
            code = claim(r);
        if (code == 0 && !r->stopped)
            code = send_wave(r);
    }
    return code;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int settle(struct recovery *r, size_t *left)
{
    struct receiptfile_counts counts = {0};
    struct err err = {0};
    enum status status = STATUS_OK;

    if (r->mirror)
        status = receiptfile_sync(&r->link, r->path, NULL, &counts, &err);
    else
        status = receiptfile_settle(&r->link, r->path, left, &err);
    if (r->mirror)
        *left = counts.entries;
    return status == STATUS_OK ? 0 : say_error(CLI_STORE, "%s", err.text);
}

static void show_end(struct recovery *r, size_t left)
{
    struct out *out = &r->cli->out;
    if (r->cli->json)
        out_format(out, "{\"recovered\":%zu,\"failed\":%zu,\"left\":%zu}\n", r->recovered,
                   r->failed, left);
    else if (left)
        out_format(out, "recovered %zu, failed %zu: %zu left in %s\n", r->recovered, r->failed,
                   left, r->path ? r->path : "the quarantine");
    else
        out_format(out, "recovered %zu, failed %zu\n", r->recovered, r->failed);
}

/* read_flags reads everything that is said. */
static int read_flags(struct recovery *r)
{
    struct cli *cli = r->cli;
    const char *to = args_value(&cli->args, "to");
    int64_t parallel = PARALLEL_DEFAULT;
    struct err err = {0};
    const char *file = args_value(&cli->args, "file");
    int code = endpoint_read(cli, &r->to);

    if (code == 0)
        code = args_int(&cli->args, "parallel", 1, WAVE_MAX, &parallel);
    r->parallel = (unsigned)parallel;
    r->by_letter = code == 0 && strstr(to, "://") && !args_has(&cli->args, "mcp");
    r->to_mcp = r->to;
    if (r->by_letter &&
        target_of_url(slice_of(to), DELIVERY_MCP, &cli->arena, &r->to_mcp, &err) == STATUS_OK) {
        r->to_mcp.token = r->to.token;
        r->to_mcp.headers = r->to.headers;
        r->to_mcp.header_count = r->to.header_count;
        r->to_mcp.redirects = r->to.redirects;
        r->to_mcp.connect = r->to.connect;
        r->to_mcp.whole = r->to.whole;
    }
    r->patient = args_has(&cli->args, "wait");
    r->mirror = !file;
    r->path = file;
    /* A server keeps its own file, where it is. */
    if (code == 0 && !file && (!cli->server || args_has(&cli->args, "receipts-file")))
        r->path = endpoint_receipts(cli, &code);
    return code;
}

/* list finds the letters, and takes in what is in the file alone. */
static int list(struct recovery *r)
{
    struct receiptfile_counts counts;
    struct err err = {0};
    enum status status = receiptfile_open(&r->link, r->path, r->mirror, &r->cli->arena, &r->entries,
                                          &r->count, &counts, &err);

    if (status != STATUS_OK)
        return say_error(runlink_exit(status), "%s", err.text);
    r->begun = true;
    if (counts.bad > 0)
        say_note("%s", counts.bad_err.text);
    r->failed += counts.bad;
    r->later = arena_array(&r->cli->arena, r->count + 1, sizeof *r->later);
    return r->later ? 0 : say_no_memory();
}

int cmd_recover(struct cli *cli)
{
    struct recovery r = {.cli = cli};
    struct receiptfile_counts counts;
    struct err err = {0};
    size_t left = 0;

    runlink_block();
    int code = read_flags(&r);
    if (code == 0)
        code = runlink_open(cli, &r.link);
    if (code != 0)
        return code;
    /* Whether there is anything to do is known before anything is changed. */
    enum status status = receiptfile_peek(&r.link, r.path, r.mirror, &r.count, &counts, &err);
    if (status != STATUS_OK)
        return say_error(runlink_exit(status), "%s", err.text);
    if (r.count == 0 && counts.bad == 0) {
        out_str(&cli->out,
                cli->json ? "{\"recovered\":0,\"failed\":0,\"left\":0}\n" : "nothing to recover\n");
        return CLI_DONE;
    }
    if (r.count > 0)
        code = reach(&r);
    if (code == 0 && !r.stopped)
        code = list(&r);
    if (code == 0 && !r.stopped)
        code = send_all(&r);
    if (!r.begun)
        return code != 0 ? code : say_error(CLI_FAILED, "stopped: nothing was changed");
    int settled = settle(&r, &left);
    if (!r.mirror)
        endpoint_mirror(cli);
    show_end(&r, left);
    if (r.stopped)
        say_error(CLI_FAILED, "stopped: what was not sent is still there");
    if (code == 0)
        code = settled;
    return code != 0 ? code : r.failed || r.stopped || left ? CLI_FAILED : CLI_DONE;
}
