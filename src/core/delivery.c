/* delivery: receipts and other documents, into envelopes and out of them. */
#include "core/delivery.h"

#include "base/hash.h"
#include "base/jsonw.h"
#include "core/envelope.h"
#include "core/field.h"

/* ---- receipts -------------------------------------------------------------------------------- */

/* text_of gives the text of a member; none when it is absent or no string.  False when memory is
 * exhausted. */
static bool text_of(struct json value, struct arena *arena, struct slice *out)
{
    *out = (struct slice){0};
    if (value.type != JSON_STRING)
        return true;
    *out = json_text(value, arena);
    return out->ptr != NULL;
}

/* value_of gives a member as it is; a null is the same as absent. */
static struct json value_of(struct json value)
{
    if (value.type == JSON_NULL)
        return (struct json){0};
    return value;
}

static struct json take_value(struct json body, const char *name)
{
    struct json value;

    json_get(body, name, &value);
    return value_of(value);
}

/* read_receipt fills `out` and says in `is_receipt` whether it is one.  False when memory is
 * exhausted. */
static bool read_receipt(struct json body, struct arena *arena, struct receipt *out,
                         bool *is_receipt)
{
    enum { LEASE_ID, TASK_ID, WORKER_ID, STATUS, SUMMARY, POINTERS, METADATA, COUNT };
    static const char *const names[COUNT] = {"lease_id",      "task_id", "worker_id",
                                             "status",        "summary", "artifact_pointers",
                                             "error_metadata"};
    struct json members[COUNT];
    struct receipt receipt = {0};

    *is_receipt = false;
    if (body.type != JSON_OBJECT)
        return true;
    json_gather(body, names, COUNT, members);
    if (!text_of(members[LEASE_ID], arena, &receipt.lease_id) ||
        !text_of(members[TASK_ID], arena, &receipt.task_id) ||
        !text_of(members[WORKER_ID], arena, &receipt.worker_id) ||
        !text_of(members[STATUS], arena, &receipt.status) ||
        !text_of(members[SUMMARY], arena, &receipt.summary))
        return false;
    receipt.artifact_pointers = value_of(members[POINTERS]);
    receipt.error_metadata = value_of(members[METADATA]);
    *is_receipt = receipt.lease_id.len > 0 && receipt.status.len > 0;
    if (*is_receipt)
        *out = receipt;
    return true;
}

bool receipt_read(struct json body, struct arena *arena, struct receipt *out)
{
    bool is_receipt;

    return read_receipt(body, arena, out, &is_receipt) && is_receipt;
}

/* struct receipt_member: a member of a receipt, and what it must be. */
static const struct receipt_member {
    const char *name;
    enum json_type type;
    bool id; /* it must be there, with 1 to RECEIPT_ID_MAX bytes */
    const char *must;
} receipt_members[] = {
    {"lease_id", JSON_STRING, true, "a text"},
    {"task_id", JSON_STRING, true, "a text"},
    {"worker_id", JSON_STRING, true, "a text"},
    {"status", JSON_STRING, true, "a text, such as complete, failed or running"},
    {"timestamp", JSON_STRING, false, "a text"},
    {"summary", JSON_STRING, false, "a text"},
    {"artifact_pointers", JSON_ARRAY, false, "an array"},
    {"error_metadata", JSON_OBJECT, false, "an object"},
};

/* check_length finds that an id is neither empty nor too long. */
static enum status check_length(const char *name, struct slice text, struct err *err)
{
    if (text.len == 0)
        return err_set(err, STATUS_INVALID, "%s: must not be empty", name);
    if (text.len > RECEIPT_ID_MAX)
        return err_set(err, STATUS_INVALID, "%s: must have at most %d bytes, not %zu", name,
                       RECEIPT_ID_MAX, text.len);
    return STATUS_OK;
}

static enum status check_member(const struct receipt_member *member, struct json body,
                                struct err *err)
{
    struct json value = take_value(body, member->name);
    struct arena arena = {0};
    enum status status;

    if (value.raw.len == 0 && member->id)
        return err_set(err, STATUS_INVALID, "%s: must be given, as %s", member->name, member->must);
    if (value.raw.len == 0)
        return STATUS_OK;
    if (value.type != member->type)
        return field_wrong(member->name, member->must, value, err);
    if (!member->id)
        return STATUS_OK;
    struct slice text = json_text(value, &arena);
    status = text.ptr ? check_length(member->name, text, err) : err_no_memory(err);
    arena_release(&arena);
    return status;
}

