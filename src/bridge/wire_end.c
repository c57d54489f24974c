/* wire_end: what became of a transfer.
 *
 * libcurl says what went wrong; whether something of the request may have left is for us to know,
 * and does not follow from that: a time-out may come before the connection stands and after. */
#include <stdio.h>
#include <string.h>

#include "bridge/wire_parts.h"

/* ---- the answer -------------------------------------------------------------------------------
 */

static bool is_redirect(int status)
{
    return status >= 300 && status < 400;
}

static bool has_answer(const struct transfer *transfer, CURLcode code)
{
    const struct wire_call *call = transfer->part->call;

    if (code == CURLE_OK)
        return call->connect_only || transfer->headed;
    return code == CURLE_WRITE_ERROR && call->answer_cut;
}

/* ---- when there is none -----------------------------------------------------------------------
 */

struct where {
    char text[320];
};

/* where_of is what a person calls the other side, without what may be secret in its address. */
static struct where where_of(const struct transfer *transfer)
{
    const struct url *url = &transfer->part->url;
    struct where where;

    snprintf(where.text, sizeof where.text, "%s://%s%.*s%s:%u", url->tls ? "https" : "http",
             url->bracketed ? "[" : "", SLICE_ARG(url->host), url->bracketed ? "]" : "", url->port);
    return where;
}

static const char *why_of(const struct transfer *transfer, CURLcode code)
{
    if (code == CURLE_OK)
        return "the head of the answer has no end";
    return *transfer->trouble ? transfer->trouble : curl_easy_strerror(code);
}

static bool is_untrusted(CURLcode code)
{
    static const CURLcode codes[] = {
        CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR,
        CURLE_SSL_CERTPROBLEM,          CURLE_SSL_CIPHER,
        CURLE_SSL_CACERT_BADFILE,       CURLE_SSL_ISSUER_ERROR,
        CURLE_SSL_INVALIDCERTSTATUS,    CURLE_SSL_PINNEDPUBKEYNOTMATCH,
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* say_untrusted is for TLS that did not come about. */
static void say_untrusted(const struct transfer *transfer, CURLcode code, const char *where,
                          struct err *err)
{
    const char *why = why_of(transfer, code);

    if (code == CURLE_PEER_FAILED_VERIFICATION)
        err_set(err, STATUS_UNAVAILABLE,
                "the certificate of %s is not trusted: %s; when it is right, name the file of its "
                "authority in SSL_CERT_FILE",
                where, why);
    else if (code == CURLE_SSL_CACERT_BADFILE)
        err_set(err, STATUS_UNAVAILABLE, "SSL_CERT_FILE: %s", why);
    else
        err_set(err, STATUS_UNAVAILABLE, "no TLS with %s: %s; does it speak plain http?", where,
                why);
}

/* os_reason is why the system would not connect; "" when it is not known. */
static const char *os_reason(const struct transfer *transfer)
{
    long number = transfer->socket_errno;
    if (number == 0)
        curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number);
    return number > 0 ? strerror((int)number) : "";
}

/* say_unsent is for a request of which nothing left. */
static void say_unsent(const struct transfer *transfer, CURLcode code, const char *where,
                       struct err *err)
{
    const char *why = os_reason(transfer);

    if (code == CURLE_OPERATION_TIMEDOUT)
        err_set(err, STATUS_UNAVAILABLE, "nobody answers at %s: no connection within %.3g s", where,
                span_to_seconds(transfer->part->call->took));
    else if (code == CURLE_COULDNT_RESOLVE_HOST)
        err_set(err, STATUS_UNAVAILABLE, "nobody answers at %s: its host has no address", where);
    else if (code == CURLE_COULDNT_RESOLVE_PROXY)
        err_set(err, STATUS_UNAVAILABLE,
                "nobody answers at %s: the proxy that the environment names has no address", where);
    else if (code == CURLE_COULDNT_CONNECT)
        err_set(err, STATUS_UNAVAILABLE, "nobody answers at %s%s%s", where, *why ? ": " : "", why);
    else
        err_set(err, STATUS_UNAVAILABLE, "nothing could be sent to %s: %s", where,
                why_of(transfer, code));
}

/* say_unknown is for a request that is left without a whole answer. */
static void say_unknown(const struct transfer *transfer, CURLcode code, const char *where,
                        struct err *err)
{
    const struct wire_call *call = transfer->part->call;
    const char *why = why_of(transfer, code);

    if (transfer->resend)
        err_set(err, STATUS_UNAVAILABLE,
                "%s closed a connection that was kept from an earlier request before it answered",
                where);
    else if (code == CURLE_OPERATION_TIMEDOUT)
        err_set(err, STATUS_UNAVAILABLE, "%s has not answered%s within %.3g s", where,
                call->status ? " to the end" : "", span_to_seconds(call->took));
    else if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY)
        err_set(err, STATUS_UNAVAILABLE, "what answers at %s does not speak HTTP: is it https?",
                where);
    else
        err_set(err, STATUS_UNAVAILABLE, "%s went away %s: %s", where,
                call->status ? "in the middle of its answer" : "before it answered", why);
}

static void no_answer(const struct transfer *transfer, CURLcode code, struct wire_call *call)
{
    struct where where = where_of(transfer);

    call->timed_out = code == CURLE_OPERATION_TIMEDOUT;
    if (transfer->refused && !transfer->permitted && !call->sent) {
        call->outcome = WIRE_FORBIDDEN;
        call->err = transfer->refusal;
        return;
    }
    call->outcome = call->sent ? WIRE_UNKNOWN : WIRE_UNSENT;
    if (code == CURLE_OUT_OF_MEMORY || call->answer.status == STATUS_NO_MEMORY) {
        err_no_memory(&call->err);
    } else if (!transfer->begun && is_untrusted(code)) {
        call->untrusted = true;
        say_untrusted(transfer, code, where.text, &call->err);
    } else if (call->sent) {
        say_unknown(transfer, code, where.text, &call->err);
    } else {
        say_unsent(transfer, code, where.text, &call->err);
    }
}

/* keep_head keeps what the head of the answer said, where there is one of the last sending. */
static void keep_head(const struct transfer *transfer, bool has_head, struct wire_call *call)
{
    call->status = has_head ? transfer->status : 0;
    if (call->status == 0)
        call->content_type[0] = call->retry_after[0] = '\0';
    if (!is_redirect(call->status))
        call->location[0] = '\0';
}

void transfer_end(struct transfer *transfer, CURLcode code)
{
    struct wire_call *call = transfer->part->call;
    bool answered = has_answer(transfer, code);

    call->took = (struct span){loop_now().us - transfer->since.us};
    call->sent = transfer_left(transfer);
    keep_head(transfer, answered || transfer->begun, call);
    if (answered)
        call->outcome = WIRE_ANSWERED;
    else
        no_answer(transfer, code, call);
}

void transfer_stop(struct transfer *transfer)
{
    struct wire_call *call = transfer->part->call;

    call->took = (struct span){loop_now().us - transfer->since.us};
    call->sent = transfer_left(transfer);
    keep_head(transfer, false, call);
}
