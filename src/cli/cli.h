/* cli: what every command is given. */
#ifndef LAZARET_CLI_CLI_H
#define LAZARET_CLI_CLI_H

#include <stdbool.h>

#include "base/arena.h"
#include "cli/args.h"
#include "cli/config.h"
#include "cli/out.h"

struct connection;

/* The exit codes of INTERFACES 1. */
enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,  /* the work failed: an audit that does not verify */
    CLI_USAGE = 2,   /* wrong usage or bad input */
    CLI_MISSING = 3, /* not found */
    CLI_REFUSED = 4, /* policy, authorization, conflict, or nobody said yes */
    CLI_STORE = 5    /* the store or the server cannot be reached, read or written */
};

struct cli {
    struct args args;
    struct arena arena;            /* lives as long as the command */
    struct out out;                /* standard output */
    struct config config;          /* of --config */
    struct connection *connection; /* opened by the first request */
    const char *server;            /* --server; NULL: a data directory */
    const char *token;             /* --token; NULL: none */
    const char *actor;             /* who asks: stands in the evidence */
    uint64_t receipts;             /* what is known of receipts.json: see receiptfile_sync */
    bool json;                     /* -o json */
    bool yes;                      /* --yes */
    bool interactive;              /* somebody is there to be asked */
};

/* The commands.  Each returns an exit code and has said why when it is not 0. */
int cmd_push(struct cli *cli);
int cmd_map(struct cli *cli);
int cmd_work(struct cli *cli);
int cmd_send(struct cli *cli);
int cmd_recover(struct cli *cli);
int cmd_list(struct cli *cli);
int cmd_show(struct cli *cli);
int cmd_analyze(struct cli *cli);
int cmd_groups(struct cli *cli);
int cmd_stats(struct cli *cli);
int cmd_retry(struct cli *cli);
int cmd_discard(struct cli *cli);
int cmd_rollback(struct cli *cli);
int cmd_escalate(struct cli *cli);
int cmd_restore(struct cli *cli);
int cmd_export(struct cli *cli);
int cmd_import(struct cli *cli);
int cmd_publish(struct cli *cli);
int cmd_purge(struct cli *cli);
int cmd_clear(struct cli *cli);
int cmd_policy_list(struct cli *cli);
int cmd_policy_show(struct cli *cli);
int cmd_policy_set(struct cli *cli);
int cmd_policy_explain(struct cli *cli);
int cmd_policy_simulate(struct cli *cli);
int cmd_audit_show(struct cli *cli);
int cmd_audit_verify(struct cli *cli);
int cmd_audit_export(struct cli *cli);
int cmd_token_create(struct cli *cli);
int cmd_token_list(struct cli *cli);
int cmd_token_revoke(struct cli *cli);
int cmd_serve(struct cli *cli);
int cmd_status(struct cli *cli);
int cmd_help(struct cli *cli);
int cmd_completion(struct cli *cli);
int cmd_man(struct cli *cli);

#endif
