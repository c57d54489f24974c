/* halt: the signals that stop a run, as something that the loop waits for. */
#ifndef LAZARET_CREW_HALT_H
#define LAZARET_CREW_HALT_H

#include <signal.h>

#include "crew/loop.h"

/* struct halt: `{.watch = {.fd = -1}}` is not open. */
struct halt {
    struct loop *loop;
    struct loop_watch watch;
    void (*asked)(struct halt *halt, int count); /* for the `count`th time, from 1 */
    int count;
};

/* halt_signals is the set of those signals: SIGINT, SIGTERM and SIGHUP, without those that whoever
 * started us has us ignore (nohup, a shell's job in the background). */
void halt_signals(sigset_t *out);

/* halt_open waits for them; they must be blocked in every thread. */
enum status halt_open(struct halt *halt, struct loop *loop,
                      void (*asked)(struct halt *halt, int count), struct err *err);
void halt_close(struct halt *halt); /* one that is not open is fine */

#endif
