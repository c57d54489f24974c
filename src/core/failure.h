/* failure: what a worker reports about an attempt that failed, and how it is classified.
 *
 * A worker reports facts; it never decides to retry.  failure_class() turns the facts into a class,
 * retry_decide() (retry.h) turns the class into a decision. */
#ifndef LAZARET_CORE_FAILURE_H
#define LAZARET_CORE_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/time.h"

enum failure_class {
    /* Environmental: may be retried. */
    CLASS_TIMEOUT,
    CLASS_UNAVAILABLE,
    CLASS_SERVER_ERROR,
    CLASS_NETWORK,
    CLASS_CONGESTION,
    CLASS_RATE_LIMITED,
    CLASS_CRASHED,
    CLASS_UNKNOWN,
    /* Structural: straight to the quarantine. */
    CLASS_PERMISSION_DENIED,
    CLASS_POLICY_VIOLATION,
    CLASS_INVALID_INPUT,
    CLASS_MALFORMED_PAYLOAD,
    CLASS_FORBIDDEN_TOOL,
    CLASS_SCOPE_MISMATCH,
    CLASS_CLIENT_ERROR,
    CLASS_COUNT
};

enum side_effects { EFFECTS_UNSAID, EFFECTS_NONE, EFFECTS_UNKNOWN, EFFECTS_COMMITTED };
enum tristate { UNSAID, NO, YES };

/* Evidence limits: a text over its limit keeps head and tail and says how much was cut. */
#define FAILURE_MESSAGE_MAX (16 << 10)
#define FAILURE_TRACE_MAX (64 << 10)
#define FAILURE_TEXT_MAX (4 << 10)       /* any other text of a failure */
#define FAILURE_STRUCTURE_MAX (64 << 10) /* any array or object of a failure */

/* struct failure: the report.  Slices borrow from the parsed text or the arena.  All but `message`
 * may be empty; a JSON member that was not given is a null without bytes. */
struct failure {
    struct slice error_type;      /* the type's name: "CommandFailed" */
    struct slice error_type_json; /* as it was given, string or object; empty when not given */
    bool has_exit_code;
    int exit_code;  /* of {"CommandFailed":{"exit_code":N}} */
    bool has_class; /* `class` was given */
    enum failure_class given_class;
    int http_status; /* 0: none */
    struct slice message;
    struct slice stack_trace;
    struct slice agent_id;
    struct slice step_failed;
    struct slice json_log_location;
    struct slice reason; /* a quarantine reason of the reporter's, such as "no_capable_agent" */
    struct slice reason_detail;
    struct slice code_version;
    struct slice dependency;
    int64_t duration_ms;     /* -1: not given */
    struct span retry_after; /* -1 us: not given */
    enum tristate retryable;
    bool interrupted; /* who ran it was cut off (stopped, killed): that is not the job's fault */
    enum side_effects side_effects;
    struct json error_context, dependency_calls, policy_checks, emitted_events, artifacts;
    struct instant at; /* when it was reported; the engine sets it */
};

/* failure_init makes an empty failure with the "not given" values. */
void failure_init(struct failure *failure);

/* failure_parse reads a failure object.  The error names the field and what is wrong with it. Texts
 * that need decoding are put in `arena`. */
enum status failure_parse(struct json object, struct arena *arena, struct failure *out,
                          struct err *err);

/* failure_class says which class a failure belongs to: the class that was given, else crashed for
 * an interruption, else by HTTP status, error type, exit code and message, in that order;
 * CLASS_UNKNOWN when nothing tells. */
enum failure_class failure_class(const struct failure *failure);

const char *class_name(enum failure_class class);
bool class_from_name(struct slice name, enum failure_class *out);
bool class_is_retryable(enum failure_class class);

/* failure_print appends the failure as the evidence that is kept: one JSON object with the map
 * system's names (attempt_number, timestamp, error_type, error_message, ... , then class and the
 * rest that was given), each text cut to its limit, with "truncated_bytes": N, the sum of what was
 * cut, when anything was.  The caller may add members: the closing brace is not written. */
struct jsonw;
void failure_print(const struct failure *failure, uint32_t attempt, struct jsonw *out);

/* text_truncate writes `text` into `out`, whole when it has at most `max` bytes, else its head and
 * tail around a mark, never splitting a UTF-8 character.  It returns how many bytes were left out.
 */
size_t text_truncate(struct slice text, size_t max, struct buf *out);

#endif