enum status receipt_check(struct json body, struct err *err)
{
    enum status status = STATUS_OK;

    if (body.type != JSON_OBJECT)
        return err_set(err, STATUS_INVALID, "a receipt must be an object");
    for (size_t i = 0;
         status == STATUS_OK && i < sizeof(receipt_members) / sizeof(receipt_members[0]); i++)
        status = check_member(&receipt_members[i], body, err);
    return status;
}

/* ---- out of envelopes ------------------------------------------------------------------------ */

/* read_given reads a text of the inputs that may be absent. */
static enum status read_given(const char *name, struct json value, struct arena *arena,
                              struct slice *out, struct err *err)
{
    return value.raw.len == 0 ? STATUS_OK : field_text(name, value, arena, out, err);
}

static enum status read_kind(struct json value, struct arena *arena, struct delivery *out,
                             struct err *err)
{
    struct slice name = {0};
    enum status status = read_given("inputs.kind", value, arena, &name, err);

    if (status != STATUS_OK || value.raw.len == 0)
        return status;
    if (!delivery_kind_from_name(name, &out->kind))
        return field_wrong("inputs.kind", "http, mcp or slack", value, err);
    out->has_kind = true;
    return STATUS_OK;
}

static enum status read_body(struct json value, struct arena *arena, struct delivery *out,
                             struct err *err)
{
    enum status status = STATUS_OK;

    if (value.raw.len == 0)
        return err_set(err, STATUS_INVALID, "inputs.body: must be given: it is what is delivered");
    if (out->has_kind && out->kind == DELIVERY_MCP && value.type != JSON_OBJECT)
        return field_wrong("inputs.body", "an object for MCP", value, err);
    out->body = value;
    if (!read_receipt(value, arena, &out->receipt, &out->is_receipt))
        return err_no_memory(err);
    if (out->is_receipt)
        status = check_length("inputs.body.lease_id", out->receipt.lease_id, err);
    if (out->is_receipt && status == STATUS_OK)
        status = check_length("inputs.body.status", out->receipt.status, err);
    return status;
}

/* read_key finds the key on the wire. */
static enum status read_key(struct json job, struct slice job_id, struct arena *arena,
                            struct delivery *out, struct err *err)
{
    const struct slice colon = SLICE(":");
    struct slice parts[] = {out->receipt.lease_id, colon, out->receipt.status};
    struct slice given = {0};
    char *at;

    if (!out->is_receipt) {
        struct json key;
        json_get(job, "idempotency_key", &key);
        if (!text_of(key, arena, &given))
            return err_no_memory(err);
        out->key = given.len > 0 ? given : job_id;
        return STATUS_OK;
    }
    /* Put together by hand: a text of JSON may have a NUL in it. */
    out->key.len = parts[0].len + parts[1].len + parts[2].len;
    out->key.ptr = at = arena_alloc(arena, out->key.len + 1);
    if (!at)
        return err_no_memory(err);
    for (size_t i = 0; i < 3; i++) {
        memcpy(at, parts[i].ptr, parts[i].len);
        at += parts[i].len;
    }
    return STATUS_OK;
}

enum status delivery_read(struct json job, struct slice job_id, struct arena *arena,
                          struct delivery *out, struct err *err)
{
    enum { ACTION, INPUTS, OF_JOB };
    enum { TARGET, TOOL, KIND, BODY, OF_INPUTS };
    static const char *const job_names[OF_JOB] = {"action", "inputs"};
    static const char *const input_names[OF_INPUTS] = {"target", "tool", "kind", "body"};
    struct delivery delivery = {0};
    struct json of_job[OF_JOB], given[OF_INPUTS];
    enum status status;

