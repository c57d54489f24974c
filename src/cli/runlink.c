/* runlink: see runlink.h. */
#include "cli/runlink.h"

#include <signal.h>

#include "cli/connection.h"
#include "cli/request.h"
#include "crew/halt.h"

static struct api_request request_of(const char *method, const char *path, struct slice body,
                                     const char *actor)
{
    const char *mark = strchr(path, '?');
    return (struct api_request){.method = method,
                                .path = {path, mark ? (size_t)(mark - path) : strlen(path)},
                                .query = slice_of(mark ? mark + 1 : NULL),
                                .body = body,
                                .actor = slice_of(actor),
                                .role = ROLE_ADMIN};
}

/* take moves an answer to whoever asked. */
static void take(struct api_answer *got, struct buf *answer, int64_t *cursor, int *http)
{
    *http = got->status;
    *cursor = got->cursor;
    buf_release(answer);
    *answer = got->body;
    buf_init(&got->body, 0);
}

/* ---- over a connection ----------------------------------------------------------------------- */

static enum status carry(struct cli *cli, const char *method, const char *path, struct slice body,
                         struct buf *answer, int64_t *cursor, int *http, struct err *err)
{
    struct api_request request = request_of(method, path, body, cli->actor);
    struct api_answer got;

    api_answer_init(&got);
    enum status status = connection_call(cli->connection, &request, &got, err);
    if (status == STATUS_OK)
        take(&got, answer, cursor, http);
    api_answer_release(&got);
    return status;
}

static enum status call(void *ctx, const char *method, const char *path, struct slice body,
                        struct buf *answer, int *http, struct err *err)
{
    int64_t cursor;
    return carry(ctx, method, path, body, answer, &cursor, http, err);
}

static enum status page(void *ctx, const char *path, struct buf *answer, int64_t *cursor, int *http,
                        struct err *err)
{
    return carry(ctx, "GET", path, (struct slice){0}, answer, cursor, http, err);
}

int runlink_open(struct cli *cli, struct link *out)
{
    *out = (struct link){.call = call, .page = page, .ctx = cli};
    return request_connect(cli);
}

/* ---- inside the process ---------------------------------------------------------------------- */

static enum status own_carry(const struct ownlink *own, const char *method, const char *path,
                             struct slice body, struct buf *answer, int64_t *cursor, int *http)
{
    struct api_request request = request_of(method, path, body, own->actor);
    struct api_answer got;

    api_answer_init(&got);
    api_call(own->api, &request, &got);
    take(&got, answer, cursor, http);
    api_answer_release(&got);
    return STATUS_OK;
}

static enum status own_call(void *ctx, const char *method, const char *path, struct slice body,
                            struct buf *answer, int *http, struct err *err)
{
    int64_t cursor;
    (void)err;
    return own_carry(ctx, method, path, body, answer, &cursor, http);
}

static enum status own_page(void *ctx, const char *path, struct buf *answer, int64_t *cursor,
                            int *http, struct err *err)
{
    (void)err;
    return own_carry(ctx, "GET", path, (struct slice){0}, answer, cursor, http);
}

struct link runlink_own(struct ownlink *own)
{
    return (struct link){.call = own_call, .page = own_page, .ctx = own};
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
