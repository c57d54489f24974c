/* main: from words to a command and from its answer to an exit code. */
#include <fcntl.h>
#include <locale.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/connection.h"
#include "cli/endpoint.h"
#include "cli/help.h"
#include "cli/say.h"

/* default_actor is "human:" and the person's name. */
static const char *default_actor(struct arena *arena)
{
    const char *user = getenv("USER");
    if (!user || !*user) {
        const struct passwd *entry = getpwuid(getuid());
        user = entry ? entry->pw_name : NULL;
    }
    if (user)
        return arena_printf(arena, "human:%s", user).ptr;
    return arena_printf(arena, "human:uid-%ld", (long)getuid()).ptr;
}

/* common_value is what a flag of every command says; NULL: nothing, or the command has a flag of
 * its own by that name. */
static const char *common_value(const struct args *args, const char *name)
{
    for (const struct cli_flag *flag = args->command->flags; flag->name; flag++)
        if (strcmp(flag->name, name) == 0)
            return NULL;
    return args_value(args, name);
}

/* check_actor refuses what could not stand in one line of evidence, or in a header. */
static int check_actor(const char *actor)
{
    size_t len = strlen(actor);

    if (len == 0)
        return say_error(CLI_USAGE, "--actor: must not be empty");
    if (!json_utf8_valid(slice_of(actor)))
        return say_error(CLI_USAGE, "--actor: is not UTF-8");
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)actor[i] < ' ' || actor[i] == '\x7f')
            return say_error(CLI_USAGE, "--actor: must not have control characters");
    if (actor[0] == ' ' || actor[len - 1] == ' ')
        return say_error(CLI_USAGE, "--actor: must not begin or end with a space");
    return 0;
}

/* environment is a variable's value; NULL when it is not set or empty. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* choose_server decides between a server and a data directory.  What is said on the command line
 * goes before what the environment says. */
static int choose_server(struct cli *cli)
{
    const char *data = args_value(&cli->args, "data");
    const char *server = args_value(&cli->args, "server");
    const char *token = common_value(&cli->args, "token");

    if (data && !*data)
        return say_error(CLI_USAGE, "--data: must not be empty");
    if (server && !*server)
        return say_error(CLI_USAGE, "--server: must not be empty");
    if (server && data)
        return say_error(CLI_USAGE, "--server and --data: give one of them");
    if (server && cli->args.command->local)
        return say_error(CLI_USAGE,
                         "\"%s\" works on a data directory itself: it takes --data, not --server",
                         cli->args.command->name);
    if (!server && !data && !cli->args.command->local)
        server = environment("LAZARET_URL");
    cli->server = server;
    cli->token = token ? token : environment("LAZARET_TOKEN");
    return 0;
}

static int prepare(struct cli *cli)
{
    const char *output = args_value(&cli->args, "output");
    const char *config = args_value(&cli->args, "config");
    const char *actor = common_value(&cli->args, "actor");
    struct err err = {0};

    cli->json = output && strcmp(output, "json") == 0;
    cli->yes = args_has(&cli->args, "yes");
    cli->interactive = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
    cli->actor = actor ? actor : default_actor(&cli->arena);
    if (!cli->actor)
        return say_no_memory();
    int code = check_actor(cli->actor);
    if (code == 0)
        code = choose_server(cli);
    if (code != 0)
        return code;
    config_init(&cli->config);
    if (config && config_read(config, &cli->arena, &cli->config, &err) != STATUS_OK)
        return say_error(CLI_USAGE, "%s", err.text);
    return 0;
}

/* explain prints help for whoever asked, or on standard error for who did not know to. */
static int explain(struct cli *cli, bool asked)
{
    struct out out;

    out_init(&out, asked ? stdout : stderr, args_has(&cli->args, "no-color"));
    if (cli->args.command)
        help_command(&out, cli->args.command);
    else
        help_overview(&out);
    return asked ? 0 : CLI_USAGE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    int code = args_parse(argc, argv, &cli->arena, &cli->args);
    if (code != 0)
        return code;
    out_init(&cli->out, stdout, args_has(&cli->args, "no-color"));
    if (cli->args.version && !cli->args.help) {
        out_format(&cli->out, "lazaret %s\n", LAZARET_VERSION);
        return 0;
    }
    if (cli->args.help)
        return explain(cli, true);
    if (!cli->args.command || !cli->args.command->run)
        return explain(cli, false);
    code = prepare(cli);
    if (code != 0)
        return code;
    /* What is purged must not stand in the file afterwards, as if somebody had added it. */
    if (cli->args.command->purges)
        endpoint_mirror(cli);
    code = cli->args.command->run(cli);
    if (cli->args.command->letters)
        endpoint_mirror(cli);
    return code;
}

/* guard_descriptors fills standard descriptors that are closed with ones that fail: a file of the
 * store must never become somebody's standard output. */
static bool guard_descriptors(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDWR};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    struct cli cli = {.out = {.file = stdout}};

    if (!guard_descriptors())
        return CLI_STORE;
    /* Only the character set: numbers and times are the same everywhere. */
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    log_set(LOG_ERROR, NULL, NULL);
    int code = run(&cli, argc, argv);
    connection_close(cli.connection);
    int written = out_finish(&cli.out);
    arena_release(&cli.arena);
    return code != 0 ? code : written;
}
