/* yaml: libyaml's events, written out as JSON one by one.
 *
 * A stack of open collections says what an event means: a scalar in a mapping is by turns a key and
 * a value.  Every key is remembered by a digest of (its mapping's number, its text) in one set for
 * the whole document, so that a duplicate is found in constant time however large a mapping is.
 *
 * Marks are taken right before a key or a value is written, so they are in the order of their
 * offsets and a place is found by halving. */
#include "base/yaml.h"

#include <stdbool.h>
#include <yaml.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/mem.h"

#define KEYS_CAP_MIN 64
#define MARKS_CAP_MIN 64

/* struct keys: a set of digests, open addressing; the capacity is a power of two, 0 is a free
 * place. */
struct keys {
    uint64_t *places;
    size_t cap;
    size_t count;
};

struct level {
    uint32_t mapping; /* the mapping's number, from 1; 0 for a sequence */
    bool want_key;    /* in a mapping: the next scalar is a key */
};

struct reader {
    yaml_parser_t parser;
    struct slice text;
    struct jsonw w;
    struct keys keys;
    uint32_t mappings;  /* seen so far */
    uint32_t documents; /* seen so far */
    unsigned depth;     /* open collections */
    struct level levels[JSON_DEPTH_MAX];
    struct yaml_marks *marks; /* NULL: nobody asks */
    struct err *err;
};

static enum status wrong_at(struct reader *r, yaml_mark_t mark, const char *what)
{
    return err_set(r->err, STATUS_INVALID, "line %zu, column %zu: %s", mark.line + 1,
                   mark.column + 1, what);
}

/* keys_place is where `digest` is, or the free place where it belongs. */
static uint64_t *keys_place(const struct keys *keys, uint64_t digest)
{
    size_t i = digest & (keys->cap - 1);
    while (keys->places[i] && keys->places[i] != digest)
        i = (i + 1) & (keys->cap - 1);
    return &keys->places[i];
}

/* keys_grow keeps at least half of the places free.  False when memory is exhausted. */
static bool keys_grow(struct keys *keys)
{
    if (keys->count < keys->cap / 2)
        return true;
    struct keys more = {.cap = keys->cap ? keys->cap * 2 : KEYS_CAP_MIN, .count = keys->count};
    more.places = mem_array(more.cap, sizeof(*more.places));
    if (!more.places)
        return false;
    for (size_t i = 0; i < keys->cap; i++)
        if (keys->places[i])
            *keys_place(&more, keys->places[i]) = keys->places[i];
    mem_free(keys->places);
    *keys = more;
    return true;
}

/* mark_next remembers where the key or value stood that is written next. */
static enum status mark_next(struct reader *r, yaml_mark_t at)
{
    struct yaml_marks *marks = r->marks;
    if (!marks)
        return STATUS_OK;
    if (marks->count == marks->cap) {
        size_t cap = marks->cap ? marks->cap * 2 : MARKS_CAP_MIN;
        struct yaml_mark *more = mem_realloc(marks->marks, cap * sizeof(*more));
        if (!more)
            return err_no_memory(r->err);
        marks->marks = more;
        marks->cap = cap;
    }
    /* A comma is written first where one is due. */
    marks->marks[marks->count++] = (struct yaml_mark){
        r->w.buf->len + r->w.comma, (uint32_t)at.line + 1, (uint32_t)at.column + 1};
    return STATUS_OK;
}

static enum status write_key(struct reader *r, const yaml_event_t *event, struct slice key)
{
    struct level *level = &r->levels[r->depth - 1];
    struct slice parts[] = {{(const char *)&level->mapping, sizeof(level->mapping)}, key};
    struct hash hash = hash_sha256(parts, 2);
    uint64_t digest;
    memcpy(&digest, hash.bytes, sizeof(digest));
    if (digest == 0)
        digest = 1;

    if (!keys_grow(&r->keys))
        return err_no_memory(r->err);
    uint64_t *place = keys_place(&r->keys, digest);
    if (*place) {
        char what[160];
        bool cut = key.len > 80;
        snprintf(what, sizeof(what), "duplicate key '%.*s%s'", cut ? 80 : (int)key.len, key.ptr,
                 cut ? "..." : "");
        return wrong_at(r, event->start_mark, what);
    }
    *place = digest;
    r->keys.count++;
    if (mark_next(r, event->start_mark) != STATUS_OK)
        return STATUS_NO_MEMORY;
    jsonw_key_slice(&r->w, key);
    level->want_key = false;
    return STATUS_OK;
}

/* value_done says to the collection around a value that the value has ended. */
static void value_done(struct reader *r)
{
    if (r->depth > 0)
        r->levels[r->depth - 1].want_key = r->levels[r->depth - 1].mapping != 0;
}

/* write_plain writes a scalar without quotes: what JSON would read as a number or a word is one,
 * nothing at all is null, and the rest is text. */
static void write_plain(struct reader *r, struct slice text)
{
    struct json value;
    bool like_json = text.len > 0 && strchr("-0123456789tfn", text.ptr[0]) &&
                     json_parse(text, &value, NULL) == STATUS_OK;
    if (like_json || text.len == 0)
        jsonw_raw(&r->w, text);
    else
        jsonw_string(&r->w, text);
}

