/* postgres_value: parameters, arrays and columns, in PostgreSQL's binary form.
 *
 * Everything goes in binary: numbers as eight bytes in network order, texts and bytes as they are.
 * An array is a head of 20 bytes (dimensions, whether there are NULLs, the type of the elements,
 * how many, the first index) and then each element with its length before it; -1 is NULL. */
#include "store/postgres.h"

#include <endian.h>

#include "base/utf8.h"

#define PG_BYTEA_ARRAY 1001
#define PG_INT8_ARRAY 1016
#define PG_TEXT_ARRAY 1009
#define ARRAY_HEAD 20
#define ARRAY_HEAD_EMPTY 12
#define ARRAY_MAX ((size_t)1000 << 20) /* PostgreSQL takes no value of a gigabyte */
#define KEEP_MAX ((size_t)1 << 20)     /* of memory that stays with an empty array */

/* -- texts ------------------------------------------------------------------------------------- */

bool pg_text_is_clean(struct slice text)
{
    const uint8_t *at = (const uint8_t *)text.ptr;
    size_t left = text.len;
    bool valid = true;
    while (left > 0 && valid) {
        size_t step = utf8_plain(at, left);
        if (step == 0) {
            step = utf8_step(at, left, &valid);
            valid = valid && at[0] != 0;
        }
        at += step;
        left -= step;
    }
    return valid;
}

void pg_text_mend(struct slice text, struct buf *out)
{
    const uint8_t *at = (const uint8_t *)text.ptr;
    for (size_t left = text.len; left > 0;) {
        bool valid;
        size_t step = utf8_step(at, left, &valid);
        if (valid && at[0] != 0)
            buf_add(out, at, step);
        else
            buf_add_str(out, "\xef\xbf\xbd");
        at += step;
        left -= step;
    }
}

struct slice pg_text_cleaned(struct slice text, struct arena *arena)
{
    struct buf mended;
    if (pg_text_is_clean(text))
        return (struct slice){text.len ? text.ptr : "", text.len};
    buf_init(&mended, SIZE_MAX);
    pg_text_mend(text, &mended);
    struct slice copy = {0};
    if (mended.status == STATUS_OK)
        copy = arena_dup(arena, buf_slice(&mended));
    buf_release(&mended);
    return copy;
}

/* -- parameters -------------------------------------------------------------------------------- */

static int next_param(struct pg_params *params, Oid type)
{
    BUG_ON(params->count >= PG_PARAMS_MAX);
    params->types[params->count] = type;
    return params->count++;
}

static void bytes_param(struct pg_params *params, Oid type, struct slice bytes)
{
    int i = next_param(params, type);
    BUG_ON(bytes.len > INT_MAX);
    params->values[i] = bytes.len ? bytes.ptr : "";
    params->lengths[i] = (int)bytes.len;
}

void pg_int(struct pg_params *params, int64_t value)
{
    int i = next_param(params, PG_INT8);
    params->numbers[i] = (int64_t)htobe64((uint64_t)value);
    params->values[i] = (const char *)&params->numbers[i];
    params->lengths[i] = (int)sizeof(params->numbers[i]);
}

void pg_name(struct pg_params *params, struct slice text)
{
    bytes_param(params, PG_TEXT, text);
}

void pg_text(struct pg_params *params, struct slice text)
{
    if (text.len > 0) {
        pg_name(params, text);
        return;
    }
    int i = next_param(params, PG_TEXT);
    params->values[i] = NULL;
    params->lengths[i] = 0;
}

void pg_body(struct pg_params *params, struct slice bytes)
{
    bytes_param(params, PG_BYTEA, bytes);
}

static Oid array_of(Oid element)
{
    switch (element) {
    case PG_INT8:
        return PG_INT8_ARRAY;
    case PG_TEXT:
        return PG_TEXT_ARRAY;
    case PG_BYTEA:
        return PG_BYTEA_ARRAY;
    default:
        BUG("no array of type %u", element);
    }
}

static void word_at(char *out, uint32_t value)
{
    value = htobe32(value);
    memcpy(out, &value, sizeof(value));
}

