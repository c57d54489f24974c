/* supervisor: sd_notify(3) and sd_listen_fds(3), which say how to speak both without a library. */
#include "api/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

#define PASSED_FIRST 3 /* descriptors are passed from here on: SD_LISTEN_FDS_START */

void supervisor_notify(const char *state)
{
    const char *place = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = place ? strlen(place) : 0;

    if (len == 0)
        return;
    if ((place[0] != '/' && place[0] != '@') || len >= sizeof address.sun_path) {
        log_line(LOG_WARN, "$NOTIFY_SOCKET is not a socket that can be told: %s", place);
        return;
    }
    memcpy(address.sun_path, place, len);
    if (place[0] == '@')
        address.sun_path[0] = '\0';

    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    /* The length ends with the name: an abstract one would have the rest as a part of it. */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    ssize_t sent = fd < 0 ? -1
                          : sendto(fd, state, strlen(state), MSG_NOSIGNAL,
                                   (const struct sockaddr *)&address, size);
    if (sent < 0)
        log_line(LOG_WARN, "cannot tell the supervisor at %s: %s", place, strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* read_number reads a whole decimal number from 0 to INT_MAX. */
static bool read_number(const char *text, long *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' && *out <= INT_MAX;
}

/* passed_count is how many descriptors were passed to this process. */
static enum status passed_count(long *count, struct err *err)
{
    const char *pid_text = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
    long pid;

    *count = 0;
    if (!pid_text || !count_text)
        return STATUS_OK;
    if (!read_number(pid_text, &pid))
        return err_set(err, STATUS_INVALID, "$LISTEN_PID is no process: %s", pid_text);
    if (pid != (long)getpid())
        return STATUS_OK; /* They were for the process that started this one. */
    if (!read_number(count_text, count) || *count > INT_MAX - PASSED_FIRST)
        return err_set(err, STATUS_INVALID, "$LISTEN_FDS is no number: %s", count_text);
    return STATUS_OK;
}

static bool socket_option_is(int fd, int option, int wanted)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
}

enum status supervisor_socket(int *fd, struct err *err)
{
    long count;
    enum status status = passed_count(&count, err);

    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    *fd = -1;
    if (status != STATUS_OK || count == 0)
        return status;
    for (long other = PASSED_FIRST; other < PASSED_FIRST + count; other++)
        if (fcntl((int)other, F_SETFD, FD_CLOEXEC) != 0)
            return err_set(err, STATUS_INVALID, "descriptor %ld was passed but is not open: %s",
                           other, strerror(errno));
    if (!socket_option_is(PASSED_FIRST, SO_TYPE, SOCK_STREAM) ||
        !socket_option_is(PASSED_FIRST, SO_ACCEPTCONN, 1))
        return err_set(err, STATUS_INVALID,
                       "descriptor %d was passed but is not a listening stream socket",
                       PASSED_FIRST);
    if (count > 1)
        log_line(LOG_WARN, "%ld sockets were passed; only the first is served", count);
    *fd = PASSED_FIRST;
    return STATUS_OK;
}
