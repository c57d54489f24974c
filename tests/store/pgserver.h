/* pgserver: a PostgreSQL server for tests in C.
 *
 * There is one for each test program: started by the first call, on a free port of 127.0.0.1 and on
 * a Unix socket, with its data in a temporary directory; stopped by its process id and removed when
 * the program ends, however it ends.  Everything here ends the program with a sentence when it
 * fails: PostgreSQL that is not installed is no reason to pass.
 *
 *     char url[PGSERVER_URL_MAX];
 *     pgserver_database(url, NULL);
 *     store_postgres_open(&(struct postgres_config){.url = url, ...}, ...); */
#ifndef LAZARET_TESTS_STORE_PGSERVER_H
#define LAZARET_TESTS_STORE_PGSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PGSERVER_URL_MAX 128

/* pgserver_start starts it; `durable` has it sync what it commits, as a real one does.  The first
 * call decides; without one, nothing is synced. */
void pgserver_start(bool durable);

/* pgserver_database makes a database and gives its URL (as user postgres, over TCP).  It is empty,
 * or a copy of the database of URL `like`, to which nobody may be connected. */
void pgserver_database(char url[PGSERVER_URL_MAX], const char *like);

/* pgserver_pooled gives the URL of the same database behind a pgbouncer in transaction mode. */
void pgserver_pooled(char pooled[PGSERVER_URL_MAX], const char *url);

/* pgserver_drop removes a database, and ends the connections that are left to it. */
void pgserver_drop(const char *url);

/* pgserver_sql runs statements in a database, and returns the first value of the last answer: to be
 * freed; NULL when there is none. */
char *pgserver_sql(const char *url, const char *sql);

/* pgserver_disconnect ends all connections to a database, and returns how many there were. */
int pgserver_disconnect(const char *url);

/* The server goes away and comes back, at the same place: `fast` ends connections in order,
 * otherwise it is as if it had crashed. */
void pgserver_down(bool fast);
void pgserver_up(void);

uint16_t pgserver_port(void);
const char *pgserver_directory(void); /* of its socket */

/* free_port is a port of 127.0.0.1 where nobody listens, and that no outgoing connection gets. */
uint16_t free_port(void);

#endif
