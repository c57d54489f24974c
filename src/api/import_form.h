/* import_form: letters as other systems write them down.
 *
 *     swarm      the fourteen fields: it has `original_subject` or `original_payload`
 *     own        a letter as GET /api/v1/dlq/{id} prints it: the swarm's fields and more
 *     map        a DeadLetteredItem: it has `item_id` or `item_data`
 *     receipts   an entry of receipts.json: it has `receipt`
 *
 * What a form does not say is derived from what it does: the judgement from the last failure, the
 * dlq_id (so that the same letter is not taken twice) from the content. */
#ifndef LAZARET_API_IMPORT_FORM_H
#define LAZARET_API_IMPORT_FORM_H

#include "api/call.h"

/* import_form_read reads one letter, in whichever form it is.  `run_id` (may be empty) is the run
 * that items without one belong to.  What is wrong is the call's error. */
void import_form_read(struct call *call, struct slice text, struct slice run_id,
                      struct import_item *item);

#endif
