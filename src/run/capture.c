/* capture: a head that is filled once and a ring for the tail.
 *
 * Invariants: the head has the first `head_len` bytes of the stream; when there is a tail, the head
 * is full and the ring has the last min(total - head_len, CAPTURE_TAIL_MAX) bytes, ending at
 * `tail_at`.  When `failed`, there is no tail: memory is asked for once for each of the two. */
#include "run/capture.h"

#include <string.h>

#include "base/mem.h"

/* fill_head takes what belongs to the head from the front of `bytes`. */
static void fill_head(struct capture *capture, struct slice *bytes)
{
    size_t take = CAPTURE_HEAD_MAX - capture->head_len;
    if (take > bytes->len)
        take = bytes->len;
    if (take == 0)
        return;
    if (!capture->head && !(capture->head = mem_alloc(CAPTURE_HEAD_MAX))) {
        capture->failed = true;
        return;
    }
    memcpy(capture->head + capture->head_len, bytes->ptr, take);
    capture->head_len += take;
    bytes->ptr += take;
    bytes->len -= take;
}

static void fill_tail(struct capture *capture, struct slice bytes)
{
    if (bytes.len == 0)
        return;
    if (!capture->tail && !(capture->tail = mem_alloc(CAPTURE_TAIL_MAX))) {
        capture->failed = true;
        return;
    }
    if (bytes.len > CAPTURE_TAIL_MAX) {
        bytes.ptr += bytes.len - CAPTURE_TAIL_MAX;
        bytes.len = CAPTURE_TAIL_MAX;
    }
    size_t to_end = CAPTURE_TAIL_MAX - capture->tail_at;
    size_t first = bytes.len < to_end ? bytes.len : to_end;
    memcpy(capture->tail + capture->tail_at, bytes.ptr, first);
    memcpy(capture->tail, bytes.ptr + first, bytes.len - first);
    capture->tail_at = (capture->tail_at + bytes.len) % CAPTURE_TAIL_MAX;
}

void capture_add(struct capture *capture, struct slice bytes)
{
    capture->total += bytes.len;
    if (!capture->failed)
        fill_head(capture, &bytes);
    if (!capture->failed)
        fill_tail(capture, bytes);
}

void capture_release(struct capture *capture)
{
    mem_free(capture->head);
    mem_free(capture->tail);
    *capture = (struct capture){0};
}

static size_t tail_len(const struct capture *capture)
{
    uint64_t after_head = capture->total - capture->head_len;
    if (!capture->tail)
        return 0;
    return after_head < CAPTURE_TAIL_MAX ? (size_t)after_head : CAPTURE_TAIL_MAX;
}

uint64_t capture_cut(const struct capture *capture)
{
    return capture->total - capture->head_len - tail_len(capture);
}

/* struct end: the bytes up to the end of the stream that are known without a gap, as three runs. */
struct end {
    struct slice runs[3];
    size_t len;
};

static struct end end_of(const struct capture *capture)
{
    struct end end = {0};
    size_t tail = tail_len(capture);

    if (capture->failed)
        return end; /* What came last is not known. */
    if (capture_cut(capture) == 0)
        end.runs[0] = (struct slice){capture->head, capture->head_len};
    if (tail > capture->tail_at) { /* It goes over the end of the ring. */
        size_t before = tail - capture->tail_at;
        end.runs[1] = (struct slice){capture->tail + CAPTURE_TAIL_MAX - before, before};
        end.runs[2] = (struct slice){capture->tail, capture->tail_at};
    } else if (tail > 0) {
        end.runs[2] = (struct slice){capture->tail + capture->tail_at - tail, tail};
    }
    end.len = end.runs[0].len + end.runs[1].len + end.runs[2].len;
    return end;
}

static char end_at(const struct end *end, size_t i)
{
    const struct slice *run = end->runs;
    for (; i >= run->len; run++)
        i -= run->len;
    return run->ptr[i];
}

/* end_print appends the bytes from `from` up to `to`. */
static void end_print(const struct end *end, size_t from, size_t to, struct buf *out)
{
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        struct slice run = end->runs[i];
        size_t first = from > at ? from - at : 0;
        size_t last = to - at < run.len ? to - at : run.len;
        if (first < last)
            buf_add(out, run.ptr + first, last - first);
        at += run.len;
        if (at >= to)
            return;
    }
}

void capture_print(const struct capture *capture, struct buf *out)
{
    struct end end = end_of(capture);
    uint64_t cut = capture_cut(capture);

    if (cut > 0) {
        buf_add(out, capture->head, capture->head_len);
        if (capture->head_len > 0 && capture->head[capture->head_len - 1] != '\n')
            buf_add_char(out, '\n');
        buf_addf(out, "[... %llu bytes left out ...]\n", (unsigned long long)cut);
    }
    end_print(&end, 0, end.len, out);
}

void capture_tail(const struct capture *capture, size_t max, struct buf *out)
{
    struct end end = end_of(capture);
    size_t from = end.len > max ? end.len - max : 0;
    bool in_line = from > 0 ? end_at(&end, from - 1) != '\n' : capture_cut(capture) > 0;

    if (in_line) {
        size_t line = from;
        while (line < end.len && end_at(&end, line) != '\n')
            line++;
        if (line + 1 < end.len)
            from = line + 1;
    }
    end_print(&end, from, end.len, out);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

void capture_last_line(const struct capture *capture, size_t max, struct buf *out)
{
    struct end end = end_of(capture);
    size_t to = end.len;
    while (to > 0 && is_space(end_at(&end, to - 1)))
        to--;
    size_t from = to;
    while (from > 0 && end_at(&end, from - 1) != '\n')
        from--;
    while (from < to && is_space(end_at(&end, from)))
        from++;
    end_print(&end, from, to - from > max ? from + max : to, out);
}
