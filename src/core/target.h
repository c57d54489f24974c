/* target: where a server may deliver to: what its operator configured, and nothing else.
 *
 * A job names a target, or an address whose host is on the allow-list.  An entry of the list is
 *
 *     hooks.example.org          a host, any port          *.example.org     any host below it
 *     hooks.example.org:8443     a host and a port         10.1.0.0/16       a network
 *     127.0.0.1, ::1             an address                127.0.0.1:9000, [::1]:9000
 *
 * Names say which hosts may be named.  Networks (an address is one) say which numeric addresses may
 * be named, and which addresses that are not public may be connected to: what a name resolves to
 * must be public, or in a listed network, as a name that somebody else controls must not lead back
 * inside.
 *
 * A configured target is the operator's own word: it goes wherever its host resolves to.  That it
 * follows redirects changes nothing, as these are followed only where scheme, host and port stay
 * the same. */
#ifndef LAZARET_CORE_TARGET_H
#define LAZARET_CORE_TARGET_H

#include "base/arena.h"
#include "base/json.h"
#include "base/time.h"
#include "core/address.h"
#include "core/url.h"

enum delivery_kind { DELIVERY_HTTP, DELIVERY_MCP, DELIVERY_SLACK };

const char *delivery_kind_name(enum delivery_kind kind);
bool delivery_kind_from_name(struct slice name, enum delivery_kind *out);

#define TARGET_TOOL_DEFAULT "asyncgate.complete"
#define TARGET_NAME_MAX 64

/* struct target: an endpoint.  `{0}` but for `url` is the default. */
struct target {
    struct slice name; /* as it is configured; empty: it was named by its address */
    struct slice url;  /* in its plain form (url_print), with "/mcp" for MCP */
    enum delivery_kind kind;
    struct slice tool;     /* of MCP; empty: by the status of the receipt */
    struct slice token;    /* Authorization: Bearer; empty: none */
    struct slice secret;   /* the key of the signature, as bytes; empty: it is not signed */
    struct slice *headers; /* more of them: "Name: value" */
    size_t header_count;
    struct slice policy; /* the policy of its deliveries; empty: "receipts" */
    bool redirects;      /* they are followed, where scheme, host and port stay the same */
    bool trusted;        /* it is configured: it may connect to any address */
    bool private_path;   /* what follows the host in its address is a secret, and is not shown;
                            always so of Slack */
    struct span connect; /* time to connect; 0: the default */
    struct span whole;   /* time for a whole request; 0: the default */
    unsigned parallel;   /* deliveries to its host at once; 0: the default */
};

/* struct allowance: one entry of the allow-list. */
struct allowance {
    struct slice host; /* a name; empty: it is a network */
    bool below;        /* every host below it: "*.example.org" */
    struct network network;
    uint16_t port; /* 0: any */
};

/* struct targets: what is configured.  `{0}` lets nothing through. */
struct targets {
    const struct target *list;
    size_t count;
    const struct allowance *allow;
    size_t allow_count;
    struct span connect, whole; /* of a target that was named by its address; 0: the default */
};

/* allowance_parse reads an entry of the allow-list.  STATUS_INVALID says what is wrong. */
enum status allowance_parse(struct slice text, struct allowance *out, struct err *err);

/* target_name_check says whether a text may be the name of a target: 1 to 64 letters, digits, "-",
 * "_" and ".", the first a letter or a digit, and no "://" in it. */
enum status target_name_check(struct slice name, struct err *err);

/* target_of_url fills a target for an address: its plain form, in `arena`.  For MCP the path ends
 * in
 * "/mcp".  STATUS_INVALID says what is wrong with the address, without repeating it. */
enum status target_of_url(struct slice url, enum delivery_kind kind, struct arena *arena,
                          struct target *out, struct err *err);

/* targets_resolve says what the `target` of a job stands for: an address when there is "://" in it,
 * else a name.  A name that is not configured is STATUS_NOT_FOUND, and the sentence says which are;
 * an address that is none is STATUS_INVALID; one that is not allowed is STATUS_REFUSED, and the
 * sentence says what to configure.  `kind` is for an address; a configured target has its own.  On
 * error `out` is untouched. */
enum status targets_resolve(const struct targets *targets, struct slice text,
                            enum delivery_kind kind, struct arena *arena, struct target *out,
                            struct err *err);

/* targets_may_connect says whether a delivery to `target`, which targets_resolve gave, may connect
 * to an address and a port.  STATUS_REFUSED names the address, its range and what to configure. */
enum status targets_may_connect(const struct targets *targets, const struct target *target,
                                struct address address, uint16_t port, struct err *err);

#endif
