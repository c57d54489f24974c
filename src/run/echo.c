/* echo: writes of at most PIPE_BUF bytes, each after poll has said that there is room for them. */
#include "run/echo.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

void echo_init(struct echo *echo, int out, int err)
{
    *echo = (struct echo){.out = {.fd = out}, .err = {.fd = err}};
}

/* has_room waits until something can be written: for a moment, unless it was in vain before. */
static bool has_room(struct echo_stream *stream)
{
    struct pollfd ready = {.fd = stream->fd, .events = POLLOUT};
    int n;

    do
        n = poll(&ready, 1, stream->stalled ? 0 : ECHO_PATIENCE_MS);
    while (n < 0 && errno == EINTR);
    stream->stalled = n == 0;
    return n > 0;
}

/* write_some writes the beginning of `bytes` and returns how much it was; 0: it cannot. */
static size_t write_some(struct echo_stream *stream, struct slice bytes)
{
    ssize_t n;

    if (!has_room(stream))
        return 0;
    do
        n = write(stream->fd, bytes.ptr, bytes.len < PIPE_BUF ? bytes.len : PIPE_BUF);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return (size_t)n;
    stream->stalled = true;
    stream->gone = n < 0 && (errno == EPIPE || errno == EBADF || errno == EIO);
    return 0;
}

/* tell_missed says what is not there; false when that cannot be said yet. */
static bool tell_missed(struct echo_stream *stream)
{
    char line[96];
    int len = snprintf(line, sizeof(line), "\n[lazaret: %" PRIu64 " bytes were not shown]\n",
                       stream->missed);

    if (write_some(stream, (struct slice){line, (size_t)len}) == 0)
        return false;
    stream->missed = 0;
    return true;
}

void echo_add(struct echo_stream *stream, struct slice bytes)
{
    bool heard = !stream->gone && (stream->missed == 0 || tell_missed(stream));

    while (heard && bytes.len > 0) {
        size_t n = write_some(stream, bytes);
        heard = n > 0;
        bytes.ptr += n;
        bytes.len -= n;
    }
    stream->missed += bytes.len;
}
