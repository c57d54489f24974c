/* fold: what the files of the fold share. */
#ifndef LAZARET_SIM_FOLD_H
#define LAZARET_SIM_FOLD_H

#include "sim/model.h"

/* struct step: one event on its way through the table. */
struct step {
    struct model *model;
    struct store *store;
    const struct event *event;
    struct model_job *job; /* NULL: it concerns none */
    struct op *op;         /* NULL: the engine itself made it */
};

/* fold_wrong notes that the event may not be. */
void fold_wrong(struct step *step, const char *what);

/* fold_by checks that a command of this kind made the event. */
bool fold_by(struct step *step, enum command_kind kind);

/* fold_why and the two below read a member of the event's facts. */
struct json fold_why(struct step *step, const char *name);
struct slice fold_why_text(struct step *step, const char *name);
struct instant fold_why_instant(struct step *step, const char *name);

bool fold_is_live(const struct model_job *job);

/* fold_check_keys checks that no other live job has the job's keys and, when it is pushed, that
 * none holds them for good. */
void fold_check_keys(struct step *step, bool pushed);

/* fold_read_body reads the job's id and the envelope that is in force. */
void fold_read_body(struct step *step, struct slice *job_id);

/* fold_add_failure notes a failed attempt. */
void fold_add_failure(struct step *step, uint32_t attempt, struct slice message);

/* fold_grow makes room for one more element. */
void *fold_grow(void *array, size_t count, size_t *cap, size_t size);

/* One function for each row of the table. */
void fold_pushed(struct step *step);
void fold_leased(struct step *step);
void fold_started(struct step *step);
void fold_released(struct step *step);
void fold_completed(struct step *step);
void fold_retry(struct step *step);
void fold_dead(struct step *step);
void fold_cancel_wanted(struct step *step);
void fold_cancelled(struct step *step);
void fold_imported(struct step *step);
void fold_requeued(struct step *step);
void fold_discarded(struct step *step);
void fold_rolled_back(struct step *step);
void fold_escalated(struct step *step);
void fold_restored(struct step *step);
void fold_purged(struct step *step);
void fold_queue(struct step *step);
void fold_policy(struct step *step);
void fold_jump(struct step *step);
void fold_group(struct step *step);

#endif
