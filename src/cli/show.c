/* show: the whole story of one letter, for a person who has to decide. */
#include <inttypes.h>

#include "cli/letters.h"
#include "cli/request.h"
#include "cli/view.h"
#include "core/delivery.h"

/* What the rules of core/retry.c mean, for somebody who has not read them. */
static const struct {
    const char *rule, *meaning;
} rules[] = {
    {"said_not_retryable", "the worker said that it must not be tried again"},
    {"class_forbidden", "a failure of this class never passes by itself"},
    {"policy_forbids", "the policy does not retry this kind of failure"},
    {"not_idempotent", "it may have had side effects, and has no idempotency key"},
    {"dependency_down", "what it depends on has been down for too long"},
    {"interrupted", "who ran it was cut off, which does not count"},
    {"attempts_exhausted", "no attempt was left"},
    {"budget_exhausted", "another attempt would have begun after the retry budget's end"},
    {"retry_permitted", "the policy allows another attempt"},
};

static const char *rule_meaning(struct slice rule)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (slice_is(rule, rules[i].rule))
            return rules[i].meaning;
    return NULL;
}

struct story {
    struct cli *cli;
    struct out *out;
    struct arena *arena;
    struct json letter;
};

static struct slice text_of(struct story *s, const char *member)
{
    return view_text(s->letter, member, s->arena);
}

static void heading(struct story *s, const char *text)
{
    out_str(s->out, "\n");
    out_styled(s->out, STYLE_BOLD, text);
    out_str(s->out, "\n");
}

/* line prints a named text, when there is one. */
static void line(struct story *s, const char *name, struct slice text)
{
    if (text.len == 0)
        return;
    out_format(s->out, "  %-11s", name);
    out_clean(s->out, text);
    out_str(s->out, "\n");
}

static void time_line(struct story *s, const char *name, const char *member)
{
    struct instant t = view_time(s->letter, member);
    struct slice age = view_age(t, s->out->now, s->arena);
    char text[INSTANT_TEXT_SIZE];

    if (!instant_is_set(t))
        return;
    instant_format(t, text);
    out_format(s->out, "  %-11s%s (%.*s ago)\n", name, text, SLICE_ARG(age));
}

static void header(struct story *s)
{
    struct slice state = text_of(s, "state"), detail = text_of(s, "reason_detail");
    enum style style = slice_is(state, "dead")         ? STYLE_RED
                       : slice_is(state, "recovering") ? STYLE_YELLOW
                                                       : STYLE_GREEN;
    int64_t redrives = view_int(s->letter, "redrive_count");

    out_style(s->out, STYLE_BOLD);
    out_str(s->out, "Dead letter ");
    out_clean(s->out, text_of(s, "dlq_id"));
    out_style(s->out, STYLE_PLAIN);
    out_str(s->out, "\n  state      ");
    out_style(s->out, style);
    out_clean(s->out, state);
    out_style(s->out, STYLE_PLAIN);
    out_str(s->out, view_true(s->letter, "escalated") ? ", escalated to a person" : "");
    out_str(s->out, view_true(s->letter, "manual_review_required") ? ", needs review\n" : "\n");
    line(s, "reason", text_of(s, "reason"));
    line(s, "detail", detail);
    line(s, "job", text_of(s, "job_id"));
    line(s, "item", text_of(s, "item_id"));
    line(s, "queue", text_of(s, "queue"));
    line(s, "trace", text_of(s, "trace_id"));
    line(s, "source", text_of(s, "source"));
    line(s, "subject", text_of(s, "original_subject"));
    time_line(s, "died", "failed_at");
    time_line(s, "settled", "recovered_at");
    line(s, "by", text_of(s, "recovered_by"));
    line(s, "signature", text_of(s, "error_signature"));
    line(s, "group", text_of(s, "fingerprint"));
    line(s, "replay", text_of(s, "replay_safety"));
    if (redrives > 0)
        out_format(s->out, "  %-11s%" PRId64 " time%s\n", "came back", redrives,
                   redrives == 1 ? "" : "s");
}

