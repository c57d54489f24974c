/* field: one way to say what is wrong with a member, so that all errors about input read alike. */
#include "core/field.h"

#include <stdio.h>

struct slice field_head(struct slice text, size_t max)
{
    size_t len = text.len;

    if (len > max) {
        /* At most three steps: bytes that are no UTF-8 have no character to keep whole. */
        len = max;
        for (int back = 0; back < 3 && len > 0 && (text.ptr[len] & 0xc0) == 0x80; back++)
            len--;
    }
    return (struct slice){text.ptr, len};
}

enum status field_wrong(const char *field, const char *must, struct json value, struct err *err)
{
    struct slice shown = field_head(value.raw, FIELD_SHOWN_MAX);

    return err_set(err, STATUS_INVALID, "%s: must be %s, not %.*s%s", field, must, SLICE_ARG(shown),
                   shown.len < value.raw.len ? "..." : "");
}

enum status field_int(const char *field, struct json value, int64_t min, int64_t max, int64_t *out,
                      struct err *err)
{
    int64_t number;
    char must[80];

    if (json_int(value, &number) && number >= min && number <= max) {
        *out = number;
        return STATUS_OK;
    }
    snprintf(must, sizeof(must), "a whole number from %lld to %lld", (long long)min,
             (long long)max);
    return field_wrong(field, must, value, err);
}

enum status field_double(const char *field, struct json value, double min, double max, double *out,
                         struct err *err)
{
    double number;
    char must[80];

    if (json_double(value, &number) && number >= min && number <= max) {
        *out = number;
        return STATUS_OK;
    }
    snprintf(must, sizeof(must), "a number from %.10g to %.10g", min, max);
    return field_wrong(field, must, value, err);
}

enum status field_bool(const char *field, struct json value, bool *out, struct err *err)
{
    if (value.type != JSON_TRUE && value.type != JSON_FALSE)
        return field_wrong(field, "true or false", value, err);
    *out = value.type == JSON_TRUE;
    return STATUS_OK;
}

enum status field_text(const char *field, struct json value, struct arena *arena, struct slice *out,
                       struct err *err)
{
    if (value.type != JSON_STRING)
        return field_wrong(field, "a string", value, err);
    struct slice text = json_text(value, arena);
    if (!text.ptr)
        return err_no_memory(err);
    *out = text;
    return STATUS_OK;
}
