/* push: envelopes from a file or from flags into the queue.
 *
 * An envelope is sent as the bytes that were read, never printed again: what a worker gets is what
 * somebody wrote. */
#include <stdio.h>

#include "base/jsonw.h"
#include "base/seams.h"
#include "cli/cli.h"
#include "cli/documents.h"
#include "cli/file.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/view.h"
#include "core/envelope.h"
#include "core/uuid.h"

/* struct pushing: a run of the command over many envelopes. */
struct pushing {
    struct cli *cli;
    struct batch batch;
    int64_t done; /* envelopes that were answered */
    int code;     /* the worst of those that were refused */
    bool many;    /* the answer is an array */
};

/* show_pushed prints one entry of an answer; one that was refused goes to standard error. */
static void show_pushed(struct pushing *p, struct json entry)
{
    struct cli *cli = p->cli;
    struct arena arena = {0};
    struct slice error = view_text(entry, "error", &arena);
    bool created = view_true(entry, "created");
    struct slice state = view_text(entry, "state", &arena);

    p->done++;
    if (error.len > 0) {
        int code = request_exit_of(view_text(entry, "code", &arena));
        p->code = code > p->code ? code : p->code;
        say_error(code, "job %lld: %.*s", (long long)p->done, SLICE_ARG(error));
    }
    if (cli->json) {
        out_format(&cli->out, "%s", p->done > 1 ? ",\n" : p->many ? "[" : "");
        out_raw(&cli->out, entry.raw);
    } else if (error.len == 0 && cli->out.terminal) {
        out_str(&cli->out, created ? "pushed " : "already there: ");
        out_clean(&cli->out, view_text(entry, "job_id", &arena));
        out_format(&cli->out, " (%.*s)\n", SLICE_ARG(state));
    } else if (error.len == 0) {
        out_clean(&cli->out, view_text(entry, "job_id", &arena));
        out_format(&cli->out, "\t%.*s\t%s\n", SLICE_ARG(state), created ? "created" : "known");
    }
    arena_release(&arena);
}

static int send_batch(void *ctx, struct slice array)
{
    struct pushing *p = ctx;
    struct reply reply;
    struct json_iter iter;
    struct json entry;
    int code = request_send(p->cli, "POST", "/api/v1/jobs", (struct slice){0}, array, &reply);

    if (code == 0) {
        json_iter_init(&iter, view_get(reply.value, "results"));
        while (json_next(&iter, NULL, &entry))
            show_pushed(p, entry);
    }
    reply_release(&reply);
    return code;
}

/* push_one sends one envelope by itself: its answer is one object. */
static int push_one(struct pushing *p, struct slice envelope)
{
    struct reply reply;
    int code = request_send(p->cli, "POST", "/api/v1/jobs", (struct slice){0}, envelope, &reply);
    if (code == 0) {
        show_pushed(p, reply.value);
        if (p->cli->json)
            out_str(&p->cli->out, "\n");
    }
    reply_release(&reply);
    return code;
}

/* too_large refuses an envelope that does not even fit into a request, in the API's words. */
static int too_large(struct pushing *p, size_t len)
{
    struct buf text;
    struct json entry;
    struct jsonw w;
    int code = 0;

    buf_init(&text, 1024);
    buf_addf(&text, "an envelope may have %d bytes: this one has %zu", ENVELOPE_BODY_MAX, len);
    if (p->many) {
        struct slice error = arena_dup(&p->cli->arena, buf_slice(&text));
        code = batch_flush(&p->batch);
        buf_clear(&text);
        jsonw_init(&w, &text);
        jsonw_object(&w);
        jsonw_put_string(&w, "error", error);
        jsonw_put_str(&w, "code", status_name(STATUS_TOO_LARGE));
        jsonw_object_end(&w);
        if (code == 0 && json_parse(buf_slice(&text), &entry, NULL) == STATUS_OK)
            show_pushed(p, entry);
    } else {
        code = say_error(CLI_USAGE, "%s", buf_str(&text));
    }
    buf_release(&text);
    return code;
}

static int add_document(void *ctx, struct json envelope)
{
    struct pushing *p = ctx;
    if (envelope.raw.len + 2 > REQUEST_BODY_MAX)
        return too_large(p, envelope.raw.len);
    return p->many ? batch_add(&p->batch, envelope.raw) : push_one(p, envelope.raw);
}

/* push_text pushes what a file holds: one envelope, an array, or one envelope after the other. */
static int push_text(struct pushing *p, const char *name, struct slice text)
{
    int code = documents_each(name, text, &p->many, add_document, p);

    if (code == 0)
        code = batch_flush(&p->batch);
    if (p->cli->json && p->many && (code == 0 || p->done > 0))
        out_str(&p->cli->out, p->done > 0 ? "]\n" : "[]\n");
    return code;
}

/* ---- from flags ------------------------------------------------------------------------------ */