/* last_of is the last element of an array; a null without bytes when it is empty. */
static struct json last_of(struct json array)
{
    struct json_iter iter;
    struct json last = {0}, value;

    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, &value))
        last = value;
    return last;
}

/* attempts_used prints how many attempts there were, and how many of them did not count. */
static void attempts_used(struct story *s)
{
    int64_t made = view_int(s->letter, "failure_count"),
            allowed = view_int(s->letter, "max_retries");
    int64_t cut_off = 0;
    struct json_iter iter;
    struct json failure;

    json_iter_init(&iter, view_get(s->letter, "failure_history"));
    while (json_next(&iter, NULL, &failure))
        cut_off += json_string_is(view_get(view_get(failure, "decision"), "rule"), "interrupted");
    if (cut_off == 0)
        out_format(s->out, ", after %" PRId64 " of %" PRId64 " attempts\n", made, allowed);
    else
        out_format(s->out,
                   ", after %" PRId64 " attempts, of which %" PRId64
                   " were cut off and do not count; %" PRId64 " %s allowed\n",
                   made, cut_off, allowed, allowed == 1 ? "is" : "are");
}

static void why_dead(struct story *s)
{
    struct json last = last_of(view_get(s->letter, "failure_history"));
    struct json decision = view_get(last, "decision");
    struct slice rule = view_text(decision, "rule", s->arena);
    struct slice class = view_text(decision, "class", s->arena);
    struct slice policy = view_text(decision, "policy", s->arena);
    const char *meaning = rule_meaning(rule);

    if (slice_is(view_text(last, "error_type", s->arena), "Unclaimed"))
        meaning = "whoever had claimed it did not come back for it";
    if (decision.type != JSON_OBJECT)
        return;
    heading(s, "Why it is dead");
    out_str(s->out, "  ");
    out_clean(s->out, meaning ? slice_of(meaning) : rule);
    out_format(s->out, "\n  %-11s", "rule");
    out_clean(s->out, rule);
    out_format(s->out, "\n  %-11s", "policy");
    out_clean(s->out, policy);
    attempts_used(s);
    line(s, "class", class);
}

/* error_type_name is the type's name: the string, or the one member of the object. */
static struct slice error_type_name(struct story *s, struct json type)
{
    struct json_iter iter;
    struct json key = {0}, value;

    json_iter_init(&iter, type);
    if (type.type == JSON_OBJECT && json_next(&iter, &key, &value))
        return json_text(key, s->arena);
    return view_value(type, s->arena);
}

/* under prints a named block of an attempt, when there is one. */
static void under(struct story *s, const char *name, struct slice text)
{
    if (text.len == 0)
        return;
    out_format(s->out, "     %s\n", name);
    out_block(s->out, text, 7);
}

/* What is shown of what a command wrote: its end.  The whole is in its log. */
#define TAIL_LINES 10
#define TAIL_BYTES 2000

static struct slice without_last_newlines(struct slice text)
{
    while (text.len > 0 && text.ptr[text.len - 1] == '\n')
        text.len--;
    return text;
}

/* tail_of is the end of a text, never beginning inside a UTF-8 character. */
static struct slice tail_of(struct slice text)
{
    size_t at = text.len, lines = 0;

    while (at > 0 && text.len - at < TAIL_BYTES) {
        if (text.ptr[at - 1] == '\n' && ++lines == TAIL_LINES)
            break;
        at--;
    }
    while (at < text.len && (text.ptr[at] & 0xc0) == 0x80)
        at++;
    return (struct slice){text.ptr + at, text.len - at};
}

/* stream_lines prints the end of a stream; `total` is how many bytes it had, when that is known. */
static void stream_lines(struct story *s, const char *name, struct slice text, int64_t total)
{
    struct slice whole = without_last_newlines(text), tail = tail_of(whole);

    if (tail.len == 0)
        return;
    if (total < (int64_t)text.len)
        total = (int64_t)text.len;
    if (tail.len < whole.len)
        out_format(s->out, "     %s, the end of %" PRId64 " bytes\n", name, total);
    else
        out_format(s->out, "     %s\n", name);
    out_block(s->out, tail, 7);
}

