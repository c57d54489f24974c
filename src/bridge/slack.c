/* slack: see slack.h. */
#include "bridge/slack.h"

#include "base/jsonw.h"
#include "base/utf8.h"

#define TEXT_MAX 3000 /* characters, as Slack counts them, escapes included */
#define HEADER_MAX 150
#define FIELD_MAX 2000
#define VALUE_MAX 300           /* of a reason, a source, a queue or an id */
#define CODE_MAX 1500           /* of a signature */
#define TOGETHER_MAX (16 << 10) /* bytes of what comes together in one text */

/* ---- texts ----------------------------------------------------------------------------------- */

/* is_control is true for what would break a line, turn its direction or not be seen at all. */
static bool is_control(const uint8_t *at, size_t len)
{
    if (len == 1)
        return at[0] < 0x20 || at[0] == 0x7F;
    if (len == 2)
        return at[0] == 0xC2 && at[1] < 0xA0; /* U+0080 to U+009F */
    if (len != 3 || at[0] != 0xE2)
        return false;
    return (at[1] == 0x80 && ((at[2] >= 0x8B && at[2] <= 0x8F) ||   /* U+200B to U+200F */
                              (at[2] >= 0xA8 && at[2] <= 0xAE))) || /* U+2028 to U+202E */
           (at[1] == 0x81 && at[2] >= 0xA0 && at[2] <= 0xAF);       /* U+2060 to U+206F */
}

/* escape_of is what stands for a character in Slack's markup; NULL: itself. */
static const char *escape_of(const uint8_t *at, size_t len, bool valid)
{
    if (!valid)
        return "\xEF\xBF\xBD";
    if (len > 1)
        return NULL;
    switch (*at) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '`':
        return "'";
    default:
        return NULL;
    }
}

/* characters counts those of a valid text. */
static size_t characters(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((uint8_t)text[i] & 0xC0) != 0x80;
    return count;
}

/* add_foreign appends a text that came from a job, up to `max` characters; what is left out is
 * "...". */
static void add_foreign(struct buf *out, struct slice text, size_t max)
{
    size_t used = 0;
    bool valid;
    for (size_t i = 0, len; i < text.len; i += len) {
        const uint8_t *at = (const uint8_t *)text.ptr + i;
        len = utf8_step(at, text.len - i, &valid);
        if (valid && is_control(at, len))
            continue;
        const char *escape = escape_of(at, len, valid);
        size_t wide = escape ? characters(escape, strlen(escape)) : 1;
        if (used + wide + 3 > max) {
            buf_add_str(out, "...");
            return;
        }
        used += wide;
        if (escape)
            buf_add_str(out, escape);
        else
            buf_add(out, at, len);
    }
}

/* add_code appends a text as code.  Slack does not show empty code. */
static void add_code(struct buf *out, struct slice text, size_t max)
{
    buf_add_char(out, '`');
    size_t begin = out->len;
    add_foreign(out, text, max);
    if (out->len == begin)
        buf_add_char(out, '-');
    buf_add_char(out, '`');
}

/* is_plain_id says whether an id can stand in a command as it is. */
static bool is_plain_id(struct slice id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && !(i > 0 && (c == '-' || c == '_' || c == '.' || c == ':')))
            return false;
    }
    return id.len > 0 && id.len <= VALUE_MAX - 3;
}

/* add_command appends how to look at a letter.  Somebody will paste it: an id with anything but
 * plain characters is only shown. */
