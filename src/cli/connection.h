/* connection: how a command's requests reach the engine.
 *
 * A command knows requests and answers (api/api.h) and not who carries them out.  Here that is this
 * process: it becomes the owner of the data directory and calls the API inside itself.  Another
 * carrier (the owner's socket, a server) fits behind the same three functions. */
#ifndef LAZARET_CLI_CONNECTION_H
#define LAZARET_CLI_CONNECTION_H

#include "api/api.h"
#include "base/slice.h"
#include "base/status.h"
#include "cli/config.h"

struct connection;

/* connection_open reaches the engine of the data directory `data` (NULL: the default one).
 * STATUS_BUSY, with the owner's process id in the sentence, when another process keeps it for
 * longer than the configuration waits. */
enum status connection_open(const char *data, const struct config *config, struct connection **out,
                            struct err *err);
void connection_close(struct connection *connection); /* NULL is fine */

/* connection_call carries out one request.  The answer, initialised by the caller, always has a
 * status and a body. */
void connection_call(struct connection *connection, const struct api_request *request,
                     struct api_answer *answer);

#endif
