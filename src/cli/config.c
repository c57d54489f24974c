/* config: a table of keys, so that what is understood can be read in one place. */
#include "cli/config.h"

#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/yaml.h"
#include "cli/config_keys.h"
#include "cli/config_targets.h"
#include "cli/file.h"

#define CONFIG_FILE_MAX (256 << 10)
#define REDACT_MAX 1000 /* rules */

static config_own read_redact;

static const struct config_key keys[] = {
#define OWN(member, read) offsetof(struct config, member), read
#define AT(member) OWN(member, NULL)
    {"limits", "live_jobs_max", KIND_COUNT, 0, 1e9, AT(live_jobs_max)},
    {"retention", "done_days", KIND_DAYS, 0, 36500, AT(keep_done)},
    {"retention", "recovered_days", KIND_DAYS, 0, 36500, AT(keep_recovered)},
    {"retention", "discarded_days", KIND_DAYS, 0, 36500, AT(keep_discarded)},
    {NULL, "lock_wait_seconds", KIND_SECONDS_MS, 0, 86400, AT(lock_wait_ms)},
    {NULL, "listen", KIND_ADDRESS, 0, 0, AT(listen)},
    {NULL, "tokens", KIND_TEXT, 0, 0, AT(tokens)},
    {NULL, "access_log", KIND_TEXT, 0, 0, AT(access_log)},
    {NULL, "redact", KIND_OWN, 0, 0, OWN(redaction, read_redact)},
    {"tls", "certificate", KIND_TEXT, 0, 0, AT(tls_certificate)},
    {"tls", "key", KIND_TEXT, 0, 0, AT(tls_key)},
    {"http", "body_max_bytes", KIND_SIZE, 1024, 1 << 30, AT(http.body_max)},
    {"http", "head_max_bytes", KIND_SIZE, 1024, 1 << 20, AT(http.head_max)},
    {"http", "connections_max", KIND_UNSIGNED, 1, 1e6, AT(http.connections_max)},
    {"http", "connections_per_address", KIND_UNSIGNED, 0, 1e6, AT(http.address_max)},
    {"http", "head_seconds", KIND_SECONDS, 0.01, 86400, AT(http.head_within)},
    {"http", "idle_seconds", KIND_SECONDS, 0.01, 86400, AT(http.idle_within)},
    {"http", "body_grace_seconds", KIND_SECONDS, 0.01, 86400, AT(http.body_grace)},
    {"http", "bytes_per_second_min", KIND_SIZE, 1, 1e9, AT(http.rate_min)},
    {"http", "threads", KIND_COUNT, 1, 256, AT(http_threads)},
    {"http", "drain_seconds", KIND_SECONDS, 0, 86400, AT(drain)},
    {"deliveries", "parallel", KIND_UNSIGNED, 1, 10000, AT(deliveries_parallel)},
    {"deliveries", "parallel_per_host", KIND_UNSIGNED, 1, 10000, AT(deliveries_per_host)},
    {"deliveries", "connect_seconds", KIND_SECONDS, 0.01, 86400, AT(deliveries_connect)},
    {"deliveries", "request_seconds", KIND_SECONDS, 0.01, 86400, AT(deliveries_request)},
    {"deliveries", "receipts_file", KIND_TEXT, 0, 0, AT(receipts_file)},
    {"deliveries", "allow", KIND_OWN, 0, 0, OWN(targets, config_allow_read)},
    {NULL, "store", KIND_LINE, 0, 0, AT(store)},
    {"postgres", "pooled", KIND_FLAG, 0, 0, AT(postgres_pooled)},
    {NULL, "server_name", KIND_LINE, 0, 0, AT(server_name)},
    {"scanner", "interval_seconds", KIND_SECONDS, 0.1, 86400, AT(scan_interval)},
    {"alerts", "slack_webhook", KIND_LINE, 0, 0, AT(slack_webhook)},
    {"alerts", "webhook", KIND_LINE, 0, 0, AT(alert_webhook)},
    {"nats", "url", KIND_LINE, 0, 0, AT(nats.url)},
    {"nats", "creds", KIND_TEXT, 0, 0, AT(nats.creds)},
    {"nats", "nkey", KIND_TEXT, 0, 0, AT(nats.nkey)},
    {"nats", "user", KIND_LINE, 0, 0, AT(nats.user)},
    {"nats", "password_file", KIND_TEXT, 0, 0, AT(nats.password_file)},
    {"nats", "token_file", KIND_TEXT, 0, 0, AT(nats.token_file)},
    {"nats", "tls_ca", KIND_TEXT, 0, 0, AT(nats.tls_ca)},
    {"nats", "tls_cert", KIND_TEXT, 0, 0, AT(nats.tls_cert)},
    {"nats", "tls_key", KIND_TEXT, 0, 0, AT(nats.tls_key)},
    {NULL, "targets", KIND_OWN, 0, 0, 0, config_targets_read}, /* the whole struct */
#undef AT
#undef OWN
};
static const struct config_table table = {keys, sizeof keys / sizeof *keys};

