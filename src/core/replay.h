/* replay: how letters from elsewhere go back where they came from.
 *
 * Such a letter's payload is no envelope.  To bring it back is to publish the payload, byte for
 * byte, to its original_subject: the letter is `recovering`, and its job (JOB_FOREIGN) stands in
 * the queue below, for the one kind of worker that can publish.  When the job is done the letter is
 * recovered; when the message was refused the letter is dead as before; when the worker was lost
 * the job is given to another, and the message id drops what was published already. */
#ifndef LAZARET_CORE_REPLAY_H
#define LAZARET_CORE_REPLAY_H

#define REPLAY_QUEUE "replays"
#define REPLAY_CAPABILITY "lazaret:publish"
#define REPLAY_RESERVED "lazaret:" /* capabilities that begin so are the server's own */

/* A letter that came back so often, by its subject and payload, needs a person. */
#define REPLAY_AUTOMATIC_MAX 3

#endif
