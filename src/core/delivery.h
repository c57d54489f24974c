/* delivery: a job whose work is to bring a document to an endpoint; a receipt, most often.
 *
 *     {"action":"deliver","queue":"deliveries","source":"receipts","retry_policy":"receipts",
 *      "idempotency_key":"abc-123:complete","required_capabilities":["deliver"],
 *      "inputs":{"target":"asyncgate","kind":"mcp","body":{"lease_id":"abc-123",...}}}
 *
 * A receipt is a body with a `lease_id` and a `status`.  There are two keys, which most often are
 * one text:
 *
 *     on the wire      what tells the endpoint that it had this before.  Of a receipt always
 *                      "lease_id:status"; of another document the job's key, else the job's id
 *     the job's        what keeps two jobs from being one.  Of a receipt the same, but
 *                      "lease_id:running:DIGEST" while it is `running`, with a digest of the body:
 *                      progress is reported again and again, and no report is another one; and
 *                      "sha256:DIGEST" of what would not be the key of a job (ENVELOPE_ID_MAX, a
 *                      NUL) */
#ifndef LAZARET_CORE_DELIVERY_H
#define LAZARET_CORE_DELIVERY_H

#include "core/target.h"

#define DELIVERY_ACTION "deliver"
#define DELIVERY_CAPABILITY "deliver"
#define DELIVERY_QUEUE "deliveries"
#define DELIVERY_POLICY "receipts"
#define DELIVERY_SOURCE_RECEIPTS "receipts" /* of deliveries whose body is a receipt */
#define DELIVERY_SOURCE_OTHER "deliveries"  /* of all others */

#define RECEIPT_ID_MAX 200 /* bytes of lease_id, task_id, worker_id and status */

/* struct receipt: what is known of one.  Slices borrow from the body or the arena. */
struct receipt {
    struct slice lease_id, status;                 /* never empty */
    struct slice task_id, worker_id, summary;      /* empty: absent, or no text */
    struct json artifact_pointers, error_metadata; /* a null without bytes: absent */
};

/* receipt_read reads a body.  False when it is no receipt: then it is only a document.  (False too
 * when memory is exhausted, which delivery_read tells from that.) */
bool receipt_read(struct json body, struct arena *arena, struct receipt *out);

/* receipt_check says what is missing for a body to be a receipt that can be sent: lease_id,
 * task_id, worker_id and status are texts of 1 to RECEIPT_ID_MAX bytes, and the rest, when it is
 * there, is of its type. STATUS_INVALID names the member. */
enum status receipt_check(struct json body, struct err *err);

/* struct delivery: what is to be sent, as the envelope of a job has it. */
struct delivery {
    struct slice target; /* a name or an address; empty: none is known */
    bool has_kind;
    enum delivery_kind kind;
    struct slice tool; /* of MCP; empty: by the status of the receipt */
    struct json body;
    bool is_receipt;
    struct receipt receipt;
    struct slice key; /* the one on the wire: any text, up to 401 bytes */
};

/* delivery_read reads a job's envelope.  STATUS_INVALID when it is no delivery that could be made.
 */
enum status delivery_read(struct json job, struct slice job_id, struct arena *arena,
                          struct delivery *out, struct err *err);

/* struct delivery_order: what somebody wants delivered. */
struct delivery_order {
    struct slice target; /* empty: none is known yet */
    bool has_kind;
    enum delivery_kind kind;
    struct slice tool;
    struct json body;
    struct slice policy; /* empty: DELIVERY_POLICY */
    struct slice source; /* empty: by what the body is */
    struct slice key;    /* the job's key; empty: a receipt's own, else the job's id */
    struct slice job_id; /* must be given when neither a key nor a receipt is */
};

/* delivery_print appends the envelope of an order, its body byte for byte.  envelope_parse takes
 * it, as long as the texts that were given (policy, key, job_id) are such as it takes, and the body
 * is not too deep or too large. */
void delivery_print(const struct delivery_order *order, struct buf *out);

#endif
