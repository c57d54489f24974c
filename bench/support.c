/* support: the ground the scenarios stand on.
 *
 * Scratch files have fixed names, so that a signal handler, which may call little more than unlink,
 * can remove them.  The folders of servers are removed by rm, which a signal handler may start. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/seams.h"
#include "bench.h"
#include "process.h"

/* ---- files ----------------------------------------------------------------------------------- */

#define PATH_SIZE 4096
#define SUFFIX_COUNT 3

static char scratch_directory[PATH_SIZE];
static char scratch_files[SCRATCH_COUNT][SUFFIX_COUNT][PATH_SIZE + 32];

/* remove_folder removes a directory that mkdtemp made, or one in it, with everything in it. */
static void remove_folder(const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void remove_all(void)
{
    process_end_all();
    for (int i = 0; i < SCRATCH_COUNT; i++)
        scratch_remove((enum scratch)i);
    if (scratch_directory[0] && rmdir(scratch_directory) != 0)
        remove_folder(scratch_directory);
}

static void on_signal(int number)
{
    remove_all();
    _exit(128 + number);
}

/* parent_directory is where the scratch directory goes. */
static void parent_directory(char out[PATH_SIZE])
{
    const char *chosen = getenv("TMPDIR");
    if (chosen && chosen[0]) {
        snprintf(out, PATH_SIZE, "%s", chosen);
        return;
    }
    ssize_t len = readlink("/proc/self/exe", out, PATH_SIZE - 1);
    out[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(out, PATH_SIZE, ".");
}

void scratch_open(void)
{
    static const char *const names[SCRATCH_COUNT] = {"engine.db", "bare.db"};
    static const char *const suffixes[SUFFIX_COUNT] = {"", "-wal", "-journal"};
    char parent[PATH_SIZE];
    parent_directory(parent);
    int len = snprintf(scratch_directory, PATH_SIZE, "%s/lazaret-bench-XXXXXX", parent);
    if (len >= PATH_SIZE || !mkdtemp(scratch_directory)) {
        scratch_directory[0] = '\0';
        bench_die("%s: a scratch directory cannot be made: %s", parent, strerror(errno));
    }
    for (int i = 0; i < SCRATCH_COUNT; i++)
        for (int k = 0; k < SUFFIX_COUNT; k++)
            snprintf(scratch_files[i][k], sizeof(scratch_files[i][k]), "%s/%s%s", scratch_directory,
                     names[i], suffixes[k]);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGHUP, on_signal);
    signal(SIGPIPE, on_signal);
    signal(SIGABRT, on_signal);
}

void scratch_close(void)
{
    remove_all();
    scratch_directory[0] = '\0';
}

const char *scratch_path(enum scratch which)
{
    return scratch_files[which][0];
}

void scratch_remove(enum scratch which)
{
    for (int k = 0; k < SUFFIX_COUNT; k++)
        unlink(scratch_files[which][k]);
}

/* folder_path is where a server keeps its files. */
static void folder_path(const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", scratch_directory, name);
}

const char *scratch_folder(const char *name)
{
    static char path[PATH_SIZE + 64];
    folder_path(name, path, sizeof(path));
    if (mkdir(path, 0700) != 0)
        bench_die("%s: %s", path, strerror(errno));
    return path;
}

void scratch_open_to_others(void)
{
    if (chmod(scratch_directory, 0711) != 0)
        bench_die("%s: %s", scratch_directory, strerror(errno));
}

void scratch_folder_remove(const char *name)
{
    char path[PATH_SIZE + 64];
    folder_path(name, path, sizeof(path));
    if (scratch_directory[0])
        remove_folder(path);
}

struct store *bench_store(enum scratch which)
{
    struct err err = {0};
    struct store *store = NULL;
    struct store_config config = {.path = scratch_path(which), .seams = seams_real()};
    bench_check(store_sqlite_open(&config, &store, &err), &err, "opening the store");
    return store;
}

struct engine *bench_engine(enum scratch which)
{
    struct err err = {0};
    struct engine *engine = NULL;
    struct engine_config config = {.store = bench_store(which), .seams = seams_real()};
    bench_check(engine_new(&config, &engine, &err), &err, "making the engine");
    bench_check(engine_start(engine, &err), &err, "starting the engine");
    return engine;
}

/* ---- trouble and progress -------------------------------------------------------------------- */

_Noreturn void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    remove_all();
    exit(1);
}

void bench_check(enum status status, const struct err *err, const char *what)
{
    if (status != STATUS_OK)
        bench_die("%s: %s: %s", what, status_name(status), err->text);
}

void *bench_array(size_t count, size_t size)
{
    void *array = mem_array(count, size);
    if (!array)
        bench_die("no memory for %zu times %zu bytes", count, size);
    return array;
}

void bench_progress(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- measuring ------------------------------------------------------------------------------- */

int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double percentile(double *values, size_t count, double share)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof(*values), by_value);
    double rank = ceil(share * (double)count);
    size_t at = rank < 1 ? 0 : (size_t)rank - 1;
    return values[at < count ? at : count - 1];
}

double median(double *values, size_t count)
{
    return percentile(values, count, 0.5);
}

int64_t written_bytes(void)
{
    char line[128];
    int64_t bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "write_bytes: %" SCNd64, &bytes) == 1)
            break;
    fclose(file);
    return bytes;
}

int64_t memory_bytes(void)
{
    long long resident = 0;
    malloc_trim(0);
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %lld", &resident) != 1)
        bench_die("/proc/self/statm cannot be read");
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE) - sqlite3_memory_used();
}

uint64_t random_next(struct random_state *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