static enum status on_scalar(struct reader *r, const yaml_event_t *event)
{
    struct slice text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    if (event->data.scalar.anchor)
        return wrong_at(r, event->start_mark, "anchors are not allowed");
    if (event->data.scalar.tag)
        return wrong_at(r, event->start_mark, "tags are not allowed");
    if (r->depth > 0 && r->levels[r->depth - 1].want_key)
        return write_key(r, event, text);
    if (mark_next(r, event->start_mark) != STATUS_OK)
        return STATUS_NO_MEMORY;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        write_plain(r, text);
    else
        jsonw_string(&r->w, text);
    value_done(r);
    return STATUS_OK;
}

static enum status on_open(struct reader *r, const yaml_event_t *event)
{
    bool mapping = event->type == YAML_MAPPING_START_EVENT;
    if (mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor)
        return wrong_at(r, event->start_mark, "anchors are not allowed");
    if (mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag)
        return wrong_at(r, event->start_mark, "tags are not allowed");
    if (r->depth > 0 && r->levels[r->depth - 1].want_key)
        return wrong_at(r, event->start_mark, "a key must be a text, not a list or a mapping");
    if (r->depth == JSON_DEPTH_MAX)
        return wrong_at(r, event->start_mark, "nested too deeply");
    if (mark_next(r, event->start_mark) != STATUS_OK)
        return STATUS_NO_MEMORY;
    r->levels[r->depth++] = (struct level){mapping ? ++r->mappings : 0, mapping};
    if (mapping)
        jsonw_object(&r->w);
    else
        jsonw_array(&r->w);
    return STATUS_OK;
}

static enum status on_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->documents++ > 0)
            return wrong_at(r, event->start_mark, "a second document");
        return STATUS_OK;
    case YAML_SCALAR_EVENT:
        return on_scalar(r, event);
    case YAML_ALIAS_EVENT:
        return wrong_at(r, event->start_mark, "aliases are not allowed");
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return on_open(r, event);
    case YAML_SEQUENCE_END_EVENT:
        r->depth--;
        jsonw_array_end(&r->w);
        value_done(r);
        return STATUS_OK;
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        jsonw_object_end(&r->w);
        value_done(r);
        return STATUS_OK;
    case YAML_STREAM_END_EVENT:
        if (r->documents == 0)
            return wrong_at(r, event->start_mark, "there is no document");
        return STATUS_OK;
    default:
        return STATUS_OK;
    }
}

/* mark_of_byte is the place of a byte, for the errors that libyaml places by offset alone. */
static yaml_mark_t mark_of_byte(struct slice text, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset && i < text.len; i++) {
        if (text.ptr[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if (((unsigned char)text.ptr[i] & 0xC0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static enum status parse_failed(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return err_no_memory(r->err);
    const char *problem = p->problem ? p->problem : "not valid YAML";
    if (p->error == YAML_READER_ERROR)
        return wrong_at(r, mark_of_byte(r->text, p->problem_offset), problem);
    return err_set(r->err, STATUS_INVALID, "line %zu, column %zu: %s%s%s", p->problem_mark.line + 1,
                   p->problem_mark.column + 1, problem, p->context ? " " : "",
                   p->context ? p->context : "");
}

/* read_all takes events until the stream ends or one is wrong. */
static enum status read_all(struct reader *r)
{
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event))
            return parse_failed(r);
        bool end = event.type == YAML_STREAM_END_EVENT;
        enum status status = on_event(r, &event);
        yaml_event_delete(&event);
        if (status == STATUS_OK)
            status = buf_status(r->w.buf, r->err);
        if (status != STATUS_OK || end)
            return status;
    }
}

enum status yaml_to_json_marked(struct slice text, struct buf *out, struct yaml_marks *marks,
                                struct err *err)
{
    enum status status = buf_status(out, err);
    if (status != STATUS_OK)
        return status;

    /* Written aside first: a text that is refused half-way leaves nothing in `out`. */
    struct buf json;
    struct reader r = {.text = text, .marks = marks, .err = err};
    buf_init(&json, out->max - out->len);
    jsonw_init(&r.w, &json);
    if (!yaml_parser_initialize(&r.parser)) {
        status = err_no_memory(err);
        goto out;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    const char *bytes = text.len ? text.ptr : ""; /* libyaml takes no NULL */
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)bytes, text.len);
    status = read_all(&r);
    if (status == STATUS_OK) {
        buf_add_slice(out, buf_slice(&json));
        status = buf_status(out, err);
    }
    yaml_parser_delete(&r.parser);
out:
    mem_free(r.keys.places);
    buf_release(&json);
    if (marks && status != STATUS_OK)
        yaml_marks_release(marks);
    return status;
}

enum status yaml_to_json(struct slice text, struct buf *out, struct err *err)
{
    return yaml_to_json_marked(text, out, NULL, err);
}

struct yaml_mark yaml_mark_find(const struct yaml_marks *marks, size_t offset)
{
    size_t low = 0, high = marks->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (marks->marks[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return marks->count ? marks->marks[low] : (struct yaml_mark){0, 1, 1};
}

void yaml_marks_release(struct yaml_marks *marks)
{
    mem_free(marks->marks);
    *marks = (struct yaml_marks){0};
}
