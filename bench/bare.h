/* bare: the same rows as the engine writes, written by a plain loop over prepared statements.
 *
 * The loop knows everything in advance: ids and texts are made before the clock starts, hashes are
 * constants, nothing is parsed, checked, decided or indexed in memory.  It is what SQLite can do
 * on this machine with these tables. */
#ifndef LAZARET_BENCH_BARE_H
#define LAZARET_BENCH_BARE_H

#include "load.h"

struct bare;

/* bare_open makes a database with the store's own tables and settings. */
struct bare *bare_open(const char *path, const struct load *load);
void bare_close(struct bare *bare);

/* bare_push writes a job, its envelope and an event for each of a part of the load, `batch` jobs a
 * commit. */
struct outcome bare_push(struct bare *bare, struct part part, size_t batch);

/* bare_drain takes each job of a part through a lease (its envelope is read, the job is written
 * anew, an event is written) and to its end (the job is deleted, a finished row with its indexes
 * and an event are written): one commit for `batch` leases, one for their ends. */
struct outcome bare_drain(struct bare *bare, struct part part, size_t batch);

/* bare_scan_seconds is how long one connection takes to open the file and to read every column of
 * every job; *count is how many there are. */
double bare_scan_seconds(const char *path, size_t *count);

/* bare_row_bytes is the sum of the bytes of all rows in a database that nobody has open. */
double bare_row_bytes(const char *path);

#endif
