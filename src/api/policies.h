/* policies: finding a policy by name, for whoever shows or tries one. */
#ifndef LAZARET_API_POLICIES_H
#define LAZARET_API_POLICIES_H

#include "api/call.h"
#include "core/policy.h"

/* policies_find is the stored policy of that name, else the preset; it lives in the call's arena.
 * STATUS_NOT_FOUND names those that there are. */
enum status policies_find(struct call *call, struct slice name, struct policy *out);

#endif
