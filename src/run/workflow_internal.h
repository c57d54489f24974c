/* workflow_internal: the parts of a workflow's reader.
 *
 *     workflow.c          the file, its top level and `map`
 *     workflow_steps.c    commands: `setup`, `map.agent_template`, `reduce`
 *     workflow_places.c   what may stand in them: ${item.file}, ${map.total}
 *     workflow_policy.c   `error_policy`
 *     workflow_retry.c    `error_policy.retry_config` */
#ifndef LAZARET_RUN_WORKFLOW_INTERNAL_H
#define LAZARET_RUN_WORKFLOW_INTERNAL_H

#include "run/flow.h"
#include "run/workflow.h"

/* enum workflow_phase: where a command stands, which says what can be put into it. */
enum workflow_phase {
    WORKFLOW_SETUP,  /* nothing */
    WORKFLOW_MAP,    /* the item */
    WORKFLOW_REDUCE, /* what became of the items */
    WORKFLOW_ASIDE,  /* `validate` and `custom`: nothing; they look into their environment */
};

/* workflow_places_phase is as errors have it: "setup". */
const char *workflow_places_phase(enum workflow_phase phase);

/* workflow_steps_read reads the commands of a phase. */
enum status workflow_steps_read(struct flow *flow, enum workflow_phase phase, struct json value,
                                struct steps *out);

/* workflow_places_check is STATUS_INVALID, with the place of `at`, when a text asks for something
 * that its phase does not have.  A `script` is for a shell: braces of its own mean nothing to us.
 */
enum status workflow_places_check(struct flow *flow, enum workflow_phase phase, struct json at,
                                  struct slice text, bool script);

/* workflow_places_roots are the names that script_parse replaces in a phase. */
const char *const *workflow_places_roots(enum workflow_phase phase);

/* workflow_places_of_item makes ${item.map.total} of ${map.total}, for a template that is filled
 * with an item which has `map`; in `arena`.  NULL when memory is exhausted. */
const char *workflow_places_of_item(struct slice argument, struct arena *arena);

/* workflow_steps_aside reads a script that nothing is put into; a reader for flow_keys. */
enum status workflow_steps_aside(struct flow *flow, const struct flow_key *key, struct json value,
                                 void *field);

/* workflow_policy_read reads `error_policy`. */
enum status workflow_policy_read(struct flow *flow, struct json value, struct workflow *out);

/* workflow_retry_read reads `retry_config` into JSON: a policy's name, or a policy whole. */
enum status workflow_retry_read(struct flow *flow, struct json value, struct slice *out);

#endif
