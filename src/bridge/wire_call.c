/* wire_call: one transfer: its options, and what libcurl asks while it goes on.
 *
 * prerequest is the point at which the request begins to leave: it is called when a connection
 * stands, and again when libcurl wants to send once more what an old connection swallowed.  Before
 * it nothing has left.
 *
 * libcurl is not let follow redirects: it would look up and connect to whoever an answer names,
 * before anything is asked here. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "bridge/wire_parts.h"

#define CONNECT_DEFAULT_MS 10000
#define WHOLE_DEFAULT_MS 30000
#define REDIRECTS_MAX 5
#define KEPT_SECONDS_MAX 4 /* a connection without use; many servers close theirs after five */

bool transfer_left(const struct transfer *transfer)
{
    long size = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &size);
    return transfer->begun && (transfer->part->url.tls || size > transfer->size_before);
}

/* is_resend says whether libcurl is about to send once more what may have left already, and notes
 * it. */
static bool is_resend(struct transfer *transfer)
{
    if (transfer_left(transfer))
        transfer->resend = true;
    return transfer->resend;
}

/* ---- addresses --------------------------------------------------------------------------------
 */

static bool address_of(const struct sockaddr *from, struct address *address, uint16_t *port)
{
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
        uint8_t bytes[4];
        memcpy(bytes, &v4->sin_addr, sizeof bytes);
        *address = address_v4(bytes);
        *port = ntohs(v4->sin_port);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
        *address = address_v6(v6->sin6_addr.s6_addr);
        *port = ntohs(v6->sin6_port);
        return true;
    }
    return false;
}

/* permit asks the call's rules, and notes what they say. */
static bool permit(struct transfer *transfer, struct address address, uint16_t port)
{
    const struct wire_call *call = transfer->part->call;
    struct err err = {0};

    if (!call->may_connect || call->may_connect(call, address, port, &err) == STATUS_OK) {
        transfer->permitted = true;
        return true;
    }
    transfer->refused = true;
    transfer->refusal = err;
    return false;
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct transfer *transfer = ctx;
    struct address address;
    uint16_t port;
    int fd;

    (void)purpose;
    if (is_resend(transfer) || !address_of(&to->addr, &address, &port) ||
        !permit(transfer, address, port))
        return CURL_SOCKET_BAD;
    fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    transfer->socket_errno = fd < 0 ? errno : 0;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* permit_kept asks about the address of a connection that an earlier request left, perhaps one with
 * other rules. */
static bool permit_kept(struct transfer *transfer, const char *ip, int port)
{
    struct address address;

    if (transfer->permitted || !transfer->part->call->may_connect)
        return true;
    if (address_parse(slice_of(ip), &address))
        return permit(transfer, address, (uint16_t)port);
    transfer->refused = true;
    err_set(&transfer->refusal, STATUS_REFUSED, "\"%s\" is no address that can be checked", ip);
    return false;
}

/* ---- while it goes on -------------------------------------------------------------------------
 */

/* clear_head forgets the head of an answer that another one follows; clear_answer all of it. */
static void clear_head(struct transfer *transfer)
{
    struct wire_call *call = transfer->part->call;

    transfer->status = 0;
    transfer->headed = false;
    call->content_type[0] = call->retry_after[0] = call->location[0] = '\0';
}

static void clear_answer(struct transfer *transfer)
{
    struct wire_call *call = transfer->part->call;

    clear_head(transfer);
    buf_clear(&call->answer);
    call->answer_cut = false;
}

static int prerequest(void *ctx, char *ip, char *local_ip, int port, int local_port)
{
    struct transfer *transfer = ctx;

    (void)local_ip;
    (void)local_port;
    if (is_resend(transfer) || !permit_kept(transfer, ip, port))
        return CURL_PREREQFUNC_ABORT;
    transfer->begun = true;
    transfer->permitted = transfer->refused = false;
    clear_answer(transfer);
    curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &transfer->size_before);
    return CURL_PREREQFUNC_OK;
}

/* status_of reads "HTTP/1.1 200 OK". */
static int status_of(struct slice line)
{
    const char *space = memchr(line.ptr, ' ', line.len), *end = line.ptr + line.len;
    int status = 0;

    for (const char *c = space ? space + 1 : end; c < end && *c >= '0' && *c <= '9'; c++)
        if (status < 1000)
            status = status * 10 + (*c - '0');
    return status;
}

/* copy_value copies what a line says when it is of this name, and was not there before. */
static void copy_value(struct slice line, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);

    if (*out || line.len <= len || line.ptr[len] != ':' || strncasecmp(line.ptr, name, len) != 0)
        return;
    line.ptr += len + 1;
    line.len -= len + 1;
    while (line.len > 0 && (*line.ptr == ' ' || *line.ptr == '\t')) {
        line.ptr++;
        line.len--;
    }
    while (line.len > 0 && (unsigned char)line.ptr[line.len - 1] <= ' ')
        line.len--;
    if (line.len >= size)
        line.len = size - 1;
    memcpy(out, line.ptr, line.len);
    out[line.len] = '\0';
}

/* take_header follows the head of the answer.  libcurl would tell of it later too, but a head that
 * breaks off is fine with it. */
