/* json_oracle: jansson as the judge of our reader, for the differential test and the fuzzer.
 *
 * The two must give one verdict on every text, and the same values, but for what is documented:
 *   - jansson refuses numbers that fit no int64_t or no double, and NUL in a member's name;
 *   - we refuse nesting over JSON_DEPTH_MAX, jansson over 2048;
 *   - jansson does not see a NUL byte that follows a number or a word. */
#ifndef LAZARET_TESTS_JSON_ORACLE_H
#define LAZARET_TESTS_JSON_ORACLE_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Jansson's types have the names of ours, so it is read with its own out of the way. */
#define json_type jansson_type
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#define JSON_INTEGER JANSSON_INTEGER
#define JSON_REAL JANSSON_REAL
#define JSON_TRUE JANSSON_TRUE
#define JSON_FALSE JANSSON_FALSE
#define JSON_NULL JANSSON_NULL
#include <jansson.h>
#undef json_type
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
#undef JSON_INTEGER
#undef JSON_REAL
#undef JSON_TRUE
#undef JSON_FALSE
#undef JSON_NULL

#include "base/arena.h"
#include "base/json.h"
#include "base/jsonw.h"

/* oracle_rewrite writes a value again from what the reader makes of it, down to its leaves. */
static inline void oracle_rewrite(struct jsonw *w, struct json value, struct arena *arena)
{
    struct json_iter iter;
    struct json key, child;
    bool object = value.type == JSON_OBJECT;

    if (value.type == JSON_STRING) {
        jsonw_string(w, json_text(value, arena));
        return;
    }
    if (!object && value.type != JSON_ARRAY) {
        jsonw_raw(w, value.raw);
        return;
    }
    if (object)
        jsonw_object(w);
    else
        jsonw_array(w);
    json_iter_init(&iter, value);
    while (json_next(&iter, &key, &child)) {
        if (object)
            jsonw_key_slice(w, json_text(key, arena));
        oracle_rewrite(w, child, arena);
    }
    if (object)
        jsonw_object_end(w);
    else
        jsonw_array_end(w);
}

static inline bool oracle_same(struct json ours, json_t *theirs, struct arena *arena);

/* oracle_same_object looks each of their members up among ours, and each of ours among theirs; both
 * readers keep the last of duplicates. */
static inline bool oracle_same_object(struct json ours, json_t *theirs, struct arena *arena)
{
    const char *name;
    json_t *member;
    struct json key, value;
    json_object_foreach(theirs, name, member) if (!json_get(ours, name, &value) ||
                                                  !oracle_same(value, member, arena)) return false;

    struct json_iter iter;
    json_iter_init(&iter, ours);
    while (json_next(&iter, &key, &value)) {
        struct slice text = arena_dup(arena, json_text(key, arena));
        if (!text.ptr || !json_object_get(theirs, text.ptr))
            return false;
    }
    return true;
}

static inline bool oracle_same_array(struct json ours, json_t *theirs, struct arena *arena)
{
    struct json_iter iter;
    struct json value;
    size_t i = 0;
    json_iter_init(&iter, ours);
    while (json_next(&iter, NULL, &value)) {
        json_t *element = json_array_get(theirs, i++);
        if (!element || !oracle_same(value, element, arena))
            return false;
    }
    return i == json_array_size(theirs);
}

/* oracle_same says whether two readings of a text have the same value. */
static inline bool oracle_same(struct json ours, json_t *theirs, struct arena *arena)
{
    struct slice text;
    int64_t integer;
    double real;

    switch ((int)json_typeof(theirs)) {
    case JANSSON_OBJECT:
        return ours.type == JSON_OBJECT && oracle_same_object(ours, theirs, arena);
    case JANSSON_ARRAY:
        return ours.type == JSON_ARRAY && oracle_same_array(ours, theirs, arena);
    case JANSSON_STRING:
        text = (struct slice){json_string_value(theirs), json_string_length(theirs)};
        return ours.type == JSON_STRING && slice_eq(json_text(ours, arena), text);
    case JANSSON_INTEGER:
        return json_int(ours, &integer) && integer == json_integer_value(theirs);
    case JANSSON_REAL:
        return json_double(ours, &real) && real == json_real_value(theirs);
    case JANSSON_TRUE:
        return ours.type == JSON_TRUE;
    case JANSSON_FALSE:
        return ours.type == JSON_FALSE;
    default:
        return ours.type == JSON_NULL;
    }
}

/* oracle_may_refuse says whether jansson refuses for a reason that is its own. */
static inline bool oracle_may_refuse(const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

/* oracle_may_accept says whether we refuse `text` for a reason that is our own. */
static inline bool oracle_may_accept(struct slice text, const struct err *refusal)
{
    size_t byte = 0;
    if (strstr(refusal->text, "nested deeper"))
        return true;
    return sscanf(refusal->text, "not valid JSON at byte %zu", &byte) == 1 && byte <= text.len &&
           text.ptr[byte - 1] == '\0';
}

/* oracle_rewrites checks that a value written again is accepted and is the same value to jansson,
 * or at least the same type when jansson cannot read it. */
static inline const char *oracle_rewrites(struct json value, json_t *theirs, struct arena *arena)
{
    struct buf text;
    struct jsonw w;
    struct json again;
    const char *trouble = NULL;

    buf_init(&text, SIZE_MAX);
    jsonw_init(&w, &text);
    oracle_rewrite(&w, value, arena);
    if (json_parse(buf_slice(&text), &again, NULL) != STATUS_OK)
        trouble = "what was written again is refused";
    else if (theirs ? !oracle_same(again, theirs, arena) : again.type != value.type)
        trouble = "what was written again is another value";
    buf_release(&text);
    return trouble;
}

/* oracle_disagrees puts a text to both readers and says what they disagree on; NULL when nothing.
 */
static inline const char *oracle_disagrees(struct slice text)
{
    struct json value;
    struct err err = {0};
    json_error_t error;
    struct arena arena = {0};
    const char *trouble = NULL;

    bool accepted = json_parse(text, &value, &err) == STATUS_OK;
    json_t *theirs =
        json_loadb(text.len ? text.ptr : "", text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!accepted && theirs && !oracle_may_accept(text, &err))
        trouble = "jansson accepts what we refuse";
    else if (accepted && !theirs && !oracle_may_refuse(&error))
        trouble = "we accept what jansson refuses";
    else if (accepted && theirs && !oracle_same(value, theirs, &arena))
        trouble = "the values differ";
    else if (accepted)
        trouble = oracle_rewrites(value, theirs, &arena);
    json_decref(theirs);
    arena_release(&arena);
    return trouble;
}

#endif