static void add_command(struct buf *out, struct slice dlq_id)
{
    if (is_plain_id(dlq_id)) {
        buf_addf(out, "`lazaret dlq show %.*s`", SLICE_ARG(dlq_id));
        return;
    }
    buf_add_str(out, "letter ");
    add_code(out, dlq_id, VALUE_MAX);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* put_text writes {"type":"mrkdwn","text":...} of what was put together, which has no more
 * characters than Slack takes. */
static void put_text(struct jsonw *w, const char *type, const struct buf *text, size_t max)
{
    BUG_ON(text->status == STATUS_OK && text->len && characters(text->ptr, text->len) > max);
    jsonw_object(w);
    jsonw_put_str(w, "type", type);
    jsonw_put_string(w, "text", buf_slice(text));
    jsonw_object_end(w);
    if (text->status && !w->buf->status)
        w->buf->status = text->status;
}

static void begin_block(struct jsonw *w, const char *type)
{
    jsonw_object(w);
    jsonw_put_str(w, "type", type);
}

static void put_header(struct jsonw *w, const struct buf *text)
{
    begin_block(w, "header");
    jsonw_key(w, "text");
    put_text(w, "plain_text", text, HEADER_MAX);
    jsonw_object_end(w);
}

static void put_section(struct jsonw *w, const struct buf *text)
{
    begin_block(w, "section");
    jsonw_key(w, "text");
    put_text(w, "mrkdwn", text, TEXT_MAX);
    jsonw_object_end(w);
}

static void put_context(struct jsonw *w, const struct buf *text)
{
    begin_block(w, "context");
    jsonw_key(w, "elements");
    jsonw_array(w);
    put_text(w, "mrkdwn", text, TEXT_MAX);
    jsonw_array_end(w);
    jsonw_object_end(w);
}

static void put_field(struct jsonw *w, const char *name, struct slice value)
{
    struct buf text;
    buf_init(&text, TOGETHER_MAX);
    buf_addf(&text, "*%s*\n", name);
    add_code(&text, value, VALUE_MAX);
    put_text(w, "mrkdwn", &text, FIELD_MAX);
    buf_release(&text);
}

static void put_fields(struct jsonw *w, const struct alert_group *group)
{
    char count[32];
    snprintf(count, sizeof(count), "%lld", (long long)group->count);
    begin_block(w, "section");
    jsonw_key(w, "fields");
    jsonw_array(w);
    put_field(w, "Reason", group->reason);
    put_field(w, "Source", group->source);
    put_field(w, "Queue", group->queue);
    put_field(w, "Count", slice_of(count));
    jsonw_array_end(w);
    jsonw_object_end(w);
}

/* add_signature appends it as a block of code. */
static void add_signature(struct buf *out, struct slice signature)
{
    buf_add_str(out, "```");
    size_t begin = out->len;
    add_foreign(out, signature, CODE_MAX);
    if (out->len == begin)
        buf_add_char(out, '-');
    buf_add_str(out, "```");
}

static void add_time(struct buf *out, struct instant at)
{
    char text[INSTANT_TEXT_SIZE];
    instant_format(at, text);
    buf_add_str(out, text);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void print_first(const struct alert *alert, struct jsonw *w, struct buf *text)
{
    const struct alert_group *group = &alert->groups[0];
    buf_add_str(text, "Dead letter: ");
    add_foreign(text, group->reason, HEADER_MAX / 2);
    jsonw_put_string(w, "text", buf_slice(text)); /* of the notification */
    jsonw_key(w, "blocks");
    jsonw_array(w);
    put_header(w, text);
    put_fields(w, group);
    buf_clear(text);
    add_signature(text, group->signature);
    put_section(w, text);
    buf_clear(text);
    add_time(text, group->first_seen);
    buf_add_str(text, " · ");
    add_command(text, group->sample_dlq_id);
    put_context(w, text);
    jsonw_array_end(w);
}

static void print_digest_group(const struct alert_group *group, struct jsonw *w, struct buf *text)
{
    buf_clear(text);
    buf_addf(text, "*%lld more* · ", (long long)group->count);
    add_code(text, group->reason, VALUE_MAX);
    buf_add_str(text, " from ");
    add_code(text, group->source, VALUE_MAX);
    buf_add_str(text, " in queue ");
    add_code(text, group->queue, VALUE_MAX);
    buf_add_char(text, '\n');
    add_signature(text, group->signature);
    put_section(w, text);
    buf_clear(text);
    add_time(text, group->first_seen);
    buf_add_str(text, " to ");
    add_time(text, group->last_seen);
    buf_add_str(text, " · ");
    add_command(text, group->sample_dlq_id);
    put_context(w, text);
}

static void print_digest(const struct alert *alert, struct jsonw *w, struct buf *text)
{
    size_t named = alert->group_count < SLACK_GROUPS_MAX ? alert->group_count : SLACK_GROUPS_MAX;
    size_t groups = alert->group_count - named + alert->more_groups;
    int64_t letters = alert->more_letters;
    for (size_t i = named; i < alert->group_count; i++)
        letters += alert->groups[i].count;
    buf_addf(text, "Dead letters: %lld more in %lld s", (long long)alert->total,
             (long long)(alert->window.us / 1000000));
    jsonw_put_string(w, "text", buf_slice(text));
    jsonw_key(w, "blocks");
    jsonw_array(w);
    put_header(w, text);
    for (size_t i = 0; i < named; i++)
        print_digest_group(&alert->groups[i], w, text);
    buf_clear(text);
    if (letters > 0)
        buf_addf(text, "and %zu more group%s, with %lld letter%s · ", groups,
                 groups == 1 ? "" : "s", (long long)letters, letters == 1 ? "" : "s");
    buf_add_str(text, "`lazaret dlq groups`");
    put_context(w, text);
    jsonw_array_end(w);
}

void slack_print(const struct alert *alert, struct buf *out)
{
    struct jsonw w;
    struct buf text;
    buf_init(&text, TOGETHER_MAX);
    jsonw_init(&w, out);
    jsonw_object(&w);
    if (alert->first)
        print_first(alert, &w, &text);
    else
        print_digest(alert, &w, &text);
    jsonw_object_end(&w);
    if (text.status && !out->status)
        out->status = text.status;
    buf_release(&text);
}
