/* lazaret.h: quarantine for failed work, inside your program.
 *
 *     struct lz *lz;
 *     struct lz_error error;
 *     if (lz_open(&(struct lz_options){.data = "/var/lib/app/lazaret"}, &lz, &error) != LZ_OK)
 *         die(error.text);
 *     lz_push(lz, "{\"action\":\"send_invoice\",\"inputs\":{\"id\":7}}", NULL, NULL);
 *
 * A failed job is tried again only if a policy permits it: bounded, delayed, recorded.  What may
 * not be tried again goes into the quarantine with the evidence of every attempt.  When a function
 * that changes something returns LZ_OK, the change is on disk.
 *
 * Every function may be called from any thread unless it says otherwise.  Strings are UTF-8 and end
 * with a NUL.  A `char **` answer is yours: give it to lz_free. */
#ifndef LAZARET_H
#define LAZARET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LZ_API __attribute__((visibility("default")))
#else
#define LZ_API
#endif

/* ---- status ---------------------------------------------------------------------------------- */

enum lz_status {
    LZ_OK = 0,
    LZ_INVALID,     /* bad input: the message names the field and what is wrong with it */
    LZ_NOT_FOUND,   /* what was named does not exist */
    LZ_CONFLICT,    /* it exists, but is not in a state that allows this */
    LZ_REFUSED,     /* a policy or an authorization says no */
    LZ_LIMIT,       /* a limit is reached: try again later */
    LZ_LEASE_LOST,  /* the lease is unknown or has ended: stop, and change nothing */
    LZ_NO_MEMORY,   /* an allocation failed */
    LZ_STORE,       /* the store cannot be read or written: nothing was changed */
    LZ_BUSY,        /* another process owns the data directory */
    LZ_UNAVAILABLE, /* another server cannot be reached, or did not answer: try again later */
};

/* struct lz_error: one sentence that a person can act on. */
struct lz_error {
    enum lz_status status;
    char text[512];
};

LZ_API const char *lz_status_name(enum lz_status status);
LZ_API const char *lz_version(void);
LZ_API void lz_free(void *ptr);

/* ---- opening --------------------------------------------------------------------------------- */

struct lz; /* an open data directory: its store and its engine */

/* struct lz_options: `{0}` is the default for each. */
struct lz_options {
    const char *data;  /* the data directory, made when missing; NULL: as the program lazaret */
    const char *actor; /* who acts, for the evidence; NULL: "lib:<pid>" */
    uint64_t live_jobs_max;        /* refuse new work past this many live jobs; 0: 10 million */
    uint32_t lock_wait_ms;         /* how long to wait for another owner to let go; 0: not at all */
    double keep_done_seconds;      /* purge finished jobs after this long; 0: keep for good */
    double keep_recovered_seconds; /* and letters that were brought back or rolled back */
    double keep_discarded_seconds; /* and letters that were given up */
    int no_socket; /* do not listen on DIR/lazaret.sock: the program lazaret then has to wait */
};

/* lz_open opens the directory and owns it until lz_close.  Meanwhile it listens on DIR/lazaret.sock
 * (this user only), so that the program lazaret works on the same directory. */
LZ_API enum lz_status lz_open(const struct lz_options *options, struct lz **out,
                              struct lz_error *error);

/* lz_close waits for what was begun, and closes.  Free the task managers first.  NULL is fine. */
LZ_API void lz_close(struct lz *lz);

/* ---- jobs ------------------------------------------------------------------------------------ */

/* struct lz_pushed: what became of a push. */
struct lz_pushed {
    char job_id[201];
    char state[16];
    int created; /* 0: the job was known, by its id or a key */
};

/* lz_push enqueues one job, given as the JSON envelope; `action` is its only required member. */
LZ_API enum lz_status lz_push(struct lz *lz, const char *envelope, struct lz_pushed *out,
                              struct lz_error *error);

/* struct lz_lease: a job that is yours until `expires_at_us`.  Release with lz_leases_free. */
struct lz_lease {
    const char *lease_id;
    const char *job_id;
    const char *queue;
    uint32_t attempt;      /* 1 is the first run */
    int64_t expires_at_us; /* microseconds since 1970 */
    const char *envelope;  /* byte for byte what was pushed */
    size_t envelope_len;
};

