/* process: reading /proc.  What is not there is not known: a system without /proc is no error. */
#include "api/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/mem.h"

/* Of /proc/stat: the line that is wanted stands after those of processors and interrupts. */
#define STAT_MAX (128 << 10)
#define START_FIELD 22 /* of /proc/self/stat: when the process started, in ticks since the boot */

/* read_file reads the beginning of a file as a text; false when it cannot be read. */
static bool read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t len = 0;
    ssize_t got;
    while (len < size - 1 && (got = read(fd, text + len, size - 1 - len)) > 0)
        len += (size_t)got;
    close(fd);
    text[len] = '\0';
    return len > 0;
}

static int64_t resident_bytes(void)
{
    char text[256];
    if (!read_file("/proc/self/statm", text, sizeof(text)))
        return -1;
    const char *second = strchr(text, ' ');
    return second ? strtoll(second, NULL, 10) * sysconf(_SC_PAGESIZE) : -1;
}

/* start_ticks is when the process started, since the boot.  The name of the program is in
 * parentheses and may hold anything, also a parenthesis: fields are counted from the last one. */
static int64_t start_ticks(void)
{
    char text[1024];
    if (!read_file("/proc/self/stat", text, sizeof(text)))
        return -1;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : -1;
}

static int64_t boot_seconds(void)
{
    static const char label[] = "\nbtime ";
    char *text = mem_alloc(STAT_MAX);
    const char *at = NULL;
    if (text && read_file("/proc/stat", text, STAT_MAX))
        at = strstr(text, label);
    int64_t seconds = at ? strtoll(at + sizeof(label) - 1, NULL, 10) : -1;
    mem_free(text);
    return seconds;
}

static double start_seconds(void)
{
    int64_t ticks = start_ticks(), boot = boot_seconds();
    long hz = sysconf(_SC_CLK_TCK);
    return ticks < 0 || boot < 0 || hz <= 0 ? -1 : (double)boot + (double)ticks / (double)hz;
}

static int64_t open_fds(void)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return -1;
    int64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count - 1; /* not the one that was looked with */
}

void process_read(struct process_numbers *out)
{
    *out = (struct process_numbers){resident_bytes(), open_fds(), start_seconds()};
}
