/* item: values and lines as items, in and out of envelopes, and their ids.
 *
 * Two items are the same when their bytes and their kind (a text or other JSON) are.  So white
 * space between the parts of a value and the way a string is escaped do not matter: what is written
 * into an envelope, and what an id is made of, is always the compact form. */
#include "run/item.h"

#include <openssl/evp.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "core/field.h"
#include "core/jsonpath.h"

#define SHOWN_MAX 60                 /* bytes of a name that an error repeats */
#define BASE64_STEP ((size_t)3072)   /* bytes that are encoded at a time: a multiple of 3 */
#define BASE64_MAX ((size_t)1 << 30) /* bytes of a base64 text: OpenSSL counts with an int */
#define ID_HASH_LEN 16               /* hex digits of a hash in an id */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---- making ---------------------------------------------------------------------------------- */

/* plain_run is how many bytes from `at` on have no white space outside of strings.  The text is
 * valid JSON, and `at` is not inside a string. */
static size_t plain_run(const char *at, const char *end)
{
    const char *begin = at;

    while (at < end && !is_space(*at)) {
        if (*at++ != '"')
            continue;
        for (;;) {
            at += utf8_plain((const uint8_t *)at, (size_t)(end - at));
            if (*at == '"')
                break;
            at += *at == '\\' ? 2 : 1;
        }
        at++;
    }
    return (size_t)(at - begin);
}

/* compact gives a value's text without white space outside of strings: the text itself when it has
 * none.  `ptr` is NULL when memory is exhausted. */
static struct slice compact(struct slice raw, struct arena *arena)
{
    const char *at = raw.ptr, *end = raw.ptr + raw.len;
    size_t run = plain_run(at, end), len = 0;
    char *out;

    if (run == raw.len)
        return raw;
    out = arena_alloc(arena, raw.len + 1);
    if (!out)
        return (struct slice){0};
    while (at < end) {
        memcpy(out + len, at, run);
        len += run;
        at += run;
        while (at < end && is_space(*at))
            at++;
        run = plain_run(at, end);
    }
    return (struct slice){out, len};
}

enum status item_from_value(struct json value, struct arena *arena, struct item *out,
                            struct err *err)
{
    struct slice bytes;

    if (value.raw.len == 0) /* what an absent member reads as */
        value = (struct json){JSON_NULL, SLICE("null")};
    bytes = value.type == JSON_STRING ? json_text(value, arena) : compact(value.raw, arena);
    if (!bytes.ptr)
        return err_no_memory(err);
    if (value.type != JSON_STRING)
        value.raw = bytes;
    *out = (struct item){.value = value, .bytes = bytes};
    return STATUS_OK;
}

/* quoted_plain is a line in quotes, when nothing in it needs care. */
static struct slice quoted_plain(struct slice line, struct arena *arena)
{
    char *text = arena_alloc(arena, line.len + 3);

    if (!text)
        return (struct slice){0};
    text[0] = '"';
    if (line.len)
        memcpy(text + 1, line.ptr, line.len);
    text[line.len + 1] = '"';
    return (struct slice){text, line.len + 2};
}

/* quoted_escaped is the same for any line; what is no UTF-8 becomes U+FFFD. */
static struct slice quoted_escaped(struct slice line, struct arena *arena)
{
    struct slice copy = {0};
    struct jsonw w;
    struct buf buf;

    buf_init(&buf, SIZE_MAX);
    jsonw_init(&w, &buf);
    jsonw_string(&w, line);
    if (buf_status(&buf, NULL) == STATUS_OK)
        copy = arena_dup(arena, buf_slice(&buf));
    buf_release(&buf);
    return copy;
}

enum status item_from_line(struct slice line, struct arena *arena, struct item *out,
                           struct err *err)
{
    if (line.len == 0)
        line = SLICE("");
    bool plain = utf8_plain((const uint8_t *)line.ptr, line.len) == line.len;
    struct slice text = plain ? quoted_plain(line, arena) : quoted_escaped(line, arena);