static void word_add(struct buf *out, uint32_t value)
{
    value = htobe32(value);
    buf_add(out, &value, sizeof(value));
}

/* array_close fills the head of an array in. */
static void array_close(struct pg_column *column)
{
    static const char zeros[ARRAY_HEAD_EMPTY];
    struct buf *array = &column->array;
    if (array->len == 0)
        buf_add(array, zeros, sizeof(zeros));
    if (array->len >= ARRAY_HEAD_EMPTY) {
        word_at(array->ptr, column->count > 0);
        word_at(array->ptr + 4, column->has_null);
        word_at(array->ptr + 8, column->element);
    }
    if (array->len >= ARRAY_HEAD && column->count > 0) {
        word_at(array->ptr + 12, (uint32_t)column->count);
        word_at(array->ptr + 16, 1);
    }
}

void pg_array(struct pg_params *params, struct pg_column *column)
{
    array_close(column);
    bytes_param(params, array_of(column->element), buf_slice(&column->array));
}

void pg_row_array(struct pg_params *params, struct pg_column *column, Oid type)
{
    column->element = type;
    array_close(column);
    bytes_param(params, 0, buf_slice(&column->array)); /* the statement says what it is */
}

/* -- arrays ------------------------------------------------------------------------------------ */

void pg_column_init(struct pg_column *column, Oid element)
{
    *column = (struct pg_column){.element = element};
    buf_init(&column->array, ARRAY_MAX);
}

void pg_column_clear(struct pg_column *column)
{
    if (column->array.cap > KEEP_MAX)
        buf_release(&column->array);
    buf_clear(&column->array);
    column->count = 0;
    column->has_null = false;
}

/* element_begin makes room for the head before the first element. */
static void element_begin(struct pg_column *column)
{
    static const char zeros[ARRAY_HEAD];
    if (column->count++ == 0) {
        buf_clear(&column->array);
        buf_add(&column->array, zeros, sizeof(zeros));
    }
}

static void element_null(struct pg_column *column)
{
    element_begin(column);
    column->has_null = true;
    word_add(&column->array, UINT32_MAX);
}

static void element_bytes(struct pg_column *column, struct slice bytes)
{
    element_begin(column);
    word_add(&column->array, (uint32_t)bytes.len);
    buf_add_slice(&column->array, bytes);
}

/* text_add appends a text with its length before it. */
static void text_add(struct buf *out, struct slice text)
{
    if (pg_text_is_clean(text)) {
        word_add(out, (uint32_t)text.len);
        buf_add_slice(out, text);
        return;
    }
    size_t before = out->len;
    word_add(out, 0);
    pg_text_mend(text, out);
    if (out->status == STATUS_OK)
        word_at(out->ptr + before, (uint32_t)(out->len - before - 4));
}

void pg_column_int(struct pg_column *column, int64_t value)
{
    BUG_ON(column->element != PG_INT8);
    uint64_t number = htobe64((uint64_t)value);
    element_bytes(column, (struct slice){(const char *)&number, sizeof(number)});
}

void pg_column_text(struct pg_column *column, struct slice text)
{
    BUG_ON(column->element != PG_TEXT);
    element_begin(column);
    text_add(&column->array, text);
}

/* -- rows that wait ---------------------------------------------------------------------------- */

void pg_columns_init(struct pg_columns *columns, const struct pg_statement *insert,
                     const Oid *types, int count)
{
    BUG_ON(count > PG_COLUMNS_MAX);
    *columns = (struct pg_columns){.insert = insert, .types = types, .column_count = count};
    for (int i = 0; i < count; i++)
        pg_column_init(&columns->columns[i], types[i]);
}

void pg_rows_init(struct pg_columns *columns, const struct pg_statement *insert, enum pg_row row,
                  const Oid *types, int count)
{
    *columns =
        (struct pg_columns){.insert = insert, .row = row, .types = types, .column_count = count};
    pg_column_init(&columns->columns[0], 0);
}

/* arrays is how many there are. */
static int arrays(const struct pg_columns *columns)
{
    return columns->row ? columns->column_count > 0 : columns->column_count;
}

