/* verdict: what an ended process means.  Facts in, a failure out.
 *
 *   facts                                                      error_type
 *   ---------------------------------------------------------  ------------------------------------
 *   its time was over                                          Timeout
 *   could not be started for lack of memory, processes, files  ResourceExhausted
 *   the kernel killed it for memory; it said "no space left    ResourceExhausted
 *     on device", "cannot allocate memory", ...
 *   the step was --validate                                    ValidationFailed
 *   the step was a worktree's making or cleaning               WorktreeError
 *   the step was the merge                                     MergeConflict; WorktreeError when it
 *                                                                was no conflict
 *   no commit where one is required                            CommitValidationFailed
 *   an exit code N                                             {"CommandFailed":{"exit_code":N}}
 *   a signal                                                   {"CommandFailed":{"exit_code":128+N,
 *                                                                "signal":"SIGSEGV"}}
 *   not found, not executable                                  CommandFailed with 127, 126
 *   the runner itself was stopped                              Unknown, "interrupted": true
 *   anything else                                              Unknown
 *
 * Pure: it looks at nothing but its arguments. */
#ifndef LAZARET_RUN_VERDICT_H
#define LAZARET_RUN_VERDICT_H

#include "base/jsonw.h"
#include "run/process.h"

enum verdict_step {
    STEP_COMMAND,
    STEP_VALIDATE,
    STEP_COMMIT,   /* the check that a commit was made */
    STEP_WORKTREE, /* making the worktree */
    STEP_MERGE,
};

/* struct verdict_facts: `{0}` texts are not given. */
struct verdict_facts {
    enum verdict_step step;
    const struct process_end *end;   /* NULL: nothing ran; `message` says why */
    const struct capture *out, *err; /* NULL: nothing was heard */
    struct slice command;            /* as a person would type it: `step_failed` */
    struct slice said;     /* a failure object that the command wrote; it wins, member by member */
    struct slice message;  /* the sentence, when it is not the command's to say */
    bool invalid;          /* the item cannot be run at all (no such field): class invalid_input */
    bool conflict;         /* of STEP_MERGE: it was a conflict */
    bool interrupted;      /* the runner was stopped, not the work */
    bool cancelled;        /* somebody cancelled the job */
    struct slice agent_id; /* which runner and slot */
    struct slice artifact; /* path of the whole output; `json_log_location` */
    struct slice reason;   /* a quarantine reason: "crash_loop" */
    struct slice worktree; /* JSON object for `artifacts` members worktree_path, branch_name, ... */
    const struct slice *context; /* error_context: what was done, in order */
    size_t context_count;
    struct span duration; /* of the whole attempt */
    struct span timeout;  /* that the process had; 0: its own duration is said instead */
};

/* verdict_failed says whether the facts are a failure at all: a step that ended well, and said
 * nothing, is none. */
bool verdict_failed(const struct verdict_facts *facts);

/* verdict_print writes the failure object (INTERFACES 4): error_type, class where it is known,
 * message, error_context, stack_trace (the tail of standard error), agent_id, step_failed,
 * duration_ms, json_log_location, and artifacts{exit_code, signal, cpu_user_ms, cpu_system_ms,
 * memory_max_kb, stdout, stderr, ...}.  Valid JSON whatever the bytes.  A `said` that is no JSON
 * object is kept as text in artifacts.said and noted in error_context. */
void verdict_print(const struct verdict_facts *facts, struct jsonw *out);

/* verdict_result writes the result object of a success: exit_code, duration_ms, usage, stdout (head
 * and tail). */
void verdict_result(const struct verdict_facts *facts, struct jsonw *out);

/* signal_name is "SIGSEGV" for 11; "SIG99" for one without a name.  In `out`, which has 16 bytes.
 */
const char *signal_name(int number, char out[16]);

#endif
