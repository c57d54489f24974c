/* station.c: taking and leaving a data directory. */
#include "engine/station.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define LOCK_POLL_MS 20
#define OWNER_MAX 200 /* bytes of what an owner says of itself */

struct station {
    struct buf path; /* the directory */
    int lock;        /* the lock file's descriptor */
    struct engine *engine;
};

enum status station_data_dir(const char *data, struct buf *out, struct err *err)
{
    const char *home;
    if (data && *data)
        buf_add_str(out, data);
    else if ((data = getenv("LAZARET_DATA")) && *data)
        buf_add_str(out, data);
    else if ((data = getenv("XDG_DATA_HOME")) && *data)
        buf_addf(out, "%s/lazaret", data);
    else if ((home = getenv("HOME")) && *home)
        buf_addf(out, "%s/.local/share/lazaret", home);
    else
        return err_set(err, STATUS_INVALID,
                       "no data directory: give --data DIR, or set LAZARET_DATA or HOME");
    return buf_status(out, err);
}

enum status station_make_dir(const char *path, struct err *err)
{
    struct buf part;
    enum status status = STATUS_OK;
    buf_init(&part, 4096);
    for (const char *p = path; !status && *p; p++) {
        buf_add_char(&part, *p);
        if ((p[1] == '/' || p[1] == '\0') && mkdir(buf_str(&part), 0700) != 0 && errno != EEXIST)
            status = err_set(err, STATUS_READ_ONLY, "the data directory %s cannot be made: %s",
                             path, strerror(errno));
    }
    if (!status)
        status = buf_status(&part, err);
    buf_release(&part);
    struct stat st;
    if (!status && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
        status = err_set(err, STATUS_READ_ONLY, "%s is not a directory", path);
    return status;
}

/* ---- the lock -------------------------------------------------------------------------------- */

/* busy says who holds the lock. */
static enum status busy(int fd, const char *path, struct err *err)
{
    char owner[OWNER_MAX];
    ssize_t n = pread(fd, owner, sizeof(owner) - 1, 0);
    owner[n > 0 ? n : 0] = '\0';
    owner[strcspn(owner, "\n")] = '\0';
    return err_set(err, STATUS_BUSY, "the data directory %s is in use by process %s", path,
                   owner[0] ? owner : "(unknown)");
}

static enum status lock_wait(int fd, const char *path, uint32_t wait_ms, struct err *err)
{
    for (uint32_t waited = 0;; waited += LOCK_POLL_MS) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return STATUS_OK;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_set(err, STATUS_IO, "the data directory %s cannot be locked: %s", path,
                           strerror(errno));
        if (waited >= wait_ms)
            return busy(fd, path, err);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_MS * 1000000L}, NULL);
    }
}

/* lock_write writes who holds the lock: "1234", or "1234 (serve on http://...)". */
static enum status lock_write(const struct station *station, const char *what, struct err *err)
{
    char owner[OWNER_MAX];
    int length = what ? snprintf(owner, sizeof(owner), "%ld (%.150s)\n", (long)getpid(), what)
                      : snprintf(owner, sizeof(owner), "%ld\n", (long)getpid());
    if (ftruncate(station->lock, 0) != 0 ||
        pwrite(station->lock, owner, (size_t)length, 0) != length)
        return err_set(err, STATUS_IO, "the lock file in %s cannot be written: %s",
                       buf_str(&station->path), strerror(errno));
    return STATUS_OK;
}