void pg_columns_release(struct pg_columns *columns)
{
    for (int i = 0; i < arrays(columns); i++)
        buf_release(&columns->columns[i].array);
}

void pg_columns_clear(struct pg_columns *columns)
{
    for (int i = 0; i < arrays(columns); i++)
        pg_column_clear(&columns->columns[i]);
    columns->rows = 0;
    columns->at = 0;
}

/* next_value is the array that the next value goes to.  In one of rows its type stands before it,
 * and before the first the row's length and how many values there are. */
static struct pg_column *next_value(struct pg_columns *columns, Oid type)
{
    int at = columns->at++;
    BUG_ON(at >= columns->column_count || columns->types[at] != type);
    if (!columns->row)
        return &columns->columns[at];
    struct pg_column *rows = &columns->columns[0];
    if (at == 0) {
        element_begin(rows);
        columns->row_start = rows->array.len;
        word_add(&rows->array, 0);
        word_add(&rows->array, (uint32_t)columns->column_count);
    }
    word_add(&rows->array, type);
    return rows;
}

void pg_add_int(struct pg_columns *columns, int64_t value)
{
    struct pg_column *column = next_value(columns, PG_INT8);
    uint64_t number = htobe64((uint64_t)value);
    if (!columns->row)
        element_begin(column);
    word_add(&column->array, sizeof(number));
    buf_add(&column->array, &number, sizeof(number));
}

void pg_add_name(struct pg_columns *columns, struct slice text)
{
    struct pg_column *column = next_value(columns, PG_TEXT);
    if (!columns->row)
        element_begin(column);
    text_add(&column->array, text);
}

void pg_add_null(struct pg_columns *columns)
{
    BUG_ON(columns->at >= columns->column_count);
    struct pg_column *column = next_value(columns, columns->types[columns->at]);
    if (columns->row)
        word_add(&column->array, UINT32_MAX);
    else
        element_null(column);
}

void pg_add_text(struct pg_columns *columns, struct slice text)
{
    if (text.len > 0)
        pg_add_name(columns, text);
    else
        pg_add_null(columns);
}

void pg_add_body(struct pg_columns *columns, struct slice bytes)
{
    struct pg_column *column = next_value(columns, PG_BYTEA);
    if (!columns->row)
        element_begin(column);
    word_add(&column->array, (uint32_t)bytes.len);
    buf_add_slice(&column->array, bytes);
}

enum status pg_add_end(struct pg_columns *columns, struct err *err)
{
    struct buf *rows = &columns->columns[0].array;
    BUG_ON(columns->at != columns->column_count);
    columns->at = 0;
    columns->rows++;
    if (columns->row && rows->status == STATUS_OK)
        word_at(rows->ptr + columns->row_start, (uint32_t)(rows->len - columns->row_start - 4));
    for (int i = 0; i < arrays(columns); i++)
        if (columns->columns[i].array.status != STATUS_OK)
            return buf_status(&columns->columns[i].array, err);
    return STATUS_OK;
}

/* -- answers ----------------------------------------------------------------------------------- */

int64_t pg_get_int(const PGresult *rows, int row, int column)
{
    const char *value = PQgetvalue(rows, row, column);
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (PQgetlength(rows, row, column)) {
    case 1:
        return (unsigned char)value[0];
    case sizeof(two):
        memcpy(&two, value, sizeof(two));
        return (int16_t)be16toh(two);
    case sizeof(four):
        memcpy(&four, value, sizeof(four));
        return (int32_t)be32toh(four);
    case sizeof(eight):
        memcpy(&eight, value, sizeof(eight));
        return (int64_t)be64toh(eight);
    default:
        return 0;
    }
}

struct slice pg_get_slice(const PGresult *rows, int row, int column)
{
    return (struct slice){PQgetvalue(rows, row, column), (size_t)PQgetlength(rows, row, column)};
}

struct slice pg_get_dup(const PGresult *rows, int row, int column, struct arena *arena)
{
    return arena_dup(arena, pg_get_slice(rows, row, column));
}