struct lz_lease_options {
    const char *worker_id;           /* required */
    const char *const *queues;       /* NULL-terminated; NULL: every queue */
    const char *const *capabilities; /* NULL-terminated; NULL: none */
    size_t count;                    /* at most; 0: 1 */
    uint32_t lease_ms;               /* 0: 30 s */
    uint32_t wait_ms;                /* wait this long for a first job; 0: do not wait */
};

/* lz_lease takes ready jobs.  LZ_OK with *count 0 when there are none. */
LZ_API enum lz_status lz_lease(struct lz *lz, const struct lz_lease_options *options,
                               struct lz_lease **out, size_t *count, struct lz_error *error);
LZ_API void lz_leases_free(struct lz_lease *leases);

/* lz_heartbeat keeps a lease for another `lease_ms` (0: 30 s).  *cancelled is set when the job is
 * to be stopped. */
LZ_API enum lz_status lz_heartbeat(struct lz *lz, const char *worker_id, const char *lease_id,
                                   uint32_t lease_ms, int *cancelled, struct lz_error *error);

/* lz_complete reports success.  `result` is JSON, or NULL. */
LZ_API enum lz_status lz_complete(struct lz *lz, const char *lease_id, const char *result,
                                  struct lz_error *error);

/* struct lz_outcome: what the engine decided about a failure. */
struct lz_outcome {
    char state[16];           /* "scheduled", "dead" or "cancelled" */
    int64_t next_retry_at_us; /* when scheduled */
    char dlq_id[64];          /* when dead */
};

/* lz_fail reports a failure, given as JSON (INTERFACES 4; `message` is its only required member).
 * The engine decides what follows. */
LZ_API enum lz_status lz_fail(struct lz *lz, const char *lease_id, const char *failure,
                              struct lz_outcome *out, struct lz_error *error);

/* lz_release gives a lease back unstarted: no attempt is counted. */
LZ_API enum lz_status lz_release(struct lz *lz, const char *lease_id, struct lz_error *error);

/* ---- everything else ------------------------------------------------------------------------- */

/* lz_request carries out one request of the HTTP API inside the process: `target` is a path with an
 * optional query, "/api/v1/dlq?reason=timeout&limit=5".  *answer is the JSON text, of an error too;
 * *http_status is its status.  `body` may be NULL. */
LZ_API enum lz_status lz_request(struct lz *lz, const char *method, const char *target,
                                 const char *body, int *http_status, char **answer,
                                 struct lz_error *error);

/* The most used ones by name.  *answer is JSON, as INTERFACES 5 has it. */
LZ_API enum lz_status lz_job(struct lz *lz, const char *job_id, char **answer,
                             struct lz_error *error);
LZ_API enum lz_status lz_cancel(struct lz *lz, const char *job_id, struct lz_error *error);
LZ_API enum lz_status lz_letters(struct lz *lz, const char *query, char **answer,
                                 struct lz_error *error);
LZ_API enum lz_status lz_letter(struct lz *lz, const char *dlq_id, char **answer,
                                struct lz_error *error);
/* lz_review acts on a letter: "retry", "discard", "rollback", "escalate" or "restore".  `body` may
 * hold actor, note, patch, merge, queue and policy, or be NULL. */
LZ_API enum lz_status lz_review(struct lz *lz, const char *dlq_id, const char *action,
                                const char *body, struct lz_error *error);
/* lz_audit_verify walks the chain of evidence.  LZ_OK when it holds; LZ_CONFLICT names the first
 * event that does not fit.  `events` (may be NULL) gets how many were walked. */
LZ_API enum lz_status lz_audit_verify(struct lz *lz, uint64_t *events, struct lz_error *error);

/* ---- background tasks ------------------------------------------------------------------------ */

/* struct lz_retry_policy: the policy unit of the background system. */
struct lz_retry_policy {
    uint32_t max_retry_attempts; /* retries after the first run */
    double base_delay_seconds;   /* doubled after each attempt */
};

/* lz_should_schedule_retry says whether a task that has failed `attempt_count` times is tried
 * again. */
LZ_API int lz_should_schedule_retry(const struct lz_retry_policy *policy, uint32_t attempt_count);
/* lz_delay_for_attempt is the delay, in seconds, after the `attempt_count`-th failure. */
LZ_API double lz_delay_for_attempt(const struct lz_retry_policy *policy, uint32_t attempt_count);

