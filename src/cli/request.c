/* request: see request.h.  The connection is opened by the first request, so that `help` and a
 * wrong flag never touch the data directory. */
#include "cli/request.h"

#include "cli/connection.h"
#include "cli/say.h"

#define PATH_MAX_BYTES (16 << 10)

void reply_release(struct reply *reply)
{
    api_answer_release(&reply->answer);
}

int request_connect(struct cli *cli)
{
    struct connection_target target = {.data = args_value(&cli->args, "data"),
                                       .server = cli->server,
                                       .token = cli->token,
                                       .config = &cli->config};
    struct err err = {0};

    if (cli->connection || connection_open(&target, &cli->connection, &err) == STATUS_OK)
        return 0;
    return say_error(CLI_USAGE, "%s", err.text);
}

/* unanswered says why there is no answer. */
static int unanswered(enum status status, const struct err *err)
{
    say_error(CLI_STORE, "%s", err->text);
    if (status == STATUS_BUSY)
        say_hint("wait for it to end, or give another directory with --data");
    return CLI_STORE;
}

int request_try(struct cli *cli, const char *method, const char *path, struct slice query,
                struct slice body, struct reply *reply)
{
    struct api_request request = {.method = method,
                                  .path = slice_of(path),
                                  .query = query,
                                  .body = body,
                                  .actor = slice_of(cli->actor),
                                  .role = ROLE_ADMIN};
    struct err err = {0};
    enum status status;
    int code;

    *reply = (struct reply){0};
    api_answer_init(&reply->answer);
    if (!path)
        return say_no_memory();
    code = request_connect(cli);
    if (code != 0)
        return code;
    status = connection_call(cli->connection, &request, &reply->answer, &err);
    if (status != STATUS_OK)
        return unanswered(status, &err);
    if (json_parse(buf_slice(&reply->answer.body), &reply->value, &err) != STATUS_OK)
        return say_error(CLI_STORE, "the answer is not JSON: %s", err.text);
    return 0;
}

int request_send(struct cli *cli, const char *method, const char *path, struct slice query,
                 struct slice body, struct reply *reply)
{
    int code = request_try(cli, method, path, query, body, reply);
    if (code == 0 && reply->answer.status >= 300)
        code = request_failed(reply);
    return code;
}

int request_failed(const struct reply *reply)
{
    struct arena arena = {0};
    struct json error;
    int code = request_exit(reply->answer.status);

    json_get(reply->value, "error", &error);
    struct slice sentence = json_text(error, &arena);
    if (sentence.len > 0)
        say_error(code, "%.*s", SLICE_ARG(sentence));
    else
        say_error(code, "the server answered %d without saying why", reply->answer.status);
    if (reply->answer.retry_after_s > 0)
        say_hint("try again in %lld s", (long long)reply->answer.retry_after_s);
    arena_release(&arena);
    return code;
}

int request_exit(int http_status)
{
    switch (http_status) {
    case 404:
        return CLI_MISSING;
    case 401:
    case 403:
    case 409:
    case 429:
        return CLI_REFUSED;
    default:
        return http_status < 300 ? CLI_DONE : http_status < 500 ? CLI_USAGE : CLI_STORE;
    }
}

int request_exit_of(struct slice code)
{
    static const struct {
        const char *code;
        int exit;
    } exits[] = {{"invalid", CLI_USAGE},     {"too_large", CLI_USAGE}, {"not_found", CLI_MISSING},
                 {"conflict", CLI_REFUSED},  {"refused", CLI_REFUSED}, {"limit", CLI_REFUSED},
                 {"lease_lost", CLI_REFUSED}};
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++)
        if (slice_is(code, exits[i].code))
            return exits[i].exit;
    return CLI_STORE;
}

const char *request_path(struct cli *cli, const char *before, struct slice name, const char *after)
{
    struct buf path;
    const char *text = NULL;

    buf_init(&path, PATH_MAX_BYTES);
    buf_add_str(&path, before);
    buf_add_percent(&path, name);
    buf_add_str(&path, after);
    if (buf_status(&path, NULL) == STATUS_OK)
        text = arena_dup(&cli->arena, buf_slice(&path)).ptr;
    buf_release(&path);
    return text;
}

void request_query(struct buf *query, const char *key, struct slice value)
{
    if (query->len > 0)
        buf_add_char(query, '&');
    buf_add_str(query, key);
    buf_add_char(query, '=');
    buf_add_percent(query, value);
}
