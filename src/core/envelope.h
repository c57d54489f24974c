/* envelope: the job as somebody pushed it.  Read once, validated, and carried byte for byte. */
#ifndef LAZARET_CORE_ENVELOPE_H
#define LAZARET_CORE_ENVELOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/time.h"

#define ENVELOPE_ID_MAX 200         /* bytes of job_id, trace_id, keys and names of things */
#define ENVELOPE_QUEUE_MAX 128      /* bytes of a queue's name */
#define ENVELOPE_BODY_MAX (1 << 20) /* bytes of the whole, by default */
#define ENVELOPE_PRIORITY_DEFAULT 4

/* struct envelope: slices borrow from `body` or the arena.  Absent texts are empty. */
struct envelope {
    struct slice body; /* the whole, as it was pushed */
    struct slice job_id, trace_id, requested_by, scope_lock, action;
    struct slice idempotency_key, retry_key, queue, source, original_subject;
    struct slice run_id;       /* the run (of a map) that this job belongs to */
    struct slice item_id;      /* and the item that it is */
    struct slice policy_name;  /* retry_policy as a name; empty when absent or an object */
    struct json policy_inline; /* retry_policy as an object */
    struct json inputs, permissions, constraints, required_capabilities;
    struct json
        compensation;     /* object: the envelope of the job that undoes this one; see rollback */
    struct json document; /* object: the job's status document to begin with */
    struct instant requested_at; /* not set when absent */
    struct instant run_at;       /* not set when absent */
    int64_t attempt_count;
    int priority;
    bool requires_human_ack;
    bool unique_forever;
    bool retry_eligible;                                /* false: any failure quarantines the job */
    struct span max_runtime;                            /* 0: none */
    uint64_t id_hash, idempotency_hash, retry_key_hash; /* 0 for what is absent */
};

/* envelope_parse reads and validates.  STATUS_INVALID names the field and what is wrong with it:
 * "priority: must be a whole number from 0 to 9, not 12".  A member of Lazaret's own that stands
 * twice is an error; unknown members are carried. */
enum status envelope_parse(struct slice body, size_t body_max, struct arena *arena,
                           struct envelope *out, struct err *err);

/* envelope_name_check says whether a text may stand in `field`: 1 to `max` bytes of UTF-8 without a
 * NUL. Other control characters are carried; whoever prints them to a terminal strips them. */
enum status envelope_name_check(const char *field, struct slice text, size_t max, struct err *err);

#endif
