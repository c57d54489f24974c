/* token: making, listing and revoking tokens.
 *
 * The commands work on the token file alone: no engine is started and the data directory is not
 * locked, as a server that runs sees the file change by itself. */
#include <unistd.h>

#include "api/tokens.h"
#include "base/jsonw.h"
#include "cli/cli.h"
#include "cli/grid.h"
#include "cli/say.h"
#include "engine/station.h"

#define PATH_LEN_MAX 4096
#define ANSWER_MAX (8 << 20)

static int exit_of(enum status status)
{
    switch (status) {
    case STATUS_INVALID:
        return CLI_USAGE;
    case STATUS_NOT_FOUND:
        return CLI_MISSING;
    case STATUS_CONFLICT:
    case STATUS_LIMIT:
        return CLI_REFUSED;
    default:
        return CLI_STORE;
    }
}

/* token_path finds the file: --tokens, else the configuration's, else the data directory's.  `make`
 * says that the data directory is wanted. */
static int token_path(struct cli *cli, bool make, struct buf *path)
{
    const char *given = args_value(&cli->args, "tokens");
    struct err err = {0};

    if (args_has(&cli->args, "server"))
        return say_error(CLI_USAGE, "--server: tokens are made where their file is, not by asking "
                                    "the server");
    if (given && !*given)
        return say_error(CLI_USAGE, "--tokens: must not be empty");
    if (!given)
        given = cli->config.tokens;
    if (given) {
        buf_add_str(path, given);
        return buf_status(path, &err) == STATUS_OK ? 0 : say_error(CLI_USAGE, "%s", err.text);
    }
    enum status status = station_data_dir(args_value(&cli->args, "data"), path, &err);
    if (status == STATUS_OK && make)
        status = station_make_dir(buf_str(path), &err);
    buf_add_str(path, "/tokens.json");
    if (status == STATUS_OK)
        status = buf_status(path, &err);
    return status == STATUS_OK ? 0 : say_error(exit_of(status), "%s", err.text);
}

/* ---- create -----------------------------------------------------------------------------------
 */

/* read_expiry reads --expires as a time from here on; not set: never. */
static int read_expiry(struct cli *cli, struct instant *out)
{
    struct span span = {0};
    int code = args_span(&cli->args, "expires", &span);

    *out = INSTANT_NONE;
    if (code != 0 || !args_has(&cli->args, "expires"))
        return code;
    if (span.us <= 0)
        return say_error(CLI_USAGE, "--expires: must be longer than nothing");
    *out = instant_add(seams_real()->wall(NULL), span);
    return 0;
}

static int read_role(struct cli *cli, enum role *out)
{
    const char *text = args_value(&cli->args, "role");

    if (!text)
        return say_error(CLI_USAGE,
                         "--role is required: viewer, worker, operator, reviewer or admin");
    if (!role_from_name(slice_of(text), out)) /* args_parse lets only these through */
        return say_error(CLI_USAGE, "--role: there is no role \"%s\"", text);
    return 0;
}

/* struct member: one of an object that is printed. */
struct member {
    const char *name, *value; /* no value, or an empty one, is null */
};

static int print_json(struct cli *cli, const struct member *members, size_t count)
{
    struct buf text;
    struct jsonw w;
    int code = 0;

    buf_init(&text, ANSWER_MAX);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    for (size_t i = 0; i < count; i++) {
        jsonw_key(&w, members[i].name);
        if (members[i].value && *members[i].value)
            jsonw_string(&w, slice_of(members[i].value));
        else
            jsonw_null(&w);
    }
    jsonw_object_end(&w);
    if (buf_status(&text, NULL) == STATUS_OK)
        out_json(&cli->out, buf_slice(&text));
    else
        code = say_no_memory();
    buf_release(&text);
    return code;
}

static int print_created(struct cli *cli, const char *token, enum role role, struct instant expires)
{
    char until[INSTANT_TEXT_SIZE] = "";

    if (instant_is_set(expires))
        instant_format(expires, until);
    const struct member members[] = {{"name", cli->args.operands[0]},
                                     {"role", role_name(role)},
                                     {"token", token},
                                     {"expires_at", until}};
    if (cli->json)
        return print_json(cli, members, 4);
    out_format(&cli->out, "%s\n", token);
    if (cli->out.terminal)
        say_hint("this is shown only once: the file keeps a hash of it");
    return 0;
}

