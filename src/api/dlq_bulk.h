/* dlq_bulk: reviewing a frozen selection, chunk by chunk. */
#ifndef LAZARET_API_DLQ_BULK_H
#define LAZARET_API_DLQ_BULK_H

#include "api/select.h"

#define BULK_RESULTS_MAX 10000 /* results that an answer lists one by one */

/* struct bulk: how many letters were reviewed, with what outcome. */
struct bulk {
    size_t done, failed;
    size_t listed;      /* results that were printed */
    struct buf results; /* their JSON, with commas between; not used by who does not print them */
    struct jsonw out;
};

/* bulk_run reviews the chosen letters; `command` is all but its items.  When the engine fails in
 * the middle, the rest counts as failed with that error; when nothing was done before, it is the
 * call's error. */
enum status bulk_run(struct call *call, struct review_command *command,
                     const struct selection *selection, struct bulk *bulk);

/* bulk_answer runs a review and answers with
 * {"<done>","failed","skipped","total","results":[...]}. */
enum status bulk_answer(struct call *call, struct review_command *command,
                        const struct selection *selection);

#endif
