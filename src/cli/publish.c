/* publish: a dead letter of a script onto the stream, by the publisher of lazaret.h.
 *
 * The publisher checks the letter and names the member that is wrong; here that becomes the flag
 * that said it. */
#include <string.h>

#include "base/jsonw.h"
#include "cli/cli.h"
#include "cli/file.h"
#include "cli/natsflags.h"
#include "cli/say.h"
#include "core/envelope.h"
#include "core/members.h"
#include "lazaret.h"

#define HISTORY_MAX 60000
#define HISTORY_FILE_MAX (16 << 20)
#define TIMEOUT_MAX_MS 3600000

static int exit_of(enum lz_status status)
{
    switch (status) {
    case LZ_OK:
        return CLI_DONE;
    case LZ_INVALID:
        return CLI_USAGE;
    case LZ_REFUSED:
        return CLI_REFUSED;
    default:
        return CLI_STORE;
    }
}

/* say_why says what the publisher said; a member that it names is the flag that set it. */
static int say_why(const struct lz_error *error)
{
    static const struct {
        const char *member, *flag;
    } names[] = {{"original_subject: ", "--subject"},
                 {"reason: ", "--reason"},
                 {"source: ", "--source"},
                 {"retry_count: ", "--retry-count"},
                 {"max_retries: ", "--max-retries"},
                 {"dlq_id: ", "--dlq-id"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i].member);
        if (strncmp(error->text, names[i].member, len) == 0)
            return say_error(exit_of(error->status), "%s: %s", names[i].flag, error->text + len);
    }
    return say_error(exit_of(error->status), "%s", error->text);
}

/* ---- the letter ------------------------------------------------------------------------------ */

/* read_attempt reads one entry of --history; `number` is its place, from 1. */
static enum status read_attempt(struct json entry, size_t number, struct arena *arena,
                                struct lz_attempt *out, struct err *err)
{
    struct members members = {.arena = arena, .err = err};
    if (entry.type != JSON_OBJECT)
        return err_set(err, STATUS_INVALID,
                       "must be an object with attempt, attempted_at, agent "
                       "and failure_reason");
    struct slice agent = members_text(&members, entry, "agent", SIZE_MAX);
    struct slice why = members_text(&members, entry, "failure_reason", SIZE_MAX);
    out->attempt =
        (uint32_t)members_int(&members, entry, "attempt", 1, HISTORY_MAX, (int64_t)number);
    out->attempted_at_us = members_instant(&members, entry, "attempted_at").us;
    out->agent = arena_dup(arena, agent).ptr;
    out->failure_reason = arena_dup(arena, why).ptr;
    if (members.status == STATUS_OK && (!out->agent || !out->failure_reason))
        return err_no_memory(err);
    return members.status;
}

static enum status read_attempts(struct json array, struct arena *arena,
                                 struct lz_publish_options *out, struct err *err)
{
    struct json_iter iter;
    struct json entry;
    size_t count = json_count(array), n = 0;
    enum status status = STATUS_OK;
    if (array.type != JSON_ARRAY || count > HISTORY_MAX)
        return err_set(err, STATUS_INVALID, "must be an array of at most %d attempts", HISTORY_MAX);
    struct lz_attempt *attempts = arena_array(arena, count + 1, sizeof *attempts);
    if (!attempts)
        return err_no_memory(err);
    json_iter_init(&iter, array);
    while (status == STATUS_OK && json_next(&iter, NULL, &entry)) {
        status = read_attempt(entry, n + 1, arena, &attempts[n], err);
        n++;
    }
    if (status != STATUS_OK)
        err_prefix(err, "attempt %zu", n);
    out->retry_history = attempts;
    out->retry_history_count = n;
    return status;
}

static int read_history(struct cli *cli, struct lz_publish_options *out)
{
    const char *path = args_value(&cli->args, "history");
    struct buf text;
    struct json value;
    struct err err = {0};
    if (!path)
        return 0;
    if (strcmp(path, "-") == 0)
        return say_error(CLI_USAGE, "--history: must be a file; standard input is the payload");
    buf_init(&text, HISTORY_FILE_MAX);
    enum status status = file_read(path, &text, &err);
    if (status == STATUS_OK) {
        status = json_parse(buf_slice(&text), &value, &err);
        if (status == STATUS_OK)
            status = read_attempts(value, &cli->arena, out, &err);
        if (status != STATUS_OK)
            err_prefix(&err, "%s", path);
    }
    buf_release(&text);
    return status == STATUS_OK ? 0 : say_error(CLI_USAGE, "--history: %s", err.text);
}

static int read_counts(struct cli *cli, struct lz_publish_options *out)
{
    int64_t tried = (int64_t)out->retry_history_count;
    int code = args_int(&cli->args, "retry-count", 0, HISTORY_MAX, &tried);
    int64_t allowed = tried;
    if (code == 0)
        code = args_int(&cli->args, "max-retries", 0, HISTORY_MAX, &allowed);
    out->retry_count = (uint32_t)tried;
    out->max_retries = (uint32_t)allowed;
    return code;
}

static int read_time(struct cli *cli, struct lz_publish_options *out)
{
    const char *text = args_value(&cli->args, "failed-at");
    struct instant at = INSTANT_NONE;
    struct err err = {0};
    if (text && instant_parse(slice_of(text), &at, &err) != STATUS_OK)
        return say_error(CLI_USAGE, "--failed-at: %s", err.text);
    out->failed_at_us = at.us;
    return 0;
}

