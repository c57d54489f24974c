/* role: see role.h. */
#include "api/role.h"

#include "base/status.h"

static const char *const names[ROLE_COUNT] = {
    [ROLE_NONE] = "none",         [ROLE_VIEWER] = "viewer",     [ROLE_WORKER] = "worker",
    [ROLE_OPERATOR] = "operator", [ROLE_REVIEWER] = "reviewer", [ROLE_ADMIN] = "admin",
};

const char *role_name(enum role role)
{
    BUG_ON((unsigned)role >= ROLE_COUNT);
    return names[role];
}

bool role_from_name(struct slice name, enum role *out)
{
    for (int role = ROLE_VIEWER; role < ROLE_COUNT; role++) {
        if (!slice_is(name, names[role]))
            continue;
        *out = (enum role)role;
        return true;
    }
    return false;
}
