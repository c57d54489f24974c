/* connection: how a command's requests reach the engine.
 *
 * A command knows requests and answers (api/api.h) and not who carries them out:
 *
 *     this process   it owns the data directory and calls the API inside itself
 *     the owner      another process has the directory: over DIR/lazaret.sock
 *     a server       --server URL
 *
 * With a data directory the carrier is found by the first request, and found again when the owner
 * goes away: then this process may become the owner itself. */
#ifndef LAZARET_CLI_CONNECTION_H
#define LAZARET_CLI_CONNECTION_H

#include "api/api.h"
#include "base/status.h"
#include "cli/config.h"

struct connection;

/* struct connection_target: where the engine is.  It is borrowed until connection_close. */
struct connection_target {
    const char *data;   /* a data directory; NULL: the default one */
    const char *server; /* the URL of a server; NULL: the data directory */
    const char *token;  /* for the server; NULL: none */
    const struct config *config;
};

/* connection_open makes ready; nobody is asked yet.  STATUS_INVALID when the URL or the token is
 * none. */
enum status connection_open(const struct connection_target *target, struct connection **out,
                            struct err *err);
void connection_close(struct connection *connection); /* NULL is fine */

/* connection_call carries out one request.  The answer, initialised by the caller, has a status and
 * a body when it returns STATUS_OK.  Otherwise `err` says why there is none: STATUS_BUSY, with the
 * owner's process id in the sentence, when another process keeps the directory for longer than the
 * configuration waits and answers no requests.  When the owner goes away before it answered, a
 * request that is safe to repeat is repeated; for others STATUS_UNAVAILABLE says that the outcome
 * is not known.  Several threads may call at once. */
enum status connection_call(struct connection *connection, const struct api_request *request,
                            struct api_answer *answer, struct err *err);

#endif
