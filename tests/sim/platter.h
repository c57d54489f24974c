/* platter: files as a disk keeps them: what is safe, and what is still on its way.
 *
 * A file has two images: `now`, which the running program reads, and `safe`, which a sync made
 * durable.  Between the two lies the list of changes since that sync.  A directory entry likewise
 * is there now, and is safely there.  platter_lose_power() decides what of the changes was kept. */
#ifndef LAZARET_SIM_PLATTER_H
#define LAZARET_SIM_PLATTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/rng.h"

#define PLATTER_SECTOR 512

struct change; /* one write or truncation since the last sync */

struct image {
    uint8_t *bytes;
    size_t len;
    size_t cap;
};

struct file {
    char *name;
    struct image now;
    struct image safe;
    struct change *changes, **changes_end; /* in the order in which they were made */
    bool listed;                           /* the directory has it */
    bool listed_safe;                      /* and will have it after a crash */
    int open;                              /* how many handles are open */
    struct file *next;
};

/* struct platter: `{0}` is an empty disk. */
struct platter {
    struct file *files;
};

void platter_release(struct platter *platter);

/* platter_find finds the file that the directory lists under `name`; NULL when there is none. */
struct file *platter_find(struct platter *platter, const char *name);
struct file *platter_create(struct platter *platter, const char *name);
void platter_unlink(struct file *file);

void file_write(struct file *file, size_t offset, const void *bytes, size_t len);
void file_truncate(struct file *file, size_t len);
void file_sync(struct file *file);
/* file_forget_changes is a sync that failed: the system takes the changes for written, and they are
 * not.  What is read is unchanged; what a crash leaves is as it was before them. */
void file_forget_changes(struct file *file);

/* platter_sync_directory makes creations and deletions safe. */
void platter_sync_directory(struct platter *platter);

/* platter_lose_power decides, by `rng`, what of every change survives.  No file may be open. */
void platter_lose_power(struct platter *platter, struct rng *rng);

/* platter_rot changes one byte of one file. */
void platter_rot(struct platter *platter, struct rng *rng);

#endif