/* exit_line prints how a command ended, and what it used. */
static void exit_line(struct story *s, struct json artifacts)
{
    struct slice signal = view_text(artifacts, "signal", s->arena);
    int64_t code = 0, kb = view_int(artifacts, "memory_max_kb");
    int64_t ms = view_int(artifacts, "cpu_user_ms") + view_int(artifacts, "cpu_system_ms");

    if (!json_int(view_get(artifacts, "exit_code"), &code))
        return;
    out_format(s->out, "     exit code %" PRId64, code);
    if (signal.len > 0) {
        out_str(s->out, " (");
        out_clean(s->out, signal);
        out_str(s->out, ")");
    }
    if (ms > 0) {
        struct slice span = view_span((double)ms / 1000, s->arena);
        out_format(s->out, ", %.*s of CPU", SLICE_ARG(span));
    }
    if (kb > 0)
        out_format(s->out, ", %.1f MB of memory", (double)kb / 1024);
    out_str(s->out, "\n");
}

/* trace_lines prints the stack trace, unless it is the end of standard error, which is printed. */
static void trace_lines(struct story *s, struct slice trace, struct slice heard)
{
    struct slice a = without_last_newlines(trace), b = without_last_newlines(heard);

    if (a.len > 0 && a.len <= b.len && memcmp(b.ptr + b.len - a.len, a.ptr, a.len) == 0)
        return;
    under(s, "stack trace", trace);
}

/* output prints what a command left behind. */
static void output(struct story *s, struct json failure)
{
    struct json artifacts = view_get(failure, "artifacts");
    struct slice heard = view_text(artifacts, "stderr", s->arena);

    exit_line(s, artifacts);
    stream_lines(s, "standard output", view_text(artifacts, "stdout", s->arena),
                 view_int(artifacts, "stdout_bytes"));
    stream_lines(s, "standard error", heard, view_int(artifacts, "stderr_bytes"));
    trace_lines(s, view_text(failure, "stack_trace", s->arena), heard);
    under(s, "log", view_text(failure, "json_log_location", s->arena));
}

static void context_lines(struct story *s, struct json context)
{
    struct json_iter iter;
    struct json value;

    if (json_count(context) == 0)
        return;
    out_str(s->out, "     context\n");
    json_iter_init(&iter, context);
    while (json_next(&iter, NULL, &value))
        out_block(s->out, view_value(value, s->arena), 7);
}

static void decision_line(struct story *s, struct json decision)
{
    struct slice action = view_text(decision, "action", s->arena);
    double delay = 0;

    if (decision.type != JSON_OBJECT)
        return;
    out_format(s->out, "     %s ", s->out->unicode ? "→" : "->");
    out_clean(s->out, action);
    if (json_double(view_get(decision, "delay_seconds"), &delay)) {
        struct slice span = view_span(delay, s->arena);
        out_format(s->out, " after %.*s", SLICE_ARG(span));
    }
    out_str(s->out, " (");
    out_clean(s->out, view_text(decision, "rule", s->arena));
    out_str(s->out, ")\n");
}

static void attempt(struct story *s, struct json failure)
{
    struct json duration = view_get(failure, "duration_ms");
    struct slice agent = view_text(failure, "agent_id", s->arena);
    struct slice step = view_text(failure, "step_failed", s->arena);
    int64_t cut = view_int(failure, "truncated_bytes"), ms = 0;

    out_format(s->out, "  %" PRId64 "  ", view_int(failure, "attempt_number"));
    out_clean(s->out, view_text(failure, "timestamp", s->arena));
    out_str(s->out, "  ");
    out_style(s->out, STYLE_RED);
    out_clean(s->out, error_type_name(s, view_get(failure, "error_type")));
    out_style(s->out, STYLE_PLAIN);
    out_str(s->out, view_true(failure, "interrupted") ? "  cut off" : "");
    if (agent.len > 0) {
        out_str(s->out, "  by ");
        out_clean(s->out, agent);
    }
    if (json_int(duration, &ms) && ms > 0) {
        struct slice span = view_span((double)ms / 1000, s->arena);
        out_format(s->out, "  in %.*s", SLICE_ARG(span));
    }
    out_str(s->out, "\n");
    out_block(s->out, view_text(failure, "error_message", s->arena), 5);
    under(s, "step", step);
    context_lines(s, view_get(failure, "error_context"));
    output(s, failure);
    if (cut > 0)
        out_format(s->out, "     (%" PRId64 " bytes of this evidence were over their limit)\n",
                   cut);
    decision_line(s, view_get(failure, "decision"));
}

