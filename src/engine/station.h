/* station: a data directory that this process owns: the lock, the store and the engine in it.
 *
 *     DIR/lazaret.lock   held (flock) by the owner; its process id and what it is are written in it
 *     DIR/lazaret.db     the embedded store
 *     DIR/shared-store   says that the store is not here but in a database that servers share:
 *                        whoever does not name it is not shown an empty store instead */
#ifndef LAZARET_ENGINE_STATION_H
#define LAZARET_ENGINE_STATION_H

#include "engine/engine.h"

struct station;

struct station_config {
    const char *data;            /* the directory, made when missing; NULL: $LAZARET_DATA, else
                                    $XDG_DATA_HOME/lazaret, else ~/.local/share/lazaret */
    const char *store;           /* the store's file; NULL: DIR/lazaret.db */
    const char *postgres;        /* a database instead: postgres://..., or NULL */
    bool postgres_pooled;        /* see struct postgres_config */
    uint32_t lock_wait_ms;       /* how long to wait for another owner to let go */
    const struct seams *seams;   /* NULL: the real world */
    struct engine_config engine; /* `store` and `seams` are filled in */
};

/* station_open takes the lock, opens the store and starts the engine.  STATUS_BUSY, with the
 * owner's process id in the sentence, when another process has the directory. */
enum status station_open(const struct station_config *config, struct station **out,
                         struct err *err);
void station_close(struct station *station); /* NULL is fine */

struct engine *station_engine(struct station *station);
const char *station_path(const struct station *station); /* the directory */

/* station_describe writes what the owner is, for those who find the directory in use: "serve on
 * http://127.0.0.1:8700". */
enum status station_describe(struct station *station, const char *what, struct err *err);

/* station_data_dir writes the directory that `data` (may be NULL) stands for. */
enum status station_data_dir(const char *data, struct buf *out, struct err *err);

/* station_make_dir makes a directory and those above it, unless they are there; its mode keeps
 * others out. */
enum status station_make_dir(const char *path, struct err *err);

#endif
