/* mapdir: the map system's directory of failed items.
 *
 *     DIR/items/{item_id}.json     a whole letter, which has the map system's members
 *     DIR/index.json               {job_id, item_count, item_ids[], updated_at}
 *
 * An id is never used as a path as it is (file_name).  The index is written last: a directory
 * without one is not whole, and is not read. */
#ifndef LAZARET_CLI_MAPDIR_H
#define LAZARET_CLI_MAPDIR_H

#include "base/json.h"
#include "base/jsonw.h"
#include "cli/cli.h"

struct mapdir {
    struct cli *cli;
    const char *path;
    int64_t count;
    struct buf ids; /* the JSON array of item ids, without its end */
    struct jsonw id_writer;
};

/* mapdir_create begins an export.  A directory that holds anything is refused; with --force an
 * earlier export in it is removed.  Each function returns 0, or an exit code after it has said what
 * is wrong.  mapdir_release is fine after any of them. */
int mapdir_create(struct mapdir *dir, struct cli *cli, const char *path);
int mapdir_add(struct mapdir *dir, struct json letter);
int mapdir_commit(struct mapdir *dir, const char *job_id);
void mapdir_release(struct mapdir *dir);

/* mapdir_read hands every item of a directory to `visit`, by file name.  `job_id` is the run that
 * the index names; empty: none.  A file that is no JSON object ends the walk. */
int mapdir_read(struct cli *cli, const char *path, struct slice *job_id,
                int (*visit)(void *ctx, struct json item), void *ctx);

#endif
