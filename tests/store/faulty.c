/* faulty: every method passes through, but for those that are to fail. */
#include "store/faulty.h"

#include <sqlite3.h>
#include <stddef.h>
#include <string.h>

struct faulty faulty;

static sqlite3_vfs *real; /* the default VFS */

struct file {
    sqlite3_file base;
    sqlite3_file *inner; /* the real file, in the memory behind this struct */
};

static sqlite3_file *inner(sqlite3_file *file)
{
    return ((struct file *)file)->inner;
}

/* fails says with which code an operation is to fail; SQLITE_OK: it is not. */
static int fails(int code)
{
    if (code == SQLITE_OK)
        return SQLITE_OK;
    if (faulty.after > 0) {
        faulty.after--;
        return SQLITE_OK;
    }
    return code;
}

static int file_close(sqlite3_file *file)
{
    return inner(file)->pMethods->xClose(inner(file));
}

static int file_read(sqlite3_file *file, void *out, int len, sqlite3_int64 offset)
{
    int rc = fails(faulty.read);
    return rc ? rc : inner(file)->pMethods->xRead(inner(file), out, len, offset);
}

static int file_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 offset)
{
    int rc = fails(faulty.write);
    return rc ? rc : inner(file)->pMethods->xWrite(inner(file), bytes, len, offset);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = fails(faulty.write);
    return rc ? rc : inner(file)->pMethods->xTruncate(inner(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    int rc = fails(faulty.sync);
    return rc ? rc : inner(file)->pMethods->xSync(inner(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *out)
{
    return inner(file)->pMethods->xFileSize(inner(file), out);
}

static int file_lock(sqlite3_file *file, int level)
{
    return inner(file)->pMethods->xLock(inner(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return inner(file)->pMethods->xUnlock(inner(file), level);
}

static int file_reserved(sqlite3_file *file, int *out)
{
    return inner(file)->pMethods->xCheckReservedLock(inner(file), out);
}

static int file_control(sqlite3_file *file, int op, void *argument)
{
    return inner(file)->pMethods->xFileControl(inner(file), op, argument);
}

static int file_sector(sqlite3_file *file)
{
    return inner(file)->pMethods->xSectorSize(inner(file));
}

static int file_device(sqlite3_file *file)
{
    return inner(file)->pMethods->xDeviceCharacteristics(inner(file));
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_device,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *out, int flags,
                    int *out_flags)
{
    struct file *file = (struct file *)out;
    (void)vfs;
    memset(file, 0, sizeof(*file));
    file->inner = (sqlite3_file *)(file + 1);
    if (faulty.read_only)
        flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    int rc = real->xOpen(real, name, file->inner, flags, out_flags);
    if (file->inner->pMethods)
        file->base.pMethods = &methods;
    return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    return real->xDelete(real, name, sync);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    return real->xAccess(real, name, flags, out);
}

static int vfs_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    (void)vfs;
    return real->xFullPathname(real, name, size, out);
}

void faulty_register(void)
{
    static sqlite3_vfs vfs;
    real = sqlite3_vfs_find(NULL);
    vfs = *real;
    vfs.szOsFile = (int)sizeof(struct file) + real->szOsFile;
    vfs.zName = FAULTY_VFS;
    vfs.pNext = NULL;
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    vfs.xAccess = vfs_access;
    vfs.xFullPathname = vfs_path;
    sqlite3_vfs_register(&vfs, 0);
}
