/* file: whole files in, whole files out; see file.h. */
#include "cli/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

#define FILE_CHUNK (256 << 10)
#define FILE_PATH_MAX 8192
#define FILE_NAME_MAX 200 /* leaves room for an ending under the usual limit of 255 */
#define FILE_NAME_KEEP 160

static enum status read_all(int fd, const char *name, struct buf *out, struct err *err)
{
    char chunk[16 << 10];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, STATUS_IO, "cannot read %s: %s", name, strerror(errno));
        if (got == 0)
            break;
        buf_add(out, chunk, (size_t)got);
        if (out->status != STATUS_OK)
            break;
    }
    if (out->status == STATUS_TOO_LARGE)
        return err_set(err, STATUS_TOO_LARGE, "%s has more than %zu bytes: split it", name,
                       out->max);
    return buf_status(out, err);
}

enum status file_read(const char *path, struct buf *out, struct err *err)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", out, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "cannot read %s: %s",
                       path, strerror(errno));
    enum status status = read_all(fd, path, out, err);
    close(fd);
    return status;
}

enum status file_create(struct file_output *file, const char *path, bool replace, struct err *err)
{
    struct stat info;

    file->fd = -1;
    buf_init(&file->place, FILE_PATH_MAX);
    buf_init(&file->beside, FILE_PATH_MAX);
    buf_init(&file->pending, FILE_CHUNK << 1);
    if (!replace && lstat(path, &info) == 0)
        return err_set(err, STATUS_CONFLICT, "%s exists: --force replaces it", path);
    buf_add_str(&file->place, path);
    buf_addf(&file->beside, "%s.XXXXXX", path);
    if (buf_status(&file->place, err) != STATUS_OK || buf_status(&file->beside, err) != STATUS_OK)
        return STATUS_TOO_LARGE;
    file->fd = mkostemp(file->beside.ptr, O_CLOEXEC);
    if (file->fd < 0)
        return err_set(err, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
    /* mkostemp makes a file for its owner alone; evidence may hold secrets, so that stays. */
    return STATUS_OK;
}

static enum status write_error(const struct file_output *file, struct err *err)
{
    return err_set(err, errno == ENOSPC ? STATUS_FULL : STATUS_IO, "cannot write %s: %s",
                   buf_str(&file->place), strerror(errno));
}

static enum status flush_pending(struct file_output *file, struct err *err)
{
    struct slice rest = buf_slice(&file->pending);
    while (rest.len > 0) {
        ssize_t wrote = write(file->fd, rest.ptr, rest.len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return write_error(file, err);
        rest = (struct slice){rest.ptr + wrote, rest.len - (size_t)wrote};
    }
    buf_clear(&file->pending);
    return STATUS_OK;
}

enum status file_add(struct file_output *file, struct slice bytes, struct err *err)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && bytes.len > 0) {
        size_t len = bytes.len < FILE_CHUNK ? bytes.len : FILE_CHUNK;
        buf_add(&file->pending, bytes.ptr, len);
        status = buf_status(&file->pending, err);
        if (status == STATUS_OK && file->pending.len >= FILE_CHUNK)
            status = flush_pending(file, err);
        bytes = (struct slice){bytes.ptr + len, bytes.len - len};
    }
    return status;
}

/* sync_directory makes the rename last; some file systems cannot, and that is no error. */
static void sync_directory(const char *path)
{
    struct buf directory;
    buf_init(&directory, FILE_PATH_MAX);
    const char *slash = strrchr(path, '/');
    buf_add(&directory, path, slash ? (size_t)(slash - path) + 1 : 0);
    buf_add_str(&directory, ".");
    int fd = open(buf_str(&directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    buf_release(&directory);
}

enum status file_commit(struct file_output *file, struct err *err)
{
    enum status status = flush_pending(file, err);
    if (status != STATUS_OK)
        return status;
    if (fsync(file->fd) != 0)
        return write_error(file, err);
    int closed = close(file->fd);
    file->fd = -1;
    if (closed != 0 || rename(file->beside.ptr, file->place.ptr) != 0) {
        status = write_error(file, err);
        unlink(file->beside.ptr);
        return status;
    }
    sync_directory(file->place.ptr);
    return STATUS_OK;
}

void file_release(struct file_output *file)
{
    if (file->fd >= 0) {
        close(file->fd);
        unlink(file->beside.ptr);
        file->fd = -1;
    }
    buf_release(&file->place);
    buf_release(&file->beside);
    buf_release(&file->pending);
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

void file_name(struct slice id, struct buf *out)
{
    size_t start = out->len;
    for (size_t i = 0; i < id.len && out->len - start <= FILE_NAME_MAX; i++) {
        char c = id.ptr[i];
        if (is_plain(c) && !(i == 0 && c == '.'))
            buf_add_char(out, c);
        else
            buf_addf(out, "%%%02X", (unsigned)(unsigned char)c);
    }
    if (out->len - start <= FILE_NAME_MAX || out->status != STATUS_OK)
        return;
    out->len = start + FILE_NAME_KEEP;
    buf_addf(out, "-%016" PRIx64, hash64(id));
}
