/* lines: a buffer in front of a descriptor.
 *
 *     bytes   |......yielded......|==clean==|??????|..........|
 *                                 begin            end        cap
 *
 * When there is no room behind `end`, what is left moves to the front; when that makes none, the
 * buffer doubles. */
#include "run/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define CAP_MIN ((size_t)256 << 10)

static enum status cannot_read(const struct lines *lines, struct err *err)
{
    return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "cannot read %s: %s",
                   lines->name, strerror(errno));
}

enum status lines_open(struct lines *lines, const char *path, struct err *err)
{
    bool input = strcmp(path, "-") == 0;
    struct stat info;

    *lines =
        (struct lines){.name = input ? "standard input" : path, .fd = -1, .wake = -1, .limit = -1};
    lines->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lines->wake < 0)
        return err_set(err, STATUS_IO, "cannot make an event descriptor: %s", strerror(errno));
    /* Without O_NONBLOCK a named pipe that nobody writes to would be waited for here. */
    lines->fd = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (lines->fd < 0 || fstat(lines->fd, &info) != 0)
        return cannot_read(lines, err);
    if (S_ISDIR(info.st_mode))
        return err_set(err, STATUS_INVALID,
                       "%s is a directory: give a file of items, or - for standard input",
                       lines->name);
    lines->file = S_ISREG(info.st_mode);
    if (lines->file) {
        off_t start = lseek(lines->fd, 0, SEEK_CUR); /* of standard input: perhaps not 0 */
        lines->start = lines->offset = start > 0 ? start : 0;
    }
    return STATUS_OK;
}

void lines_close(struct lines *lines)
{
    if (lines->fd >= 0 && lines->fd != STDIN_FILENO)
        close(lines->fd);
    if (lines->wake >= 0)
        close(lines->wake);
    mem_free(lines->bytes);
    lines->bytes = NULL;
    lines->fd = lines->wake = -1;
}

void lines_stop(struct lines *lines)
{
    atomic_store(&lines->stopped, true);
    (void)eventfd_write(lines->wake, 1);
}

bool lines_stopped(struct lines *lines)
{
    return atomic_load(&lines->stopped);
}

/* make_room sees to it that something can be read behind `end`. */
static bool make_room(struct lines *lines)
{
    size_t left = lines->end - lines->begin;

    if (left == 0)
        lines->begin = lines->end = 0;
    if (lines->end < lines->cap)
        return true;
    if (lines->begin > 0) {
        memmove(lines->bytes, lines->bytes + lines->begin, left);
    } else {
        size_t cap = lines->cap ? lines->cap * 2 : CAP_MIN;
        char *bytes = mem_realloc(lines->bytes, cap);
        if (!bytes)
            return false;
        lines->bytes = bytes;
        lines->cap = cap;
    }
    lines->begin = 0;
    lines->end = left;
    return true;
}

/* wait_for waits until there is something to read, or the end of it; false when it is stopped. */
static bool wait_for(struct lines *lines)
{
    struct pollfd fds[] = {{.fd = lines->fd, .events = POLLIN},
                           {.fd = lines->wake, .events = POLLIN}};

    while (!lines_stopped(lines))
        if (poll(fds, 2, -1) > 0 && fds[0].revents && !fds[1].revents)
            return true;
    return false;
}

/* read_some reads into the room behind `end`; errno says why it could not. */
static ssize_t read_some(struct lines *lines)
{
    char *at = lines->bytes + lines->end;
    size_t room = lines->cap - lines->end;

    if (!lines->file)
        return read(lines->fd, at, room);
    if (lines->limit >= 0 && (int64_t)room > lines->limit - lines->offset)
        room = (size_t)(lines->limit - lines->offset);
    return room ? pread(lines->fd, at, room, lines->offset) : 0;
}

enum status lines_more(struct lines *lines, size_t max, struct err *err)
{
    ssize_t got;

    if (lines->end - lines->begin >= max)
        return err_set(err, STATUS_TOO_LARGE, "%s: more than %zu bytes at once", lines->name, max);
    if (!make_room(lines))
        return err_no_memory(err);
    do {
        if (!lines->file && !wait_for(lines)) {
            lines->ended = true;
            return STATUS_OK;
        }
        got = read_some(lines);
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (got < 0)
        return cannot_read(lines, err);
    lines->ended = got == 0;
    lines->end += (size_t)got;
    lines->offset += got;
    return STATUS_OK;
}

struct slice lines_ahead(const struct lines *lines)
{
    size_t len = lines->end - lines->begin;

    return (struct slice){len ? lines->bytes + lines->begin : "", len};
}

void lines_skip(struct lines *lines, size_t count)
{
    BUG_ON(count > lines->end - lines->begin);
    lines->begin += count;
    lines->clean = lines->clean > count ? lines->clean - count : 0;
}

static enum status too_long(const struct lines *lines, struct err *err)
{
    return err_set(err, STATUS_TOO_LARGE, "%s: line %lld has more than %zu bytes", lines->name,
                   (long long)lines->number + 1, LINES_LINE_MAX);
}

/* yield hands out `len` bytes and steps over them and the newline, if there is one. */
static enum status yield(struct lines *lines, size_t len, bool newline, struct slice *out,
                         struct err *err)
{
    struct slice line = {lines_ahead(lines).ptr, len};

    if (newline && len > 0 && line.ptr[len - 1] == '\r')
        line.len--;
    if (line.len > LINES_LINE_MAX)
        return too_long(lines, err);
    *out = line;
    lines->begin += len + newline;
    lines->clean = 0;
    lines->number++;
    return STATUS_OK;
}

enum status lines_next(struct lines *lines, struct slice *out, bool *more, struct err *err)
{
    *more = true;
    while (!lines_stopped(lines)) {
        struct slice ahead = lines_ahead(lines);
        const char *from = ahead.ptr + lines->clean;
        const char *newline = memchr(from, '\n', ahead.len - lines->clean);
        if (newline || (lines->ended && ahead.len > 0))
            return yield(lines, newline ? (size_t)(newline - ahead.ptr) : ahead.len, newline, out,
                         err);
        if (lines->ended)
            break;
        lines->clean = ahead.len;
        enum status status = lines_more(lines, LINES_LINE_MAX + 2, err); /* CR LF */
        if (status != STATUS_OK)
            return status == STATUS_TOO_LARGE ? too_long(lines, err) : status;
    }
    *more = false;
    return STATUS_OK;
}

void lines_rewind(struct lines *lines)
{
    BUG_ON(!lines->file);
    lines->limit = lines->offset;
    lines->offset = lines->start;
    lines->begin = lines->end = lines->clean = 0;
    lines->ended = false;
    lines->number = 0;
}
