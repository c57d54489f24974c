/* workflow: a run as a file (INTERFACES 7): setup, map, reduce and the error policy.
 *
 *     name: tidy
 *     mode: mapreduce
 *     setup:
 *       - shell: "find src -name '*.c' | jq -R . | jq -s . > items.json"
 *     map:
 *       input: items.json
 *       json_path: "$[*]"
 *       agent_template: ["clang-format", "-i", "{}"]
 *       max_parallel: 4
 *     reduce:
 *       - shell: "echo ${map.successful} of ${map.total}"
 *     error_policy:
 *       on_item_failure: dlq
 *       retry_config: {max_attempts: 3}
 *
 * Commands.  `setup`, `map.agent_template` and `reduce` have steps: one, a list of them, or
 * {commands: [...]}.  A step is a plain line (split into arguments without a shell), a list of
 * arguments, or a mapping with `shell` (a script for sh) or `run` (a line or a list), and perhaps
 * `timeout` and, in `map`, `commit_required`.  In `map` a list of words alone is one command.
 *
 * Places.  In a step of `map`: ${item} and ${item.path}; in arguments also {} and {path}.  In a
 * step of `reduce`: ${map.successful}, ${map.failed}, ${map.total}, ${map.results} (JSON) and
 * ${map.results_file} (a file that has it).  In `setup` there are none.  `validate` and `custom`
 * are scripts that nothing is put into: they have the variables of a command, such as
 * $LAZARET_ITEM.
 *
 * Times are numbers of seconds, or texts such as 500ms, 2s, 5m, 1h30m.
 *
 * Everything is checked before anything is run: unknown keys, types, values, filters, paths,
 * templates, scripts and the policy.  Every error says line and column, from 1.  docs/workflows.md
 * has all keys. */
#ifndef LAZARET_RUN_WORKFLOW_H
#define LAZARET_RUN_WORKFLOW_H

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/time.h"
#include "core/filter.h"
#include "run/template.h"

/* struct step: one command.
 *
 * Who runs a step of `reduce` fills its template with an item whose value is
 * {"map":{"successful":N,"failed":N,"total":N,"results":[...],"results_file":"PATH"}}; the places
 * of its script are named "map.total" and so on.  Templates of `setup` have no places. */
struct step {
    const struct template *template; /* arguments; NULL: a script */
    struct script script;            /* for sh -c */
    struct slice text;               /* for people: the script, the line, the arguments quoted */
    struct span timeout;             /* 0: none of its own */
    bool commit_required;            /* of a step of the map */
};

struct steps {
    struct step *steps;
    size_t count;
};

enum on_failure {
    ON_FAILURE_DLQ,
    ON_FAILURE_RETRY,
    ON_FAILURE_SKIP,
    ON_FAILURE_STOP,
    ON_FAILURE_CUSTOM
};

/* struct workflow: everything lives in the arena it was read into.  Absent values are 0 or NULL,
 * but for those that say otherwise. */
struct workflow {
    const char *name;
    struct steps setup, map, reduce; /* `map` has at least one */
    const char *input; /* the path of the items, relative to the working directory; NULL: `items` */
    struct json items; /* an array of items given in the file itself; type JSON_NULL: none */
    const char *json_path; /* jsonpath_parse accepts it */
    const char *id_field;
    int64_t parallel_max; /* 0: not given */
    const char *filter;   /* filter_parse accepts it */
    const char *sort_by;
    int64_t items_max, offset;
    const char *distinct;
    struct span timeout;   /* agent_timeout_secs */
    struct slice validate; /* a script; empty: none */
    bool worktree, commit_required;
    enum on_failure on_failure;
    struct slice custom;      /* the handler's script; there exactly with ON_FAILURE_CUSTOM */
    int64_t failures_max;     /* the run stops at so many; -1: no limit */
    double failure_threshold; /* more than 0, up to 1; -1: none */
    struct slice policy;      /* JSON: a policy whole, or a name in quotes; empty: not given */
};

/* workflow_read reads a file.  STATUS_INVALID: "FILE: line 7, column 3: ...".  On error `out` is
 * untouched. */
enum status workflow_read(const char *path, struct arena *arena, struct workflow *out,
                          struct err *err);

/* workflow_parse reads a text, which is borrowed only for the call; `name` stands in the errors. */
enum status workflow_parse(struct slice text, const char *name, struct arena *arena,
                           struct workflow *out, struct err *err);

const char *on_failure_name(enum on_failure on_failure);
bool on_failure_from_name(struct slice name, enum on_failure *out);

#endif
