/* blind: words are looked for as whole words: what stands beside an occurrence is no letter, digit
 * or byte beyond ASCII. The longest come first, so that a path goes before its last part. */
#include "core/blind.h"

#include "base/status.h"

#define DEPTH_MAX 4
#define STEP_SHOWN 100 /* bytes of a step by which a message is known to begin with it */

struct words {
    struct slice words[BLIND_WORDS_MAX];
    size_t count;
};

static bool is_word_char(char c)
{
    unsigned char u = (unsigned char)c;
    return (u >= '0' && u <= '9') || ((u | 0x20) >= 'a' && (u | 0x20) <= 'z') || u >= 0x80;
}

/* add puts a word where the longer ones end. */
static void add(struct words *words, struct slice word)
{
    size_t at = 0;
    if (word.len == 0 || words->count == BLIND_WORDS_MAX)
        return;
    while (at < words->count && words->words[at].len >= word.len)
        at++;
    for (size_t i = words->count; i > at; i--)
        words->words[i] = words->words[i - 1];
    words->words[at] = word;
    words->count++;
}

/* add_text adds a text and, when it is a path, its last part. */
static void add_text(struct words *words, struct slice text)
{
    size_t begin = text.len;
    if (text.len > BLIND_TEXT_MAX)
        return;
    add(words, text);
    while (begin > 0 && text.ptr[begin - 1] != '/')
        begin--;
    if (begin > 0 && begin < text.len)
        add(words, (struct slice){text.ptr + begin, text.len - begin});
}

/* gather adds the texts of a value; numbers are no words: signatures drop them anyway. */
static void gather(struct words *words, struct json value, unsigned depth, struct arena *arena)
{
    struct json_iter iter;
    struct json child;
    if (value.type == JSON_STRING) {
        struct slice text = json_text(value, arena);
        if (text.ptr)
            add_text(words, text);
        return;
    }
    json_iter_init(&iter, value);
    while (depth < DEPTH_MAX && words->count < BLIND_WORDS_MAX && json_next(&iter, NULL, &child))
        gather(words, child, depth + 1, arena);
}

/* word_at is the length of the word of the item that stands at `at` by itself; 0: none does. */
static size_t word_at(const struct words *words, struct slice text, size_t at)
{
    for (size_t i = 0; i < words->count; i++) {
        struct slice word = words->words[i];
        size_t end = at + word.len;
        if (end > text.len || memcmp(text.ptr + at, word.ptr, word.len) != 0)
            continue;
        bool begins = at == 0 || !is_word_char(text.ptr[at - 1]) || !is_word_char(word.ptr[0]);
        bool ends = end == text.len || !is_word_char(text.ptr[end]) ||
                    !is_word_char(word.ptr[word.len - 1]);
        if (begins && ends)
            return word.len;
    }
    return 0;
}

/* blind replaces every word of the item by a space, behind the first `keep` bytes. */
static enum status blind(struct slice *text, size_t keep, const struct words *words,
                         struct arena *arena, struct err *err)
{
    struct slice from = *text;
    if (from.len > BLIND_TEXT_MAX)
        from.len = BLIND_TEXT_MAX;
    char *out = from.len ? arena_alloc(arena, from.len) : NULL;
    size_t len = 0;
    if (from.len && !out)
        return err_no_memory(err);
    for (size_t at = 0; at < from.len;) {
        size_t word = at < keep ? 0 : word_at(words, from, at);
        out[len++] = word ? ' ' : from.ptr[at];
        at += word ? word : 1;
    }
    *text = (struct slice){out, len};
    return STATUS_OK;
}

/* step_in is how much of a message is the step that failed, which is the same for every item: a
 * message that begins with all of it, or with as much of it as a sentence bears. */
static size_t step_in(struct slice message, struct slice step)
{
    size_t len = 0;
    while (len < step.len && len < message.len && step.ptr[len] == message.ptr[len])
        len++;
    return len == step.len || len >= STEP_SHOWN ? len : 0;
}

enum status blind_failure(const struct failure *failure, struct json item, struct arena *arena,
                          struct failure *out, struct err *err)
{
    struct words words = {0};
    gather(&words, item, 0, arena);
    *out = *failure;
    if (words.count == 0)
        return STATUS_OK;
    enum status status =
        blind(&out->message, step_in(failure->message, failure->step_failed), &words, arena, err);
    return status ? status : blind(&out->stack_trace, 0, &words, arena, err);
}
