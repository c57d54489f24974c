/* serve: the server.
 *
 *     own the directory --> listen, deliver --> ready --> ... SIGTERM or SIGINT --> drain --> exit
 * 0
 *                                        `-- SIGHUP: the access log is opened anew
 *
 * Signals are blocked in every thread and waited for in this one. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/meter.h"
#include "api/owner.h"
#include "api/supervisor.h"
#include "base/log.h"
#include "bridge/office.h"
#include "bridge/receiptfile.h"
#include "cli/cli.h"
#include "cli/config_targets.h"
#include "cli/endpoint.h"
#include "cli/file.h"
#include "cli/runlink.h"
#include "cli/say.h"
#include "cli/swarm.h"
#include "core/delivery.h"
#include "crew/loop.h"

#define LISTEN_DEFAULT "127.0.0.1:8700"
#define PEM_MAX (1 << 20)
#define THREADS_MAX 4

/* struct serving: everything that `serve` opens, in the order of opening. */
struct serving {
    struct owner *owner;
    struct meter *meter;
    struct tokens *tokens;
    struct accesslog *accesslog;
    struct server *server;
    struct ownlink own; /* how the next two talk to the engine */
    struct link link;
    struct office *office;             /* makes the deliveries */
    struct receiptfile_keeper *keeper; /* of receipts.json */
    struct swarm swarm;                /* NATS, the scanner, alerts */
    char worker[160];                  /* who makes the deliveries */
    struct buf certificate, key;
    char url[SERVER_URL_SIZE];
};

