/* vfs: see vfs.h.  The SQLite side of the disk: the methods, the faults and the power switch.
 * What the files hold, and what a crash leaves of it, is in platter.c. */
#include "sim/vfs.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sim/platter.h"
#include "sim/rng.h"

#define NAME_MAX_BYTES 512

enum operation { OP_READ, OP_WRITE, OP_GROW, OP_TRUNCATE, OP_SYNC, OP_CREATE, OP_DELETE };

struct disk {
    sqlite3_vfs vfs;
    struct platter platter;
    struct rng rng;            /* decides what survives, and how much of a failed write was done */
    struct rng sqlite_rng;     /* what SQLite itself draws from */
    bool powersafe;            /* which of the two kinds of disk it is */
    bool down;                 /* the power is off */
    bool observing;            /* no fault, no crash */
    uint64_t crash_in;         /* changes until the power fails; 0: it does not */
    enum disk_fault fault;     /* the condition that lasts */
    enum disk_fault fault_nth; /* the fault that happens once */
    uint64_t fault_in;         /* operations until then; 0: it does not */
    enum disk_lie lie;
    uint64_t faults;
    int files_open;
};

/* struct handle: an open file, as SQLite sees it. */
struct handle {
    sqlite3_file base;
    struct disk *disk;
    struct file *file;
    bool delete_on_close;
    bool sync_directory; /* its first sync makes the directory safe too, as the unix VFS does */
};

/* -- what goes wrong -----------------------------------------------------------------------------
 */

static bool fault_concerns(enum disk_fault fault, enum operation op)
{
    switch (fault) {
    case DISK_HEALTHY:
    case DISK_FAULT_COUNT:
        return false;
    case DISK_FULL:
        return op == OP_GROW || op == OP_CREATE;
    case DISK_WRITE_FAILS:
    case DISK_READ_ONLY:
        return op == OP_WRITE || op == OP_GROW || op == OP_TRUNCATE || op == OP_CREATE ||
               op == OP_DELETE;
    case DISK_SYNC_FAILS:
        return op == OP_SYNC;
    case DISK_READ_FAILS:
        return op == OP_READ;
    case DISK_ALL_FAILS:
        return true;
    }
    return false;
}

/* disk_fails says whether this operation is made to fail, and by which fault. */
static bool disk_fails(struct disk *disk, enum operation op, enum disk_fault *by)
{
    *by = DISK_HEALTHY;
    if (disk->observing)
        return false;
    if (fault_concerns(disk->fault, op))
        *by = disk->fault;
    if (disk->fault_in && fault_concerns(disk->fault_nth, op) && --disk->fault_in == 0)
        *by = disk->fault_nth;
    if (*by != DISK_HEALTHY)
        disk->faults++;
    return *by != DISK_HEALTHY;
}

/* disk_power_fails counts a change and says whether the power goes with it. */
static bool disk_power_fails(struct disk *disk)
{
    if (disk->observing || disk->crash_in == 0 || --disk->crash_in > 0)
        return false;
    disk->down = true;
    return true;
}

static int write_error(enum disk_fault by)
{
    if (by == DISK_FULL)
        return SQLITE_FULL;
    return by == DISK_READ_ONLY ? SQLITE_READONLY : SQLITE_IOERR_WRITE;
}

/* -- files ---------------------------------------------------------------------------------------
 */

static int handle_close(sqlite3_file *base)
{
    struct handle *handle = (struct handle *)base;

    handle->file->open--;
    handle->disk->files_open--;
    if (handle->delete_on_close) {
        /* A temporary file: it never outlives its process, so no crash brings it back. */
        handle->file->listed = false;
        handle->file->listed_safe = false;
    }
    handle->base.pMethods = NULL;
    return SQLITE_OK;
}

static int handle_read(sqlite3_file *base, void *out, int amount, sqlite3_int64 offset)
{
    struct handle *handle = (struct handle *)base;
    const struct image *now = &handle->file->now;
    size_t want = (size_t)amount, start = (size_t)offset;
    enum disk_fault by;

    if (handle->disk->down || disk_fails(handle->disk, OP_READ, &by))
        return SQLITE_IOERR_READ;
    size_t there = start < now->len ? now->len - start : 0;
    if (there > want)
        there = want;
    if (there)
        memcpy(out, now->bytes + start, there);
    if (there < want) {
        memset((char *)out + there, 0, want - there);
        return SQLITE_IOERR_SHORT_READ;
    }
    return SQLITE_OK;
}

