/* buf: a growing run of bytes with a maximum that is given when it is made.
 *
 * Failure is sticky: when an append would pass the maximum, or memory is exhausted, the buffer
 * keeps what it had, remembers, and ignores further appends.  So a printer appends freely and asks
 * once at the end (buf_status).  The bytes are always followed by a NUL that does not count. */
#ifndef LAZARET_BASE_BUF_H
#define LAZARET_BASE_BUF_H

#include <stdarg.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/status.h"

struct buf {
    char *ptr;          /* the bytes; NULL until the first append */
    size_t len;         /* how many of them */
    size_t cap;         /* how many are allocated, the NUL included */
    size_t max;         /* how many there may be */
    enum status status; /* STATUS_OK, STATUS_TOO_LARGE or STATUS_NO_MEMORY */
};

void buf_init(struct buf *buf, size_t max);
void buf_release(struct buf *buf); /* frees; the buffer is as after buf_init */
void buf_clear(struct buf *buf);   /* empties, forgets a failure, keeps the memory */

void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_add_slice(struct buf *buf, struct slice slice);
void buf_add_str(struct buf *buf, const char *text);
void buf_add_char(struct buf *buf, char c);
void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vaddf(struct buf *buf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* buf_add_hex appends `len` bytes as lower-case hex. */
void buf_add_hex(struct buf *buf, const void *bytes, size_t len);

/* buf_add_percent appends a text with everything but letters, digits and "-._~" percent-encoded. */
void buf_add_percent(struct buf *buf, struct slice text);

/* buf_slice borrows the content: valid until the next append. */
struct slice buf_slice(const struct buf *buf);

/* buf_str borrows the content as a C string; "" when empty. */
const char *buf_str(const struct buf *buf);

/* buf_status says whether every append so far was kept, and if not fills `err`. */
enum status buf_status(const struct buf *buf, struct err *err);

#endif
