/* routes: the handlers, by the file that they are in.  api.c has the table of their paths.
 *
 * A handler writes its answer through call->out and returns STATUS_OK, or a status with call->err
 * filled.  It never leaves half an answer behind: api.c replaces what was written by the error. */
#ifndef LAZARET_API_ROUTES_H
#define LAZARET_API_ROUTES_H

#include "api/call.h"

/* jobs.c */
enum status jobs_push(struct call *call);
enum status jobs_list(struct call *call);
enum status jobs_get(struct call *call);
enum status jobs_cancel(struct call *call);

/* deliveries.c */
enum status deliveries_push(struct call *call);

/* leases.c */
enum status leases_take(struct call *call);
enum status leases_heartbeat(struct call *call);
enum status leases_release(struct call *call);
enum status leases_interrupted(struct call *call);

/* workers.c */
enum status workers_put(struct call *call);
enum status workers_list(struct call *call);

/* results.c */
enum status results_report(struct call *call);

/* dlq.c */
enum status dlq_list(struct call *call);
enum status dlq_get(struct call *call);
enum status dlq_stats(struct call *call);
enum status dlq_like(struct call *call);
enum status dlq_review(struct call *call); /* argument: enum review_action */

/* dlq_bulk.c */
enum status bulk_review(struct call *call); /* argument: enum review_action */
enum status bulk_retry_all(struct call *call);

/* groups.c */
enum status groups_list(struct call *call);
enum status groups_get(struct call *call);
enum status groups_review(struct call *call); /* argument: enum review_action */
enum status groups_set(struct call *call);    /* argument: enum group_status */

/* purge.c */
enum status purge_old(struct call *call);
enum status purge_run(struct call *call);

/* analyze.c */
enum status analyze_letters(struct call *call);

/* import.c */
enum status import_letters(struct call *call);

/* runs.c */
enum status runs_get(struct call *call);

/* queues.c */
enum status queues_list(struct call *call);
enum status queues_pause(struct call *call); /* argument: bool, paused */

/* policies.c */
enum status policies_list(struct call *call);
enum status policies_get(struct call *call);
enum status policies_put(struct call *call);
enum status policies_explain(struct call *call);

/* simulate.c */
enum status policies_simulate(struct call *call);

/* audit.c */
enum status audit_list(struct call *call);
enum status audit_head(struct call *call);
enum status audit_verify(struct call *call);

/* health.c */
enum status health_live(struct call *call);
enum status health_ready(struct call *call);
enum status index_get(struct call *call);
enum status openapi_get(struct call *call);

/* metrics.c */
enum status metrics_get(struct call *call);

/* status.c */
enum status status_get(struct call *call);

#endif
