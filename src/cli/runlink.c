/* runlink: see runlink.h. */
#include "cli/runlink.h"

#include <signal.h>

#include "cli/connection.h"
#include "cli/request.h"
#include "crew/halt.h"

static enum status call(void *ctx, const char *method, const char *path, struct slice body,
                        struct buf *answer, int *http, struct err *err)
{
    struct cli *cli = ctx;
    struct api_request request = {.method = method,
                                  .path = slice_of(path),
                                  .body = body,
                                  .actor = slice_of(cli->actor),
                                  .role = ROLE_ADMIN};
    struct api_answer got;

    api_answer_init(&got);
    enum status status = connection_call(cli->connection, &request, &got, err);
    if (status == STATUS_OK) {
        *http = got.status;
        buf_release(answer);
        *answer = got.body;
        buf_init(&got.body, 0);
    }
    api_answer_release(&got);
    return status;
}

int runlink_open(struct cli *cli, struct link *out)
{
    *out = (struct link){.call = call, .ctx = cli};
    return request_connect(cli);
}

void runlink_block(void)
{
    sigset_t set;
    halt_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

int runlink_exit(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return CLI_DONE;
    case STATUS_INVALID:
    case STATUS_TOO_LARGE:
        return CLI_USAGE;
    case STATUS_NOT_FOUND:
        return CLI_MISSING;
    case STATUS_CONFLICT:
    case STATUS_REFUSED:
        return CLI_REFUSED;
    default:
        return CLI_STORE;
    }
}
