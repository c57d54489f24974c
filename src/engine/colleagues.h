/* colleagues: the workers of other servers that share the store. */
#ifndef LAZARET_ENGINE_COLLEAGUES_H
#define LAZARET_ENGINE_COLLEAGUES_H

#include "engine/internal.h"

/* struct colleagues: what their workers say of themselves, in an arena. */
struct colleagues {
    struct worker_claim *claims;
    size_t count;
};

/* colleagues_wanted: it is time to write down who asks here. */
bool colleagues_wanted(const struct engine *engine);

/* colleagues_note writes it, inside the transaction. */
enum status colleagues_note(struct engine *engine, struct err *err);

/* colleagues_read reads what the other servers wrote. */
enum status colleagues_read(struct engine *engine, struct arena *arena, struct colleagues *out,
                            struct err *err);

#endif
