/* repeat: sending a request again after its answer was lost, so that it happens once. */
#ifndef LAZARET_CLI_REPEAT_H
#define LAZARET_CLI_REPEAT_H

#include "api/api.h"

/* repeat_safe says whether a request may be sent again when nobody knows what became of it: it
 * changes nothing, or it is a push whose envelopes all carry a job_id. */
bool repeat_safe(const struct api_request *request);

/* repeat_settle makes the answer to a push that was sent again what it would have been: a job of
 * the envelope's own id that was there already came from the sending before, and counts as
 * created.  Other answers are left as they are. */
enum status repeat_settle(const struct api_request *request, struct api_answer *answer,
                          struct err *err);

#endif
