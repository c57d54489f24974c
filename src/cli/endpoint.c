/* endpoint: flags to a target. */
#include "cli/endpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "bridge/receiptfile.h"
#include "cli/config_targets.h"
#include "cli/file.h"
#include "cli/request.h"
#include "cli/runlink.h"
#include "cli/say.h"
#include "cli/view.h"
#include "engine/station.h"

#define TOKEN_MAX 16384
#define HEADERS_MAX 100
#define HOST_SIZE 64
#define RECEIPTS_NAME "dlq/receipts.json"

/* ---- the token ------------------------------------------------------------------------------- */

/* read_token_file reads a token from a file, without the newline at its end. */
static int read_token_file(struct cli *cli, const char *path, struct slice *out)
{
    struct buf text;
    struct err err = {0};
    int code = 0;

    buf_init(&text, TOKEN_MAX);
    if (file_read(path, &text, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "--token-file: %s", err.text);
    struct slice token = buf_slice(&text);
    while (token.len > 0 && (token.ptr[token.len - 1] == '\n' || token.ptr[token.len - 1] == '\r'))
        token.len--;
    if (code == 0 && token.len == 0)
        code = say_error(CLI_USAGE, "--token-file %s: the file is empty", path);
    *out = arena_dup(&cli->arena, token);
    buf_release(&text);
    return code == 0 && !out->ptr ? say_no_memory() : code;
}

static int read_token(struct cli *cli, struct slice *out)
{
    const char *token = args_value(&cli->args, "token");
    const char *file = args_value(&cli->args, "token-file");
    int code = 0;

    if (token && file)
        return say_error(CLI_USAGE, "--token and --token-file: give one of them");
    if (token && !*token)
        return say_error(CLI_USAGE, "--token: must not be empty");
    if (token)
        *out = slice_of(token);
    else if (file)
        code = read_token_file(cli, file, out);
    for (size_t i = 0; code == 0 && i < out->len; i++)
        if (out->ptr[i] <= ' ' || out->ptr[i] > '~')
            return say_error(CLI_USAGE,
                             "the token for the endpoint has a character that no token has");
    return code;
}

/* ---- headers --------------------------------------------------------------------------------- */

static int read_headers(struct cli *cli, struct target *target)
{
    struct slice *headers = NULL;
    size_t count = 0;

    for (size_t i = 0; i < cli->args.flag_count; i++) {
        if (strcmp(cli->args.flags[i].flag->name, "header") != 0)
            continue;
        struct slice line = slice_of(cli->args.flags[i].value);
        struct err err = {0};
        if (!headers)
            headers = arena_array(&cli->arena, HEADERS_MAX, sizeof *headers);
        if (!headers)
            return say_no_memory();
        if (count == HEADERS_MAX)
            return say_error(CLI_USAGE, "--header: at most %d may be given", HEADERS_MAX);
        if (config_header_check(line, &err) != STATUS_OK)
            return say_error(CLI_USAGE, "--header: %s", err.text);
        headers[count++] = line;
    }
    if (count > 0) {
        target->headers = headers;
        target->header_count = count;
    }
    return 0;
}

/* ---- the target ------------------------------------------------------------------------------ */

/* find_target reads --to. */
static int find_target(struct cli *cli, struct target *out)
{
    const char *to = args_value(&cli->args, "to");
    enum delivery_kind kind = args_has(&cli->args, "mcp") ? DELIVERY_MCP : DELIVERY_HTTP;
    struct err err = {0};
    enum status status = STATUS_OK;

    if (!to)
        return say_error(CLI_USAGE, "--to: is required: the address of the endpoint, such as "
                                    "https://asyncgate.example.org");
    if (strstr(to, "://")) {
        status = target_of_url(slice_of(to), kind, &cli->arena, out, &err);
    } else {
        status = config_target_load(&cli->config, slice_of(to), &cli->arena, out, &err);
        if (status == STATUS_OK && args_has(&cli->args, "mcp") && out->kind != DELIVERY_MCP)
            return say_error(CLI_USAGE, "--mcp: target \"%s\" is of kind http", to);
    }
    if (status == STATUS_NOT_FOUND)
        return say_error(
            CLI_USAGE,
            "--to: \"%s\" is no address (it has no http:// or https://), and no target "
            "of --config",
            to);
    return status == STATUS_OK ? 0 : say_error(CLI_USAGE, "--to: %s", err.text);
}

int endpoint_read(struct cli *cli, struct target *out)
{
    const char *tool = args_value(&cli->args, "tool");
    *out = (struct target){0};
    int code = find_target(cli, out);
    if (code != 0)
        return code;
    if (tool && out->kind != DELIVERY_MCP)
        return say_error(CLI_USAGE, "--tool: is for --mcp");
    if (tool && !*tool)
        return say_error(CLI_USAGE, "--tool: must not be empty");
    if (tool)
        out->tool = slice_of(tool);
    if (args_has(&cli->args, "follow"))
        out->redirects = true;
    code = read_token(cli, &out->token);
    if (code == 0)
        code = read_headers(cli, out);
    if (code == 0)
        code = args_span(&cli->args, "timeout", &out->whole);
    if (code == 0)
        code = args_span(&cli->args, "connect-timeout", &out->connect);
    if (code == 0 && ((args_has(&cli->args, "timeout") && out->whole.us <= 0) ||
                      (args_has(&cli->args, "connect-timeout") && out->connect.us <= 0)))
        code = say_error(CLI_USAGE, "--timeout and --connect-timeout: must be more than 0");
    return code;
}

/* host_name is this host, as it stands in the name of a worker. */
static void host_name(char out[HOST_SIZE])
{
    snprintf(out, HOST_SIZE, "host");
    gethostname(out, HOST_SIZE - 1);
    out[HOST_SIZE - 1] = '\0';
}

/* is_gone says whether a worker of that name was a process of this host that has ended. */
static bool is_gone(struct slice worker)
{
    char host[HOST_SIZE], name[256], *pid;

    host_name(host);
    if (worker.len >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", SLICE_ARG(worker));
    const char *at = strchr(name, ':');
    if (!at || strncmp(at + 1, host, strlen(host)) != 0 || !(pid = strrchr(name, ':')) ||
        pid != at + 1 + strlen(host))
        return false;
    long number = strtol(pid + 1, NULL, 10);
    return number > 1 && kill((pid_t)number, 0) != 0 && errno == ESRCH;
}

static int cut_off(struct cli *cli, struct slice worker)
{
    struct reply reply;
    struct buf body;
    struct jsonw w;

    buf_init(&body, 4096);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    jsonw_put_string(&w, "worker_id", worker);
    jsonw_put_str(&w, "message", "the process that was sending it was killed");
    jsonw_object_end(&w);
    int code = request_send(cli, "POST", "/api/v1/leases/interrupted", (struct slice){0},
                            buf_slice(&body), &reply);
    reply_release(&reply);
    buf_release(&body);
    return code;
}

int endpoint_take_over(struct cli *cli, struct slice job_id)
{
    const char *path = request_path(cli, "/api/v1/jobs/", job_id, "");
    struct arena arena = {0};
    struct reply reply;

    if (!path)
        return say_no_memory();
    int code = request_send(cli, "GET", path, (struct slice){0}, (struct slice){0}, &reply);
    struct slice worker = view_text(reply.value, "worker", &arena);
    if (code == 0 && worker.len > 0 && is_gone(worker))
        code = cut_off(cli, worker);
    reply_release(&reply);
    arena_release(&arena);
    return code;
}

const char *endpoint_worker(struct cli *cli, const char *what)
{
    char host[HOST_SIZE];
    host_name(host);
    return arena_printf(&cli->arena, "%s:%s:%ld", what, host, (long)getpid()).ptr;
}

const char *endpoint_receipts(struct cli *cli, int *code)
{
    const char *given = args_value(&cli->args, "receipts-file");
    struct buf path;
    struct err err = {0};

    *code = 0;
    if (!given)
        given = cli->config.receipts_file;
    if (given)
        return given;
    buf_init(&path, 8192);
    enum status status = station_data_dir(args_value(&cli->args, "data"), &path, &err);
    buf_add_str(&path, "/" RECEIPTS_NAME);
    const char *file = arena_dup(&cli->arena, buf_slice(&path)).ptr;
    if (status != STATUS_OK)
        *code = say_error(CLI_STORE, "%s", err.text);
    else if (!file || buf_status(&path, NULL) != STATUS_OK)
        *code = say_no_memory();
    buf_release(&path);
    return *code == 0 ? file : NULL;
}

void endpoint_mirror(struct cli *cli)
{
    struct receiptfile_counts counts;
    struct link link;
    struct err err = {0};
    int code = 0;

    if (cli->server && !args_has(&cli->args, "receipts-file"))
        return;
    const char *path = endpoint_receipts(cli, &code);
    if (!path || (!cli->connection && access(path, F_OK) != 0) || runlink_open(cli, &link) != 0)
        return;
    if (receiptfile_sync(&link, path, &cli->receipts, &counts, &err) != STATUS_OK)
        say_note("%s is not up to date: %s", path, err.text);
    else if (counts.bad > 0)
        say_note("%s", counts.bad_err.text);
}
