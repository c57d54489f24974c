/* publisher: dead letters of other programs, in the swarm's form, onto the stream.
 *
 * A letter carries its dlq_id as the message's id.  So one whose acknowledgement was lost can be
 * published again: the server drops what it has, and Lazaret takes a dlq_id once.  That is why a
 * publish that is cut off is repeated here as long as there is time. */
#include "lib/lib.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/seams.h"
#include "bridge/natslink.h"
#include "core/envelope.h"
#include "core/reason.h"
#include "core/uuid.h"
#include "engine/payload.h"

#define URL_DEFAULT "nats://127.0.0.1:4222"
#define TIMEOUT_MS_DEFAULT 5000
#define COUNT_MAX 60000       /* attempts, as a letter takes them */
#define SUBJECT_MAX 4096      /* bytes of an original_subject, likewise */
#define LETTER_MAX (64 << 20) /* bytes of a letter as JSON; NATS takes less */
#define SILENT_TRIES 3        /* a stream whose leader changes is silent for a moment */
#define SILENT_WAIT_MS 250

struct lz_publisher {
    struct natslink *link;
    struct buf source;
    uint32_t timeout_ms;
};

/* fail is lib_fail, with a status of its own for a server that cannot be reached. */
static enum lz_status fail(struct lz_error *error, enum status status, const struct err *err)
{
    enum lz_status public = lib_fail(error, status, err);
    if (status != STATUS_UNAVAILABLE)
        return public;
    if (error)
        error->status = LZ_UNAVAILABLE;
    return LZ_UNAVAILABLE;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* check_word checks a short text that must be there. */
static enum status check_word(const char *name, const char *text, size_t max, struct err *err)
{
    if (!text || !*text)
        return err_set(err, STATUS_INVALID, "%s: is required", name);
    if (strlen(text) > max)
        return err_set(err, STATUS_INVALID, "%s: has more than %zu bytes", name, max);
    if (!json_utf8_valid(slice_of(text)))
        return err_set(err, STATUS_INVALID, "%s: is not UTF-8", name);
    return STATUS_OK;
}

/* is_subject says whether a message can be published under this subject. */
static bool is_subject(const char *text)
{
    size_t len = 0; /* of the token */
    bool wild = false;
    for (const char *at = text;; at++) {
        if (*at == '.' || *at == '\0') {
            if (len == 0 || (wild && len == 1))
                return false;
            if (*at == '\0')
                return true;
            len = 0;
            wild = false;
            continue;
        }
        if ((unsigned char)*at <= ' ' || *at == '\x7f')
            return false;
        wild = wild || *at == '*' || *at == '>';
        len++;
    }
}

static enum status check_options(const struct lz_publish_options *options, struct err *err)
{
    struct uuid uuid;
    enum status status =
        check_word("original_subject", options->original_subject, SUBJECT_MAX, err);
    if (!status && !is_subject(options->original_subject))
        status = err_set(err, STATUS_INVALID,
                         "original_subject: must be a subject of NATS that can be published to, as "
                         "swarm.task.request: words with dots between, no spaces, no wildcards");
    if (!status)
        status = check_word("reason", options->reason, ENVELOPE_ID_MAX, err);
    if (!status && !options->original_payload && options->original_payload_len > 0)
        status = err_set(err, STATUS_INVALID, "original_payload: is required");
    if (!status && options->original_payload_len > ENVELOPE_BODY_MAX)
        status = err_set(err, STATUS_INVALID, "original_payload: has %zu bytes; a letter takes %d",
                         options->original_payload_len, ENVELOPE_BODY_MAX);
    if (!status && (options->retry_count > COUNT_MAX || options->max_retries > COUNT_MAX))
        status =
            err_set(err, STATUS_INVALID, "%s: must be at most %d",
                    options->retry_count > COUNT_MAX ? "retry_count" : "max_retries", COUNT_MAX);
    if (!status && options->retry_history_count > COUNT_MAX)
        status = err_set(err, STATUS_INVALID, "retry_history: has more than %d entries", COUNT_MAX);
    if (!status && options->dlq_id && !uuid_parse(slice_of(options->dlq_id), &uuid))
        status = err_set(err, STATUS_INVALID,
                         "dlq_id: must be a UUID, as 01890a5d-ac96-774b-bcce-b302099a8057");
    return status;
}

/* ---- the letter ------------------------------------------------------------------------------ */

static void print_history(const struct lz_publish_options *options, struct jsonw *w)
{
    jsonw_key(w, "retry_history");
    jsonw_array(w);
    for (size_t i = 0; i < options->retry_history_count; i++) {
        const struct lz_attempt *attempt = &options->retry_history[i];
        jsonw_object(w);
        jsonw_put_int(w, "attempt", attempt->attempt);
        jsonw_put_instant(w, "attempted_at", (struct instant){attempt->attempted_at_us});
        jsonw_put_string(w, "agent", slice_of(attempt->agent));
        jsonw_put_string(w, "failure_reason", slice_of(attempt->failure_reason));
        jsonw_object_end(w);
    }
    jsonw_array_end(w);
}

/* print_letter writes the swarm's fields in the contract's order. */
static enum status print_letter(const struct lz_publisher *publisher,
                                const struct lz_publish_options *options, const char *dlq_id,
                                struct instant now, struct buf *out, struct err *err)
{
    struct payload payload =
        payload_of((struct slice){options->original_payload, options->original_payload_len});
    struct instant failed_at = {options->failed_at_us};
    struct arena arena = {0};
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_str(&w, "dlq_id", dlq_id);
    jsonw_put_str(&w, "original_subject", options->original_subject);
    jsonw_key(&w, "original_payload");
    enum status status = payload_print(&payload, &arena, &w, err);
    jsonw_put_str(&w, "reason", options->reason);
    jsonw_put_text(&w, "reason_detail", slice_of(options->reason_detail));
    jsonw_put_instant(&w, "failed_at", instant_is_set(failed_at) ? failed_at : now);
    jsonw_put_int(&w, "retry_count", options->retry_count);
    jsonw_put_int(&w, "max_retries", options->max_retries);
    print_history(options, &w);
    jsonw_put_string(&w, "source", buf_slice(&publisher->source));
    jsonw_put_bool(&w, "recoverable", options->recoverable != 0);
    jsonw_put_bool(&w, "recovered", false);
    if (payload.encoding)
        jsonw_put_str(&w, "payload_encoding", payload.encoding);
    jsonw_object_end(&w);
    arena_release(&arena);
    return status ? status : buf_status(out, err);
}

/* name_letter fills the id and the subject of the letter. */
static void name_letter(const struct lz_publisher *publisher,
                        const struct lz_publish_options *options, struct instant now,
                        struct lz_published *out)
{
    const struct seams *world = seams_real();
    struct slice subject = reason_subject(slice_of(options->reason), buf_slice(&publisher->source));
    struct uuid uuid;
    uint8_t random[10];
    if (!options->dlq_id || !uuid_parse(slice_of(options->dlq_id), &uuid)) {
        world->random(world->ctx, random, sizeof(random));
        uuid = uuid_v7(now, random);
    }
    uuid_format(uuid, out->dlq_id);
    snprintf(out->subject, sizeof(out->subject), "%.*s", SLICE_ARG(subject));
    out->duplicate = 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* send_once publishes and waits for the acknowledgement of the stream. */
static natsStatus send_once(struct lz_publisher *publisher, struct slice letter, int64_t wait_ms,
                            struct lz_published *out, jsErrCode *code)
{
    jsPubAck *ack = NULL;
    jsPubOptions options;
    *code = 0;
    natsStatus s = jsPubOptions_Init(&options);
    options.MaxWait = wait_ms;
    options.MsgId = out->dlq_id;
    if (s == NATS_OK)
        s = js_Publish(&ack, natslink_jetstream(publisher->link), out->subject, letter.ptr,
                       (int)letter.len, &options, code);
    if (s == NATS_OK)
        out->duplicate = ack->Duplicate;
    jsPubAck_Destroy(ack);
    return s;
}

/* may_pass says that another try may do: the connection broke, or nobody answered for the stream.
 */
static bool may_pass(struct lz_publisher *publisher, natsStatus s, int *silent)
{
    if (s == NATS_NO_RESPONDERS && ++*silent < SILENT_TRIES) {
        nats_Sleep(SILENT_WAIT_MS);
        return true;
    }
    return s != NATS_OK && s != NATS_NO_RESPONDERS && !natslink_connected(publisher->link);
}

static enum status send_letter(struct lz_publisher *publisher, struct slice letter,
                               struct lz_published *out, struct err *err)
{
    const struct seams *world = seams_real();
    struct span end = world->steady(world->ctx);
    char doing[sizeof(out->subject) + 32];
    natsStatus s = NATS_CONNECTION_DISCONNECTED;
    jsErrCode code = 0;
    int silent = 0;
    int64_t left_ms = publisher->timeout_ms;
    end.us += span_ms(left_ms).us;
    do {
        enum status status = natslink_renew(publisher->link, err);
        if (status)
            return status;
        if (natslink_wait(publisher->link, (unsigned)left_ms)) {
            left_ms = (end.us - world->steady(world->ctx).us) / 1000;
            s = send_once(publisher, letter, left_ms > 1 ? left_ms : 1, out, &code);
        }
        left_ms = (end.us - world->steady(world->ctx).us) / 1000;
    } while (left_ms > 0 && may_pass(publisher, s, &silent));
    snprintf(doing, sizeof(doing), "publishing to %s", out->subject);
    return s == NATS_OK ? STATUS_OK : natslink_fail(publisher->link, s, code, doing, err);
}

enum lz_status lz_publish(struct lz_publisher *publisher, const struct lz_publish_options *options,
                          struct lz_published *out, struct lz_error *error)
{
    const struct seams *world = seams_real();
    struct instant now = world->wall(world->ctx);
    struct lz_published published;
    struct err err = {0};
    struct buf letter;
    enum status status = check_options(options, &err);
    if (status)
        return fail(error, status, &err);
    buf_init(&letter, LETTER_MAX);
    name_letter(publisher, options, now, &published);
    status = print_letter(publisher, options, published.dlq_id, now, &letter, &err);
    if (!status)
        status = send_letter(publisher, buf_slice(&letter), &published, &err);
    buf_release(&letter);
    if (out)
        *out = published;
    return status ? fail(error, status, &err) : lib_ok(error);
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum status open_link(const struct lz_publisher_options *options, struct natslink **out,
                             struct err *err)
{
    struct natslink_options link = {.url = options->url ? options->url : URL_DEFAULT,
                                    .user = options->user,
                                    .password = options->password,
                                    .token = options->token,
                                    .creds = options->creds,
                                    .nkey = options->nkey,
                                    .tls_ca = options->tls_ca,
                                    .tls_cert = options->tls_cert,
                                    .tls_key = options->tls_key,
                                    .name = options->source};
    return natslink_open(&link, options->patient != 0, out, err);
}

enum lz_status lz_publisher_open(const struct lz_publisher_options *options,
                                 struct lz_publisher **out, struct lz_error *error)
{
    static const struct lz_publisher_options nobody;
    struct err err = {0};
    struct lz_publisher *publisher = mem_zalloc(sizeof(*publisher));
    if (!publisher)
        return fail(error, err_no_memory(&err), &err);
    if (!options)
        options = &nobody;
    publisher->timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS_DEFAULT;
    buf_init(&publisher->source, ENVELOPE_ID_MAX);
    enum status status = check_word("source", options->source, ENVELOPE_ID_MAX, &err);
    if (!status) {
        buf_add_str(&publisher->source, options->source);
        status = buf_status(&publisher->source, &err);
    }
    if (!status)
        status = open_link(options, &publisher->link, &err);
    if (status) {
        lz_publisher_close(publisher);
        return fail(error, status, &err);
    }
    *out = publisher;
    return lib_ok(error);
}

void lz_publisher_close(struct lz_publisher *publisher)
{
    if (!publisher)
        return;
    natslink_close(publisher->link);
    buf_release(&publisher->source);
    mem_free(publisher);
}
