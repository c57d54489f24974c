/* spec: what a map run is, and the file that remembers it.
 *
 *     DIR/runs/RUN.json   the command, where it ran, and how: for --resume and for `dlq retry RUN`
 *     DIR/runs/RUN.lock   held (fcntl) by the process that runs it
 *
 * The items themselves, and what became of each, are in the store. */
#ifndef LAZARET_RUN_SPEC_H
#define LAZARET_RUN_SPEC_H

#include "run/items.h"
#include "run/workflow.h"

#define RUN_ID_MAX 64
#define PARALLEL_MAX 1000

/* struct map_spec: texts live in the arena that it was read into, or are the caller's. */
struct map_spec {
    const char *run_id;
    const char *cwd;            /* where the commands run */
    const char *workflow;       /* the text of the workflow file; NULL: there is none */
    const char *workflow_name;  /* its name, for errors */
    const char *const *command; /* of a run without a workflow */
    size_t command_count;
    const char *input, *json_path, *id_field, *filter, *sort_by, *distinct;
    int64_t offset, items_max;
    enum items_format format;
    unsigned parallel;
    struct span timeout, grace;
    const char *validate, *custom; /* scripts; NULL: none */
    bool worktree, commit_required;
    enum on_failure on_failure;
    int64_t failures_max;     /* -1: no limit */
    double failure_threshold; /* -1: none */
    const char *policy;       /* retry_policy of every item: JSON, a name in quotes or an object */
};

/* spec_check says what is wrong with a run's id: it may have 1 to RUN_ID_MAX bytes of UTF-8 without
 * control characters. */
enum status spec_check_run_id(const char *run_id, struct err *err);

/* spec_path appends DIR/runs/RUN and an ending; the directory is made. */
enum status spec_path(const char *data, const char *run_id, const char *ending, struct buf *out,
                      struct err *err);

/* spec_write remembers the run: a temporary file, a sync, a rename. */
enum status spec_write(const char *data, const struct map_spec *spec, struct err *err);

/* spec_read finds what is remembered.  STATUS_NOT_FOUND when nothing is. */
enum status spec_read(const char *data, const char *run_id, struct arena *arena,
                      struct map_spec *out, struct err *err);

/* spec_lock takes the run for this process; the descriptor is to be closed.  STATUS_BUSY when
 * another process has it. */
enum status spec_lock(const char *data, const char *run_id, int *fd, struct err *err);

/* spec_steps makes what is run for each item: of the command or of the workflow. */
enum status spec_steps(const struct map_spec *spec, struct arena *arena, struct steps *out,
                       struct err *err);

/* spec_items says where the items come from; the filter is parsed into the arena. */
enum status spec_items(const struct map_spec *spec, struct arena *arena, struct items_config *out,
                       struct err *err);

#endif
