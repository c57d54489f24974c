/* request: asking the API, for a command: paths and queries are put together, errors are said. */
#ifndef LAZARET_CLI_REQUEST_H
#define LAZARET_CLI_REQUEST_H

#include "api/api.h"
#include "base/json.h"
#include "cli/cli.h"

#define REQUEST_PAGE_MAX 1000      /* rows of one listing */
#define REQUEST_BODY_MAX (4 << 20) /* bytes of one body */

/* struct reply: an answer that was read.  Values borrow from it. */
struct reply {
    struct api_answer answer;
    struct json value;
};

void reply_release(struct reply *reply);

/* request_connect makes the connection ready, as the first request does.  0, or an exit code after
 * it has said what is wrong. */
int request_connect(struct cli *cli);

/* request_send carries out one request and reads the answer.  It returns 0, or an exit code after
 * it has said what the answer's error says; the reply is to be released in both cases.  `body` may
 * be empty. */
int request_send(struct cli *cli, const char *method, const char *path, struct slice query,
                 struct slice body, struct reply *reply);

/* request_try is request_send without a word about an answer that is an error: `reply` has it. Only
 * when the engine cannot be reached it speaks, and returns an exit code. */
int request_try(struct cli *cli, const char *method, const char *path, struct slice query,
                struct slice body, struct reply *reply);

/* request_failed says what an error answer says, and returns the exit code for it. */
int request_failed(const struct reply *reply);

/* request_exit is the exit code for an HTTP status. */
int request_exit(int http_status);

/* request_exit_of is the exit code for the "code" of an entry that was refused. */
int request_exit_of(struct slice code);

/* request_path is `before`, `name` percent-encoded, and `after`; NULL when memory is exhausted. */
const char *request_path(struct cli *cli, const char *before, struct slice name, const char *after);

/* request_query appends `key=value`, percent-encoded, with a "&" where one is needed. */
void request_query(struct buf *query, const char *key, struct slice value);

#endif