/* read_letter reads everything but the payload. */
static int read_letter(struct cli *cli, struct lz_publish_options *out)
{
    *out = (struct lz_publish_options){.original_subject = args_value(&cli->args, "subject"),
                                       .reason = args_value(&cli->args, "reason"),
                                       .reason_detail = args_value(&cli->args, "detail"),
                                       .dlq_id = args_value(&cli->args, "dlq-id"),
                                       .recoverable = !args_has(&cli->args, "not-recoverable")};
    if (!out->original_subject)
        return say_error(CLI_USAGE, "--subject is required: where the payload was meant to go, "
                                    "such as swarm.task.request");
    if (!out->reason)
        return say_error(CLI_USAGE,
                         "--reason is required: why it is dead, such as no_capable_agent");
    int code = read_history(cli, out);
    if (code == 0)
        code = read_counts(cli, out);
    if (code == 0)
        code = read_time(cli, out);
    return code;
}

static int read_payload(struct cli *cli, struct buf *payload, struct lz_publish_options *out)
{
    const char *path = cli->args.operand_count > 0 ? cli->args.operands[0] : "-";
    struct err err = {0};
    enum status status = file_read(path, payload, &err);
    if (status == STATUS_TOO_LARGE)
        return say_error(CLI_USAGE, "%s: has more than %d bytes; a letter takes no more", path,
                         ENVELOPE_BODY_MAX);
    if (status != STATUS_OK)
        return say_error(CLI_USAGE, "%s", err.text);
    out->original_payload = buf_str(payload);
    out->original_payload_len = payload->len;
    return 0;
}

/* ---- publishing ------------------------------------------------------------------------------ */

static int open_publisher(struct cli *cli, struct lz_publisher **out)
{
    const char *source = args_value(&cli->args, "source");
    struct natslink_options nats;
    struct lz_error error;
    struct span timeout = {0};
    int code = natsflags_read(cli, true, &nats);
    if (code == 0)
        code = args_span(&cli->args, "timeout", &timeout);
    if (code != 0)
        return code;
    if (!nats.url)
        return say_error(CLI_USAGE, "--nats is required: where NATS is, such as "
                                    "nats://127.0.0.1:4222 (or set NATS_URL)");
    if (args_has(&cli->args, "timeout") &&
        (timeout.us < 1000 || timeout.us > span_ms(TIMEOUT_MAX_MS).us))
        return say_error(CLI_USAGE, "--timeout: must be from 1ms to 1h");
    struct lz_publisher_options options = {.source = source ? source : "cli",
                                           .url = nats.url,
                                           .user = nats.user,
                                           .password = nats.password,
                                           .token = nats.token,
                                           .creds = nats.creds,
                                           .nkey = nats.nkey,
                                           .tls_ca = nats.tls_ca,
                                           .tls_cert = nats.tls_cert,
                                           .tls_key = nats.tls_key,
                                           .timeout_ms = (uint32_t)(timeout.us / 1000)};
    return lz_publisher_open(&options, out, &error) == LZ_OK ? 0 : say_why(&error);
}

static int show_published(struct cli *cli, const struct lz_published *published)
{
    struct buf text;
    struct jsonw w;
    int code = 0;
    if (!cli->json && cli->out.terminal)
        out_format(&cli->out, "published %s to %s\n", published->dlq_id, published->subject);
    else if (!cli->json)
        out_format(&cli->out, "%s\n", published->dlq_id);
    if (!cli->json)
        return 0;
    buf_init(&text, 4096);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    jsonw_put_str(&w, "dlq_id", published->dlq_id);
    jsonw_put_str(&w, "subject", published->subject);
    jsonw_put_bool(&w, "duplicate", published->duplicate != 0);
    jsonw_object_end(&w);
    if (buf_status(&text, NULL) == STATUS_OK)
        out_json(&cli->out, buf_slice(&text));
    else
        code = say_no_memory();
    buf_release(&text);
    return code;
}

static int publish(struct cli *cli, const struct lz_publish_options *letter)
{
    struct lz_publisher *publisher = NULL;
    struct lz_published published;
    struct lz_error error;
    int code = open_publisher(cli, &publisher);
    if (code != 0)
        return code;
    enum lz_status status = lz_publish(publisher, letter, &published, &error);
    if (status == LZ_OK)
        code = show_published(cli, &published);
    else
        code = say_why(&error);
    if (status == LZ_UNAVAILABLE)
        say_hint("to publish it again, and have it stored once: --dlq-id %s", published.dlq_id);
    lz_publisher_close(publisher);
    return code;
}

int cmd_publish(struct cli *cli)
{
    struct lz_publish_options letter;
    struct buf payload;
    if (args_has(&cli->args, "server"))
        return say_error(CLI_USAGE, "--server: a letter is published on NATS, not by asking a "
                                    "server: give --nats");
    int code = read_letter(cli, &letter);
    if (code != 0)
        return code;
    buf_init(&payload, ENVELOPE_BODY_MAX);
    code = read_payload(cli, &payload, &letter);
    if (code == 0)
        code = publish(cli, &letter);
    buf_release(&payload);
    return code;
}
