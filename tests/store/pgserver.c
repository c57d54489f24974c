/* pgserver: pgserver.sh does what concerns processes and files; the rest are statements.
 *
 * `keep` of the script waits at the end of a pipe for this program to end, by whatever cause: so
 * that a test that crashes leaves neither a server nor a directory. */
#include "store/pgserver.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    char directory[64];
    uint16_t port;
    uint16_t pool_port;  /* 0: there is no pooler */
    const char *copying; /* how databases are copied */
    pid_t keeper;
    int keeper_pipe; /* closed when this program ends */
    unsigned databases;
    PGconn *admin; /* to the database postgres; NULL: not connected */
} server;

static _Noreturn void give_up(const char *what, const char *detail)
{
    fprintf(stderr, "pgserver: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    fflush(NULL);
    _exit(99);
}

/* script starts the script; its standard input is `input`, or nothing (-1). */
static pid_t script(int input, const char *verb, const char *a, const char *b)
{
    pid_t pid = fork();
    if (pid < 0)
        give_up("fork", NULL);
    if (pid > 0)
        return pid;
    setsid(); /* what ends this program's group is not to end the keeper */
    dup2(input >= 0 ? input : open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* what is said there is TAP */
    execl(PGSERVER_SCRIPT, PGSERVER_SCRIPT, verb, server.directory, a, b, (char *)NULL);
    _exit(127);
}

static int outcome(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run(const char *verb, const char *argument)
{
    return outcome(script(-1, verb, argument, NULL));
}

/* ---- ports ---------------------------------------------------------------------------------- */

uint16_t free_port(void)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint16_t port = 0;
        if (getrandom(&port, sizeof(port), 0) != sizeof(port))
            break;
        port = (uint16_t)(16384 + port % 16384); /* below those of outgoing connections */
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_free = !bind(probe, (struct sockaddr *)&address, sizeof(address));
        close(probe);
        if (is_free)
            return port;
    }
    give_up("there is no free port", NULL);
}

/* ---- its life ------------------------------------------------------------------------------- */

static void keeper_end(void)
{
    if (server.admin)
        PQfinish(server.admin);
    close(server.keeper_pipe);
    outcome(server.keeper);
}

static void keeper_start(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        give_up("pipe", NULL);
    server.keeper = script(ends[0], "keep", NULL, NULL);
    server.keeper_pipe = ends[1];
    close(ends[0]);
    atexit(keeper_end);
}

static bool up(void)
{
    char port[8];
    snprintf(port, sizeof(port), "%u", server.port);
    return run("start", port) == 0;
}

void pgserver_start(bool durable)
{
    if (server.port)
        return;
    server.copying = durable ? "wal_log" : "file_copy"; /* the faster one, without a sync */
    memcpy(server.directory, "/tmp/lazaret-pg-XXXXXX", sizeof("/tmp/lazaret-pg-XXXXXX"));
    if (!mkdtemp(server.directory))
        give_up("mkdtemp", NULL);
    keeper_start();
    if (run("create", durable ? "durable" : "fast"))
        give_up("the server's data could not be made", NULL);
    for (int tries = 0; tries < 5; tries++) { /* somebody may take the port before it does */
        server.port = free_port();
        if (up())
            return;
    }
    give_up("the server does not start", NULL);
}

void pgserver_down(bool fast)
{
    if (server.admin)
        PQfinish(server.admin);
    server.admin = NULL;
    if (run("stop", fast ? "fast" : "immediate"))
        give_up("the server does not stop", NULL);
}

void pgserver_up(void)
{
    if (!up())
        give_up("the server does not start again", NULL);
}

uint16_t pgserver_port(void)
{
    pgserver_start(false);
    return server.port;
}

const char *pgserver_directory(void)
{
    pgserver_start(false);
    return server.directory;
}

/* ---- statements ----------------------------------------------------------------------------- */

static void url_of(char url[PGSERVER_URL_MAX], uint16_t port, const char *database)
{
    snprintf(url, PGSERVER_URL_MAX, "postgres://postgres@127.0.0.1:%u/%s", port, database);
}

/* name_of is the database of a URL that url_of made. */
static const char *name_of(const char *url)
{
    return strrchr(url, '/') + 1;
}

static PGresult *execute(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        give_up(sql, PQerrorMessage(connection));
    return result;
}

static PGconn *connect_to(const char *url)
{
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) != CONNECTION_OK)
        give_up(url, PQerrorMessage(connection));
    PQclear(execute(connection, "SET client_min_messages = warning"));
    return connection;
}

/* administer runs a statement about a database. */
static PGresult *administer(const char *sql)
{
    char url[PGSERVER_URL_MAX];
    url_of(url, pgserver_port(), "postgres");
    if (!server.admin)
        server.admin = connect_to(url);
    return execute(server.admin, sql);
}

void pgserver_database(char url[PGSERVER_URL_MAX], const char *like)
{
    char name[32], sql[256];
    uint16_t port = pgserver_port();
    snprintf(name, sizeof(name), "d%u", ++server.databases);
    snprintf(sql, sizeof(sql), "CREATE DATABASE %s TEMPLATE %s STRATEGY %s", name,
             like ? name_of(like) : "template0", server.copying);
    PQclear(administer(sql));
    url_of(url, port, name);
}

void pgserver_pooled(char pooled[PGSERVER_URL_MAX], const char *url)
{
    for (int tries = 0; !server.pool_port && tries < 5; tries++) {
        char port[8], behind[8];
        uint16_t found = free_port();
        snprintf(port, sizeof(port), "%u", found);
        snprintf(behind, sizeof(behind), "%u", pgserver_port());
        if (outcome(script(-1, "pool", port, behind)) == 0)
            server.pool_port = found;
    }
    if (!server.pool_port)
        give_up("pgbouncer does not start", NULL);
    url_of(pooled, server.pool_port, name_of(url));
}

void pgserver_drop(const char *url)
{
    char sql[256];
    snprintf(sql, sizeof(sql), "DROP DATABASE %s WITH (FORCE)", name_of(url));
    PQclear(administer(sql));
}

int pgserver_disconnect(const char *url)
{
    char sql[256];
    snprintf(sql, sizeof(sql),
             "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '%s' "
             "AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
             name_of(url));
    PGresult *result = administer(sql);
    int count = PQntuples(result);
    PQclear(result);
    return count;
}

char *pgserver_sql(const char *url, const char *sql)
{
    PGconn *connection = connect_to(url);
    PGresult *result = execute(connection, sql);
    char *value = NULL;
    if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0))
        value = strdup(PQgetvalue(result, 0, 0));
    PQclear(result);
    PQfinish(connection);
    return value;
}
