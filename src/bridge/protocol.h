/* protocol: what is written to an endpoint, and what its answer means.  Pure.
 *
 *     plain HTTP   the body as it is.  2xx: delivered
 *     MCP          JSON-RPC 2.0 tools/call.  An error can stand inside HTTP 200
 *     Slack        the body as it is, to a webhook.  2xx with "ok", or JSON that does not refuse
 *
 * What may be tried again is the engine's decision; here is only what happened (INTERFACES 4, 6):
 *
 *     what came back                                          class               side_effects
 *     ------------------------------------------------------  ------------------  ------------
 *     nobody was reached                                      network             none
 *     the time was over before anything was sent              timeout             none
 *     nothing, or half an answer, after the request was sent  timeout or network  unknown
 *     an address that may not be connected to                 policy_violation    none
 *     HTTP 408, 429, 5xx, other 4xx                           by the status
 *     HTTP 3xx that is not followed, 1xx                      client_error
 *     MCP: RATE_LIMIT_EXCEEDED, QUOTA_EXCEEDED                rate_limited
 *     MCP: UNAUTHORIZED                                       permission_denied
 *     MCP: TASK_NOT_FOUND, INVALID_STATE_TRANSITION, LEASE_*  client_error
 *     MCP: -32600 to -32602                                   invalid_input
 *     MCP: any other error, or isError                        server_error
 *     MCP: 2xx with something that is no answer to the call   server_error        unknown
 *     plain HTTP: 2xx with an error of JSON-RPC               as of MCP
 *     Slack: 2xx with "ok":false: ratelimited                 rate_limited
 *     Slack: likewise: internal_error, fatal_error,           server_error
 *            service_unavailable, request_timeout
 *     Slack: likewise: any other error                        client_error
 *     Slack: 2xx with any other text                          server_error        unknown  */
#ifndef LAZARET_BRIDGE_PROTOCOL_H
#define LAZARET_BRIDGE_PROTOCOL_H

#include "bridge/wire.h"
#include "core/delivery.h"
#include "core/failure.h"

/* protocol_tool is the tool that a delivery calls: the delivery's, else the target's, else by the
 * status of the receipt: asyncgate.report_progress for "running", asyncgate.fail for "failed",
 * asyncgate.complete otherwise. */
struct slice protocol_tool(const struct delivery *delivery, const struct target *target);

/* protocol_body appends what is sent. `kind` is the kind that holds for this delivery.  A document
 * that is no receipt is the arguments of the tool: for MCP it should be an object (delivery_read
 * sees to it when the job names the kind). */
void protocol_body(const struct delivery *delivery, enum delivery_kind kind, struct slice tool,
                   struct buf *out);

/* protocol_headers writes the head lines of a request, in `arena`, NULL at the end: Content-Type,
 * Accept, Idempotency-Key, Authorization, the target's own, and the signature in the form of
 * Standard Webhooks (sign.h: webhook-id is the key) when the target has a secret.  NULL when memory
 * is exhausted.
 *
 * A line of the target's own stands in place of ours, but not of the key and the signature.  The
 * key is written with visible ASCII alone: any other byte, and "%", as "%XX", so that two keys
 * never become one.  A token or a line of the target's ends where it has a CR, LF or NUL. */
const char *const *protocol_headers(const struct delivery *delivery, const struct target *target,
                                    enum delivery_kind kind, struct slice body, struct instant now,
                                    struct arena *arena);

#define PROTOCOL_CODE_MAX 128

/* struct protocol_verdict: what came of it. */
struct protocol_verdict {
    bool delivered;
    enum failure_class class; /* and all that follows: of a failure */
    const char *error_type;   /* "HttpError", "RateLimited", "Timeout", "ConnectionError",
                                 "ToolError", "SlackError", "BadAnswer", "AddressRefused",
                                 "Redirected" */
    struct slice message;     /* one sentence, in the arena */
    enum side_effects side_effects;
    int http_status;         /* 0: none came */
    struct span retry_after; /* -1 us: none was asked for */
    struct slice code; /* of an error of MCP or Slack, up to PROTOCOL_CODE_MAX bytes; empty: none */
};

/* protocol_judge says what an answer means.  `now` is for a Retry-After that is a date.  Of a
 * stream of events that did not end well, an event that is whole and is the answer counts.  Of what
 * the endpoint says, a sentence has at most 300 bytes, on one line, as valid UTF-8. */
void protocol_judge(enum delivery_kind kind, const struct wire_call *call, struct instant now,
                    struct arena *arena, struct protocol_verdict *out);

/* protocol_shown_url is the address of a call without its query: what stands there is often a
 * secret, and a failure is read by many.  Without its path too, where that is one. */
struct slice protocol_shown_url(const struct wire_call *call);

/* protocol_failure appends the failure object (INTERFACES 4) of a verdict that is not `delivered`:
 * message, error_type, class, http_status, retry_after_seconds, side_effects, dependency (the
 * host with its port), agent_id, step_failed ("POST URL"), duration_ms, and error_context with the
 * head of the answer.  A call without a URL was never made: it has neither dependency nor step. */
void protocol_failure(const struct protocol_verdict *verdict, const struct wire_call *call,
                      struct slice agent, struct buf *out);

/* protocol_result appends the result object of one that is: {"http_status":200,"answer":"..."} with
 * the head of the answer. */
void protocol_result(const struct wire_call *call, struct buf *out);

/* retry_after_parse reads a Retry-After: seconds, or a date of HTTP in one of its three forms.
 * -1 us when it is neither; a date that has passed is 0. */
struct span retry_after_parse(struct slice text, struct instant now);

#endif
