/* accesslog: one JSON line for each request.
 *
 *     {"at":"...","id":"...","peer":"127.0.0.1","actor":"ada","role":"operator","method":"POST",
 *      "path":"/api/v1/dlq?q=[masked]","route":"/api/v1/dlq","status":200,"bytes_in":0,"bytes_out":812,
 *      "ms":1.2}
 *
 * Lines are gathered in memory and written by a thread of their own, so that no request waits for a
 * disk.  When the disk cannot keep up, lines are left out and the next one says how many
 * ("dropped").  Values of query parameters that may hold secrets (token, key, secret, password, q,
 * ...) are masked; headers and bodies are never logged.  SIGHUP-style rotation: accesslog_reopen.
 */
#ifndef LAZARET_API_ACCESSLOG_H
#define LAZARET_API_ACCESSLOG_H

#include "base/seams.h"
#include "base/slice.h"
#include "base/status.h"
#include "base/time.h"

struct accesslog;

struct access {
    struct slice id;   /* the request's */
    struct slice peer; /* an address */
    struct slice actor;
    const char *role, *method;
    struct slice path, query; /* as sent */
    const char *route;        /* the pattern */
    int status;               /* 0: the client went away without an answer */
    size_t bytes_in, bytes_out;
    struct span took;
};

/* accesslog_open appends to the file at `path`; "-" is standard error. */
enum status accesslog_open(const char *path, const struct seams *seams, struct accesslog **out,
                           struct err *err);

/* accesslog_add adds a line.  Any thread; it never waits for the disk.  `log` NULL: nothing. */
void accesslog_add(struct accesslog *log, const struct access *access);

/* accesslog_reopen opens the file anew, after it was moved away. */
void accesslog_reopen(struct accesslog *log);

/* accesslog_close writes what is left.  NULL is fine. */
void accesslog_close(struct accesslog *log);

#endif
