/* buf: appending to a bounded run of bytes.
 *
 * Invariants: len <= max; when ptr is not NULL, len < cap <= max + 1 and ptr[len] is NUL; once
 * `status` is not STATUS_OK nothing changes until buf_clear. */
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define BUF_CAP_MIN 64
#define BUF_MAX                                                                                    \
    (SIZE_MAX / 2 - 1) /* no object is larger, and doubling below it cannot overflow               \
                        */

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.max = max};
}

void buf_release(struct buf *buf)
{
    size_t max = buf->max;
    mem_free(buf->ptr);
    buf_init(buf, max);
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->status = STATUS_OK;
    if (buf->ptr)
        buf->ptr[0] = '\0';
}

/* grow makes room for `more` bytes and their NUL; false, and remembered, when it cannot. */
static bool grow(struct buf *buf, size_t more)
{
    if (buf->status != STATUS_OK)
        return false;
    size_t max = buf->max < BUF_MAX ? buf->max : BUF_MAX;
    if (more > max - buf->len) {
        buf->status = STATUS_TOO_LARGE;
        return false;
    }

    size_t need = buf->len + more + 1;
    if (need <= buf->cap)
        return true;
    size_t cap = buf->cap ? buf->cap * 2 : BUF_CAP_MIN;
    if (cap > max + 1)
        cap = max + 1;
    if (cap < need)
        cap = need;
    char *ptr = mem_realloc(buf->ptr, cap);
    if (!ptr) {
        buf->status = STATUS_NO_MEMORY;
        return false;
    }
    buf->ptr = ptr;
    buf->cap = cap;
    return true;
}

/* reserve is grow, and nothing where there is room.  As cap is never over max + 1, room that is
 * there is room that is allowed. */
static inline bool reserve(struct buf *buf, size_t more)
{
    if (buf->status == STATUS_OK && more < buf->cap - buf->len)
        return true;
    return grow(buf, more);
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
    if (len == 0 || !reserve(buf, len))
        return;
    memcpy(buf->ptr + buf->len, bytes, len);
    buf->len += len;
    buf->ptr[buf->len] = '\0';
}

void buf_add_slice(struct buf *buf, struct slice slice)
{
    buf_add(buf, slice.ptr, slice.len);
}

void buf_add_str(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_add_char(struct buf *buf, char c)
{
    if (!reserve(buf, 1))
        return;
    buf->ptr[buf->len++] = c;
    buf->ptr[buf->len] = '\0';
}

void buf_addf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_vaddf(buf, format, args);
    va_end(args);
}

void buf_vaddf(struct buf *buf, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    if (len < 0) {
        /* More than an int counts: larger than any maximum that makes sense. */
        if (buf->status == STATUS_OK)
            buf->status = STATUS_TOO_LARGE;
    } else if (len > 0 && reserve(buf, (size_t)len)) {
        vsnprintf(buf->ptr + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void buf_add_percent(struct buf *buf, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (plain)
            buf_add_char(buf, c);
        else
            buf_addf(buf, "%%%02X", (unsigned)(unsigned char)c);
    }
}

void buf_add_hex(struct buf *buf, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = bytes;

    if (len == 0 || !reserve(buf, len > BUF_MAX / 2 ? BUF_MAX : len * 2))
        return;
    char *out = buf->ptr + buf->len;
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 15];
    }
    *out = '\0';
    buf->len += len * 2;
}

struct slice buf_slice(const struct buf *buf)
{
    return (struct slice){buf->ptr, buf->len};
}

const char *buf_str(const struct buf *buf)
{
    return buf->ptr ? buf->ptr : "";
}

enum status buf_status(const struct buf *buf, struct err *err)
{
    if (buf->status == STATUS_NO_MEMORY)
        return err_no_memory(err);
    if (buf->status == STATUS_TOO_LARGE)
        return err_set(err, STATUS_TOO_LARGE, "larger than the limit of %zu bytes", buf->max);
    return STATUS_OK;
}
