/* filter_match: asking an expression about an item and the letter that it is in.
 *
 * Asking allocates nothing and cannot fail: a failure that read as "no match" would become a match
 * behind a `!`.  So numbers are compared as they are written (decimal.h) and texts with escapes are
 * decoded as they are compared. */
#include <stdio.h>

#include "core/decimal.h"
#include "core/filter_tree.h"

/* struct bytes: a string operand as a stream of its decoded bytes. */
struct bytes {
    const char *at, *end;
    bool raw;
    char part[4]; /* what the last escape stood for */
    size_t part_at, part_len;
};

static struct bytes bytes_of(const struct operand *string)
{
    struct slice text = string->text;

    return (struct bytes){
        .at = text.ptr, .end = text.len ? text.ptr + text.len : text.ptr, .raw = string->raw};
}

/* next_byte is the next byte, or -1 at the end. */
static int next_byte(struct bytes *bytes)
{
    if (bytes->part_at == bytes->part_len) {
        if (bytes->at == bytes->end)
            return -1;
        if (!bytes->raw || *bytes->at != '\\')
            return (unsigned char)*bytes->at++;
        bytes->part_len = json_decode(&bytes->at, bytes->part);
        bytes->part_at = 0;
    }
    return (unsigned char)bytes->part[bytes->part_at++];
}

/* string_order compares bytewise: less than 0, 0 or more than 0. */
static int string_order(const struct operand *a, const struct operand *b)
{
    struct bytes left = bytes_of(a), right = bytes_of(b);

    for (;;) {
        int x = next_byte(&left), y = next_byte(&right);
        if (x != y)
            return x < y ? -1 : 1;
        if (x < 0)
            return 0;
    }
}

/* string_contains looks for a text by its borders: each byte is read once. */
static bool string_contains(const struct operand *string, struct slice needle,
                            const size_t *borders)
{
    struct bytes bytes = bytes_of(string);
    size_t matched = 0;
    int byte;

    while (matched < needle.len && (byte = next_byte(&bytes)) >= 0) {
        while (matched > 0 && (unsigned char)needle.ptr[matched] != byte)
            matched = borders[matched];
        matched += (unsigned char)needle.ptr[matched] == byte;
    }
    return matched == needle.len;
}

static struct operand operand_of(struct json value)
{
    struct operand operand = {.type = value.type, .text = value.raw};

    if (value.type == JSON_STRING) {
        operand.text = (struct slice){value.raw.ptr + 1, value.raw.len - 2};
        operand.raw = true;
    }
    return operand;
}

static bool equal(const struct operand *a, const struct operand *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case JSON_NUMBER:
        return decimal_compare(a->text, b->text) == 0;
    case JSON_STRING:
        return string_order(a, b) == 0;
    default: /* null, true or false: the other side is a literal, never a container */
        return true;
    }
}

/* ordered says whether a comparison has a sense, and if so which: two numbers or two texts. */
static bool ordered(const struct operand *a, const struct operand *b, int *order)
{
    if (a->type != b->type || (a->type != JSON_NUMBER && a->type != JSON_STRING))
        return false;
    *order = a->type == JSON_NUMBER ? decimal_compare(a->text, b->text) : string_order(a, b);
    return true;
}

static bool contains(const struct filter *filter, const struct operand *field)
{
    struct json_iter iter;
    struct json element;

    if (field->type == JSON_STRING)
        return filter->value.type == JSON_STRING &&
               string_contains(field, filter->value.text, filter->borders);
    if (field->type != JSON_ARRAY)
        return false;
    json_iter_init(&iter, (struct json){JSON_ARRAY, field->text});
    while (json_next(&iter, NULL, &element)) {
        struct operand operand = operand_of(element);
        if (equal(&operand, &filter->value))
            return true;
    }
    return false;
}

/* follow walks a path; what does not exist is null. */
static struct json follow(const struct segment *path, struct json value)
{
    struct json_iter iter;
    struct json element;
    uint64_t index;

    for (; path; path = path->next) {
        struct json container = value;
        value = (struct json){0};
        if (path->name) {
            json_get(container, path->name, &value);
        } else if (container.type == JSON_ARRAY) {
            json_iter_init(&iter, container);
            for (index = 0; json_next(&iter, NULL, &element); index++) {
                if (index == path->index) {
                    value = element;
                    break;
                }
            }
        }
    }
    return value;
}

static struct operand text_operand(struct slice text)
{
    return (struct operand){.type = JSON_STRING, .text = text};
}

/* letter_field reads a letter's field.  `digits` is room for a number's text. */
static struct operand letter_field(const struct letter *letter, enum field field, char digits[16])
{
    switch (letter ? field : FIELD_COUNT) {
    case FIELD_ELIGIBLE:
        return (struct operand){.type = letter->eligible ? JSON_TRUE : JSON_FALSE};
    case FIELD_FAILURE_COUNT:
        snprintf(digits, 16, "%u", (unsigned)letter->failure_count);
        return (struct operand){.type = JSON_NUMBER, .text = slice_of(digits)};
    case FIELD_SIGNATURE:
        return text_operand(letter->signature);
    case FIELD_ERROR_TYPE:
        return text_operand(letter->error_type);
    case FIELD_REASON:
        return text_operand(letter->reason);
    case FIELD_FINGERPRINT:
        return text_operand(letter->fingerprint);
    default:
        return (struct operand){.type = JSON_NULL};
    }
}

static bool match_compare(const struct filter *filter, struct json item,
                          const struct letter *letter)
{
    char digits[16];
    int order;
    struct operand field = filter->field == FIELD_ITEM
                               ? operand_of(follow(filter->path, item))
                               : letter_field(letter, filter->field, digits);

    switch (filter->op) {
    case OP_TRUE:
        return field.type == JSON_TRUE;
    case OP_EQ:
        return equal(&field, &filter->value);
    case OP_NE:
        return !equal(&field, &filter->value);
    case OP_GE:
        return ordered(&field, &filter->value, &order) && order >= 0;
    case OP_GT:
        return ordered(&field, &filter->value, &order) && order > 0;
    case OP_LE:
        return ordered(&field, &filter->value, &order) && order <= 0;
    case OP_LT:
        return ordered(&field, &filter->value, &order) && order < 0;
    case OP_CONTAINS:
        return contains(filter, &field);
    }
    BUG("no such operator: %d", (int)filter->op);
}

static bool reads(const struct filter *filter, enum field field)
{
    if (filter->kind == KIND_COMPARE)
        return filter->field == field;
    for (const struct filter *part = filter->first; part; part = part->next)
        if (reads(part, field))
            return true;
    return false;
}

bool filter_reads_item(const struct filter *filter)
{
    return reads(filter, FIELD_ITEM);
}

bool filter_reads_signature(const struct filter *filter)
{
    return reads(filter, FIELD_SIGNATURE);
}

bool filter_match(const struct filter *filter, struct json item, const struct letter *letter)
{
    if (filter->kind == KIND_COMPARE)
        return match_compare(filter, item, letter);
    if (filter->kind == KIND_NOT)
        return !filter_match(filter->first, item, letter);

    /* One part that is true settles an "or"; one that is false settles an "and". */
    bool settles = filter->kind == KIND_OR;
    for (const struct filter *part = filter->first; part; part = part->next)
        if (filter_match(part, item, letter) == settles)
            return settles;
    return !settles;
}
