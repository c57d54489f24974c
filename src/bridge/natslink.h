/* natslink: the connection to NATS that the bridge and the publisher of lazaret.h share.
 *
 * It is kept for good: after an outage libnats connects again by itself, after a random wait that
 * is bounded, to any server of the list or of its cluster.  While there is no connection nothing is
 * kept for later: a publish fails, and who called decides.  So nothing is said to have been sent
 * that sits in a buffer of a process which may die.
 *
 * libnats gives a connection up when a server refuses its credentials twice in a row, as happens
 * while somebody replaces the keys on the server.  The link then is *lost*; natslink_renew makes
 * another connection of the same options, and reads the files of credentials again.
 *
 * The functions may be called from any thread, but for natslink_renew and natslink_close, during
 * which nobody else may use the link. */
#ifndef LAZARET_BRIDGE_NATSLINK_H
#define LAZARET_BRIDGE_NATSLINK_H

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* struct natslink_options: `{0}` but for `url` is a plain connection without credentials.  All of
 * it is copied.  Of user, token, creds and nkey at most one is given. */
struct natslink_options {
    const char *url;      /* as natsurl_read takes it: one server, or a list with commas */
    const char *user;     /* with `password`, for servers whose URL has none */
    const char *password; /* likewise */
    const char *token;    /* likewise, instead of both */
    const char *creds;    /* a file with a JWT and its seed */
    const char *nkey;     /* a file with the seed of an nkey */
    const char *tls_ca;   /* PEM: the authorities to trust; NULL: those of the system */
    const char *tls_cert; /* PEM: the certificate to show, with `tls_key` */
    const char *tls_key;
    bool tls;         /* TLS, whatever the URL says; tls:// and the files above say so as well */
    const char *name; /* how the server lists this connection; NULL: "lazaret" */
    /* What is told, from a thread of libnats; NULL: nothing.  They do not close or renew. */
    void (*connected)(void *ctx);    /* again, or for the first time after natslink_open */
    void (*disconnected)(void *ctx); /* libnats goes on trying */
    void (*lost)(void *ctx);         /* it does not: see natslink_renew */
    void *ctx;
};

struct natslink;

/* natslink_open connects.  When no server can be reached: STATUS_UNAVAILABLE or, when `patient`,
 * the link is made all the same and libnats goes on trying.  STATUS_INVALID: the URL or a file is
 * wrong.  STATUS_REFUSED: the server does not accept the credentials.  The sentence names the
 * servers without their passwords and says what to do. */
enum status natslink_open(const struct natslink_options *options, bool patient,
                          struct natslink **out, struct err *err);

/* natslink_close: no callback runs after it has returned.  NULL is fine. */
void natslink_close(struct natslink *link);

bool natslink_connected(struct natslink *link);

/* natslink_wait waits until there is a connection, at most `ms`; false when there is none then, or
 * the link is lost. */
bool natslink_wait(struct natslink *link, unsigned ms);

/* natslink_lost says that libnats has given the connection up. */
bool natslink_lost(struct natslink *link);

/* natslink_renew opens a lost link again, as natslink_open did; one that is not lost is left as it
 * is.  What was made of natslink_connection and natslink_jetstream must be destroyed before.  On
 * failure the link is still lost. */
enum status natslink_renew(struct natslink *link, struct err *err);

/* natslink_connection and natslink_jetstream: owned by the link, valid until natslink_renew. */
natsConnection *natslink_connection(struct natslink *link);
jsCtx *natslink_jetstream(struct natslink *link);

/* natslink_place is the URL without user, password or token, for a log or a sentence. */
const char *natslink_place(const struct natslink *link);

/* natslink_fail makes the status and the sentence of a failed call of libnats, with the `code` of
 * JetStream where there is one (else 0).  `doing` says what was tried: "publishing to
 * dlq.task.unknown".
 *
 *     STATUS_REFUSED      the user of NATS may not do this
 *     STATUS_TOO_LARGE    the message is larger than the server or the stream takes
 *     STATUS_NO_MEMORY
 *     STATUS_UNAVAILABLE  all else: no connection, no stream, no answer in time */
enum status natslink_fail(struct natslink *link, natsStatus status, jsErrCode code,
                          const char *doing, struct err *err);

#endif
