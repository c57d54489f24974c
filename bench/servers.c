#include "servers.h"

#include <errno.h>
#include <glob.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

/* ---- PostgreSQL: starting ---------------------------------------------------------------------
 */

/* Everything is synced, as PostgreSQL does by itself; said here so that nobody has to look it up.
 * The log is large enough that no checkpoint begins in the middle of a run, and vacuum looks often
 * enough to have its say in a bench of minutes. */
static const char *const settings[] = {
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "shared_buffers=256MB",
    "max_wal_size=8GB",
    "checkpoint_timeout=30min",
    "autovacuum=on",
    "autovacuum_naptime=10s",
    "listen_addresses=127.0.0.1",
    "max_connections=100",
    "unix_socket_directories=",
    "logging_collector=off",
};
#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))
#define ARGS_MAX (2 * SETTING_COUNT + 8)

/* find_program looks for one of PostgreSQL's programs, of the newest version: Debian keeps them out
 * of the way. */
static bool find_program(const char *name, char out[PROCESS_PATH_SIZE])
{
    char pattern[128];
    glob_t found = {0};
    snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", name);
    const char *newest = NULL;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (!newest || strverscmp(found.gl_pathv[i], newest) > 0)
                newest = found.gl_pathv[i];
    if (newest)
        snprintf(out, PROCESS_PATH_SIZE, "%s", newest);
    bool any = newest != NULL;
    globfree(&found);
    return any || process_find(name, out);
}

/* can_enter says whether a user may go through all directories on the way to `path`. */
static bool can_enter(const char *path)
{
    char part[PROCESS_PATH_SIZE];
    struct stat info;
    snprintf(part, sizeof(part), "%s", path);
    for (char *slash; (slash = strrchr(part, '/')) && slash != part;) {
        *slash = '\0';
        if (stat(part, &info) != 0 || !(info.st_mode & S_IXOTH)) {
            printf("  the user postgres cannot enter %s (set TMPDIR): not measured\n", part);
            return false;
        }
    }
    return true;
}

/* become_postgres has the process run as another user when this one is root. */
static bool become_postgres(struct process *process)
{
    if (geteuid() != 0)
        return true;
    const struct passwd *user = getpwnam("postgres");
    if (!user) {
        printf("  there is no user postgres, and PostgreSQL refuses to be root: not measured\n");
        return false;
    }
    scratch_open_to_others();
    if (!can_enter(process->directory))
        return false;
    process->uid = user->pw_uid;
    process->gid = user->pw_gid;
    if (chown(process->directory, user->pw_uid, user->pw_gid) != 0)
        bench_die("%s: %s", process->directory, strerror(errno));
    return true;
}

/* make_cluster runs initdb in the directory that the server will have. */
static void make_cluster(const struct process *server, char *initdb, char *files)
{
    struct process maker;
    struct process_usage usage;
    char flags[][24] = {"-D", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"};
    process_init(&maker, "initdb");
    maker.uid = server->uid;
    maker.gid = server->gid;
    if (maker.uid && chown(maker.directory, maker.uid, maker.gid) != 0)
        bench_die("%s: %s", maker.directory, strerror(errno));
    process_spawn(&maker, (char *[]){initdb, flags[0], files, flags[1], flags[2], flags[3],
                                     flags[4], flags[5], flags[6], flags[7], flags[8], NULL});
    process_wait(&maker, &usage);
}

bool postgres_start(struct process *process)
{
    char initdb[PROCESS_PATH_SIZE], server[PROCESS_PATH_SIZE], files[PROCESS_PATH_SIZE + 8];
    char port[24], copies[SETTING_COUNT][40], where[] = "-D", set[] = "-c";
    char *args[ARGS_MAX] = {server, where, files};
    size_t count = 3;
    *process = (struct process){.in = -1, .out = -1};
    if (!find_program("initdb", initdb) || !find_program("postgres", server))
        return false;
    process_init(process, "postgres");
    if (!become_postgres(process)) {
        scratch_folder_remove(process->name);
        return false;
    }
    snprintf(files, sizeof(files), "%s/db", process->directory);
    make_cluster(process, initdb, files);
    process->port = process_free_port();
    process->stop_signal = SIGINT; /* ends connections, too */
    snprintf(port, sizeof(port), "port=%d", process->port);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        snprintf(copies[i], sizeof(copies[i]), "%s", settings[i]);
        args[count++] = set;
        args[count++] = copies[i];
    }
    args[count++] = set;
    args[count++] = port;
    process_spawn(process, args);
    process_await_port(process);
    return true;
}

void postgres_url(const struct process *postgres, const char *database, char out[URL_SIZE])
{
    snprintf(out, URL_SIZE, "postgres://postgres@127.0.0.1:%d/%s", postgres->port, database);
}

/* ---- PostgreSQL: asking -----------------------------------------------------------------------
 */

#define STARTING_MS 15000

/* postgres_connect waits while the server is still starting up. */
static PGconn *postgres_connect(const struct process *postgres, const char *database)
{
    char url[URL_SIZE];
    postgres_url(postgres, database, url);
    for (int waited = 0;; waited += 20) {
        PGconn *link = PQconnectdb(url);
        if (PQstatus(link) == CONNECTION_OK)
            return link;
        if (waited >= STARTING_MS || !process_alive(postgres))
            bench_die("PostgreSQL: %s", PQerrorMessage(link));
        PQfinish(link);
        usleep(20000);
    }
}

void postgres_do(const struct process *postgres, const char *database, const char *statements)
{
    PGconn *link = postgres_connect(postgres, database);
    PGresult *result = PQexec(link, statements);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        bench_die("PostgreSQL: %s", PQerrorMessage(link));
    PQclear(result);
    PQfinish(link);
}

double postgres_number(const struct process *postgres, const char *database, const char *query)
{
    PGconn *link = postgres_connect(postgres, database);
    PGresult *result = PQexec(link, query);
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        bench_die("PostgreSQL: %s", PQerrorMessage(link));
    double number = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    PQfinish(link);
    return number;
}

/* ---- NATS -------------------------------------------------------------------------------------
 */

bool nats_start(struct process *process)
{
    char path[PROCESS_PATH_SIZE], port[16];
    char a[] = "-a", host[] = "127.0.0.1", p[] = "-p", js[] = "-js", sd[] = "-sd";
    *process = (struct process){.in = -1, .out = -1};
    if (!process_find("nats-server", path))
        return false;
    process_init(process, "nats");
    process->port = process_free_port();
    snprintf(port, sizeof(port), "%d", process->port);
    process_spawn(process, (char *[]){path, a, host, p, port, js, sd, process->directory, NULL});
    process_await_port(process);
    return true;
}

void nats_url(const struct process *nats, char out[URL_SIZE])
{
    snprintf(out, URL_SIZE, "nats://127.0.0.1:%d", nats->port);
}
