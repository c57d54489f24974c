/* halt: a signalfd. */
#include "crew/halt.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void arrived(struct loop_watch *watch, uint32_t events)
{
    struct halt *halt = (struct halt *)((char *)watch - offsetof(struct halt, watch));
    struct signalfd_siginfo info;
    (void)events;
    if (read(watch->fd, &info, sizeof(info)) == sizeof(info))
        halt->asked(halt, ++halt->count);
}

void halt_signals(sigset_t *out)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(out);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction action;
        /* One that is ignored would come all the same, as long as it is blocked. */
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(out, numbers[i]);
    }
}

enum status halt_open(struct halt *halt, struct loop *loop,
                      void (*asked)(struct halt *halt, int count), struct err *err)
{
    sigset_t set;
    halt_signals(&set);
    *halt = (struct halt){.loop = loop, .asked = asked, .watch = {.ready = arrived, .fd = -1}};
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return err_set(err, STATUS_LIMIT, "signals cannot be waited for: %s", strerror(errno));
    enum status status = loop_watch(loop, &halt->watch, fd, EPOLLIN, err);
    if (status)
        close(fd);
    return status;
}

void halt_close(struct halt *halt)
{
    int fd = halt->watch.fd;
    if (fd < 0)
        return;
    loop_unwatch(halt->loop, &halt->watch);
    halt->watch.fd = -1;
    close(fd);
}
