/* memory: three small files of the kernel, read seldom.
 *
 * Of a count of kills only its growth is of use.  `grew_at` is when growth was last seen, so that
 * of two commands that were killed at once the second one is told of it as well, although the count
 * was read for the first. */
#include "run/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/slice.h"
#include "crew/loop.h"

#define FILE_BYTES_MAX (32u << 10) /* /proc/vmstat has about 5 KiB */
#define REREAD_AFTER_US 1000000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over all that follows */

static struct {
    char path[PATH_MAX]; /* "": not chosen yet */
    int64_t count;       /* as last read; -1: it could not be */
    struct span read_at, grew_at;
} oom = {.count = -1, .read_at = {INT64_MIN / 2}, .grew_at = {INT64_MIN}};

static int64_t own_peak_kb; /* as last read; it only grows */

/* read_file reads a small file, as much of it as there is room for, and ends it with a NUL. */
static bool read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = -1;

    if (fd < 0)
        return false;
    while (len < size - 1) {
        n = read(fd, out + len, size - 1 - len);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    out[len] = '\0';
    return n >= 0;
}

/* line_after finds the line that begins with `key` and returns what follows it; NULL: none. */
static char *line_after(char *text, const char *key)
{
    size_t len = strlen(key);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0)
            return line + len;
        if (*line == '\0')
            break;
    }
    return NULL;
}

/* read_number reads the number after `key` in a file of such lines; -1: there is none. */
static int64_t read_number(const char *path, const char *key)
{
    char text[FILE_BYTES_MAX];
    const char *after = read_file(path, text, sizeof text) ? line_after(text, key) : NULL;
    return after ? (int64_t)strtoll(after, NULL, 10) : -1;
}

/* cgroup_events names the file in which our cgroup (version 2) counts; false: there is none. */
static bool cgroup_events(char *out, size_t size)
{
    char text[FILE_BYTES_MAX];
    char *name = read_file("/proc/self/cgroup", text, sizeof text) ? line_after(text, "0::") : NULL;

    if (!name)
        return false;
    name[strcspn(name, "\n")] = '\0';
    int len = snprintf(out, size, "/sys/fs/cgroup%s/memory.events", name);
    return len > 0 && (size_t)len < size && access(out, R_OK) == 0;
}

/* look reads the count and notes its growth.  With the lock. */
static void look(void)
{
    if (oom.path[0] == '\0' && !cgroup_events(oom.path, sizeof oom.path))
        snprintf(oom.path, sizeof oom.path, "/proc/vmstat");
    int64_t count = read_number(oom.path, "oom_kill ");
    oom.read_at = loop_now();
    if (count > oom.count && oom.count >= 0)
        oom.grew_at = oom.read_at;
    if (count >= 0)
        oom.count = count;
}

void memory_watch_oom(void)
{
    pthread_mutex_lock(&lock);
    if (loop_now().us - oom.read_at.us > REREAD_AFTER_US)
        look();
    pthread_mutex_unlock(&lock);
}

bool memory_oom_since(struct span start)
{
    pthread_mutex_lock(&lock);
    look();
    bool grew = oom.grew_at.us > start.us;
    pthread_mutex_unlock(&lock);
    return grew;
}

int64_t memory_of_child(int64_t peak_kb)
{
    bool known = false;

    pthread_mutex_lock(&lock);
    if (peak_kb > own_peak_kb) {
        int64_t own_kb = read_number("/proc/self/status", "VmHWM:");
        known = own_kb >= 0 && peak_kb > own_kb;
        if (own_kb > own_peak_kb)
            own_peak_kb = own_kb;
    }
    pthread_mutex_unlock(&lock);
    return known ? peak_kb : 0;
}

void memory_oom_source(const char *path)
{
    pthread_mutex_lock(&lock);
    snprintf(oom.path, sizeof oom.path, "%s", path ? path : "");
    oom.count = -1;
    oom.read_at.us = INT64_MIN / 2;
    pthread_mutex_unlock(&lock);
}
