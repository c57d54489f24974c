/* swarm: see swarm.h. */
#include "cli/swarm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "cli/natsflags.h"
#include "cli/say.h"
#include "cli/secret.h"
#include "engine/station.h"

#define SCAN_INTERVAL_DEFAULT span_seconds(300)
#define SCAN_INTERVAL_MIN span_ms(100)
#define NAME_MAX_BYTES 100

/* ---- reading --------------------------------------------------------------------------------- */

/* name_default is the host and the data directory: no other server has both, and this one has them
 * again after a restart, and with them the duties that it had. */
static int name_default(struct cli *cli, char *out, size_t size)
{
    char host[HOST_NAME_MAX + 1] = "host", real[PATH_MAX];
    struct err err = {0};
    struct buf path;
    gethostname(host, sizeof(host) - 1);
    buf_init(&path, 4000);
    enum status status = station_data_dir(args_value(&cli->args, "data"), &path, &err);
    if (!status) {
        const char *resolved = realpath(buf_str(&path), real);
        uint64_t digest = hash64(slice_of(resolved ? resolved : buf_str(&path)));
        snprintf(out, size, "%.64s-%08x", host, (unsigned)(digest & 0xffffffffu));
    }
    buf_release(&path);
    return status ? say_error(CLI_USAGE, "%s", err.text) : 0;
}

static int read_name(struct cli *cli, struct swarm *out)
{
    const char *given = args_value(&cli->args, "server-name");
    const char *name = given ? given : cli->config.server_name;
    if (!name)
        return name_default(cli, out->name, sizeof(out->name));
    struct err err = {0};
    if (envelope_name_check("--server-name", slice_of(name), NAME_MAX_BYTES, &err))
        return say_error(CLI_USAGE, "%s", err.text);
    snprintf(out->name, sizeof(out->name), "%s", name);
    return 0;
}

static int read_interval(struct cli *cli, struct swarm *out)
{
    out->scan_interval = cli->config.scan_interval;
    if (!out->scan_interval.us && out->nats.url)
        out->scan_interval = SCAN_INTERVAL_DEFAULT;
    if (!args_has(&cli->args, "scan-interval"))
        return 0;
    int code = args_span(&cli->args, "scan-interval", &out->scan_interval);
    if (!code && out->scan_interval.us != 0 && out->scan_interval.us < SCAN_INTERVAL_MIN.us)
        code = say_error(CLI_USAGE, "--scan-interval: at least 100ms, or 0 for never");
    return code;
}

/* read_webhook reads where alerts go; NULL in *out: nowhere. */
static int read_webhook(struct cli *cli, const char *flag, const char *configured, const char **out)
{
    char name[40];
    const char *given = args_value(&cli->args, flag);
    snprintf(name, sizeof(name), "--%s", flag);
    *out = NULL;
    if (!given && !configured)
        return 0;
    return secret_value(cli, name, given ? given : configured, out);
}

static int read_alerts(struct cli *cli, struct swarm *out)
{
    const char *slack, *webhook;
    struct err err = {0};
    int code = read_webhook(cli, "slack-webhook", cli->config.slack_webhook, &slack);
    if (!code)
        code = read_webhook(cli, "alert-webhook", cli->config.alert_webhook, &webhook);
    if (code || (!slack && !webhook))
        return code;
    if (alerts_targets_add(&cli->config.targets, slack, NULL, &cli->arena, &err))
        return say_error(CLI_USAGE, "--slack-webhook: %s", err.text);
    if (alerts_targets_add(&cli->config.targets, NULL, webhook, &cli->arena, &err))
        return say_error(CLI_USAGE, "--alert-webhook: %s", err.text);
    out->slack = slack ? ALERTS_TARGET_SLACK : NULL;
    out->webhook = webhook ? ALERTS_TARGET_WEBHOOK : NULL;
    return 0;
}

/* read_nats reads where NATS is.  Credentials without an address would do nothing. */
static int read_nats(struct cli *cli, struct swarm *out)
{
    int code = natsflags_read(cli, false, &out->nats);
    const struct natslink_options *nats = &out->nats;
    bool more = nats->creds || nats->nkey || nats->user || nats->password || nats->token ||
                nats->tls_ca || nats->tls_cert || nats->tls_key;
    if (!code && !nats->url && more)
        code = say_error(CLI_USAGE, "--nats: is missing; the other flags of NATS go with it");
    return code;
}

