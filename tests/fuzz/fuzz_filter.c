/* fuzz_filter: a first line as a filter, the rest as the item it is asked about.
 *
 * What is refused must say why and yield nothing.  What is accepted can be asked, with a letter and
 * without, and its negation always answers the opposite. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct letter letter = {.eligible = true,
                                     .failure_count = 3,
                                     .signature = {"Timeout::gave up", 16},
                                     .error_type = {"Timeout", 7},
                                     .reason = {"retries_exhausted", 17}};

static void check_negation(struct slice text, bool with, bool without, struct json item,
                           struct arena *arena)
{
    const struct filter *negation;
    struct buf negated;

    buf_init(&negated, 1 << 20);
    buf_add_str(&negated, "!(");
    buf_add_slice(&negated, text);
    buf_add_char(&negated, ')');
    /* Two more levels, three more bytes: only at a limit may it be refused. */
    if (filter_parse(buf_slice(&negated), arena, &negation, NULL) == STATUS_OK) {
        BUG_ON(filter_match(negation, item, &letter) == with);
        BUG_ON(filter_match(negation, item, NULL) == without);
    }
    buf_release(&negated);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - (const char *)data) : size;
    struct slice text = {(const char *)data, len};
    struct arena arena = {0};
    const struct filter *filter = NULL;
    struct json item = {0};
    struct err err = {0};

    if (newline)
        (void)json_parse((struct slice){newline + 1, size - len - 1}, &item, NULL);
    if (filter_parse(text, &arena, &filter, &err) == STATUS_OK) {
        bool with = filter_match(filter, item, &letter);
        bool without = filter_match(filter, item, NULL);
        check_negation(text, with, without, item, &arena);
    } else {
        BUG_ON(err.text[0] == '\0' || filter);
    }
    arena_release(&arena);
    return 0;
}