/* lock_take opens and locks the lock file, and writes who holds it. */
static enum status lock_take(struct station *station, uint32_t wait_ms, struct err *err)
{
    const char *path = buf_str(&station->path);
    struct buf file;
    buf_init(&file, 4096);
    buf_addf(&file, "%s/lazaret.lock", path);
    station->lock = open(buf_str(&file), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    buf_release(&file);
    if (station->lock < 0)
        return err_set(err, STATUS_READ_ONLY, "the data directory %s cannot be written: %s", path,
                       strerror(errno));
    enum status status = lock_wait(station->lock, path, wait_ms, err);
    return status ? status : lock_write(station, NULL, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* make_private makes the store's file for the owner alone: evidence may hold secrets.  What is
 * wrong with the file is for the store to say. */
static void make_private(const char *file)
{
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

/* open_embedded opens the store's file. */
static enum status open_embedded(const struct station *station, const struct station_config *config,
                                 const struct seams *seams, struct store **out, struct err *err)
{
    struct buf file;
    buf_init(&file, 4096);
    if (config->store)
        buf_add_str(&file, config->store);
    else
        buf_addf(&file, "%s/lazaret.db", buf_str(&station->path));
    struct store_config store = {.path = buf_str(&file), .seams = seams};
    enum status status = buf_status(&file, err);
    if (!status)
        make_private(buf_str(&file));
    if (!status)
        status = store_sqlite_open(&store, out, err);
    buf_release(&file);
    return status;
}

/* marker_check refuses a directory whose store is elsewhere. */
static enum status marker_check(const char *marker, struct err *err)
{
    if (access(marker, F_OK) != 0)
        return STATUS_OK;
    return err_set(err, STATUS_UNAVAILABLE,
                   "the letters of this data directory are in PostgreSQL, and its server is not "
                   "running: start it (serve --store postgres://...), ask another server with "
                   "--server URL, or remove %s to use an embedded store here",
                   marker);
}

static enum status marker_make(const char *marker, struct err *err)
{
    int fd = open(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, STATUS_READ_ONLY, "%s cannot be written: %s", marker, strerror(errno));
    close(fd);
    return STATUS_OK;
}

static enum status open_store(const struct station *station, const struct station_config *config,
                              const struct seams *seams, struct store **out, struct err *err)
{
    struct postgres_config postgres = {
        .url = config->postgres, .seams = seams, .pooled = config->postgres_pooled};
    struct buf marker;
    buf_init(&marker, 4096);
    buf_addf(&marker, "%s/shared-store", buf_str(&station->path));
    enum status status = buf_status(&marker, err);
    if (!status && config->postgres)
        status = store_postgres_open(&postgres, out, err);
    else if (!status && !config->store)
        status = marker_check(buf_str(&marker), err);
    if (!status && config->postgres) {
        status = marker_make(buf_str(&marker), err);
        if (status)
            (*out)->close(*out);
    } else if (!status) {
        status = open_embedded(station, config, seams, out, err);
    }
    buf_release(&marker);
    return status;
}

static enum status open_engine(struct station *station, const struct station_config *config,
                               struct err *err)
{
    struct engine_config engine = config->engine;
    engine.seams = config->seams ? config->seams : seams_real();
    enum status status = open_store(station, config, engine.seams, &engine.store, err);
    if (!status)
        status = engine_new(&engine, &station->engine, err);
    return status ? status : engine_start(station->engine, err);
}

enum status station_open(const struct station_config *config, struct station **out, struct err *err)
{
    struct station *station = mem_zalloc(sizeof(*station));
    if (!station)
        return err_no_memory(err);
    station->lock = -1;
    buf_init(&station->path, 4000);
    enum status status = station_data_dir(config->data, &station->path, err);
    if (!status)
        status = station_make_dir(buf_str(&station->path), err);
    if (!status)
        status = lock_take(station, config->lock_wait_ms, err);
    if (!status)
        status = open_engine(station, config, err);
    if (status) {
        station_close(station);
        return status;
    }
    *out = station;
    return STATUS_OK;
}

void station_close(struct station *station)
{
    if (!station)
        return;
    engine_free(station->engine);
    if (station->lock >= 0)
        close(station->lock);
    buf_release(&station->path);
    mem_free(station);
}

struct engine *station_engine(struct station *station)
{
    return station->engine;
}

const char *station_path(const struct station *station)
{
    return buf_str(&station->path);
}

enum status station_describe(struct station *station, const char *what, struct err *err)
{
    return lock_write(station, what, err);
}