    if (!text.ptr)
        return err_no_memory(err);
    *out = (struct item){.value = {JSON_STRING, text}, .bytes = line};
    return STATUS_OK;
}

/* ---- in and out of envelopes ------------------------------------------------------------------
 */

/* put_base64 writes the member with the exact bytes, some at a time. */
static void put_base64(struct jsonw *out, const char *key, struct slice bytes)
{
    unsigned char text[BASE64_STEP / 3 * 4 + 1];

    jsonw_key(out, key);
    jsonw_raw(out, SLICE("\""));
    while (bytes.len > 0) {
        size_t step = bytes.len < BASE64_STEP ? bytes.len : BASE64_STEP;
        int len = EVP_EncodeBlock(text, (const unsigned char *)bytes.ptr, (int)step);
        buf_add(out->buf, text, (size_t)len);
        bytes = (struct slice){bytes.ptr + step, bytes.len - step};
    }
    buf_add_char(out->buf, '"');
}

void item_print(const struct item *item, struct jsonw *out)
{
    jsonw_key(out, "item");
    if (item->value.type == JSON_STRING)
        jsonw_string(out, item->bytes);
    else
        jsonw_raw(out, item->value.raw);
    if (item->value.type == JSON_STRING && !json_utf8_valid(item->bytes))
        put_base64(out, "item_bytes", item->bytes);
}

/* is_base64 says whether a text is base64 as put_base64 writes it, and how much of it is padding.
 * OpenSSL would let white space at the ends pass. */
static bool is_base64(struct slice text, size_t *padding)
{
    if (text.len == 0 || text.len % 4 != 0 || text.len > BASE64_MAX)
        return false;
    *padding = text.ptr[text.len - 1] != '=' ? 0 : text.ptr[text.len - 2] != '=' ? 1 : 2;
    for (size_t i = 0; i < text.len - *padding; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '+' || c == '/'))
            return false;
    }
    return true;
}

/* parse_bytes reads the exact bytes of a line. */
static enum status parse_bytes(struct json value, struct arena *arena, struct slice *out,
                               struct err *err)
{
    struct slice text = json_text(value, arena);
    unsigned char *bytes;
    size_t padding;

    if (value.type == JSON_STRING && !text.ptr)
        return err_no_memory(err);
    if (!is_base64(text, &padding))
        return err_set(err, STATUS_INVALID, "inputs.item_bytes: is not base64");
    bytes = arena_alloc(arena, text.len / 4 * 3 + 1);
    if (!bytes)
        return err_no_memory(err);
    int len = EVP_DecodeBlock(bytes, (const unsigned char *)text.ptr, (int)text.len);
    BUG_ON((size_t)len != text.len / 4 * 3);
    *out = (struct slice){(const char *)bytes, (size_t)len - padding};
    return STATUS_OK;
}

enum status item_parse(struct json inputs, struct arena *arena, struct item *out, struct err *err)
{
    struct json item, exact;
    struct slice bytes = {0};

    if (!json_get(inputs, "item", &item))
        return item_from_value(inputs, arena, out, err);
    if (!json_get(inputs, "item_bytes", &exact))
        return item_from_value(item, arena, out, err);
    enum status status = parse_bytes(exact, arena, &bytes, err);
    return status == STATUS_OK ? item_from_line(bytes, arena, out, err) : status;
}

/* ---- fields and ids ---------------------------------------------------------------------------
 */

/* element finds an array's element by its position in digits. */
static bool element(struct json array, struct slice digits, struct json *out)
{
    struct json_iter iter;
    size_t position = 0;

    if (digits.len == 0 || digits.len > 18)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
            return false;
        position = position * 10 + (size_t)(digits.ptr[i] - '0');
    }
    json_iter_init(&iter, array);
    while (json_next(&iter, NULL, out))
        if (position-- == 0)
            return true;
    return false;
}

