/* natsflags: see natsflags.h. */
#include "cli/natsflags.h"

#include <stdlib.h>

#include "cli/say.h"
#include "cli/secret.h"

/* given is what a flag says; `*code` is set when that is nothing. */
static const char *given(const struct cli *cli, const char *flag, int *code)
{
    const char *value = args_value(&cli->args, flag);
    if (value && !*value && *code == 0)
        *code = say_error(CLI_USAGE, "--%s: must not be empty", flag);
    return value;
}

/* read_credentials takes one kind of credentials from the flags or, when they have none, from the
 * configuration. */
static int read_credentials(struct cli *cli, struct natslink_options *out)
{
    int code = 0;
    struct config_nats nats = {.creds = given(cli, "nats-creds", &code),
                               .nkey = given(cli, "nats-nkey", &code),
                               .user = given(cli, "nats-user", &code),
                               .password_file = given(cli, "nats-password-file", &code),
                               .token_file = given(cli, "nats-token-file", &code)};
    const char *password = "--nats-password-file", *token = "--nats-token-file";
    if (code != 0)
        return code;
    if (!nats.creds && !nats.nkey && !nats.user && !nats.password_file && !nats.token_file) {
        nats = cli->config.nats;
        password = "nats.password_file";
        token = "nats.token_file";
    }
    out->creds = nats.creds;
    out->nkey = nats.nkey;
    out->user = nats.user;
    if (nats.password_file)
        code = secret_file(cli, password, nats.password_file, &out->password);
    if (code == 0 && nats.token_file)
        code = secret_file(cli, token, nats.token_file, &out->token);
    return code;
}

int natsflags_read(struct cli *cli, bool environment, struct natslink_options *out)
{
    const struct config_nats *config = &cli->config.nats;
    const char *elsewhere = environment ? getenv("NATS_URL") : NULL;
    int code = 0;
    const char *url = given(cli, "nats", &code), *ca = given(cli, "nats-tls-ca", &code);
    const char *cert = given(cli, "nats-tls-cert", &code), *key = given(cli, "nats-tls-key", &code);

    *out = (struct natslink_options){.url = url ? url : config->url,
                                     .tls_ca = ca ? ca : config->tls_ca,
                                     .tls_cert = cert ? cert : config->tls_cert,
                                     .tls_key = key ? key : config->tls_key};
    if (!out->url && elsewhere && *elsewhere)
        out->url = elsewhere;
    return code ? code : read_credentials(cli, out);
}
