/* verdict: writing the failure, and the result.
 *
 * What the command itself said comes first: its members are written as they are, and ours only
 * where it left one open (not given, null, or an empty text); `artifacts` alone is merged, member
 * by member.  What it said is taken only when the whole is a failure that the engine accepts
 * (failure_parse); otherwise it is kept as a text, and the reason stands in error_context.
 *
 *     said --none---------------------------------------> ours
 *          --object, and with ours an acceptable failure-> both
 *          --anything else-------------------------------> ours, artifacts.said, a line of context
 *
 * `artifacts` stays below FAILURE_STRUCTURE_MAX, or the engine would keep its head alone and lose
 * the path of the worktree: ours are bounded one by one, and what the command said gets what is
 * left. */
#include "run/verdict.h"

#include "core/failure.h"
#include "core/field.h"
#include "run/evidence.h"
#include "run/verdict_judge.h"

#define TRACE_MAX (28u << 10)                        /* bytes of the tail of standard error */
#define STREAM_MAX (12u << 10)                       /* bytes of a stream in `artifacts` */
#define SAID_TEXT_MAX (4u << 10)                     /* bytes of what was said in vain */
#define SAID_HEAD_MAX 1024                           /* bytes of one artifact that is too large */
#define SAID_DEPTH_MAX 100                           /* it is put into other documents */
#define ARTIFACTS_MAX (FAILURE_STRUCTURE_MAX - 4096) /* what the members may fill */
#define FAILURE_MAX (4u << 20)                       /* bytes of a failure as JSON */

/* struct printing: a failure that is being written. */
struct printing {
    const struct verdict_facts *facts;
    const struct judgement *judgement;
    struct json said;      /* an object; a null: none that counts */
    struct json artifacts; /* of `said` */
    const char
        *said_trouble; /* why what was said does not count; NULL: it does, or there is nothing */
    struct jsonw *out;
};

/* pass_on hands the failure of a buffer on to the one that was given to us. */
static void pass_on(struct jsonw *out, const struct buf *buf)
{
    if (out->buf->status == STATUS_OK)
        out->buf->status = buf->status;
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ')
        text.len--;
    while (text.len > 0 && (unsigned char)text.ptr[0] <= ' ')
        text = (struct slice){text.ptr + 1, text.len - 1};
    return text;
}

static int64_t ms_of(struct span span)
{
    return span.us > 0 ? span.us / 1000 : 0;
}

bool verdict_failed(const struct verdict_facts *facts)
{
    const struct process_end *end = facts->end;

    return !end || end->error || end->signalled || end->exit_code != 0 || end->timed_out ||
           end->stopped || facts->conflict || facts->invalid || facts->message.len > 0 ||
           trimmed(facts->said).len > 0;
}

/* ---- what was said --------------------------------------------------------------------------- */

/* is_open says whether a value leaves its member open. */
static bool is_open(struct json value)
{
    return value.type == JSON_NULL || (value.type == JSON_STRING && value.raw.len == 2);
}

/* gives says whether an object gives a member.  One of several of the same name is enough: then it
 * is for its reader to choose between them, and not ours to add another. */
static bool gives(struct json object, const char *name)
{
    struct json_iter iter;
    struct json key, value;

    json_iter_init(&iter, object);
    while (json_next(&iter, &key, &value))
        if (json_string_is(key, name) && !is_open(value))
            return true;
    return false;
}