bool item_field(struct json value, struct slice path, struct json *out)
{
    bool more = path.len > 0;

    while (more) {
        const char *dot = path.len ? memchr(path.ptr, '.', path.len) : NULL;
        struct slice name = {path.ptr, dot ? (size_t)(dot - path.ptr) : path.len};
        struct json child;
        if (value.type == JSON_ARRAY ? !element(value, name, &child)
                                     : !jsonpath_member(value, name, &child))
            return false;
        value = child;
        more = dot != NULL;
        if (more)
            path = (struct slice){dot + 1, path.len - name.len - 1};
    }
    *out = value;
    return true;
}

enum status item_missing(const struct item *item, struct slice path, struct err *err)
{
    static const char *const kinds[] = {
        [JSON_NULL] = ": it is null",
        [JSON_FALSE] = ": it is false",
        [JSON_TRUE] = ": it is true",
        [JSON_NUMBER] = ": it is a number",
        [JSON_STRING] = ": it is a string",
        [JSON_ARRAY] = "",
        [JSON_OBJECT] = "",
    };
    struct slice shown = field_head(path, SHOWN_MAX);

    return err_set(err, STATUS_INVALID, "the item has no field \"%.*s%s\"%s", SLICE_ARG(shown),
                   shown.len < path.len ? "..." : "", kinds[item->value.type]);
}

/* add_escaped appends one character of an id, or what stands for it. */
static void add_escaped(struct buf *out, const uint8_t *at, size_t len, bool valid)
{
    bool control = *at < 0x20 || *at == 0x7F || (*at == 0xC2 && len == 2 && at[1] < 0xA0);

    if (valid && !control) {
        buf_add(out, at, len);
        return;
    }
    for (size_t i = 0; i < len; i++)
        buf_addf(out, "%%%02X", (unsigned)at[i]);
}

/* add_id appends a text as an id.  One that gets too long keeps what fits before a hash of the
 * whole. */
static void add_id(struct slice text, struct buf *out)
{
    size_t begin = out->len, keep = begin;

    for (size_t i = 0; i < text.len && out->len - begin <= ITEM_ID_MAX;) {
        const uint8_t *at = (const uint8_t *)text.ptr + i;
        bool valid;
        size_t len = utf8_step(at, text.len - i, &valid);
        add_escaped(out, at, len, valid);
        if (out->len - begin <= ITEM_ID_MAX - ID_HASH_LEN - 1)
            keep = out->len;
        i += len;
    }
    if (out->len - begin <= ITEM_ID_MAX || out->status != STATUS_OK)
        return;
    struct hash hash = hash_sha256(&text, 1);
    out->len = keep;
    buf_add_char(out, '-');
    buf_add_hex(out, hash.bytes, ID_HASH_LEN / 2);
}

/* hash_id appends the id of an item that names none. */
static void hash_id(const struct item *item, struct buf *out)
{
    struct slice parts[] = {item->value.type == JSON_STRING ? SLICE("text:") : SLICE("json:"),
                            item->bytes};
    struct hash hash = hash_sha256(parts, 2);

    buf_add_hex(out, hash.bytes, ID_HASH_LEN / 2);
}

enum status item_id(const struct item *item, const char *field, struct buf *out, struct err *err)
{
    struct arena arena = {0};
    struct item named = {0};
    struct json value;
    enum status status;

    if (!field) {
        hash_id(item, out);
        return buf_status(out, err);
    }
    if (!item_field(item->value, slice_of(field), &value) || value.type == JSON_NULL)
        return item_missing(item, slice_of(field), err);
    status = item_from_value(value, &arena, &named, err);
    if (status == STATUS_OK && named.bytes.len == 0)
        status = err_set(err, STATUS_INVALID, "the field \"%.*s\", the item's id, is empty",
                         SLICE_ARG(field_head(slice_of(field), SHOWN_MAX)));
    if (status == STATUS_OK) {
        add_id(named.bytes, out);
        status = buf_status(out, err);
    }
    arena_release(&arena);
    return status;
}
