/* platter: see platter.h.
 *
 * How a change survives.  A write is cut into sectors.  Each sector of each write is,
 * independently, kept, lost, torn (its head or its tail was written), or, rarely, filled with
 * noise.  A write that made the file longer can leave it longer without its bytes.  Every crash
 * draws how much it keeps, so that "nothing", "all" and every mixture occur.  Bytes beside a write
 * are left alone: against a device that ruins those, in two crashes one after the other, SQLite's
 * log does not hold.
 *
 * The memory is the C library's and not base/mem.h's: a disk does not fail because the program
 * on it has no memory. */
#include "sim/platter.h"

#include <stdlib.h>
#include <string.h>

enum change_kind { CHANGE_WRITE, CHANGE_TRUNCATE };

struct change {
    enum change_kind kind;
    size_t offset; /* of a truncation: the new length */
    size_t len;
    struct change *next;
    uint8_t bytes[];
};

/* struct survival: how kind this crash is. */
struct survival {
    unsigned keep_percent;
    unsigned tear_percent; /* of the sectors that are kept */
    unsigned ruin_percent; /* of the sectors that are lost */
};

static void *must(void *ptr)
{
    if (!ptr)
        abort();
    return ptr;
}

static void image_resize(struct image *image, size_t len)
{
    if (len > image->cap) {
        image->cap = len + len / 2 + 4096;
        image->bytes = must(realloc(image->bytes, image->cap));
    }
    if (len > image->len)
        memset(image->bytes + image->len, 0, len - image->len);
    image->len = len;
}

static void image_write(struct image *image, size_t offset, const uint8_t *bytes, size_t len)
{
    if (offset + len > image->len)
        image_resize(image, offset + len);
    if (len)
        memcpy(image->bytes + offset, bytes, len);
}

static void image_copy(struct image *to, const struct image *from)
{
    to->len = 0;
    image_write(to, 0, from->bytes, from->len);
}

static void changes_free(struct file *file)
{
    while (file->changes) {
        struct change *change = file->changes;

        file->changes = change->next;
        free(change);
    }
    file->changes_end = &file->changes;
}

static void file_free(struct file *file)
{
    changes_free(file);
    free(file->now.bytes);
    free(file->safe.bytes);
    free(file->name);
    free(file);
}

void platter_release(struct platter *platter)
{
    while (platter->files) {
        struct file *file = platter->files;

        platter->files = file->next;
        file_free(file);
    }
}

/* platter_sweep frees files that nobody can reach any more. */
static void platter_sweep(struct platter *platter)
{
    for (struct file **at = &platter->files; *at;) {
        struct file *file = *at;

        if (file->listed || file->listed_safe || file->open) {
            at = &file->next;
        } else {
            *at = file->next;
            file_free(file);
        }
    }
}

struct file *platter_find(struct platter *platter, const char *name)
{
    for (struct file *file = platter->files; file; file = file->next)
        if (file->listed && strcmp(file->name, name) == 0)
            return file;
    return NULL;
}

struct file *platter_create(struct platter *platter, const char *name)
{
    struct file *file = must(calloc(1, sizeof(*file)));

    file->name = must(strdup(name));
    file->changes_end = &file->changes;
    file->listed = true;
    file->next = platter->files;
    platter->files = file;
    return file;
}

void platter_unlink(struct file *file)
{
    file->listed = false;
}

static void change_add(struct file *file, enum change_kind kind, size_t offset, const void *bytes,
                       size_t len)
{
    struct change *change = must(malloc(sizeof(*change) + len));

    change->kind = kind;
    change->offset = offset;
    change->len = len;
    change->next = NULL;
    if (len)
        memcpy(change->bytes, bytes, len);
    *file->changes_end = change;
    file->changes_end = &change->next;
}

void file_write(struct file *file, size_t offset, const void *bytes, size_t len)
{
    change_add(file, CHANGE_WRITE, offset, bytes, len);
    image_write(&file->now, offset, bytes, len);
}

void file_truncate(struct file *file, size_t len)
{
    change_add(file, CHANGE_TRUNCATE, len, NULL, 0);
    image_resize(&file->now, len);
}