/* depth_of is how deep the brackets of a JSON text are nested. */
static int depth_of(struct slice json)
{
    int depth = 0, deepest = 0;
    bool quoted = false;

    for (size_t i = 0; i < json.len; i++) {
        char c = json.ptr[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            deepest = ++depth > deepest ? depth : deepest;
        else if (!quoted && (c == '}' || c == ']'))
            depth--;
    }
    return deepest;
}

static enum status read_said(struct slice text, struct json *out, struct err *err)
{
    enum status status = json_parse(text, out, err);

    if (status == STATUS_OK && out->type != JSON_OBJECT)
        status = err_set(err, STATUS_INVALID, "a failure must be an object");
    if (status == STATUS_OK && depth_of(text) > SAID_DEPTH_MAX)
        status = err_set(err, STATUS_INVALID, "nested deeper than %d levels", SAID_DEPTH_MAX);
    return status;
}

/* put_key writes the name of a member as it was read. */
static void put_key(struct jsonw *out, struct json key)
{
    jsonw_raw(out, key.raw);
    buf_add_char(out->buf, ':');
    out->comma = false;
}

/* put_said writes the members that the command gave.  Whether the runner was interrupted is not the
 * command's to say. */
static void put_said(const struct printing *p)
{
    bool message = gives(p->said, "message");
    struct json_iter iter;
    struct json key, value;

    json_iter_init(&iter, p->said);
    while (json_next(&iter, &key, &value)) {
        if (is_open(value) || json_string_is(key, "artifacts") ||
            json_string_is(key, "interrupted"))
            continue;
        if (!message && json_string_is(key, "error_message"))
            key.raw = SLICE("\"message\"");
        put_key(p->out, key);
        jsonw_raw(p->out, value.raw);
    }
}

/* ---- artifacts ------------------------------------------------------------------------------- */

/* wants says whether an artifact is ours to write. */
static bool wants(const struct printing *p, const char *name)
{
    return !gives(p->artifacts, name);
}

/* put_stream writes the head and tail of a stream and how much it was: NAME, NAME_bytes and, when
 * something was left out, NAME_truncated_bytes. */
static void put_stream(struct jsonw *out, const char *name, const struct capture *capture)
{
    struct buf text, key;
    size_t cut;

    if (!capture || capture->total == 0) {
        jsonw_put_str(out, name, "");
        return;
    }
    buf_init(&text, CAPTURE_HEAD_MAX + CAPTURE_TAIL_MAX + 256);
    buf_init(&key, 64);
    capture_print(capture, &text);
    cut = evidence_put(out, name, buf_slice(&text), STREAM_MAX);
    buf_addf(&key, "%s_bytes", name);
    jsonw_put_int(out, buf_str(&key), (int64_t)capture->total);
    if (cut + capture_cut(capture) > 0) {
        buf_clear(&key);
        buf_addf(&key, "%s_truncated_bytes", name);
        jsonw_put_int(out, buf_str(&key), (int64_t)(cut + capture_cut(capture)));
    }
    pass_on(out, &text);
    pass_on(out, &key);
    buf_release(&text);
    buf_release(&key);
}

static void put_usage(struct jsonw *out, const struct process_end *end)
{
    jsonw_put_int(out, "cpu_user_ms", ms_of(end->cpu_user));
    jsonw_put_int(out, "cpu_system_ms", ms_of(end->cpu_system));
    jsonw_key(out, "memory_max_kb");
    if (end->memory_max_kb > 0)
        jsonw_int(out, end->memory_max_kb);
    else
        jsonw_null(out); /* not known */
}

/* put_end writes how the process ended and what it used. */
static void put_end(const struct printing *p, struct jsonw *out)
{
    const struct process_end *end = p->facts->end;
    char name[16];

    if (!end || end->error)
        return;
    if (wants(p, "exit_code"))
        jsonw_put_int(out, "exit_code", end->signalled ? 128 + end->signal : end->exit_code);
    if (end->signalled && wants(p, "signal"))
        jsonw_put_str(out, "signal", signal_name(end->signal, name));
    if (end->core && wants(p, "core_dumped"))
        jsonw_put_bool(out, "core_dumped", true);
    if (wants(p, "cpu_user_ms") && wants(p, "cpu_system_ms") && wants(p, "memory_max_kb"))
        put_usage(out, end);
}

/* put_bounded writes a member as it is while there is room, then only its head; it returns how many
 * bytes were left out. */
static size_t put_bounded(struct jsonw *out, struct json key, struct json value)
{
    size_t used = out->buf->len + key.raw.len + 128;
    struct slice head = field_head(value.raw, SAID_HEAD_MAX);

    if (used + value.raw.len > ARTIFACTS_MAX && used + 6 * head.len > ARTIFACTS_MAX)
        return key.raw.len + value.raw.len;
    put_key(out, key);
    if (used + value.raw.len <= ARTIFACTS_MAX) {
        jsonw_raw(out, value.raw);
        return 0;
    }
    jsonw_object(out);
    jsonw_put_int(out, "truncated_bytes", (int64_t)(value.raw.len - head.len));
    jsonw_put_string(out, "head", head);
    jsonw_object_end(out);
    return 0;
}

/* put_worktree writes what is known of the worktree, under the map system's names. */
static void put_worktree(const struct printing *p, struct jsonw *out)
{
    static const char *const names[] = {"worktree_path", "branch_name", "uncommitted_changes",
                                        "error_logs"};
    struct json worktree, value;

    if (p->facts->worktree.len == 0 || json_parse(p->facts->worktree, &worktree, NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (wants(p, names[i]) && json_get(worktree, names[i], &value))
            jsonw_put_raw(out, names[i], value.raw);
}

/* put_said_artifacts writes those that the command gave, as far as there is room. */
static void put_said_artifacts(const struct printing *p, struct jsonw *out)
{
    struct json_iter iter;
    struct json key, value;
    size_t cut = 0;

    json_iter_init(&iter, p->artifacts);
    while (json_next(&iter, &key, &value))
        if (!is_open(value))
            cut += put_bounded(out, key, value);
    if (cut > 0)
        jsonw_put_int(out, "truncated_bytes", (int64_t)cut);
}

static void put_artifacts(const struct printing *p)
{
    const struct verdict_facts *facts = p->facts;
    struct buf buf;
    struct jsonw out;

    buf_init(&buf, FAILURE_MAX);
    jsonw_init(&out, &buf);
    jsonw_object(&out);
    put_worktree(p, &out);
    put_end(p, &out);
    if (facts->out && wants(p, "stdout"))
        put_stream(&out, "stdout", facts->out);
    if (facts->err && wants(p, "stderr"))
        put_stream(&out, "stderr", facts->err);
    if (p->said_trouble)
        evidence_put(&out, "said", facts->said, SAID_TEXT_MAX);
    put_said_artifacts(p, &out);
    jsonw_object_end(&out);
    if (!slice_is(buf_slice(&buf), "{}"))
        jsonw_put_raw(p->out, "artifacts", buf_slice(&buf));
    pass_on(p->out, &buf);
    buf_release(&buf);
}

/* ---- the failure ----------------------------------------------------------------------------- */

/* is_ours says whether a member of the failure is ours to write. */
static bool is_ours(const struct printing *p, const char *name)
{
    return !gives(p->said, name);
}

static void put_own_text(const struct printing *p, const char *name, struct slice text)
{
    if (text.len > 0 && is_ours(p, name))
        jsonw_put_string(p->out, name, text);
}

static void put_error_type(const struct printing *p)
{
    const struct judgement *judgement = p->judgement;

    if (!is_ours(p, "error_type"))
        return;
    if (!judgement->detailed) {
        jsonw_put_str(p->out, "error_type", judgement->type);
        return;
    }
    jsonw_key(p->out, "error_type");
    jsonw_object(p->out);
    jsonw_key(p->out, judgement->type);
    jsonw_object(p->out);
    jsonw_put_int(p->out, "exit_code", judgement->exit_code);
    if (judgement->signal[0])
        jsonw_put_str(p->out, "signal", judgement->signal);
    jsonw_object_end(p->out);
    jsonw_object_end(p->out);
}

/* put_class writes our class, unless the command gave what the engine derives a better one from. */
static void put_class(const struct printing *p)
{
    if (p->judgement->class && is_ours(p, "class") && is_ours(p, "error_type") &&
        is_ours(p, "http_status"))
        jsonw_put_str(p->out, "class", p->judgement->class);
}

/* put_line writes a line of context: what it is, and a text. */
static void put_line(const struct printing *p, const char *what, struct slice text)
{
    struct buf line;

    buf_init(&line, FAILURE_TEXT_MAX * 2);
    buf_add_str(&line, what);
    text_truncate(text, FAILURE_TEXT_MAX, &line);
    jsonw_string(p->out, buf_slice(&line));
    pass_on(p->out, &line);
    buf_release(&line);
}

static void put_context(const struct printing *p)
{
    const struct verdict_facts *facts = p->facts;
    const struct judgement *judgement = p->judgement;
    bool overheard = judgement->overheard && judgement->last_line.len > 0;

    if (!is_ours(p, "error_context") || (!facts->context_count && !overheard && !p->said_trouble))
        return;
    jsonw_key(p->out, "error_context");
    jsonw_array(p->out);
    for (size_t i = 0; i < facts->context_count; i++)
        jsonw_string(p->out, facts->context[i]);
    if (overheard)
        put_line(p, "The last line of standard error: ", buf_slice(&judgement->last_line));
    if (p->said_trouble)
        put_line(
            p, "What the command said of its failure cannot be used: ", slice_of(p->said_trouble));
    jsonw_array_end(p->out);
}

static void put_trace(const struct printing *p)
{
    struct buf tail;

    if (!p->facts->err || p->facts->err->total == 0 || !is_ours(p, "stack_trace"))
        return;
    buf_init(&tail, TRACE_MAX);
    capture_tail(p->facts->err, TRACE_MAX, &tail);
    jsonw_put_text(p->out, "stack_trace", buf_slice(&tail));
    pass_on(p->out, &tail);
    buf_release(&tail);
}

static void put_step(const struct printing *p)
{
    struct buf step;

    buf_init(&step, FAILURE_TEXT_MAX * 2);
    text_truncate(p->facts->command, FAILURE_TEXT_MAX, &step);
    put_own_text(p, "step_failed", buf_slice(&step));
    pass_on(p->out, &step);
    buf_release(&step);
}

static void print_failure(const struct printing *p)
{
    const struct verdict_facts *facts = p->facts;

    jsonw_object(p->out);
    put_error_type(p);
    put_class(p);
    if (is_ours(p, "message") && is_ours(p, "error_message"))
        jsonw_put_string(p->out, "message", buf_slice(&p->judgement->message));
    put_context(p);
    put_trace(p);
    put_own_text(p, "agent_id", facts->agent_id);
    put_step(p);
    if (is_ours(p, "duration_ms"))
        jsonw_put_int(p->out, "duration_ms", ms_of(facts->duration));
    put_own_text(p, "json_log_location", facts->artifact);
    put_own_text(p, "reason", facts->reason);
    if (facts->interrupted)
        jsonw_put_bool(p->out, "interrupted", true);
    put_said(p);
    put_artifacts(p);
    jsonw_object_end(p->out);
}

/* print_with_said writes the failure with what the command said in it.  Nothing is written when the
 * engine would not accept the whole: `err` says why. */
static enum status print_with_said(struct printing p, struct err *err)
{
    struct jsonw *out = p.out, whole;
    struct buf buf;
    struct arena arena = {0};
    struct json failure;
    struct failure read;

    buf_init(&buf, FAILURE_MAX);
    jsonw_init(&whole, &buf);
    p.out = &whole;
    json_get(p.said, "artifacts", &p.artifacts);
    print_failure(&p);
    enum status status = buf_status(&buf, err);
    if (status == STATUS_OK)
        status = json_parse(buf_slice(&buf), &failure, err);
    if (status == STATUS_OK && !is_open(p.artifacts) && p.artifacts.type != JSON_OBJECT)
        status = field_wrong("artifacts", "an object", p.artifacts, err);
    if (status == STATUS_OK)
        status = failure_parse(failure, &arena, &read, err);
    if (status == STATUS_OK)
        jsonw_raw(out, buf_slice(&buf));
    arena_release(&arena);
    buf_release(&buf);
    return status;
}

void verdict_print(const struct verdict_facts *facts, struct jsonw *out)
{
    struct judgement judgement;
    struct printing p = {.facts = facts, .judgement = &judgement, .out = out};
    struct slice said = trimmed(facts->said);
    struct err err = {0};
    enum status status = STATUS_INVALID;

    verdict_judge(facts, &judgement);
    if (said.len > 0)
        status = read_said(said, &p.said, &err);
    if (status == STATUS_OK)
        status = print_with_said(p, &err);
    if (status != STATUS_OK) {
        p.said = (struct json){0};
        p.said_trouble = said.len > 0 ? err.text : NULL;
        print_failure(&p);
    }
    pass_on(out, &judgement.message);
    pass_on(out, &judgement.last_line);
    judgement_release(&judgement);
}

void verdict_result(const struct verdict_facts *facts, struct jsonw *out)
{
    const struct process_end *end = facts->end;

    jsonw_object(out);
    jsonw_put_int(out, "exit_code", end ? end->exit_code : 0);
    jsonw_put_int(out, "duration_ms", ms_of(facts->duration));
    if (end)
        put_usage(out, end);
    put_stream(out, "stdout", facts->out);
    jsonw_put_text(out, "json_log_location", facts->artifact);
    jsonw_object_end(out);
}
