/* policy: how often, how soon and for which failures a job may be tried again.
 *
 * A policy is data: it is read from JSON, stored by name and version, and applied by retry_decide()
 * (retry.h).  The presets are the policies of the systems that Lazaret unites. */
#ifndef LAZARET_CORE_POLICY_H
#define LAZARET_CORE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/time.h"

#define POLICY_SCHEDULE_MAX 64
#define POLICY_NAME_MAX 64
#define POLICY_ATTEMPTS_MAX 1000
#define POLICY_DEFAULT "default" /* the policy of an envelope that names none */

enum backoff {
    BACKOFF_EXPONENTIAL,
    BACKOFF_FIXED,
    BACKOFF_LINEAR,
    BACKOFF_FIBONACCI,
    BACKOFF_SCHEDULE
};
enum jitter { JITTER_NONE, JITTER_FULL, JITTER_EQUAL, JITTER_PROPORTIONAL };

/* struct policy: slices borrow from the text it was parsed from or its arena. */
struct policy {
    struct slice name;     /* empty for one given inline in an envelope */
    int64_t version;       /* 0: built in */
    uint32_t max_attempts; /* runs in all, the first included */
    enum backoff backoff;
    struct span initial_delay;
    double multiplier;
    struct span increment;
    struct span max_delay;
    struct span schedule[POLICY_SCHEDULE_MAX];
    uint32_t schedule_count;
    enum jitter jitter;
    double jitter_factor; /* of JITTER_PROPORTIONAL: 0.3 is +-30 % */
    struct span
        retry_budget;        /* -1 us: none.  No retry begins later than this after the first run */
    struct span first_delay; /* before the first run */
    struct json retry_on;    /* array of class names, error types or HTTP statuses; empty: any */
    struct json never_retry; /* likewise; wins over retry_on */
    struct json hints;       /* array of {"match":"best"} by attempt; a job whose policy has them is
                                dispatched: see match.h */
    struct span assignment_timeout; /* with hints: how long a job may wait for the right worker */
    struct json on_dead; /* object: members to set on the job's status document at quarantine */
    struct slice evidence_source; /* `source` of the evidence events; empty: none */
};

/* policy_parse reads a policy object over the defaults of INTERFACES 3.  Unknown members, wrong
 * types and values out of range are STATUS_INVALID with the member's name. */
enum status policy_parse(struct json object, struct arena *arena, struct policy *out,
                         struct err *err);

/* policy_print appends the policy as JSON that policy_parse reads back to the same policy. */
void policy_print(const struct policy *policy, struct jsonw *out);

/* policy_preset_json is the JSON text of built-in policy `index`, and its name; false past the
 * last. They are: receipts, dispatch, governed, map, background, post-adjudication, default. */
bool policy_preset(size_t index, const char **name, struct slice *json);

/* policy_delay is the delay after attempt `n` (1 is the first run), before jitter. */
struct span policy_delay(const struct policy *policy, uint32_t n);

/* policy_jitter spreads a delay by the policy's mode; `random` is uniform over 64 bits. */
struct span policy_jitter(const struct policy *policy, struct span delay, uint64_t random);

/* policy_match_hint is the dispatch hint for attempt `n`: "best" when the policy has none. */
struct slice policy_match_hint(const struct policy *policy, uint32_t n);

#endif