/* value is what a flag says, else the configuration, else the default. */
static const char *value(const struct cli *cli, const char *flag, const char *configured,
                         const char *otherwise)
{
    const char *given = args_value(&cli->args, flag);
    return given ? given : configured ? configured : otherwise;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_postgres(const char *store)
{
    return store &&
           (strncmp(store, "postgres://", 11) == 0 || strncmp(store, "postgresql://", 13) == 0);
}

/* own takes the directory.  A process that ends soon is waited for; another server is not. */
static int own(struct cli *cli, struct serving *serving)
{
    const struct config *config = &cli->config;
    const char *store = value(cli, "store", config->store, NULL);
    bool shared = is_postgres(store);
    struct err err = {0};
    if (config_targets_load(&cli->config, &cli->arena, &err))
        return say_error(CLI_USAGE, "%s", err.text);
    if (store && !shared && (strncmp(store, "sqlite:", 7) != 0 || !store[7]))
        return say_error(CLI_USAGE,
                         "--store: must be sqlite:PATH or postgres://USER@HOST/DATABASE");
    if (!shared && (config->postgres_pooled || args_has(&cli->args, "postgres-pooled")))
        return say_error(CLI_USAGE,
                         "--postgres-pooled: goes with --store postgres://USER@HOST/DATABASE");
    int code = swarm_read(cli, shared, &serving->swarm);
    if (code)
        return code;
    serving->meter = meter_new();
    if (!serving->meter)
        return say_no_memory();
    struct owner_config owner = {
        .station = {.data = args_value(&cli->args, "data"),
                    .store = store && !shared ? store + 7 : NULL,
                    .postgres = shared ? store : NULL,
                    .postgres_pooled =
                        config->postgres_pooled || args_has(&cli->args, "postgres-pooled"),
                    .engine = {.server = slice_of(shared ? serving->swarm.name : ""),
                               .live_max = (size_t)config->live_jobs_max,
                               .retention = {.done = config->keep_done,
                                             .recovered = config->keep_recovered,
                                             .discarded = config->keep_discarded}}},
        .redaction = config->redaction,
        .meter = serving->meter,
        .targets = &config->targets,
        .no_metrics = args_has(&cli->args, "no-metrics"),
        .outside = swarm_expose,
        .outside_ctx = &serving->swarm,
        .streams = true};
    enum status status = owner_open(&owner, &serving->owner, &err);
    if (status == STATUS_BUSY && !strstr(err.text, "(serve")) {
        owner.station.lock_wait_ms = config->lock_wait_ms;
        status = owner_open(&owner, &serving->owner, &err);
    }
    return status ? say_error(status == STATUS_INVALID ? CLI_USAGE : CLI_STORE, "%s", err.text) : 0;
}

static int open_tokens(struct cli *cli, struct serving *serving)
{
    struct err err = {0};
    struct buf path;
    const char *file = value(cli, "tokens", cli->config.tokens, NULL);
    buf_init(&path, 4096);
    enum status status = STATUS_OK;
    if (file)
        buf_add_str(&path, file);
    else
        buf_addf(&path, "%s/tokens.json", station_path(owner_station(serving->owner)));
    status = tokens_open(buf_str(&path), seams_real(), &serving->tokens, &err);
    bool missing = !status && file && access(file, F_OK) != 0;
    buf_release(&path);
    if (missing)
        return say_error(CLI_USAGE,
                         "--tokens %s: there is no such file; make it with \"lazaret "
                         "token create NAME --role ROLE --tokens FILE\"",
                         file);
    return status ? say_error(CLI_USAGE, "%s", err.text) : 0;
}

static int read_pem(const char *flag, const char *path, struct buf *out)
{
    struct err err = {0};
    buf_init(out, PEM_MAX);
    if (!path || file_read(path, out, &err) == STATUS_OK)
        return 0;
    return say_error(CLI_USAGE, "--%s: %s", flag, err.text);
}

static int open_tls(struct cli *cli, struct serving *serving)
{
    const char *certificate = value(cli, "tls-cert", cli->config.tls_certificate, NULL);
    const char *key = value(cli, "tls-key", cli->config.tls_key, NULL);
    if (!certificate != !key)
        return say_error(CLI_USAGE, "--tls-cert and --tls-key: give both or neither");
    int code = read_pem("tls-cert", certificate, &serving->certificate);
    return code ? code : read_pem("tls-key", key, &serving->key);
}

static int open_accesslog(struct cli *cli, struct serving *serving)
{
    const char *path = value(cli, "access-log", cli->config.access_log, NULL);
    struct err err = {0};
    if (!path || accesslog_open(path, seams_real(), &serving->accesslog, &err) == STATUS_OK)
        return 0;
    return say_error(CLI_USAGE, "--access-log: %s", err.text);
}

/* listen_on opens the socket, or takes the one that a supervisor passed. */
static int listen_on(struct cli *cli, struct serving *serving, int *fd)
{
    const char *address = value(cli, "listen", cli->config.listen, LISTEN_DEFAULT);
    bool tls = serving->key.len > 0, loopback = false;
    struct err err = {0};
    enum status status = supervisor_socket(fd, &err);
    if (!status && *fd >= 0)
        server_describe(*fd, tls, serving->url, &loopback);
    else if (!status)
        status = server_listen(address, tls, fd, serving->url, &loopback, &err);
    if (status)
        return say_error(status == STATUS_INVALID ? CLI_USAGE : CLI_STORE, "%s", err.text);
    if (!loopback && !tokens_required(serving->tokens)) {
        close(*fd);
        say_error(CLI_REFUSED, "%s can be reached from other machines, and there are no tokens",
                  serving->url);
        say_hint("make one with \"lazaret token create NAME --role ROLE\", or listen on 127.0.0.1");
        return CLI_REFUSED;
    }
    if (!loopback && !tls)
        log_line(LOG_WARN, "tokens and payloads travel unencrypted: use --tls-cert and --tls-key, "
                           "or a proxy that does");
    return 0;
}

/* open_deliveries begins to deliver, and to keep the file of dead receipts. */
static int open_deliveries(struct cli *cli, struct serving *serving)
{
    const struct config *config = &cli->config;
    struct err err = {0};
    int code;
    const char *path = endpoint_receipts(cli, &code);
    if (!path)
        return code;
    /* Servers that share a store make deliveries side by side: each cuts off only its own. */
    snprintf(serving->worker, sizeof(serving->worker), "worker:%s%s%s", DELIVERY_QUEUE,
             serving->swarm.shared ? "@" : "", serving->swarm.shared ? serving->swarm.name : "");
    serving->own = (struct ownlink){owner_api(serving->owner), serving->worker};
    serving->link = runlink_own(&serving->own);
    struct office_config office = {.link = &serving->link,
                                   .targets = &config->targets,
                                   .worker_id = serving->worker + strlen("worker:"),
                                   .parallel = config->deliveries_parallel,
                                   .host_parallel = config->deliveries_per_host};
    enum status status = office_open(&office, &serving->office, &err);
    if (!status)
        status = receiptfile_keep(&serving->link, path, &serving->keeper, &err);
    return status ? say_error(CLI_STORE, "%s", err.text) : 0;
}

static unsigned network_threads(const struct config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (config->http_threads)
        return (unsigned)config->http_threads;
    return cores < 2 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (unsigned)cores;
}

static int start(struct cli *cli, struct serving *serving)
{
    struct err err = {0};
    int fd;
    int code = own(cli, serving);
    if (!code)
        code = open_tokens(cli, serving);
    if (!code)
        code = open_tls(cli, serving);
    if (!code)
        code = open_accesslog(cli, serving);
    if (!code)
        code = listen_on(cli, serving, &fd);
    if (code)
        return code;
    bool tls = serving->key.len > 0;
    struct server_config config = {.api = owner_api(serving->owner),
                                   .hub = owner_hub(serving->owner),
                                   .tokens = serving->tokens,
                                   .accesslog = serving->accesslog,
                                   .listen_fd = fd,
                                   .threads = network_threads(&cli->config),
                                   .limits = cli->config.http,
                                   .tls_certificate = tls ? buf_str(&serving->certificate) : NULL,
                                   .tls_key = tls ? buf_str(&serving->key) : NULL};
    char what[SERVER_URL_SIZE + 16];
    snprintf(what, sizeof(what), "serve on %s", serving->url);
    enum status status = server_start(&config, &serving->server, &err);
    if (!status)
        status = station_describe(owner_station(serving->owner), what, &err);
    if (status)
        return say_error(status == STATUS_INVALID ? CLI_USAGE : CLI_STORE, "%s", err.text);
    code = open_deliveries(cli, serving);
    return code ? code : swarm_open(cli, owner_engine(serving->owner), &serving->swarm);
}

static void stop(struct serving *serving)
{
    server_stop(serving->server);
    swarm_close(&serving->swarm);
    office_close(serving->office);
    receiptfile_release(serving->keeper);
    accesslog_close(serving->accesslog);
    owner_close(serving->owner);
    tokens_close(serving->tokens);
    meter_free(serving->meter);
    buf_release(&serving->certificate);
    buf_release(&serving->key);
}

/* ---- serving --------------------------------------------------------------------------------- */

/* raise_files lets the process have as many open files as it may. */
static void raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* wait_for_end returns when the server is to stop. */
static void wait_for_end(const sigset_t *set, struct serving *serving)
{
    int sig;
    while (sigwait(set, &sig) == 0 && sig == SIGHUP) {
        if (serving->accesslog)
            accesslog_reopen(serving->accesslog);
    }
}

int cmd_serve(struct cli *cli)
{
    struct serving serving = {0};
    sigset_t signals;
    log_set(LOG_INFO, NULL, NULL);
    raise_files();
    block_signals(&signals);
    int code = start(cli, &serving);
    if (!code) {
        char ready[SERVER_URL_SIZE + 40];
        out_format(&cli->out, "lazaret: ready on %s\n", serving.url);
        fflush(stdout);
        snprintf(ready, sizeof(ready), "READY=1\nSTATUS=ready on %s\n", serving.url);
        supervisor_notify(ready);
        wait_for_end(&signals, &serving);
        supervisor_notify("STOPPING=1\nSTATUS=finishing what was accepted\n");
        struct span began = loop_now();
        swarm_drain(&serving.swarm);
        server_drain(serving.server, cli->config.drain);
        struct span left = {cli->config.drain.us - (loop_now().us - began.us)};
        office_drain(serving.office, left.us > 0 ? left : (struct span){0});
    }
    stop(&serving);
    return code;
}