int swarm_read(struct cli *cli, bool shared, struct swarm *out)
{
    pthread_mutex_init(&out->lock, NULL);
    out->shared = shared;
    int code = read_nats(cli, out);
    if (!code)
        code = read_name(cli, out);
    if (!code)
        code = read_interval(cli, out);
    return code ? code : read_alerts(cli, out);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool publish(void *ctx, struct slice subject, struct slice body)
{
    return natsoffice_publish(ctx, subject, body);
}

static enum status open_steward(struct cli *cli, struct engine *engine, struct swarm *swarm,
                                struct err *err)
{
    struct steward *steward;
    struct steward_config config = {.engine = engine,
                                    .server = swarm->name,
                                    .scan_interval = swarm->scan_interval,
                                    .alerts = {.slack = swarm->slack,
                                               .webhook = swarm->webhook,
                                               .publish = swarm->office ? publish : NULL,
                                               .publish_ctx = swarm->office,
                                               .redaction = cli->config.redaction},
                                    .has_inbox = swarm->shared};
    enum status status = steward_open(&config, &steward, err);
    if (status)
        return status;
    pthread_mutex_lock(&swarm->lock);
    swarm->steward = steward;
    pthread_mutex_unlock(&swarm->lock);
    return STATUS_OK;
}

int swarm_open(struct cli *cli, struct engine *engine, struct swarm *swarm)
{
    struct err err = {0};
    struct natsoffice *office = NULL;
    struct natsoffice_config config = {
        .engine = engine, .nats = swarm->nats, .server_name = swarm->name};
    enum status status = swarm->nats.url ? natsoffice_open(&config, &office, &err) : STATUS_OK;
    pthread_mutex_lock(&swarm->lock);
    swarm->office = office;
    pthread_mutex_unlock(&swarm->lock);
    if (!status)
        status = open_steward(cli, engine, swarm, &err);
    int code = status == STATUS_INVALID   ? CLI_USAGE
               : status == STATUS_REFUSED ? CLI_REFUSED
                                          : CLI_STORE;
    return status ? say_error(code, "%s", err.text) : 0;
}

void swarm_drain(struct swarm *swarm)
{
    if (swarm->office)
        natsoffice_drain(swarm->office);
}

void swarm_close(struct swarm *swarm)
{
    struct steward *steward = swarm->steward;
    struct natsoffice *office = swarm->office;
    if (!steward && !office)
        return;
    pthread_mutex_lock(&swarm->lock);
    swarm->steward = NULL;
    swarm->office = NULL;
    pthread_mutex_unlock(&swarm->lock);
    steward_close(steward); /* first: it says alerts by way of the office */
    natsoffice_close(office);
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* struct sample: one number of a family with one label. */
struct sample {
    const char *value;
    uint64_t number;
};

static void expose_all(struct expose *expose, const char *label, const struct sample *samples,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        expose_int(expose, (int64_t)samples[i].number,
                   EXPOSE_LABELS({label, slice_of(samples[i].value)}));
}
#define EXPOSE_ALL(expose, label, ...)                                                             \
    expose_all((expose), (label), (const struct sample[]){__VA_ARGS__},                            \
               sizeof((const struct sample[]){__VA_ARGS__}) / sizeof(struct sample))

static void expose_nats(struct expose *expose, struct natsoffice *office)
{
    struct natsoffice_counts counts;
    natsoffice_counts(office, &counts);
    expose_family(expose, "lazaret_nats_connected", "gauge", "1 while NATS is connected.");
    expose_int(expose, counts.connected, EXPOSE_PLAIN);
    expose_family(expose, "lazaret_nats_reconnects_total", "counter",
                  "How often a connection to NATS was made again.");
    expose_int(expose, (int64_t)counts.reconnects, EXPOSE_PLAIN);
    expose_family(expose, "lazaret_nats_letters_total", "counter",
                  "Letters that came in from NATS or went out to it, by what became of them.");
    EXPOSE_ALL(expose, "outcome", {"ingested", counts.ingested}, {"malformed", counts.malformed},
               {"duplicate", counts.duplicates}, {"replayed", counts.replayed},
               {"refused", counts.refused}, {"announced", counts.announced},
               {"skipped", counts.announce_skipped});
}

static void expose_steward(struct expose *expose, const struct swarm *swarm)
{
    struct steward_counts counts;
    steward_counts(swarm->steward, &counts);
    if (swarm->scan_interval.us) {
        expose_family(expose, "lazaret_scanner_scans_total", "counter",
                      "How often this server looked for letters that a machine may replay.");
        expose_int(expose, (int64_t)counts.scans, EXPOSE_PLAIN);
        expose_family(expose, "lazaret_scanner_letters_total", "counter",
                      "Letters that the scanner brought back, or was refused.");
        EXPOSE_ALL(expose, "outcome", {"replayed", counts.replayed}, {"refused", counts.refused});
        expose_family(expose, "lazaret_scanner_left", "gauge",
                      "Letters that the last scan left for people: they came back too often.");
        expose_int(expose, (int64_t)counts.left, EXPOSE_PLAIN);
    }
    if (swarm->slack || swarm->webhook || swarm->nats.url) {
        expose_family(expose, "lazaret_alerts_total", "counter",
                      "Messages about dead letters that were handed over, by where they go.");
        EXPOSE_ALL(expose, "to", {"slack", counts.alerts_slack}, {"webhook", counts.alerts_webhook},
                   {"nats", counts.alerts_nats});
        expose_family(
            expose, "lazaret_alerts_failed_total", "counter",
            "Messages about dead letters for NATS that could not be kept until it was back.");
        expose_int(expose, (int64_t)counts.alerts_failed, EXPOSE_PLAIN);
        expose_family(expose, "lazaret_alert_letters_total", "counter",
                      "Letters that alerts told of at once or in a digest, or not at all.");
        EXPOSE_ALL(expose, "how", {"first", counts.alerts_firsts},
                   {"digested", counts.alerts_digested}, {"suppressed", counts.alerts_suppressed});
    }
    if (swarm->shared) {
        expose_family(expose, "lazaret_inbox_rows_total", "counter",
                      "Rows that other programs wrote into swarm_dlq, by what became of them.");
        EXPOSE_ALL(expose, "outcome", {"imported", counts.inbox_imported},
                   {"malformed", counts.inbox_malformed}, {"settled", counts.inbox_settled},
                   {"ignored", counts.inbox_ignored});
    }
}

void swarm_expose(void *ctx, struct expose *expose)
{
    struct swarm *swarm = ctx;
    pthread_mutex_lock(&swarm->lock);
    if (swarm->office)
        expose_nats(expose, swarm->office);
    if (swarm->steward)
        expose_steward(expose, swarm);
    pthread_mutex_unlock(&swarm->lock);
}
