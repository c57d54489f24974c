#include "bridge/natsserver.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_ROUNDS 1500 /* of 10 ms */
#define PORT_FIRST 16384
#define PORT_COUNT 16384

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "natsserver: %s\n", what);
    fflush(NULL);
    _exit(99);
}

static struct sockaddr_in address_of(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static bool is_free(uint16_t port)
{
    struct sockaddr_in address = address_of(port);
    int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = bind(probe, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(probe);
    return bound;
}

/* free_port is one where nobody listens, and that no outgoing connection is given: those are above.
 * One of them could be taken in the server's absence, by who tries to reach it. */
static uint16_t free_port(void)
{
    uint16_t port;
    do {
        if (getrandom(&port, sizeof(port), 0) != (ssize_t)sizeof(port))
            give_up("there is no randomness");
        port = (uint16_t)(PORT_FIRST + port % PORT_COUNT);
    } while (!is_free(port));
    return port;
}

static bool answers(const struct natsserver *server)
{
    struct sockaddr_in address = address_of(server->port);
    char greeting[5] = "";
    int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = connect(probe, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                 recv(probe, greeting, 4, MSG_WAITALL) == 4 && strcmp(greeting, "INFO") == 0;
    close(probe);
    return there;
}

void natsserver_init(struct natsserver *server)
{
    *server = (struct natsserver){.port = free_port()};
    snprintf(server->directory, sizeof(server->directory), "/tmp/lazaret-nats-XXXXXX");
    if (!mkdtemp(server->directory))
        give_up("there is no place for its streams");
    snprintf(server->url, sizeof(server->url), "nats://127.0.0.1:%u", server->port);
    natsserver_configure(server, "");
}

static void config_path(const struct natsserver *server, char out[96])
{
    snprintf(out, 96, "%s/nats.conf", server->directory);
}

void natsserver_configure(const struct natsserver *server, const char *config)
{
    char path[96];
    config_path(server, path);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "server_name: test\n%s\n", config) < 0 || fclose(file) != 0)
        give_up("its configuration cannot be written");
}

static _Noreturn void become(const struct natsserver *server)
{
    char port[8], config[96];
    int log = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(port, sizeof(port), "%u", server->port);
    config_path(server, config);
    dup2(log, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execlp("nats-server", "nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd",
           server->directory, "-c", config, (char *)NULL);
    execl("/usr/sbin/nats-server", "nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd",
          server->directory, "-c", config, (char *)NULL);
    _exit(127);
}

void natsserver_start(struct natsserver *server)
{
    server->pid = fork();
    if (server->pid == 0)
        become(server);
    for (int i = 0; i < START_ROUNDS; i++) {
        if (answers(server))
            return;
        if (waitpid(server->pid, NULL, WNOHANG) != 0)
            give_up("nats-server does not start: is it installed?");
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    give_up("nats-server does not answer");
}

void natsserver_stop(struct natsserver *server, int signal_number)
{
    if (server->pid == 0)
        return;
    kill(server->pid, signal_number);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void natsserver_release(struct natsserver *server)
{
    char command[128];
    natsserver_stop(server, SIGKILL);
    snprintf(command, sizeof(command), "rm -rf '%s'", server->directory);
    if (system(command) != 0)
        give_up("its directory cannot be removed");
}
