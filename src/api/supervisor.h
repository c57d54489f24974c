/* supervisor: what systemd, or whoever speaks its two small protocols, is told and asked.
 *
 * Both protocols are stable, documented for reimplementation, and a few lines long: libsystemd and
 * what it links to would be a large thing to carry for them. */
#ifndef LAZARET_API_SUPERVISOR_H
#define LAZARET_API_SUPERVISOR_H

#include "base/status.h"

/* supervisor_notify sends a state such as "READY=1\nSTATUS=..." to $NOTIFY_SOCKET (a path, or an
 * abstract name that begins with "@").  Nothing happens when it is not set. */
void supervisor_notify(const char *state);

/* supervisor_socket takes the first listening socket that was passed ($LISTEN_FDS for $LISTEN_PID),
 * made close-on-exec; -1 when none was.  The variables are removed from the environment.  An error
 * when what was passed is not a listening stream socket. */
enum status supervisor_socket(int *fd, struct err *err);

#endif