void file_sync(struct file *file)
{
    for (const struct change *change = file->changes; change; change = change->next) {
        if (change->kind == CHANGE_TRUNCATE)
            image_resize(&file->safe, change->offset);
        else
            image_write(&file->safe, change->offset, change->bytes, change->len);
    }
    changes_free(file);
}

void file_forget_changes(struct file *file)
{
    changes_free(file);
}

void platter_sync_directory(struct platter *platter)
{
    for (struct file *file = platter->files; file; file = file->next)
        file->listed_safe = file->listed;
    platter_sweep(platter);
}

/* -- losing power --------------------------------------------------------------------------------
 */

/* sector_ruin leaves noise where the write was to be. */
static void sector_ruin(struct image *image, size_t offset, size_t len, struct rng *rng)
{
    if (offset + len > image->len)
        image_resize(image, offset + len);
    for (size_t i = 0; i < len; i++)
        image->bytes[offset + i] = (uint8_t)rng_next(rng);
}

/* sector_survives writes the part of a write that lies in one sector, as far as it was kept. */
static void sector_survives(struct image *image, size_t offset, const uint8_t *bytes, size_t len,
                            const struct survival *survival, struct rng *rng)
{
    if (!rng_chance(rng, survival->keep_percent)) {
        if (rng_chance(rng, survival->ruin_percent))
            sector_ruin(image, offset, len, rng);
        else if (offset + len > image->len && rng_chance(rng, 50))
            image_resize(image, offset + len);
        return;
    }
    if (rng_chance(rng, survival->tear_percent)) {
        size_t cut = rng_below(rng, len + 1);

        if (rng_chance(rng, 50)) {
            image_write(image, offset, bytes, cut);
        } else {
            image_write(image, offset + cut, bytes + cut, len - cut);
        }
        return;
    }
    image_write(image, offset, bytes, len);
}

static void change_survives(struct image *image, const struct change *change,
                            const struct survival *survival, struct rng *rng)
{
    if (change->kind == CHANGE_TRUNCATE) {
        if (rng_chance(rng, survival->keep_percent))
            image_resize(image, change->offset);
        return;
    }
    for (size_t at = 0; at < change->len;) {
        size_t offset = change->offset + at;
        size_t part = PLATTER_SECTOR - offset % PLATTER_SECTOR;

        if (part > change->len - at)
            part = change->len - at;
        sector_survives(image, offset, change->bytes + at, part, survival, rng);
        at += part;
    }
}

/* platter_choose_entries decides which directory entries were kept.  Of two files that had one name
 * one after the other, only one can be found again. */
static void platter_choose_entries(struct platter *platter, struct rng *rng)
{
    for (struct file *file = platter->files; file; file = file->next)
        if (file->listed != file->listed_safe)
            file->listed = rng_chance(rng, 50);
    for (struct file *file = platter->files; file; file = file->next) {
        if (!file->listed)
            continue;
        for (struct file *other = file->next; other; other = other->next)
            if (other->listed && strcmp(other->name, file->name) == 0)
                other->listed = false;
    }
    platter_sync_directory(platter);
}

void platter_lose_power(struct platter *platter, struct rng *rng)
{
    static const unsigned keep[] = {0, 0, 10, 50, 90, 100, 100};
    struct survival survival = {
        .keep_percent = keep[rng_below(rng, sizeof(keep) / sizeof(keep[0]))],
        .tear_percent = rng_chance(rng, 50) ? 10 : 0,
        .ruin_percent = rng_chance(rng, 25) ? 5 : 0,
    };

    for (struct file *file = platter->files; file; file = file->next) {
        for (const struct change *change = file->changes; change; change = change->next)
            change_survives(&file->safe, change, &survival, rng);
        changes_free(file);
        image_copy(&file->now, &file->safe);
    }
    platter_choose_entries(platter, rng);
}

void platter_rot(struct platter *platter, struct rng *rng)
{
    for (struct file *file = platter->files; file; file = file->next) {
        if (!file->listed || file->now.len == 0)
            continue;
        size_t at = rng_below(rng, file->now.len);

        file->now.bytes[at] ^= (uint8_t)(1 + rng_below(rng, 255));
        file->safe.bytes[at] = file->now.bytes[at];
        return;
    }
}
