/* fuzz_redact: a first line as rules, separated by spaces, the rest as a document.
 *
 * A masked document is JSON, and masking it again changes nothing: what was named is a mask, and
 * the mask is a scalar.  What rules do not touch stays byte for byte.  No word that was gathered is
 * left in the masked strings of the document. */
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "core/redact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUT_MAX (64 << 20)
#define RULES_MAX 16

static size_t split(struct slice line, struct slice rules[RULES_MAX])
{
    size_t count = 0;

    while (count < RULES_MAX) {
        const char *space = line.len ? memchr(line.ptr, ' ', line.len) : NULL;
        size_t len = space ? (size_t)(space - line.ptr) : line.len;
        rules[count++] = (struct slice){line.ptr, len};
        if (!space)
            break;
        line = (struct slice){space + 1, line.len - len - 1};
    }
    return count;
}

static void check_masked(const struct redaction *redaction, struct slice document)
{
    struct buf out, again;
    struct json json;
    bool is_json = json_parse(document, &json, NULL) == STATUS_OK;

    buf_init(&out, OUTPUT_MAX);
    buf_init(&again, OUTPUT_MAX);
    redact(redaction, document, &out);
    BUG_ON(json_parse(buf_slice(&out), &json, NULL) != STATUS_OK);
    redact(redaction, buf_slice(&out), &again);
    /* A rule that goes further than another one ends at its mask. */
    BUG_ON(!slice_eq(buf_slice(&out), buf_slice(&again)));
    if (!redact_touches(redaction, document))
        BUG_ON(!is_json || !slice_eq(document, buf_slice(&out)));
    buf_release(&out);
    buf_release(&again);
}

/* check_value finds that no string has a word left in it. */
static void check_value(const struct redact_words *words, struct json value, struct arena *arena)
{
    struct json_iter iter;
    struct json key, child;

    struct slice text = value.type == JSON_STRING ? json_text(value, arena) : value.raw;
    bool scalar = value.type == JSON_STRING || value.type == JSON_NUMBER;
    for (size_t i = 0; scalar && i < words->count; i++) {
        const char *hit = memmem(text.ptr, text.len, words->words[i].ptr, words->words[i].len);
        /* What is left may only be of the masks, or be put together by them. */
        BUG_ON(hit && !memmem(text.ptr, text.len, "[redacted]", 10));
    }
    json_iter_init(&iter, value);
    while (json_next(&iter, &key, &child))
        check_value(words, child, arena);
}

static void check_words(const struct redaction *redaction, struct slice document,
                        struct arena *arena)
{
    struct redact_words words = {0};
    struct buf out;
    struct json json;

    BUG_ON(redact_gather(redaction, document, arena, &words, NULL) != STATUS_OK);
    BUG_ON(words.count > REDACT_WORDS_MAX);
    buf_init(&out, OUTPUT_MAX);
    redact_text(&words, document, &out);
    buf_clear(&out);
    redact_strings(&words, document, &out);
    if (json_parse(buf_slice(&out), &json, NULL) == STATUS_OK)
        check_value(&words, json, arena);
    else
        BUG_ON(words.count > 0);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - (const char *)data) : size;
    struct slice document = {(const char *)data + len, size - len};
    struct slice rules[RULES_MAX];
    size_t count = split((struct slice){(const char *)data, len}, rules);
    const struct redaction *redaction = NULL;
    struct arena arena = {0};
    struct err err = {0};

    if (redaction_parse(rules, count, &arena, &redaction, &err) != STATUS_OK) {
        BUG_ON(err.text[0] == '\0');
    } else {
        check_masked(redaction, document);
        check_words(redaction, document, &arena);
    }
    arena_release(&arena);
    return 0;
}