static void attempts(struct story *s)
{
    struct json history = view_get(s->letter, "failure_history");
    struct json_iter iter;
    struct json failure;

    heading(s, "Attempts");
    if (json_count(history) == 0)
        out_str(s->out, "  none is recorded\n");
    json_iter_init(&iter, history);
    while (json_next(&iter, NULL, &failure))
        attempt(s, failure);
}

static void payload(struct story *s)
{
    struct json envelope = view_get(s->letter, "envelope");
    struct json original = view_get(s->letter, "original_payload");
    struct json artifacts = view_get(s->letter, "worktree_artifacts");

    heading(s, envelope.type == JSON_OBJECT ? "Envelope" : "Payload");
    out_pretty(s->out, envelope.type == JSON_OBJECT ? envelope : original, 2);
    if (json_count(artifacts) > 0) {
        heading(s, "Artifacts");
        out_pretty(s->out, artifacts, 2);
    }
}

/* step prints a command that can be typed next. */
static void step(struct story *s, const char *command, struct slice id, const char *rest,
                 const char *why)
{
    out_format(s->out, "  lazaret %s ", command);
    out_word(s->out, id);
    out_format(s->out, "%s\n      ", rest);
    out_styled(s->out, STYLE_DIM, why);
    out_str(s->out, "\n");
}

static void next_steps(struct story *s)
{
    struct slice state = text_of(s, "state"), id = text_of(s, "dlq_id");
    struct slice group = text_of(s, "fingerprint");
    struct json envelope = view_get(s->letter, "envelope");
    bool open = slice_is(state, "dead");

    heading(s, "What to do next");
    if (open) {
        if (slice_is(text_of(s, "source"), DELIVERY_SOURCE_RECEIPTS))
            step(s, "dlq recover --to", SLICE("URL"), "",
                 "send all dead receipts to their endpoint");
        step(s, "dlq retry", id, "", "bring it back as it is");
        step(s, "dlq retry", id, " --patch FILE", "repair the envelope first");
        step(s, "dlq discard", id, "", "give it up; it can be restored");
        if (view_get(envelope, "compensation").type == JSON_OBJECT)
            step(s, "dlq rollback", id, "", "undo what it did, by its compensation");
        if (!view_true(s->letter, "escalated"))
            step(s, "dlq escalate", id, "", "leave it to a person");
    }
    if (slice_is(state, "discarded"))
        step(s, "dlq restore", id, "", "take the discard back");
    if (group.len > 0)
        step(s, "dlq list --fingerprint", group, "", "others that died of the same");
    step(s, "audit show --dlq-id", id, "", "everything that happened to it");
}

int cmd_show(struct cli *cli)
{
    struct slice id;
    struct reply reply;
    int code = letters_find(cli, cli->args.operands[0], &id);

    if (code != 0)
        return code;
    code = request_send(cli, "GET", request_path(cli, "/api/v1/dlq/", id, ""), (struct slice){0},
                        (struct slice){0}, &reply);
    if (code == 0 && cli->json) {
        out_json(&cli->out, buf_slice(&reply.answer.body));
    } else if (code == 0) {
        struct story story = {cli, &cli->out, &cli->arena, reply.value};
        header(&story);
        why_dead(&story);
        attempts(&story);
        payload(&story);
        next_steps(&story);
    }
    reply_release(&reply);
    return code;
}