int cmd_token_create(struct cli *cli)
{
    struct instant expires;
    enum role role = ROLE_NONE;
    struct buf path;
    struct err err = {0};
    char token[TOKEN_SIZE];

    buf_init(&path, PATH_LEN_MAX);
    int code = read_role(cli, &role);
    if (code == 0)
        code = read_expiry(cli, &expires);
    if (code == 0)
        code = token_path(cli, true, &path);
    if (code == 0) {
        enum status status = tokens_create(buf_str(&path), slice_of(cli->args.operands[0]), role,
                                           expires, seams_real(), token, &err);
        code = status == STATUS_OK ? print_created(cli, token, role, expires)
                                   : say_error(exit_of(status), "%s", err.text);
    }
    buf_release(&path);
    return code;
}

/* ---- list -------------------------------------------------------------------------------------
 */

static int list_json(struct cli *cli, const struct token_entry *entries, size_t count)
{
    struct buf text;
    struct jsonw w;
    int code = 0;

    buf_init(&text, ANSWER_MAX);
    jsonw_init(&w, &text);
    jsonw_array(&w);
    for (size_t i = 0; i < count; i++) {
        jsonw_object(&w);
        jsonw_put_string(&w, "name", entries[i].name);
        jsonw_put_str(&w, "role", role_name(entries[i].role));
        jsonw_put_string(&w, "id", entries[i].id);
        jsonw_put_instant(&w, "created_at", entries[i].created_at);
        jsonw_put_instant(&w, "expires_at", entries[i].expires_at);
        jsonw_put_bool(&w, "expired", token_expired(&entries[i], cli->out.now));
        jsonw_object_end(&w);
    }
    jsonw_array_end(&w);
    if (buf_status(&text, NULL) == STATUS_OK)
        out_json(&cli->out, buf_slice(&text));
    else
        code = say_no_memory();
    buf_release(&text);
    return code;
}

/* time_cell is a time for a row; empty when it is not set. */
static struct slice time_cell(struct instant t, struct arena *arena)
{
    char text[INSTANT_TEXT_SIZE];

    if (!instant_is_set(t))
        return (struct slice){0};
    instant_format((struct instant){t.us - t.us % 1000000}, text);
    return arena_printf(arena, "%s", text);
}

static int list_table(struct cli *cli, const struct token_entry *entries, size_t count)
{
    static const struct grid_column columns[] = {
        {.name = "NAME", .cut = true}, {.name = "ROLE"},    {.name = "ID"},
        {.name = "CREATED"},           {.name = "EXPIRES"}, {.name = "STATE"}};
    struct grid *grid = grid_new(&cli->out, columns, 6);

    for (size_t i = 0; i < count; i++)
        grid_add(grid,
                 (struct slice[]){entries[i].name, slice_of(role_name(entries[i].role)),
                                  entries[i].id, time_cell(entries[i].created_at, &cli->arena),
                                  time_cell(entries[i].expires_at, &cli->arena),
                                  token_expired(&entries[i], cli->out.now) ? SLICE("expired")
                                                                           : SLICE("valid")});
    return grid_print(grid);
}

int cmd_token_list(struct cli *cli)
{
    struct token_entry *entries;
    size_t count;
    struct buf path;
    struct err err = {0};

    buf_init(&path, PATH_LEN_MAX);
    int code = token_path(cli, false, &path);
    enum status status = STATUS_OK;
    if (code == 0)
        status = tokens_list(buf_str(&path), &cli->arena, &entries, &count, &err);
    if (status != STATUS_OK)
        code = say_error(exit_of(status), "%s", err.text);
    else if (code == 0 && cli->json)
        code = list_json(cli, entries, count);
    else if (code == 0 && count == 0 && cli->out.terminal)
        out_str(&cli->out, "No tokens.\n");
    else if (code == 0)
        code = list_table(cli, entries, count);
    buf_release(&path);
    return code;
}

/* ---- revoke -----------------------------------------------------------------------------------
 */

int cmd_token_revoke(struct cli *cli)
{
    struct slice name = slice_of(cli->args.operands[0]);
    struct buf path;
    struct err err = {0};

    buf_init(&path, PATH_LEN_MAX);
    int code = token_path(cli, false, &path);
    enum status status = code == 0 ? tokens_revoke(buf_str(&path), name, &err) : STATUS_OK;
    if (status != STATUS_OK) {
        code = say_error(exit_of(status), "%s", err.text);
    } else if (code == 0 && cli->json) {
        const struct member members[] = {{"status", "revoked"}, {"name", cli->args.operands[0]}};
        code = print_json(cli, members, 2);
    } else if (code == 0) {
        out_str(&cli->out, "revoked ");
        out_clean(&cli->out, name);
        out_str(&cli->out, "\n");
    }
    buf_release(&path);
    return code;
}
