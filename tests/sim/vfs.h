/* vfs: a disk in memory below SQLite that forgets, tears and fails, as disks do.
 *
 * Each file has the image that is on the platter and, apart from it, every change since the last
 * sync.  When the power fails, a seeded random part of those changes is on the platter too: sector
 * by sector, torn inside a sector, in any order, file lengths and directory entries included.
 * SQLite is promised no atomic writes, no order and no safe appends, only that a sync is a sync.
 *
 * There are two kinds of disk, by the seed.  One is as Linux is: a write leaves the bytes beside it
 * alone ("powersafe overwrite"), but a sync that fails may drop what it was to write, for good. The
 * other promises not even the first, so that SQLite pads its log, and in turn keeps what a failed
 * sync left undone.  (SQLite's log does not hold against both at once: the padding that was never
 * synced is not written again.)
 *
 *     disk_new --> up --disk_crash, disk_crash_after--> down --disk_restart--> up ...
 *
 * While the disk is down every operation fails: the objects of the process that "lost power" can be
 * freed without writing anything.  One disk exists at a time, as the VFS has one name. */
#ifndef LAZARET_SIM_VFS_H
#define LAZARET_SIM_VFS_H

#include <stdbool.h>
#include <stdint.h>

#define DISK_VFS "lazaret-sim" /* the name that it is registered under */

/* What may be wrong with a disk that is up. */
enum disk_fault {
    DISK_HEALTHY,
    DISK_FULL,        /* no file grows */
    DISK_WRITE_FAILS, /* writes, truncations and deletions fail; a part may have been written */
    DISK_SYNC_FAILS,  /* and what was to be synced may never reach the platter */
    DISK_READ_FAILS,
    DISK_ALL_FAILS, /* all of the above */
    DISK_READ_ONLY, /* nothing is written */
    DISK_FAULT_COUNT
};

/* How a disk can be made to lie: to prove that the simulator would notice. */
enum disk_lie {
    DISK_HONEST,
    DISK_LIES_SYNC,  /* a sync says that it was done, and does nothing */
    DISK_LIES_WRITE, /* one in a hundred writes says that it was done, and does nothing */
    DISK_LIES_ROT,   /* at a restart one byte of a file is not what it was */
    DISK_LIE_COUNT
};

struct disk;

/* disk_new makes an empty disk and registers its VFS. */
struct disk *disk_new(uint64_t seed);
void disk_free(struct disk *disk); /* NULL is fine */

/* disk_crash takes the power away. */
void disk_crash(struct disk *disk);
/* disk_crash_after takes it away in the middle of the n-th change from here on: a write, a
 * truncation, a sync, or a creation or deletion of a file.  0 turns it off. */
void disk_crash_after(struct disk *disk, uint64_t n);
bool disk_is_down(const struct disk *disk);
/* disk_restart gives it back, with what survived, and healthy.  No file may be open. */
void disk_restart(struct disk *disk);

/* disk_fault puts the disk into a condition until another call changes it. */
void disk_fault(struct disk *disk, enum disk_fault fault);
/* disk_fault_nth makes the n-th operation from here on that the fault concerns fail, once. */
void disk_fault_nth(struct disk *disk, enum disk_fault fault, uint64_t n);
enum disk_fault disk_condition(const struct disk *disk);
void disk_lie(struct disk *disk, enum disk_lie lie);

/* disk_observe(true) lets an observer read: no fault, no countdown and no crash until
 * disk_observe(false). */
void disk_observe(struct disk *disk, bool observing);

/* disk_faults is how many operations were made to fail so far, crashes not counted. */
uint64_t disk_faults(const struct disk *disk);
/* disk_files_open is how many files are open: 0 when a store was closed properly. */
int disk_files_open(const struct disk *disk);

#endif
