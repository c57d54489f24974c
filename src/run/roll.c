/* roll: a file of lines.  Each is one write, so that a runner that is killed leaves whole lines. */
#include "run/roll.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "run/item.h"
#include "run/spec.h"

#define PATH_BYTES_MAX 8192

struct roll {
    int fd;
    struct buf path;
    struct buf line; /* that is being written */
};

static enum status failed(const struct buf *path, struct err *err)
{
    return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", buf_str(path),
                   strerror(errno));
}

enum status roll_open(const char *data, const char *run_id, struct roll **out, struct err *err)
{
    struct roll *roll = mem_zalloc(sizeof(*roll));
    if (!roll)
        return err_no_memory(err);
    roll->fd = -1;
    buf_init(&roll->path, PATH_BYTES_MAX);
    buf_init(&roll->line, ITEM_ID_MAX + 1);
    enum status status = spec_path(data, run_id, ".ids", &roll->path, err);
    if (!status) {
        int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
        roll->fd = open(buf_str(&roll->path), flags, 0600);
        status = roll->fd < 0 ? failed(&roll->path, err) : STATUS_OK;
    }
    if (status)
        roll_close(roll);
    else
        *out = roll;
    return status;
}

void roll_close(struct roll *roll)
{
    if (!roll)
        return;
    if (roll->fd >= 0)
        close(roll->fd);
    buf_release(&roll->path);
    buf_release(&roll->line);
    mem_free(roll);
}

enum status roll_add(struct roll *roll, struct slice id, struct err *err)
{
    ssize_t written;
    BUG_ON(id.len > ITEM_ID_MAX || memchr(id.ptr, '\n', id.len));
    buf_clear(&roll->line);
    buf_add_slice(&roll->line, id);
    buf_add_char(&roll->line, '\n');
    enum status status = buf_status(&roll->line, err);
    if (status)
        return status;
    do
        written = write(roll->fd, roll->line.ptr, roll->line.len);
    while (written < 0 && errno == EINTR);
    if (written == (ssize_t)roll->line.len)
        return STATUS_OK;
    errno = written < 0 ? errno : ENOSPC;
    return failed(&roll->path, err);
}

enum status roll_each(const char *data, const char *run_id,
                      enum status (*visit)(void *ctx, struct slice id, struct err *err), void *ctx,
                      struct err *err)
{
    struct buf path;
    char line[ITEM_ID_MAX + 2];
    buf_init(&path, PATH_BYTES_MAX);
    enum status status = spec_path(data, run_id, ".ids", &path, err);
    FILE *file = status ? NULL : fopen(buf_str(&path), "re");
    if (!status && !file)
        status = failed(&path, err);
    while (!status && fgets(line, sizeof(line), file)) {
        struct slice id = slice_of(line);
        id.len -= id.len > 0 && id.ptr[id.len - 1] == '\n';
        status = visit(ctx, id, err);
    }
    if (file)
        fclose(file);
    buf_release(&path);
    return status;
}
