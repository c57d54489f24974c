/* lockedfile: see lockedfile.h. */
#include "bridge/lockedfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/seams.h"

#define LOCK_WAIT_US 10000000 /* for somebody else to be done with the file */
#define LOCK_PAUSE_NS 10000000
#define CHUNK (64 << 10) /* bytes of one read or write */

/* trouble makes a sentence of errno. */
static enum status trouble(const char *what, const char *path, struct err *err)
{
    int code = errno;
    enum status status = code == ENOSPC || code == EDQUOT || code == EFBIG ? STATUS_FULL
                         : code == EROFS                                   ? STATUS_READ_ONLY
                                                                           : STATUS_IO;
    return err_set(err, status, "cannot %s %s: %s", what, path, strerror(code));
}

/* beside is the path with an ending, as a text to be freed. */
static char *beside(const char *path, const char *ending)
{
    size_t size = strlen(path) + strlen(ending) + 1;
    char *text = mem_alloc(size);
    if (text)
        snprintf(text, size, "%s%s", path, ending);
    return text;
}

/* directory_of is the path up to its last slash, as a text to be freed. */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return mem_strdup(".");
    char *text = mem_strdup(path);
    if (text)
        text[slash == path ? 1 : slash - path] = '\0';
    return text;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static enum status wait_for_lock(int fd, const char *path, struct err *err)
{
    const struct seams *world = seams_real();
    int64_t end = world->steady(world->ctx).us + LOCK_WAIT_US;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return trouble("lock", path, err);
        if (world->steady(world->ctx).us >= end)
            return err_set(err, STATUS_BUSY,
                           "another program has kept %s locked for ten seconds: try again when it "
                           "is done",
                           path);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    return STATUS_OK;
}

static enum status take_lock(struct lockedfile *file, struct err *err)
{
    char *path = beside(file->path, ".lock");
    if (!path)
        return err_no_memory(err);
    enum status status;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT)
        status = err_set(err, STATUS_NOT_FOUND, "the directory of %s is not there", file->path);
    else if (fd < 0)
        status = trouble("lock", path, err);
    else
        status = wait_for_lock(fd, path, err);
    file->locked = status == STATUS_OK;
    if (file->locked)
        file->lock = fd;
    else if (fd >= 0)
        close(fd);
    mem_free(path);
    return status;
}

/* make_directory makes the one that the file is in; those above it must be there. */
static enum status make_directory(const char *path, struct err *err)
{
    char *directory = directory_of(path);
    if (!directory)
        return err_no_memory(err);
    enum status status = STATUS_OK;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        status = trouble("make the directory", directory, err);
    mem_free(directory);
    return status;
}

/* resolve finds the file that a symbolic link leads to.  A path that leads nowhere stays. */
static enum status resolve(struct lockedfile *file, const char *path, struct err *err)
{
    char real[PATH_MAX];
    struct stat info;
    bool link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode) && realpath(path, real);
    file->path = mem_strdup(link ? real : path);
    return file->path ? STATUS_OK : err_no_memory(err);
}

enum status lockedfile_name(struct lockedfile *file, const char *path, struct err *err)
{
    *file = (struct lockedfile){0};
    return resolve(file, path, err);
}

enum status lockedfile_open(struct lockedfile *file, const char *path, bool make, struct err *err)
{
    enum status status = lockedfile_name(file, path, err);
    if (status == STATUS_OK && make)
        status = make_directory(file->path, err);
    if (status == STATUS_OK)
        status = take_lock(file, err);
    if (status != STATUS_OK)
        lockedfile_close(file);
    return status;
}

void lockedfile_close(struct lockedfile *file)
{
    if (file->locked)
        close(file->lock);
    mem_free(file->path);
    *file = (struct lockedfile){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

bool lockedfile_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static enum status read_all(struct lockedfile *file, int fd, struct buf *text, struct err *err)
{
    char chunk[CHUNK];
    if (fstat(fd, &file->seen) != 0)
        return trouble("read", file->path, err);
    if (!S_ISREG(file->seen.st_mode))
        return err_set(err, STATUS_INVALID, "%s is no file", file->path);
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return trouble("read", file->path, err);
        buf_add(text, chunk, (size_t)got);
        if (got == 0 || text->status != STATUS_OK)
            break;
    }
    if (text->status == STATUS_TOO_LARGE)
        return err_set(err, STATUS_TOO_LARGE, "%s has more than %zu bytes", file->path, text->max);
    return buf_status(text, err);
}

enum status lockedfile_read(struct lockedfile *file, struct buf *text, struct err *err)
{
    /* It may be a pipe that nobody writes into: opening it must not wait. */
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    file->there = fd >= 0;
    if (fd < 0 && errno == ENOENT)
        return STATUS_OK;
    if (fd < 0)
        return trouble("read", file->path, err);
    enum status status = read_all(file, fd, text, err);
    close(fd);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static enum status write_all(int fd, const char *path, struct slice text, struct err *err)
{
    while (text.len > 0) {
        ssize_t wrote = write(fd, text.ptr, text.len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return trouble("write", path, err);
        text = (struct slice){text.ptr + wrote, text.len - (size_t)wrote};
    }
    return fsync(fd) == 0 ? STATUS_OK : trouble("write", path, err);
}

/* unchanged says that the file is the one that was read, or is not there as it was not then. */
static enum status unchanged(const struct lockedfile *file, struct err *err)
{
    struct stat now;
    bool there = stat(file->path, &now) == 0;
    if (!there && errno != ENOENT)
        return trouble("look at", file->path, err);
    if (there != file->there || (there && !lockedfile_same(&now, &file->seen)))
        return err_set(err, STATUS_CONFLICT, "%s was changed by somebody else meanwhile",
                       file->path);
    return STATUS_OK;
}

/* sync_directory makes the rename last.  Some file systems cannot, and that is no error: the file
 * is whole either way. */
static void sync_directory(const char *path)
{
    char *directory = directory_of(path);
    int fd = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    mem_free(directory);
}

/* put writes the file beside its place, and moves it there. */
static enum status put(struct lockedfile *file, const char *temporary, struct slice text,
                       struct err *err)
{
    (void)unlink(temporary); /* what a crash has left */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return trouble("write", temporary, err);
    enum status status = write_all(fd, temporary, text, err);
    if (status == STATUS_OK)
        status = unchanged(file, err);
    if (status == STATUS_OK && rename(temporary, file->path) != 0)
        status = trouble("replace", file->path, err);
    if (status == STATUS_OK)
        file->there = fstat(fd, &file->seen) == 0;
    close(fd);
    if (status != STATUS_OK)
        (void)unlink(temporary);
    return status;
}

enum status lockedfile_write(struct lockedfile *file, struct slice text, struct err *err)
{
    char *temporary = beside(file->path, ".tmp");
    if (!temporary)
        return err_no_memory(err);
    enum status status = put(file, temporary, text, err);
    mem_free(temporary);
    if (status == STATUS_OK)
        sync_directory(file->path);
    return status;
}
