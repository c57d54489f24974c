/* gate: who asks, as what, and whether the request may come in at all.
 *
 *     over the owner's socket   whoever can open it is the owner: admin
 *     with a token              the token's role; the actor is the token's name
 *     without tokens            admin, but only from this machine and under this machine's name
 *
 * A page of another site must not act through somebody's browser: a request that a browser marks as
 * another site's is refused, and a body must be declared as JSON, which such a page cannot do
 * without asking first.  Without tokens the Host must be a loopback name as well, so that no
 * foreign name that resolves to this machine opens the door. */
#ifndef LAZARET_API_GATE_H
#define LAZARET_API_GATE_H

#include "api/http.h"
#include "api/tokens.h"

#define GATE_ACTOR_MAX 200

struct visit {
    enum role role;
    char actor[GATE_ACTOR_MAX + 1];
    bool proven; /* the actor is known by a token */
};

/* struct refusal: why a request may not come in.  `status` 0: it may. */
struct refusal {
    int status; /* an HTTP status */
    const char *code;
    const char *sentence;
};

/* gate_enter looks at the head of a request. */
struct refusal gate_enter(struct tokens *tokens, const struct http_exchange *exchange,
                          struct visit *visit);

/* gate_still says whether the asker may still do what it began: its token has not been taken back,
 * and has the same role.  For what takes long. */
bool gate_still(struct tokens *tokens, const struct http_exchange *exchange,
                const struct visit *visit);

#endif