static const struct {
    const char *flag, *member;
} text_members[] = {{"action", "action"},
                    {"queue", "queue"},
                    {"policy", "retry_policy"},
                    {"job-id", "job_id"},
                    {"idempotency-key", "idempotency_key"},
                    {"retry-key", "retry_key"},
                    {"run-at", "run_at"},
                    {"trace-id", "trace_id"},
                    {"source", "source"},
                    {"requested-by", "requested_by"}};

/* put_id makes an id where none was given: a push that carries one can be repeated when its answer
 * is lost. */
static void put_id(struct cli *cli, struct jsonw *w)
{
    const struct seams *world = seams_real();
    char id[UUID_TEXT_LEN + 1];
    uint8_t random[10];

    if (args_has(&cli->args, "job-id"))
        return;
    world->random(world->ctx, random, sizeof random);
    uuid_format(uuid_v7(world->wall(world->ctx), random), id);
    jsonw_put_str(w, "job_id", id);
}

/* put_inputs writes the member from JSON text or, after "@", from a file. */
static int put_inputs(struct cli *cli, struct jsonw *w)
{
    const char *given = args_value(&cli->args, "inputs");
    struct buf file;
    struct json value;
    struct err err = {0};
    int code = 0;

    if (!given)
        return 0;
    buf_init(&file, REQUEST_BODY_MAX);
    if (given[0] != '@')
        buf_add_str(&file, given);
    else if (file_read(given + 1, &file, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "--inputs: %s", err.text);
    if (code == 0 && json_parse(buf_slice(&file), &value, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "--inputs: %s", err.text);
    if (code == 0)
        jsonw_put_raw(w, "inputs", value.raw);
    buf_release(&file);
    return code;
}

static int put_times(struct cli *cli, struct jsonw *w)
{
    struct span delay = {0};
    const struct seams *world = seams_real();
    int code = args_span(&cli->args, "delay", &delay);

    if (code != 0 || !args_has(&cli->args, "delay"))
        return code;
    if (args_has(&cli->args, "run-at"))
        return say_error(CLI_USAGE, "--run-at and --delay say the same thing: give one of them");
    jsonw_put_instant(w, "run_at", instant_add(world->wall(world->ctx), delay));
    return 0;
}

static void put_capabilities(const struct args *args, struct jsonw *w)
{
    if (!args_has(args, "capability"))
        return;
    jsonw_key(w, "required_capabilities");
    jsonw_array(w);
    for (size_t i = 0; i < args->flag_count; i++)
        if (strcmp(args->flags[i].flag->name, "capability") == 0)
            jsonw_string(w, slice_of(args->flags[i].value));
    jsonw_array_end(w);
}

static int envelope_from_flags(struct cli *cli, struct buf *out)
{
    struct jsonw w;
    int64_t priority = -1;
    int code = args_int(&cli->args, "priority", 0, 9, &priority);

    jsonw_init(&w, out);
    jsonw_object(&w);
    for (size_t i = 0; i < sizeof text_members / sizeof *text_members; i++) {
        const char *value = args_value(&cli->args, text_members[i].flag);
        if (value && !json_utf8_valid(slice_of(value)))
            code = say_error(CLI_USAGE, "--%s: is not UTF-8", text_members[i].flag);
        if (value)
            jsonw_put_str(&w, text_members[i].member, value);
    }
    put_id(cli, &w);
    if (priority >= 0)
        jsonw_put_int(&w, "priority", priority);
    put_capabilities(&cli->args, &w);
    if (code == 0)
        code = put_times(cli, &w);
    if (code == 0)
        code = put_inputs(cli, &w);
    jsonw_object_end(&w);
    if (code == 0 && buf_status(out, NULL) != STATUS_OK)
        code = say_error(CLI_USAGE, "the envelope is too large");
    return code;
}

static bool has_envelope_flags(const struct args *args)
{
    for (size_t i = 0; i < args->flag_count; i++)
        for (const struct cli_flag *f = args->command->flags; f->name; f++)
            if (args->flags[i].flag == f)
                return true;
    return false;
}

int cmd_push(struct cli *cli)
{
    struct pushing p = {.cli = cli};
    bool flags = has_envelope_flags(&cli->args);
    struct buf text;
    struct err err = {0};
    int code;

    if (cli->args.operand_count > 0 && flags)
        return say_error(CLI_USAGE, "give an envelope as a FILE or by flags, not both");
    if (cli->args.operand_count == 0 && !args_has(&cli->args, "action")) {
        say_error(CLI_USAGE, "nothing to push: give a FILE, \"-\" or --action");
        say_hint("lazaret push --help shows how");
        return CLI_USAGE;
    }
    buf_init(&text, FILE_INPUT_MAX);
    batch_init(&p.batch, send_batch, &p);
    if (flags) {
        code = envelope_from_flags(cli, &text);
        if (code == 0)
            code = push_one(&p, buf_slice(&text));
    } else if (file_read(cli->args.operands[0], &text, &err) != STATUS_OK) {
        code = say_error(CLI_USAGE, "%s", err.text);
    } else {
        code = push_text(&p, cli->args.operands[0], buf_slice(&text));
    }
    buf_release(&text);
    batch_release(&p.batch);
    return code > p.code ? code : p.code;
}
