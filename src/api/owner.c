/* owner.c: taking a data directory and listening for the others; see owner.h. */
#include "api/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/receipts.h"
#include "base/log.h"
#include "base/mem.h"

#define SOCKET_NAME "lazaret.sock"
#define SOCKET_BACKLOG 128
#define SOCKET_BODY_MAX ((size_t)64 << 20) /* a letter that is imported may be large */

struct owner {
    struct station *station;
    struct api api;
    struct hub *hub;       /* NULL: no streams */
    struct server *server; /* on the socket; NULL: it could not be made */
    struct buf socket;     /* its path */
    struct receipts *receipts;
};

enum status owner_socket_path(const char *data, struct buf *out, struct err *err)
{
    enum status status = station_data_dir(data, out, err);
    buf_add_str(out, "/" SOCKET_NAME);
    return status ? status : buf_status(out, err);
}

/* name_socket writes the address of the socket.  A path that is too long for one is reached through
 * the directory's descriptor, which is kept in *directory. */
static bool name_socket(const char *path, struct sockaddr_un *out, int *directory)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len < sizeof(out->sun_path)) {
        memcpy(out->sun_path, path, len);
        return true;
    }
    struct buf parent;
    buf_init(&parent, 4096);
    buf_add(&parent, path, len - strlen("/" SOCKET_NAME));
    *directory = open(buf_str(&parent), O_PATH | O_DIRECTORY | O_CLOEXEC);
    buf_release(&parent);
    snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d/" SOCKET_NAME, *directory);
    return *directory >= 0;
}

/* bind_socket makes the socket, for this user alone.  What is there is of an owner that died: the
 * lock is held. */
static int bind_socket(const char *path)
{
    struct sockaddr_un address;
    int directory = -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    unlink(path);
    /* The mode of the descriptor becomes the mode of the path: nobody else ever sees it open. */
    bool bound = name_socket(path, &address, &directory) && fchmod(fd, 0600) == 0 &&
                 bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
                 listen(fd, SOCKET_BACKLOG) == 0;
    int error = errno;
    if (directory >= 0)
        close(directory);
    if (bound)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

/* open_server listens for the others. */
static void open_server(struct owner *owner)
{
    struct err err = {0};
    buf_addf(&owner->socket, "%s/" SOCKET_NAME, station_path(owner->station));
    const char *path = buf_str(&owner->socket);
    int fd = bind_socket(path);
    if (fd < 0) {
        log_line(LOG_WARN, "%s cannot be made (%s): other processes wait for this one to end", path,
                 strerror(errno));
        buf_clear(&owner->socket);
        return;
    }
    struct server_config config = {.api = &owner->api,
                                   .hub = owner->hub,
                                   .listen_fd = fd,
                                   .local = true,
                                   .limits = {.body_max = SOCKET_BODY_MAX}};
    if (server_start(&config, &owner->server, &err))
        log_line(LOG_WARN, "%s: %s", path, err.text);
}

enum status owner_open(const struct owner_config *config, struct owner **out, struct err *err)
{
    struct owner *owner = mem_zalloc(sizeof(*owner));
    if (!owner)
        return err_no_memory(err);
    buf_init(&owner->socket, 4096);
    enum status status = station_open(&config->station, &owner->station, err);
    if (!status && !(owner->receipts = receipts_new()))
        status = err_no_memory(err);
    if (!status && config->streams)
        status = hub_open(station_engine(owner->station), config->redaction, &owner->hub, err);
    if (status) {
        owner_close(owner);
        return status;
    }
    owner->api = (struct api){.engine = station_engine(owner->station),
                              .redaction = config->redaction,
                              .meter = config->meter,
                              .receipts = owner->receipts,
                              .targets = config->targets,
                              .no_metrics = config->no_metrics,
                              .outside = config->outside,
                              .outside_ctx = config->outside_ctx};
    if (!config->no_socket)
        open_server(owner);
    *out = owner;
    return STATUS_OK;
}

void owner_close(struct owner *owner)
{
    if (!owner)
        return;
    if (owner->socket.len)
        unlink(buf_str(&owner->socket));
    server_stop(owner->server);
    hub_close(owner->hub);
    station_close(owner->station);
    receipts_free(owner->receipts);
    buf_release(&owner->socket);
    mem_free(owner);
}

struct api *owner_api(struct owner *owner)
{
    return &owner->api;
}

struct hub *owner_hub(struct owner *owner)
{
    return owner->hub;
}

struct engine *owner_engine(struct owner *owner)
{
    return owner->api.engine;
}

struct station *owner_station(struct owner *owner)
{
    return owner->station;
}
