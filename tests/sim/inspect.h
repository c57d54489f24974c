/* inspect: what the files of the inspection share. */
#ifndef LAZARET_SIM_INSPECT_H
#define LAZARET_SIM_INSPECT_H

#include "sim/model.h"

struct inspection {
    struct model *model;
    struct store *store;
    struct arena arena; /* of what is read */
    struct err err;
};

/* inspect_wrong notes what is wrong with a job in the store. */
void inspect_wrong(struct inspection *in, const struct model_job *job, const char *what);

/* inspect_failed notes that `what` cannot be read, when it cannot. */
bool inspect_failed(struct inspection *in, enum status status, const char *what);

/* inspect_letters checks letters, counters, groups and queues. */
void inspect_letters(struct inspection *in);

#endif