void config_init(struct config *config)
{
    *config = (struct config){.lock_wait_ms = CONFIG_LOCK_WAIT_MS,
                              .drain = span_seconds(CONFIG_DRAIN_SECONDS)};
}

/* read_redact reads JSON pointers into a const struct redaction *. */
static enum status read_redact(const char *place, struct json value, struct arena *arena,
                               void *member, struct err *err)
{
    struct json_iter iter;
    struct json entry;
    size_t count = 0, entries = value.type == JSON_ARRAY ? json_count(value) : 0;
    struct slice *pointers = arena_array(arena, entries + 1, sizeof *pointers);

    if (!pointers)
        return err_no_memory(err);
    if (value.type != JSON_ARRAY && value.type != JSON_NULL)
        return config_wrong(place, "a list of JSON pointers", value, err);
    if (entries > REDACT_MAX)
        return err_set(err, STATUS_INVALID, "%s: has %zu rules; at most %d are taken", place,
                       entries, REDACT_MAX);
    json_iter_init(&iter, value);
    while (json_next(&iter, NULL, &entry)) {
        if (entry.type != JSON_STRING)
            return config_wrong(place, "a list of JSON pointers", entry, err);
        pointers[count] = config_text(entry, arena);
        if (!pointers[count++].ptr)
            return err_no_memory(err);
    }
    enum status status =
        redaction_parse(pointers, count, arena, (const struct redaction **)member, err);
    if (status != STATUS_OK)
        err_prefix(err, "%s", place);
    return status;
}

/* says_nothing is true for a text of blank lines and comments: no document at all for YAML. */
static bool says_nothing(const char *text)
{
    while (*text) {
        text += strspn(text, " \t\r\n");
        if (*text && *text != '#')
            return false;
        text += strcspn(text, "\n");
    }
    return true;
}

/* read_text reads the text of a file, which is JSON or YAML. */
static enum status read_text(struct slice text, struct arena *arena, struct config *config,
                             struct err *err)
{
    struct buf json;
    struct json value;
    enum status status = STATUS_OK;

    buf_init(&json, CONFIG_FILE_MAX << 2);
    /* JSON is read as it is: YAML would take its tabs amiss. */
    if (json_parse(text, &value, NULL) != STATUS_OK) {
        status = yaml_to_json(text, &json, err);
        if (status == STATUS_OK)
            status = json_parse(buf_slice(&json), &value, err);
    }
    if (status == STATUS_OK)
        status = config_keys_read(&table, NULL, value, arena, config, err);
    if (status == STATUS_OK && !config->tls_certificate != !config->tls_key)
        status = err_set(err, STATUS_INVALID, "tls: needs both, a certificate and a key");
    if (status == STATUS_OK)
        status = config_targets_finish(config, arena, err);
    buf_release(&json);
    return status;
}

enum status config_read(const char *path, struct arena *arena, struct config *config,
                        struct err *err)
{
    struct config read = *config;
    struct buf text;
    enum status status;

    read.path = arena_dup(arena, slice_of(path)).ptr;
    if (!read.path)
        return err_no_memory(err);
    buf_init(&text, CONFIG_FILE_MAX);
    status = file_read(path, &text, err);
    if (status == STATUS_OK && !says_nothing(buf_str(&text))) {
        status = read_text(buf_slice(&text), arena, &read, err);
        if (status == STATUS_OK)
            *config = read;
        else
            err_prefix(err, "%s", path);
    }
    buf_release(&text);
    return status;
}
