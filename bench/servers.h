/* servers: what Lazaret can work on: PostgreSQL and nats-server, each started on a free port of
 * this machine with its files in the scratch directory. */
#ifndef LAZARET_BENCH_SERVERS_H
#define LAZARET_BENCH_SERVERS_H

#include "process.h"

#define URL_SIZE 256

/* postgres_start starts a cluster that syncs every commit.  Run by root it becomes the user
 * `postgres`, as the server refuses to be root.  False, having said why, when it cannot be. */
bool postgres_start(struct process *process);

/* postgres_url is the address of a database of it. */
void postgres_url(const struct process *postgres, const char *database, char out[URL_SIZE]);

/* postgres_do carries out statements; postgres_number gives the one number that a query answers
 * with. */
void postgres_do(const struct process *postgres, const char *database, const char *statements);
double postgres_number(const struct process *postgres, const char *database, const char *query);

/* nats_start starts nats-server with JetStream. */
bool nats_start(struct process *process);
void nats_url(const struct process *nats, char out[URL_SIZE]);

#endif
