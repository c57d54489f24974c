/* print: jobs, letters, groups, events and queues as JSON, with the names and in the order of
 * INTERFACES 4 and 5.  (A policy prints itself: policy_print.) */
#ifndef LAZARET_API_PRINT_H
#define LAZARET_API_PRINT_H

#include "api/view.h"

/* print_letter prints a whole letter; what `mask` names (NULL: nothing) is not shown. */
enum status print_letter(struct jsonw *out, const struct letter_view *view,
                         const struct redaction *mask, struct arena *arena, struct err *err);

/* print_job_row prints a job as listings show it; print_job also its attempts and envelope, with
 * what `mask` names (NULL: nothing) not shown. */
void print_job_row(struct jsonw *out, const struct job_row *row);
enum status print_job(struct jsonw *out, const struct job_view *view, const struct redaction *mask,
                      struct arena *arena, struct err *err);

void print_group(struct jsonw *out, const struct letter_group *group);
const char *group_status_name(enum group_status status);

/* print_event prints an event; `job_id` is empty for one that is about no job. */
void print_event(struct jsonw *out, const struct event *event, struct slice job_id);
void print_hash(struct jsonw *out, const char *key, const struct hash *hash);

void print_queue(struct jsonw *out, const struct queue_info *queue);
void print_hour(struct jsonw *out, struct instant hour, int64_t count);

/* print_refusal prints the members "error" and "code" of an entry that was refused. */
void print_refusal(struct jsonw *out, enum status status, struct slice error);

#endif
