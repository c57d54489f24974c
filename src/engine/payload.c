/* payload: JSON as it is, text as a string, anything else as base64. */
#include "engine/payload.h"

#include <limits.h>
#include <openssl/evp.h>

struct payload payload_of(struct slice bytes)
{
    struct payload payload = {.bytes = bytes};
    if (json_parse(bytes, &payload.json, NULL) == STATUS_OK)
        return payload;
    payload.json = (struct json){0};
    payload.encoding = json_utf8_valid(bytes) ? "text" : "base64";
    return payload;
}

/* encode writes base64 into the arena. */
static enum status encode(struct slice bytes, struct arena *arena, struct slice *out,
                          struct err *err)
{
    if (bytes.len > INT_MAX / 2)
        return err_set(err, STATUS_TOO_LARGE, "a payload of %zu bytes cannot be shown", bytes.len);
    unsigned char *text = arena_alloc(arena, (bytes.len + 2) / 3 * 4 + 1);
    if (!text)
        return err_no_memory(err);
    int len = EVP_EncodeBlock(text, (const unsigned char *)bytes.ptr, (int)bytes.len);
    *out = (struct slice){(const char *)text, (size_t)len};
    return STATUS_OK;
}

/* decode reads base64; a length that is no multiple of four, or a stray character, is an error. */
static enum status decode(struct slice text, struct arena *arena, struct slice *out,
                          struct err *err)
{
    size_t padding = 0;
    while (padding < 2 && padding < text.len && text.ptr[text.len - 1 - padding] == '=')
        padding++;
    unsigned char *bytes = text.len <= INT_MAX ? arena_alloc(arena, text.len + 1) : NULL;
    if (!bytes)
        return err_no_memory(err);
    int len = EVP_DecodeBlock(bytes, (const unsigned char *)text.ptr, (int)text.len);
    if (len < 0 || text.len % 4 != 0 || (size_t)len != text.len / 4 * 3)
        return err_set(err, STATUS_INVALID, "original_payload: is not base64");
    *out = (struct slice){(const char *)bytes, (size_t)len - padding};
    return STATUS_OK;
}

enum status payload_print(const struct payload *payload, struct arena *arena, struct jsonw *out,
                          struct err *err)
{
    if (!payload->encoding) {
        jsonw_raw(out, payload->json.raw);
        return STATUS_OK;
    }
    struct slice text = payload->bytes;
    enum status status = STATUS_OK;
    if (strcmp(payload->encoding, "base64") == 0)
        status = encode(payload->bytes, arena, &text, err);
    if (status == STATUS_OK)
        jsonw_string(out, text);
    return status;
}

enum status payload_read(struct json value, struct slice encoding, struct arena *arena,
                         struct slice *out, struct err *err)
{
    if (encoding.len == 0) {
        *out = value.raw;
        return STATUS_OK;
    }
    bool base64 = slice_is(encoding, "base64");
    if (!base64 && !slice_is(encoding, "text"))
        return err_set(err, STATUS_INVALID,
                       "payload_encoding: must be \"text\" or \"base64\", not \"%.*s\"",
                       SLICE_ARG(encoding));
    if (value.type != JSON_STRING)
        return err_set(err, STATUS_INVALID,
                       "original_payload: must be a string, as payload_encoding says");
    struct slice text = json_text(value, arena);
    if (!text.ptr)
        return err_no_memory(err);
    if (base64)
        return decode(text, arena, out, err);
    *out = text;
    return STATUS_OK;
}