/* struct lz_task: one run of a task, as its handler sees it. */
struct lz_task {
    const char *task_id; /* the job_id */
    const char *action;
    const char *retry_key;  /* NULL: none */
    uint32_t attempt_count; /* 1 is the first run */
    const char *envelope;   /* as it was submitted */
    const char *inputs;     /* its `inputs`, as JSON */
    void *ctx;              /* the handler's */
    struct lz_run *run;     /* for lz_task_cancelled, lz_task_fail and lz_task_result */
};

/* A handler returns 0 when the task is done.  Any other value is a failure with that exit code;
 * what lz_task_fail said of it is the evidence. */
typedef int (*lz_handler)(const struct lz_task *task);

/* lz_task_cancelled says that nobody waits for this run any more: it timed out, was cancelled, or
 * the manager stops.  A long handler asks now and then. */
LZ_API int lz_task_cancelled(const struct lz_task *task);
/* lz_task_fail says why the run is going to fail, as a failure object in JSON. */
LZ_API void lz_task_fail(const struct lz_task *task, const char *failure);
/* lz_task_result hands a result back, as JSON. */
LZ_API void lz_task_result(const struct lz_task *task, const char *result);

struct lz_tasks; /* a task manager: threads that run handlers for the jobs of one queue */

struct lz_tasks_options {
    const char *queue;      /* NULL: "background" */
    uint32_t concurrency;   /* handlers at once; 0: 4 */
    double timeout_seconds; /* a handler that runs longer fails its task; 0: 60 */
    const char *policy;     /* the policy of tasks that name none; NULL: "background" */
};

LZ_API enum lz_status lz_tasks_new(struct lz *lz, const struct lz_tasks_options *options,
                                   struct lz_tasks **out, struct lz_error *error);
/* lz_tasks_handle has `handler` run the tasks with this action.  Before lz_tasks_start. */
LZ_API enum lz_status lz_tasks_handle(struct lz_tasks *tasks, const char *action,
                                      lz_handler handler, void *ctx, struct lz_error *error);
/* lz_tasks_start begins to run tasks: also those that an earlier process left. */
LZ_API enum lz_status lz_tasks_start(struct lz_tasks *tasks, struct lz_error *error);
/* struct lz_task_spec: a task to run.  Only `action` is required. */
struct lz_task_spec {
    const char *action;
    const char *retry_key; /* one task with this key at a time */
    const char *inputs;    /* JSON object */
    const char *document;  /* JSON object: the status document to begin with */
    const char *policy;    /* by name; NULL: the manager's */
};

/* lz_tasks_submit enqueues a task.  While one with the same retry_key waits or runs, that one is
 * the answer and nothing is started. */
LZ_API enum lz_status lz_tasks_submit(struct lz_tasks *tasks, const struct lz_task_spec *spec,
                                      struct lz_pushed *out, struct lz_error *error);
/* lz_tasks_document reads a task's status document: the JSON object that a policy's on_dead writes
 * to. */
LZ_API enum lz_status lz_tasks_document(struct lz_tasks *tasks, const char *task_id, char **answer,
                                        struct lz_error *error);
/* lz_tasks_idle waits until no task waits, is scheduled or runs, or `timeout_ms` have passed: then
 * LZ_LIMIT. */
LZ_API enum lz_status lz_tasks_idle(struct lz_tasks *tasks, uint32_t timeout_ms,
                                    struct lz_error *error);
/* lz_tasks_stop takes no new task, waits up to `grace_ms` for those that run, and gives back the
 * rest. */
LZ_API void lz_tasks_stop(struct lz_tasks *tasks, uint32_t grace_ms);
/* lz_tasks_free stops (without grace) and frees.  NULL is fine. */
LZ_API void lz_tasks_free(struct lz_tasks *tasks);

/* ---- publishing dead letters on NATS --------------------------------------------------------- */

