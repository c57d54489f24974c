/* config: the file of --config, YAML or JSON.
 *
 *     limits:
 *       live_jobs_max: 1000000     refuse new work past this many live jobs
 *     retention:                   purge what has ended after so many days; 0 keeps it for good
 *       done_days: 30
 *       recovered_days: 90
 *       discarded_days: 90
 *     lock_wait_seconds: 10        wait so long for another owner of the data directory
 *
 * What only `serve` reads:
 *
 *     listen: 127.0.0.1:8700       where the API is
 *     tls:
 *       certificate: PATH          PEM, the chain included
 *       key: PATH
 *     tokens: PATH                 the file of `lazaret token`
 *     access_log: PATH             one JSON line for each request; "-" is standard error
 *     redact:                      JSON pointers: masked for whoever is below reviewer
 *       - /inputs/card
 *     http:
 *       body_max_bytes: 4194304
 *       head_max_bytes: 8192
 *       connections_max: 4096
 *       connections_per_address: 0 any number
 *       head_seconds: 15           for a whole head, from its first byte
 *       idle_seconds: 75           between requests
 *       body_grace_seconds: 20     before the rate of a body matters
 *       bytes_per_second_min: 1024 of a body or an answer after that
 *       threads: 2                 network threads; when nothing is said the program chooses
 *       drain_seconds: 30          how long what was accepted may take after SIGTERM
 *     deliveries:
 *       parallel: 1000             under way at once
 *       parallel_per_host: 32
 *       connect_seconds: 10        to connect
 *       request_seconds: 30        for a whole request
 *       receipts_file: PATH        where receipts are that could not be delivered
 *       allow:                     hosts, addresses and networks that a job may name (target.h)
 *         - hooks.example.org
 *
 *     store: postgres://…          or sqlite:PATH; what many servers share
 *     postgres:
 *       pooled: false              a pooler stands between, in transaction mode
 *     server_name: a               what this server is called among those of one store
 *     scanner:
 *       interval_seconds: 300      between two looks for letters that a machine may replay
 *     alerts:
 *       slack_webhook: URL         or @PATH, a file with it
 *       webhook: URL               likewise
 *
 * What `serve` and `dlq publish` read:
 *
 *     nats:
 *       url: nats://127.0.0.1:4222 or tls://…; several with commas between
 *       creds: PATH                credentials of one kind: a file of JWT and seed,
 *       nkey: PATH                 the seed of an nkey,
 *       user: NAME                 a user
 *       password_file: PATH        with a password,
 *       token_file: PATH           or a token
 *       tls_ca: PATH               PEM: the authorities to trust
 *       tls_cert: PATH             PEM: what to show
 *       tls_key: PATH
 *
 * What `serve` and `send` read:
 *
 *     targets:
 *       asyncgate:                 the name that jobs use
 *         url: https://asyncgate.example.org
 *         kind: mcp                or http
 *         tool: asyncgate.complete of mcp; when nothing is said by the status of the receipt
 *         token_file: PATH         sent as Authorization: Bearer; or token_env: NAME
 *         secret_file: PATH        signs in the form of Standard Webhooks; or secret_env: NAME
 *         headers: {X-Team: a}
 *         policy: receipts
 *         follow_redirects: false  those that keep scheme, host and port
 *         connect_seconds: 10      these three: when nothing is said those of `deliveries`
 *         request_seconds: 30
 *         parallel: 32
 */
#ifndef LAZARET_CLI_CONFIG_H
#define LAZARET_CLI_CONFIG_H

#include <stdint.h>

#include "api/http.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/time.h"
#include "core/redact.h"
#include "core/target.h"

#define CONFIG_LOCK_WAIT_MS 10000 /* when nothing is said */
#define CONFIG_DRAIN_SECONDS 30   /* likewise */

struct target_config; /* config_targets.c: where a target's token and secret are */

/* struct config_nats: where NATS is, and who asks.  NULL: nothing is said. */
struct config_nats {
    const char *url;
    const char *creds, *nkey, *user, *password_file, *token_file;
    const char *tls_ca, *tls_cert, *tls_key;
};

struct config {
    const char *path;      /* of the file that was read; NULL: none */
    int64_t live_jobs_max; /* 0: the engine's default */
    struct span keep_done, keep_recovered, keep_discarded; /* 0: for good */
    uint32_t lock_wait_ms;

    /* What only `serve` reads.  A text is NULL when nothing is said. */
    const char *listen; /* HOST:PORT, as server_listen takes it */
    const char *tokens;
    const char *access_log;
    const char *tls_certificate, *tls_key; /* paths: both, or neither */
    const struct redaction *redaction;     /* NULL: nothing is masked */
    struct http_limits http;               /* 0: the default of http.h */
    int64_t http_threads;                  /* 0: the program chooses */
    struct span drain;                     /* how long a drain may take */
    const char *store;                     /* sqlite:PATH or postgres://... */
    bool postgres_pooled;                  /* through a pooler in transaction mode */
    const char *server_name;
    struct span scan_interval;                 /* 0: nothing is said */
    const char *slack_webhook, *alert_webhook; /* a URL, or "@" and a file that has it */
    struct config_nats nats;                   /* also for `dlq publish` */

    /* Deliveries.  0: the default of bridge/wire.h. */
    unsigned deliveries_parallel, deliveries_per_host;
    struct span deliveries_connect, deliveries_request;
    const char *receipts_file; /* NULL: DIR/dlq/receipts.json */
    struct targets targets;    /* without tokens and secrets until config_targets_load */
    const struct target_config *target_configs; /* one for each of targets.list */
};

/* config_init makes the configuration of nobody having said anything. */
void config_init(struct config *config);

/* config_read reads a file over what `config` has; texts and rules are in `arena`.  An unknown key,
 * a wrong type and a value out of range are errors that name the file and the key: `config` is then
 * untouched. */
enum status config_read(const char *path, struct arena *arena, struct config *config,
                        struct err *err);

#endif
