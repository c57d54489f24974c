/* capture: what a process wrote to one stream: its head and its tail, and how much it was.
 *
 * A stream may have gigabytes; a capture has at most CAPTURE_HEAD_MAX + CAPTURE_TAIL_MAX bytes. The
 * whole goes to an artifact (artifact.h). */
#ifndef LAZARET_RUN_CAPTURE_H
#define LAZARET_RUN_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

#define CAPTURE_HEAD_MAX (4u << 10)
#define CAPTURE_TAIL_MAX (28u << 10)

/* struct capture: `{0}` is empty. */
struct capture {
    char *head, *tail; /* allocated with the first byte that needs them */
    size_t head_len;   /* bytes in `head` */
    size_t tail_at;    /* where the next byte goes in `tail`, a ring */
    uint64_t total;    /* bytes that came */
    bool failed;       /* memory was exhausted: only counted from then on */
};

void capture_add(struct capture *capture, struct slice bytes);
void capture_release(struct capture *capture); /* frees; empty again */

/* capture_cut is how many bytes are neither in the head nor in the tail. */
uint64_t capture_cut(const struct capture *capture);

/* capture_print appends what was kept: the whole, or the head, a line that says how many bytes were
 * left out, and the tail.  Bytes are as they came. */
void capture_print(const struct capture *capture, struct buf *out);

/* capture_tail appends the last `max` bytes, from the beginning of a line where there is one. */
void capture_tail(const struct capture *capture, size_t max, struct buf *out);

/* capture_last_line appends the last line that is not blank, without white space around it; nothing
 * when there is none.  At most `max` bytes of it. */
void capture_last_line(const struct capture *capture, size_t max, struct buf *out);

#endif