/* A publisher needs no data directory: it puts dead letters of this program onto the stream of a
 * NATS server (JetStream, subjects dlq.>), from which a Lazaret server, or whoever else reads the
 * swarm's letters, takes them.
 *
 *     struct lz_publisher *publisher;
 *     struct lz_publisher_options nats = {.url = "nats://127.0.0.1:4222", .source = "dispatch"};
 *     if (lz_publisher_open(&nats, &publisher, &error) != LZ_OK)
 *         die(error.text);
 *     struct lz_publish_options letter = {.original_subject = "swarm.task.request",
 *                                         .original_payload = task, .original_payload_len = len,
 *                                         .reason = "no_capable_agent", .recoverable = 1};
 *     lz_publish(publisher, &letter, NULL, &error);
 *
 * A publisher is used by one thread at a time.  It connects again by itself after an outage. */
struct lz_publisher;

/* struct lz_publisher_options: `{0}` but for `source` is the default for each. */
struct lz_publisher_options {
    const char *source; /* required: who publishes, such as "dispatch" or "warren" */
    const char *url;    /* nats://HOST:PORT or tls://HOST:PORT, several with commas between;
                           NULL: nats://127.0.0.1:4222 */
    const char *user;   /* credentials, of one kind: a user with a password, */
    const char *password;
    const char *token;    /* a token, */
    const char *creds;    /* a credentials file (JWT and seed), */
    const char *nkey;     /* or a file with the seed of an nkey */
    const char *tls_ca;   /* PEM: the authorities to trust; NULL: those of the system */
    const char *tls_cert; /* PEM: the certificate to show, with `tls_key` */
    const char *tls_key;
    uint32_t timeout_ms; /* for one publish, waiting for a connection included; 0: 5 s */
    int patient;         /* open although no server can be reached: publishes fail until one can */
};

/* lz_publisher_open connects.  LZ_UNAVAILABLE: no server can be reached, or TLS does not come
 * about. LZ_REFUSED: the server does not accept the credentials.  LZ_INVALID: the URL or a file is
 * wrong.
 */
LZ_API enum lz_status lz_publisher_open(const struct lz_publisher_options *options,
                                        struct lz_publisher **out, struct lz_error *error);
/* lz_publisher_close: NULL is fine. */
LZ_API void lz_publisher_close(struct lz_publisher *publisher);

/* struct lz_attempt: one run that failed. */
struct lz_attempt {
    uint32_t attempt;           /* 1 is the first */
    int64_t attempted_at_us;    /* microseconds since 1970; 0: not known */
    const char *agent;          /* NULL: "" */
    const char *failure_reason; /* NULL: "" */
};

/* struct lz_publish_options: a dead letter.  original_subject, original_payload and reason are
 * required. */
struct lz_publish_options {
    const char *original_subject; /* where the payload goes when it is replayed: no wildcards */
    /* original_payload: any bytes, up to 1 MiB.  JSON is published byte for byte, but for white
     * space around it.  Other UTF-8 is published as a JSON string, and any other bytes as a string
     * of base64: a member payload_encoding, "text" or "base64", then follows the letter's fields,
     * by which Lazaret replays exactly these bytes. */
    const void *original_payload;
    size_t original_payload_len;
    const char *reason;        /* "no_capable_agent", "agent_crashed", ..., or a word of your own */
    const char *reason_detail; /* a sentence for people; NULL: none */
    uint32_t retry_count;      /* runs that were made; at most 60000 */
    uint32_t max_retries;      /* runs that were allowed; likewise */
    const struct lz_attempt *retry_history; /* oldest first */
    size_t retry_history_count;
    int recoverable;      /* a machine may replay it */
    const char *dlq_id;   /* a UUID; NULL: one is made */
    int64_t failed_at_us; /* microseconds since 1970; 0: now */
};

struct lz_published {
    char dlq_id[40];
    char subject[128]; /* that it was published under, by its reason */
    int duplicate;     /* the stream had a letter with this dlq_id already */
};

/* lz_publish publishes one dead letter and waits until the stream has it: LZ_OK says that it is
 * stored there.
 *
 * LZ_UNAVAILABLE: there is no connection, no stream takes it, or no acknowledgement came in time;
 * in the last case the stream may have it.  Publish again with the dlq_id in `out`, which is filled
 * on failure, too, unless the letter itself was wrong (LZ_INVALID): the same dlq_id is stored once.
 * LZ_REFUSED: the server does not let this user publish it.  `out` may be NULL. */
LZ_API enum lz_status lz_publish(struct lz_publisher *publisher,
                                 const struct lz_publish_options *options, struct lz_published *out,
                                 struct lz_error *error);

#ifdef __cplusplus
}
#endif

#endif
