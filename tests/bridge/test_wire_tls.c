/* test_wire_tls: whom TLS trusts, and what had left when it did not come about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge/shots.h"

static SSL_CTX *server; /* with a certificate that it has signed itself, for 127.0.0.1 */
static char authority[] = "/tmp/lazaret-wire-tls-XXXXXX";
static const char *reply; /* of the server; "": it closes instead */

/* ---- the server -------------------------------------------------------------------------------
 */

static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    X509V3_CTX context;

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *names =
        X509V3_EXT_conf_nid(NULL, &context, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(cert, names, -1);
    X509_EXTENSION_free(names);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    return cert;
}

static int make_server(void **state)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = make_certificate(key);
    int fd = mkstemp(authority);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    (void)state;

    if (!file || PEM_write_X509(file, cert) != 1 || fclose(file) != 0)
        return -1;
    server = SSL_CTX_new(TLS_server_method());
    if (SSL_CTX_use_certificate(server, cert) != 1 || SSL_CTX_use_PrivateKey(server, key) != 1)
        return -1;
    X509_free(cert);
    EVP_PKEY_free(key);
    return 0;
}

static int drop_server(void **state)
{
    (void)state;
    SSL_CTX_free(server);
    return unlink(authority);
}

/* greet_with_tls reads one request after the other, each in one piece, and replies. */
static void greet_with_tls(struct endpoint *endpoint, int fd)
{
    SSL *ssl = SSL_new(server);
    char text[4096];
    sigset_t broken_pipe;

    /* OpenSSL writes without MSG_NOSIGNAL.  In this thread only: the wire must not need it. */
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, NULL);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1)
        while (SSL_read(ssl, text, sizeof text) > 0) {
            pthread_mutex_lock(&endpoint->lock);
            endpoint->requests++;
            pthread_mutex_unlock(&endpoint->lock);
            if (!*reply || SSL_write(ssl, reply, (int)strlen(reply)) <= 0)
                break;
        }
    SSL_free(ssl);
}

/* ---- the tests --------------------------------------------------------------------------------
 */

struct vault {
    struct endpoint endpoint;
    struct range range;
    struct shot shot;
};

static void vault_open(struct vault *vault, const char *host, bool trusts, const char *replies)
{
    reply = replies;
    if (trusts)
        setenv("SSL_CERT_FILE", authority, 1);
    else
        unsetenv("SSL_CERT_FILE");
    endpoint_open(&vault->endpoint, NULL);
    endpoint_greet(&vault->endpoint, greet_with_tls);
    range_open(&vault->range, 0, 0);
    shot_init(&vault->shot, &vault->range, host, vault->endpoint.port, "/");
    snprintf(vault->shot.url, sizeof vault->shot.url, "https://%s:%u/", host, vault->endpoint.port);
}

static void vault_close(struct vault *vault)
{
    shot_release(&vault->shot);
    range_close(&vault->range);
    endpoint_close(&vault->endpoint);
}

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

static void a_certificate_of_an_authority_that_is_named_is_trusted(void **state)
{
    struct vault vault;
    (void)state;

    vault_open(&vault, "127.0.0.1", true, OK_REPLY);
    for (int i = 0; i < 3; i++) {
        shot_fire(&vault.shot);
        assert_string_equal(vault.shot.call.err.text, "");
        assert_int_equal(vault.shot.call.outcome, WIRE_ANSWERED);
        assert_int_equal(vault.shot.call.status, 200);
        assert_false(vault.shot.call.untrusted);
    }
    assert_int_equal(endpoint_connections(&vault.endpoint), 1);
    vault_close(&vault);
}

static void one_that_nobody_knows_or_that_is_for_another_host_is_not(void **state)
{
    (void)state;

    for (int i = 0; i < 2; i++) {
        struct vault vault;
        vault_open(&vault, i == 0 ? "127.0.0.1" : "127.0.0.2", i == 1, OK_REPLY);
        shot_fire(&vault.shot);
        assert_int_equal(vault.shot.call.outcome, WIRE_UNSENT);
        assert_true(vault.shot.call.untrusted);
        assert_false(vault.shot.call.sent);
        assert_non_null(strstr(vault.shot.call.err.text, "is not trusted: "));
        assert_int_equal(endpoint_requests(&vault.endpoint), 0);
        vault_close(&vault);
    }
}

static void what_breaks_after_tls_came_about_is_unknown(void **state)
{
    struct vault vault;
    (void)state;

    vault_open(&vault, "127.0.0.1", true, "");
    shot_fire(&vault.shot);
    assert_int_equal(vault.shot.call.outcome, WIRE_UNKNOWN);
    assert_true(vault.shot.call.sent);
    assert_false(vault.shot.call.untrusted);
    assert_int_equal(endpoint_requests(&vault.endpoint), 1);
    vault_close(&vault);
}

static void what_is_encrypted_is_not_sent_on_in_the_clear(void **state)
{
    struct vault vault;
    (void)state;

    vault_open(&vault, "127.0.0.1", true,
               "HTTP/1.1 307 On\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    vault.shot.call.redirects = true;
    shot_fire(&vault.shot);
    assert_int_equal(vault.shot.call.outcome, WIRE_ANSWERED);
    assert_int_equal(vault.shot.call.status, 307);
    assert_string_equal(vault.shot.call.location, "http://127.0.0.1:1/");
    vault_close(&vault);
}

static void an_authority_that_cannot_be_read_is_said(void **state)
{
    struct vault vault;
    (void)state;

    vault_open(&vault, "127.0.0.1", true, OK_REPLY);
    wire_close(vault.range.wire);
    loop_close(vault.range.loop);
    setenv("SSL_CERT_FILE", "/nowhere/at/all", 1);
    range_open(&vault.range, 0, 0);
    shot_fire(&vault.shot);
    assert_int_equal(vault.shot.call.outcome, WIRE_UNSENT);
    assert_true(vault.shot.call.untrusted);
    assert_non_null(strstr(vault.shot.call.err.text, "SSL_CERT_FILE: "));
    vault_close(&vault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_of_an_authority_that_is_named_is_trusted),
        cmocka_unit_test(one_that_nobody_knows_or_that_is_for_another_host_is_not),
        cmocka_unit_test(what_breaks_after_tls_came_about_is_unknown),
        cmocka_unit_test(what_is_encrypted_is_not_sent_on_in_the_clear),
        cmocka_unit_test(an_authority_that_cannot_be_read_is_said),
    };
    return cmocka_run_group_tests(tests, make_server, drop_server);
}
