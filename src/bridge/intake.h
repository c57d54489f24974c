/* intake: one batch of messages on its way into the quarantine.
 *
 *     empty --intake_read--> read --intake_submit--> under way --intake_finish--> empty
 *                                                        ^ `-- the store failed: submitted again
 *
 * A message that the store refuses for what it is, and with it the batch, is found by storing the
 * batch one by one, and kept as malformed.
 *
 * While one is under way the next is fetched and read. */
#ifndef LAZARET_BRIDGE_INTAKE_H
#define LAZARET_BRIDGE_INTAKE_H

#include "bridge/natsdesk.h"

struct letterform_origin;

struct intake {
    struct natsdesk *desk;
    natsMsgList messages; /* each has an item, in the same place */
    struct import_item *items;
    struct letterform_origin *origins;
    struct arena arena; /* of one batch */
    struct import_command command;
    bool submitted;
    pthread_mutex_t lock; /* of `answered` */
    pthread_cond_t done;
    bool answered; /* the engine has */
};

void intake_init(struct intake *intake, struct natsdesk *desk);
void intake_release(struct intake *intake);

/* intake_read makes letters of the messages, which it takes over.  On error they are let go:
 * the stream delivers them again. */
enum status intake_read(struct intake *intake, natsMsgList *messages, struct err *err);

/* intake_submit hands them to the engine, and does not wait. */
void intake_submit(struct intake *intake);

/* intake_finish waits until they are on disk, and acknowledges them.  While the store fails it
 * submits them again, until the desk is to stop or its connection is lost: then they are let go. */
void intake_finish(struct intake *intake);

#endif
