/* fuzz_mcp: a first line that says how an answer came (a number of three digits for its status, a
 * letter for what came of the call, one for its type, then Retry-After), the rest as its body.
 *
 * A verdict on a failure has a sentence: one line of valid UTF-8 that is not long.  Its report
 * reads as a failure of the same class.  Nothing is delivered that has no status of 2xx. */
#include <stddef.h>
#include <stdint.h>

#include "bridge/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUT_MAX (64 << 20)
#define SENTENCE_MAX 1024

/* take_digit is the digit at `at` of the first line, or 0. */
static int take_digit(struct slice line, size_t at)
{
    return at < line.len && line.ptr[at] >= '0' && line.ptr[at] <= '9' ? line.ptr[at] - '0' : 0;
}

static void read_line(struct slice line, struct wire_call *call)
{
    static const enum wire_outcome outcomes[] = {WIRE_ANSWERED, WIRE_UNKNOWN, WIRE_UNSENT,
                                                 WIRE_FORBIDDEN, WIRE_STOPPED};
    char outcome = line.len > 3 ? line.ptr[3] : 'a', type = line.len > 4 ? line.ptr[4] : 'j';

    call->status = take_digit(line, 0) * 100 + take_digit(line, 1) * 10 + take_digit(line, 2);
    call->outcome = outcome >= 'a' && outcome <= 'e' ? outcomes[outcome - 'a'] : WIRE_ANSWERED;
    call->timed_out = type == 's' || type == 't';
    call->answer_cut = type == 'c' || type == 't';
    snprintf(call->content_type, sizeof(call->content_type), "%s",
             type == 's' || type == 't' ? "text/event-stream" : "application/json");
    if (line.len > 5)
        snprintf(call->retry_after, sizeof(call->retry_after), "%.*s", (int)line.len - 5,
                 line.ptr + 5);
    snprintf(call->location, sizeof(call->location), "%s", call->retry_after);
    snprintf(call->err.text, sizeof(call->err.text), "%s", call->retry_after);
}

static void check_failure(const struct protocol_verdict *verdict, const struct wire_call *call,
                          struct arena *arena)
{
    struct failure failure;
    struct json json;
    struct err err = {0};
    struct buf out;

    BUG_ON(verdict->message.len == 0 || verdict->message.len > SENTENCE_MAX);
    BUG_ON(!json_utf8_valid(verdict->message));
    for (size_t i = 0; i < verdict->message.len; i++)
        BUG_ON((unsigned char)verdict->message.ptr[i] < ' ');
    BUG_ON(verdict->retry_after.us >= 0 && !class_is_retryable(verdict->class));
    buf_init(&out, OUTPUT_MAX);
    protocol_failure(verdict, call, SLICE("fuzz"), &out);
    if (json_parse(buf_slice(&out), &json, &err) != STATUS_OK ||
        failure_parse(json, arena, &failure, &err) != STATUS_OK)
        BUG("%s", err.text);
    BUG_ON(failure_class(&failure) != verdict->class);
    BUG_ON(!slice_eq(failure.message, verdict->message));
    buf_release(&out);
}

static void check_result(const struct wire_call *call)
{
    struct json json;
    struct buf out;

    BUG_ON(call->status < 200 || call->status > 299);
    buf_init(&out, OUTPUT_MAX);
    protocol_result(call, &out);
    BUG_ON(json_parse(buf_slice(&out), &json, NULL) != STATUS_OK);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct instant now = {INT64_C(1614265330) * 1000000};
    const char *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - (const char *)data) : size;
    struct wire_call call = {.url = "http://127.0.0.1:9/x?y"};
    struct protocol_verdict verdict;
    struct arena arena = {0};

    buf_init(&call.answer, OUTPUT_MAX);
    if (newline)
        buf_add(&call.answer, newline + 1, size - len - 1);
    read_line((struct slice){(const char *)data, len}, &call);
    for (int kind = DELIVERY_HTTP; kind <= DELIVERY_MCP; kind++) {
        protocol_judge((enum delivery_kind)kind, &call, now, &arena, &verdict);
        if (verdict.delivered)
            check_result(&call);
        else
            check_failure(&verdict, &call, &arena);
    }
    buf_release(&call.answer);
    arena_release(&arena);
    return 0;
}