static int handle_write(sqlite3_file *base, const void *bytes, int amount, sqlite3_int64 offset)
{
    struct handle *handle = (struct handle *)base;
    struct disk *disk = handle->disk;
    size_t len = (size_t)amount, start = (size_t)offset;
    bool grows = start + len > handle->file->now.len;
    enum disk_fault by;

    if (disk->down)
        return SQLITE_IOERR_WRITE;
    if (disk_fails(disk, grows ? OP_GROW : OP_WRITE, &by)) {
        if (by != DISK_READ_ONLY && rng_chance(&disk->rng, 50))
            file_write(handle->file, start, bytes, rng_below(&disk->rng, len));
        return write_error(by);
    }
    if (disk_power_fails(disk)) {
        if (rng_chance(&disk->rng, 50))
            file_write(handle->file, start, bytes, len);
        return SQLITE_IOERR_WRITE;
    }
    if (disk->lie == DISK_LIES_WRITE && !handle->delete_on_close && rng_chance(&disk->rng, 1))
        return SQLITE_OK;
    file_write(handle->file, start, bytes, len);
    return SQLITE_OK;
}

static int handle_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    struct handle *handle = (struct handle *)base;
    enum disk_fault by;

    if (handle->disk->down || disk_fails(handle->disk, OP_TRUNCATE, &by) ||
        disk_power_fails(handle->disk))
        return SQLITE_IOERR_TRUNCATE;
    file_truncate(handle->file, (size_t)size);
    return SQLITE_OK;
}

static void handle_sync_now(struct handle *handle)
{
    file_sync(handle->file);
    if (handle->sync_directory)
        platter_sync_directory(&handle->disk->platter);
    handle->sync_directory = false;
}

static int handle_sync(sqlite3_file *base, int flags)
{
    struct handle *handle = (struct handle *)base;
    struct disk *disk = handle->disk;
    enum disk_fault by;

    (void)flags;
    if (disk->down)
        return SQLITE_IOERR_FSYNC;
    if (disk_fails(disk, OP_SYNC, &by)) {
        if (disk->powersafe && rng_chance(&disk->rng, 50))
            file_forget_changes(handle->file);
        return SQLITE_IOERR_FSYNC;
    }
    if (disk_power_fails(disk)) {
        if (rng_chance(&disk->rng, 50))
            handle_sync_now(handle);
        return SQLITE_IOERR_FSYNC;
    }
    if (disk->lie != DISK_LIES_SYNC)
        handle_sync_now(handle);
    return SQLITE_OK;
}

static int handle_size(sqlite3_file *base, sqlite3_int64 *out)
{
    struct handle *handle = (struct handle *)base;

    if (handle->disk->down)
        return SQLITE_IOERR_FSTAT;
    *out = (sqlite3_int64)handle->file->now.len;
    return SQLITE_OK;
}

/* Locks are granted: one process at a time is alive in this world. */
static int handle_lock(sqlite3_file *base, int level)
{
    (void)base;
    (void)level;
    return SQLITE_OK;
}

static int handle_check_reserved(sqlite3_file *base, int *out)
{
    (void)base;
    *out = 0;
    return SQLITE_OK;
}

static int handle_control(sqlite3_file *base, int op, void *arg)
{
    (void)base;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int handle_sector_size(sqlite3_file *base)
{
    (void)base;
    return PLATTER_SECTOR;
}

static int handle_characteristics(sqlite3_file *base)
{
    const struct handle *handle = (const struct handle *)base;

    return handle->disk->powersafe ? SQLITE_IOCAP_POWERSAFE_OVERWRITE : 0;
}

static const sqlite3_io_methods handle_methods = {
    .iVersion = 1,
    .xClose = handle_close,
    .xRead = handle_read,
    .xWrite = handle_write,
    .xTruncate = handle_truncate,
    .xSync = handle_sync,
    .xFileSize = handle_size,
    .xLock = handle_lock,
    .xUnlock = handle_lock,
    .xCheckReservedLock = handle_check_reserved,
    .xFileControl = handle_control,
    .xSectorSize = handle_sector_size,
    .xDeviceCharacteristics = handle_characteristics,
};

/* -- the file system -----------------------------------------------------------------------------
 */

static struct disk *disk_of(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

/* fs_file finds or creates the file to open. */
static int fs_file(struct disk *disk, const char *name, int flags, struct handle *handle)
{
    bool journal = flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL);
    enum disk_fault by;

    handle->file = name ? platter_find(&disk->platter, name) : NULL;
    if (handle->file)
        return SQLITE_OK;
    if (name) {
        if (!(flags & SQLITE_OPEN_CREATE) || disk_fails(disk, OP_CREATE, &by) ||
            disk_power_fails(disk))
            return SQLITE_CANTOPEN;
        handle->sync_directory = journal;
    }
    handle->file = platter_create(&disk->platter, name ? name : "temporary");
    return SQLITE_OK;
}

static int fs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags,
                   int *out_flags)
{
    struct disk *disk = disk_of(vfs);
    struct handle *handle = (struct handle *)base;

    memset(handle, 0, sizeof(*handle));
    if (disk->down)
        return SQLITE_CANTOPEN;
    handle->disk = disk;
    handle->delete_on_close = flags & SQLITE_OPEN_DELETEONCLOSE;
    int rc = fs_file(disk, name, flags, handle);
    if (rc != SQLITE_OK)
        return rc;
    handle->file->open++;
    disk->files_open++;
    handle->base.pMethods = &handle_methods;
    if (disk->fault == DISK_READ_ONLY && !disk->observing)
        flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    if (out_flags)
        *out_flags = flags;
    return SQLITE_OK;
}

