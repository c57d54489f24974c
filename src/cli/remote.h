/* remote: requests to another process, over HTTP: to the socket of a data directory's owner, or to
 * a server by its URL.
 *
 * What matters to who asks is not only the answer but, when there is none, whether the request may
 * have been carried out all the same.  So a body is sent only after the other side has asked for it
 * (100-continue): a connection that breaks before that, as when an owner ends just then, has done
 * nothing.  And only a GET goes over a connection that was used before: libcurl repeats a request
 * by itself when such a connection turns out to be closed, and what is no GET must not happen
 * twice. */
#ifndef LAZARET_CLI_REMOTE_H
#define LAZARET_CLI_REMOTE_H

#include "api/api.h"
#include "base/status.h"

struct remote;

/* struct remote_config: where to.  Its texts are copied. */
struct remote_config {
    const char *socket;          /* the path of a Unix socket; NULL: `url` */
    const char *url;             /* "http://HOST:PORT" or https, with or without a path */
    const char *token;           /* NULL: none */
    uint32_t connect_timeout_ms; /* 0: ten seconds */
};

enum remote_outcome {
    REMOTE_ANSWERED, /* the answer is there, whatever it says */
    REMOTE_UNSENT,   /* nobody was reached: nothing happened */
    REMOTE_REFUSED,  /* somebody was reached who refuses to talk, or is not Lazaret */
    REMOTE_UNKNOWN,  /* the request was on its way when the connection broke */
};

/* remote_open checks the address and makes ready; nothing is sent.  STATUS_INVALID when the URL or
 * the token is none. */
enum status remote_open(const struct remote_config *config, struct remote **out, struct err *err);
void remote_close(struct remote *remote); /* NULL is fine */

/* remote_call sends a request and waits for its answer, for as long as it takes; before the first
 * one it looks whether anybody answers in the time that connecting may take.  `answer`, initialised
 * by the caller, is filled when it returns REMOTE_ANSWERED; else `err` says what is wrong. */
enum remote_outcome remote_call(struct remote *remote, const struct api_request *request,
                                struct api_answer *answer, struct err *err);

#endif