static size_t take_header(char *bytes, size_t size, size_t count, void *ctx)
{
    struct transfer *transfer = ctx;
    struct wire_call *call = transfer->part->call;
    struct slice line = {bytes, size * count};

    if (slice_starts(line, SLICE("HTTP/"))) {
        int status = status_of(line);
        clear_head(transfer);
        transfer->status = status >= 200 ? status : 0; /* others come ahead of the answer */
    } else if (slice_is(line, "\r\n") || slice_is(line, "\n")) {
        transfer->headed = transfer->status > 0;
    } else if (transfer->status > 0 && !transfer->headed) {
        copy_value(line, "Content-Type", call->content_type, sizeof call->content_type);
        copy_value(line, "Retry-After", call->retry_after, sizeof call->retry_after);
        copy_value(line, "Location", call->location, sizeof call->location);
    }
    return line.len;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct transfer *transfer = ctx;
    struct wire_call *call = transfer->part->call;
    size_t len = size * count, room = call->answer_max - call->answer.len;

    buf_add(&call->answer, bytes, len < room ? len : room);
    call->answer_cut = len > room;
    return call->answer_cut || call->answer.status != STATUS_OK ? 0 : len;
}

/* ---- options ----------------------------------------------------------------------------------
 */

/* set_constant sets what is the same for every request. */
static bool set_constant(struct transfer *transfer)
{
    CURL *easy = transfer->easy;
    const struct wire *wire = transfer->wire;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->trouble);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a name server that hangs is not waited for */
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)KEPT_SECONDS_MAX);
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT,
                            wire->user_agent ? wire->user_agent : "lazaret/" LAZARET_VERSION) ==
               CURLE_OK &&
           (!wire->authority ||
            curl_easy_setopt(easy, CURLOPT_CAINFO, wire->authority) == CURLE_OK);
}

static bool add_header(struct transfer *transfer, const char *line)
{
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);
    if (longer)
        transfer->headers = longer;
    return longer != NULL;
}

/* make_headers adds to the call's own what keeps libcurl from adding some. */
static bool make_headers(struct transfer *transfer)
{
    const char *const *line = transfer->part->call->headers;
    bool has_type = false;

    for (; line && *line; line++) {
        has_type = has_type || strncasecmp(*line, "Content-Type:", 13) == 0;
        if (!add_header(transfer, *line))
            return false;
    }
    return add_header(transfer, "Expect:") && (has_type || add_header(transfer, "Content-Type:"));
}

/* set_way sets how to get there. */
static bool set_way(struct transfer *transfer)
{
    CURL *easy = transfer->easy;
    const struct wire_part *part = transfer->part;

    return curl_easy_setopt(easy, CURLOPT_URL, part->call->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, part->direct ? "" : NULL) == CURLE_OK;
}

static long ms_of(struct span span, long otherwise)
{
    if (span.us <= 0)
        return otherwise;
    int64_t ms = (span.us - 1) / 1000 + 1;
    return ms < INT32_MAX ? (long)ms : INT32_MAX;
}

/* set_request sets everything that can differ between two requests. */
static void set_request(struct transfer *transfer)
{
    CURL *easy = transfer->easy;
    const struct wire_call *call = transfer->part->call;

    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body.len > 0 ? call->body.ptr : "");
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, ms_of(call->connect, CONNECT_DEFAULT_MS));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, ms_of(call->whole, WHOLE_DEFAULT_MS));
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, call->connect_only ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, call->connect_only ? NULL : prerequest);
}

struct transfer *transfer_new(struct wire *wire)
{
    struct transfer *transfer = mem_zalloc(sizeof *transfer);

    if (!transfer)
        return NULL;
    transfer->wire = wire;
    if (!(transfer->easy = curl_easy_init()) || !set_constant(transfer)) {
        transfer_free(transfer);
        return NULL;
    }
    return transfer;
}

void transfer_free(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    mem_free(transfer);
}

/* clear_sending forgets what is known of the last sending, before another one. */
static void clear_sending(struct transfer *transfer)
{
    transfer->trouble[0] = '\0';
    transfer->size_before = 0;
    transfer->socket_errno = 0;
    transfer->begun = transfer->permitted = transfer->refused = transfer->resend = false;
    clear_answer(transfer);
}

bool transfer_begin(struct transfer *transfer, struct wire_part *part)
{
    transfer->part = part;
    transfer->since = loop_now();
    transfer->followed = 0;
    clear_sending(transfer);
    if (!make_headers(transfer) || !set_way(transfer))
        return false;
    set_request(transfer);
    return true;
}

/* ---- redirects --------------------------------------------------------------------------------
 */

/* next_of is where the answer leads, as libcurl made it of that and of where it was; empty when it
 * leads nowhere.  A fragment is nothing that a server is sent. */
static struct slice next_of(const struct transfer *transfer)
{
    char *text = NULL;

    curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &text);
    return (struct slice){text, text ? strcspn(text, "#") : 0};
}

bool transfer_leads_on(const struct transfer *transfer, CURLcode code)
{
    const struct url *from = &transfer->part->url;
    struct url to;

    return transfer->part->call->redirects && code == CURLE_OK && transfer->headed &&
           transfer->followed < REDIRECTS_MAX &&
           url_parse(next_of(transfer), &to, NULL) == STATUS_OK && to.tls == from->tls &&
           to.port == from->port && url_same_host(to.host, from->host);
}

bool transfer_follow(struct transfer *transfer)
{
    long whole = ms_of(transfer->part->call->whole, WHOLE_DEFAULT_MS);
    int64_t left = whole - (loop_now().us - transfer->since.us) / 1000;
    struct slice next = next_of(transfer);
    char url[URL_MAX + 1];

    memcpy(url, next.ptr, next.len); /* url_parse accepted it */
    url[next.len] = '\0';
    transfer->followed++;
    clear_sending(transfer);
    curl_easy_setopt(transfer->easy, CURLOPT_TIMEOUT_MS, left > 0 ? (long)left : 1L);
    return curl_easy_setopt(transfer->easy, CURLOPT_URL, url) == CURLE_OK;
}