static int fs_delete(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
    struct disk *disk = disk_of(vfs);
    enum disk_fault by;

    if (disk->down || disk_fails(disk, OP_DELETE, &by) || disk_power_fails(disk))
        return SQLITE_IOERR_DELETE;
    struct file *file = platter_find(&disk->platter, name);
    if (!file)
        return SQLITE_IOERR_DELETE_NOENT;
    platter_unlink(file);
    if (sync_directory)
        platter_sync_directory(&disk->platter);
    return SQLITE_OK;
}

static int fs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    struct disk *disk = disk_of(vfs);

    if (disk->down)
        return SQLITE_IOERR_ACCESS;
    *out = platter_find(&disk->platter, name) != NULL;
    if (flags == SQLITE_ACCESS_READWRITE && disk->fault == DISK_READ_ONLY)
        *out = 0;
    return SQLITE_OK;
}

static int fs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    size_t len = strlen(name);

    (void)vfs;
    if (len >= (size_t)size)
        return SQLITE_CANTOPEN;
    memcpy(out, name, len + 1);
    return SQLITE_OK;
}

static int fs_randomness(sqlite3_vfs *vfs, int size, char *out)
{
    struct disk *disk = disk_of(vfs);

    for (int i = 0; i < size; i++)
        out[i] = (char)rng_next(&disk->sqlite_rng);
    return size;
}

static int fs_sleep(sqlite3_vfs *vfs, int microseconds)
{
    (void)vfs;
    return microseconds;
}

/* fs_time is a fixed day: the program under test takes its time from the seams. */
static int fs_time(sqlite3_vfs *vfs, double *out)
{
    (void)vfs;
    *out = 2461000.5;
    return SQLITE_OK;
}

static int fs_last_error(sqlite3_vfs *vfs, int size, char *out)
{
    (void)vfs;
    (void)size;
    (void)out;
    return 0;
}

/* -- the disk ------------------------------------------------------------------------------------
 */

struct disk *disk_new(uint64_t seed)
{
    struct disk *disk = calloc(1, sizeof(*disk));

    if (!disk)
        abort();
    disk->rng = rng_fork(seed, 1);
    disk->sqlite_rng = rng_fork(seed, 2);
    disk->powersafe = rng_chance(&disk->rng, 50);
    disk->vfs = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = sizeof(struct handle),
        .mxPathname = NAME_MAX_BYTES,
        .zName = DISK_VFS,
        .pAppData = disk,
        .xOpen = fs_open,
        .xDelete = fs_delete,
        .xAccess = fs_access,
        .xFullPathname = fs_full_path,
        .xRandomness = fs_randomness,
        .xSleep = fs_sleep,
        .xCurrentTime = fs_time,
        .xGetLastError = fs_last_error,
    };
    if (sqlite3_vfs_register(&disk->vfs, 0) != SQLITE_OK)
        abort();
    /* SQLite draws salts and temporary names from a generator of its own: seed that one too. */
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)(rng_next(&disk->sqlite_rng) | 1), NULL);
    return disk;
}

void disk_free(struct disk *disk)
{
    if (!disk)
        return;
    sqlite3_vfs_unregister(&disk->vfs);
    platter_release(&disk->platter);
    free(disk);
}

void disk_crash(struct disk *disk)
{
    disk->down = true;
}

void disk_crash_after(struct disk *disk, uint64_t n)
{
    disk->crash_in = n;
}

bool disk_is_down(const struct disk *disk)
{
    return disk->down;
}

void disk_restart(struct disk *disk)
{
    if (disk->files_open)
        abort();
    platter_lose_power(&disk->platter, &disk->rng);
    if (disk->lie == DISK_LIES_ROT)
        platter_rot(&disk->platter, &disk->rng);
    disk->down = false;
    disk->crash_in = 0;
    disk->fault = DISK_HEALTHY;
    disk->fault_in = 0;
}

void disk_fault(struct disk *disk, enum disk_fault fault)
{
    disk->fault = fault;
}

void disk_fault_nth(struct disk *disk, enum disk_fault fault, uint64_t n)
{
    disk->fault_nth = fault;
    disk->fault_in = n;
}

enum disk_fault disk_condition(const struct disk *disk)
{
    return disk->fault;
}

void disk_lie(struct disk *disk, enum disk_lie lie)
{
    disk->lie = lie;
}

void disk_observe(struct disk *disk, bool observing)
{
    disk->observing = observing;
}

uint64_t disk_faults(const struct disk *disk)
{
    return disk->faults;
}

int disk_files_open(const struct disk *disk)
{
    return disk->files_open;
}