    json_gather(job, job_names, OF_JOB, of_job);
    if (!json_string_is(of_job[ACTION], DELIVERY_ACTION))
        return err_set(err, STATUS_INVALID, "action: must be \"" DELIVERY_ACTION "\"");
    if (of_job[INPUTS].type != JSON_OBJECT)
        return err_set(err, STATUS_INVALID, "inputs: must be an object with a body");
    json_gather(of_job[INPUTS], input_names, OF_INPUTS, given);
    status = read_given("inputs.target", value_of(given[TARGET]), arena, &delivery.target, err);
    if (status == STATUS_OK)
        status = read_given("inputs.tool", value_of(given[TOOL]), arena, &delivery.tool, err);
    if (status == STATUS_OK)
        status = read_kind(value_of(given[KIND]), arena, &delivery, err);
    if (status == STATUS_OK)
        status = read_body(value_of(given[BODY]), arena, &delivery, err);
    if (status == STATUS_OK)
        status = read_key(job, job_id, arena, &delivery, err);
    if (status == STATUS_OK)
        *out = delivery;
    return status;
}

/* ---- into envelopes -------------------------------------------------------------------------- */

#define KEY_DIGEST_BYTES 16    /* of a digest that stands beside a lease's id */
#define KEY_TEXT_MAX (1 << 20) /* far above what can come of a body */

/* receipt_job_key appends the key of a receipt's job. */
static void receipt_job_key(const struct receipt *receipt, struct json body, struct buf *out)
{
    size_t begin = out->len;
    struct hash hash;

    buf_add_slice(out, receipt->lease_id);
    buf_add_char(out, ':');
    buf_add_slice(out, receipt->status);
    if (slice_is(receipt->status, "running")) {
        hash = hash_sha256(&body.raw, 1);
        buf_add_char(out, ':');
        buf_add_hex(out, hash.bytes, KEY_DIGEST_BYTES);
    }
    if (out->status != STATUS_OK)
        return;
    struct slice key = {out->ptr + begin, out->len - begin};
    if (envelope_name_check("", key, ENVELOPE_ID_MAX, NULL) == STATUS_OK)
        return;
    hash = hash_sha256(&key, 1);
    out->len = begin;
    buf_add_str(out, "sha256:");
    buf_add_hex(out, hash.bytes, sizeof(hash.bytes));
}

static void print_inputs(const struct delivery_order *order, struct jsonw *w)
{
    jsonw_key(w, "inputs");
    jsonw_object(w);
    jsonw_put_text(w, "target", order->target);
    if (order->has_kind)
        jsonw_put_str(w, "kind", delivery_kind_name(order->kind));
    jsonw_put_text(w, "tool", order->tool);
    jsonw_put_raw(w, "body", order->body.raw);
    jsonw_object_end(w);
}

/* print_order writes the envelope, the key and the source being known. */
static void print_order(const struct delivery_order *order, struct slice source, struct slice key,
                        struct buf *out)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_put_text(&w, "job_id", order->job_id);
    jsonw_put_str(&w, "action", DELIVERY_ACTION);
    jsonw_put_str(&w, "queue", DELIVERY_QUEUE);
    jsonw_put_string(&w, "source", source);
    jsonw_put_string(&w, "retry_policy",
                     order->policy.len > 0 ? order->policy : SLICE(DELIVERY_POLICY));
    jsonw_put_string(&w, "idempotency_key", key);
    jsonw_put_raw(&w, "required_capabilities", SLICE("[\"" DELIVERY_CAPABILITY "\"]"));
    print_inputs(order, &w);
    jsonw_object_end(&w);
}

void delivery_print(const struct delivery_order *order, struct buf *out)
{
    struct arena arena = {0};
    struct receipt receipt;
    struct buf own;
    bool is_receipt;
    struct slice key = order->key;

    buf_init(&own, KEY_TEXT_MAX);
    if (!read_receipt(order->body, &arena, &receipt, &is_receipt))
        own.status = STATUS_NO_MEMORY;
    else if (key.len == 0 && is_receipt)
        receipt_job_key(&receipt, order->body, &own);
    if (own.status == STATUS_OK) {
        if (own.len > 0)
            key = buf_slice(&own);
        BUG_ON(key.len == 0 && order->job_id.len == 0);
        struct slice source = order->source;
        if (source.len == 0)
            source = slice_of(is_receipt ? DELIVERY_SOURCE_RECEIPTS : DELIVERY_SOURCE_OTHER);
        print_order(order, source, key.len > 0 ? key : order->job_id, out);
    } else if (out->status == STATUS_OK) {
        out->status = own.status;
    }
    buf_release(&own);
    arena_release(&arena);
}
