/* role: what an asker may do.  Each role may do all that those before it may. */
#ifndef LAZARET_API_ROLE_H
#define LAZARET_API_ROLE_H

#include <stdbool.h>

#include "base/slice.h"

enum role {
    ROLE_NONE,     /* nobody: health and the API's description */
    ROLE_VIEWER,   /* look, with what the redaction rules name masked */
    ROLE_WORKER,   /* also push jobs, lease them and report results */
    ROLE_OPERATOR, /* also retry, discard, cancel, pause, edit policies */
    ROLE_REVIEWER, /* also letters that need review; sees everything */
    ROLE_ADMIN,    /* also purge and clear */
    ROLE_COUNT
};

const char *role_name(enum role role);

/* role_from_name finds "viewer" to "admin"; false for any other name. */
bool role_from_name(struct slice name, enum role *out);

#endif
