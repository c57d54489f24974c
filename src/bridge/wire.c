/* wire: see wire.h.
 *
 * A call waits in the line, is under way, has ended, and is done:
 *
 *     wire_send -> LINE_WAITING -begin-> LINE_UNDER_WAY -collect-> ended -tell-> done
 *                       |                     |                      ^
 *                       +----wire_cancel------+----------------------+
 *
 * libcurl says which descriptors and which time it waits for (on_socket, on_timer) and is told when
 * they come (socket_ready, clock_fire).  Its functions are never called inside its callbacks, and
 * `done` is called only from `move_on`, when none of them is under way. */
#include "bridge/wire.h"

#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "bridge/wire_parts.h"
#include "core/url.h"

#define PARALLEL_DEFAULT 1000
#define HOST_PARALLEL_DEFAULT 32
#define NEVER ((struct span){INT64_MAX})
#define NOW ((struct span){0})

static void end_part(struct wire *wire, struct wire_part *part)
{
    part->ended = true;
    part->next = NULL;
    *wire->ended_end = part;
    wire->ended_end = &part->next;
}

/* set_timer moves a timer, which is always set. */
static void set_timer(struct wire *wire, struct loop_timer *timer, struct span after)
{
    if (!loop_timer_set(wire->loop, timer, after))
        BUG("a timer that is set cannot be moved");
}

/* ---- transfers --------------------------------------------------------------------------------
 */

static struct transfer *take_transfer(struct wire *wire)
{
    struct transfer *transfer = wire->transfers;

    if (transfer) {
        wire->transfers = transfer->next;
        return transfer;
    }
    if (!(transfer = transfer_new(wire)))
        return NULL;
    for (int i = 0; i < TRANSFER_SOCKETS_MAX; i++) {
        transfer->sockets[i].next = wire->sockets;
        wire->sockets = &transfer->sockets[i];
    }
    return transfer;
}

/* give_back ends the part that a transfer carries: it is out of the line, and has ended. */
static void give_back(struct wire *wire, struct transfer *transfer)
{
    struct wire_part *part = transfer->part;

    curl_multi_remove_handle(wire->multi, transfer->easy);
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    transfer->part = NULL;
    transfer->next = wire->transfers;
    wire->transfers = transfer;
    part->transfer = NULL;
    line_leave(&wire->line, &part->entry);
    end_part(wire, part);
}

/* begin sends a call on its way. */
static void begin(struct wire *wire, struct wire_part *part)
{
    struct transfer *transfer = take_transfer(wire);

    if (!transfer) {
        part->call->outcome = WIRE_UNSENT;
        err_no_memory(&part->call->err);
        line_leave(&wire->line, &part->entry);
        end_part(wire, part);
        return;
    }
    part->transfer = transfer;
    if (transfer_begin(transfer, part) &&
        curl_multi_add_handle(wire->multi, transfer->easy) == CURLM_OK)
        return;
    transfer_end(transfer, CURLE_OUT_OF_MEMORY);
    give_back(wire, transfer);
}

static void begin_all(struct wire *wire)
{
    struct line_entry *entry;
    while ((entry = line_next(&wire->line)))
        begin(wire, (struct wire_part *)entry);
}

/* give_up_waiting ends those that wait for a host which let a request's time pass without answering
 * any other meanwhile: they would only wait longer, and hold up who waits for other hosts. */
static void give_up_waiting(struct wire *wire, const struct wire_part *silent)
{
    struct line_entry *entry;

    while ((entry = line_waiting(&wire->line, &silent->entry))) {
        struct wire_part *part = (struct wire_part *)entry;
        part->call->outcome = WIRE_UNSENT;
        err_set(&part->call->err, STATUS_UNAVAILABLE, "not sent, as one before it was in vain: %s",
                silent->call->err.text);
        line_leave(&wire->line, entry);
        end_part(wire, part);
    }
}

/* look_at_host draws conclusions from the end of a call about its host. */
static void look_at_host(struct wire *wire, const struct wire_part *part)
{
    const struct wire_call *call = part->call;
    struct span now = loop_now(), began = {now.us - call->took.us};

    if (call->outcome == WIRE_ANSWERED)
        line_answered(&wire->line, &part->entry, now);
    else if (call->timed_out && line_silent(&wire->line, &part->entry, began))
        give_up_waiting(wire, part);
}

/* send_on sends a call on to where its answer leads. */
static bool send_on(struct wire *wire, struct transfer *transfer)
{
    curl_multi_remove_handle(wire->multi, transfer->easy);
    return transfer_follow(transfer) &&
           curl_multi_add_handle(wire->multi, transfer->easy) == CURLM_OK;
}

/* collect takes what libcurl is done with. */
static void collect(struct wire *wire)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(wire->multi, &left))) {
        struct transfer *transfer = NULL;
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        if (transfer_leads_on(transfer, code)) {
            if (send_on(wire, transfer))
                continue;
            code = CURLE_OUT_OF_MEMORY;
        }
        transfer_end(transfer, code);
        look_at_host(wire, transfer->part);
        give_back(wire, transfer);
    }
}

/* tell calls `done` for what has ended, also for what is cancelled meanwhile. */
static void tell(struct wire *wire)
{
    struct wire_part *part;

    while ((part = wire->ended)) {
        struct wire_call *call = part->call;
        wire->ended = part->next;
        if (!part->next)
            wire->ended_end = &wire->ended;
        mem_free(part);
        call->part = NULL;
        call->done(call);
    }
}

/* wake has move_on called by the loop, when it is not under way already. */
static void wake(struct wire *wire)
{
    if (!wire->moving)
        set_timer(wire, &wire->sweep, NOW);
}

/* move_on does what there is to do after something happened.  Those that wait go before those that
 * ended are told, so that the network is not idle meanwhile; then those go that are sent by who was
 * told. */
static void move_on(struct wire *wire)
{
    wire->moving = true;
    collect(wire);
    begin_all(wire);
    tell(wire);
    begin_all(wire);
    wire->moving = false;
    if (wire->ended)
        wake(wire);
}

/* ---- libcurl and the loop ---------------------------------------------------------------------
 */

/* socket_ready leaves what follows to the end of the loop's round: so all answers of the round are
 * taken first, and then the next requests go out in one burst, which wakes the other side once and
 * not for each of them. */
static void socket_ready(struct loop_watch *watch, uint32_t events)
{
    struct wire_socket *socket = (struct wire_socket *)watch;
    int bits = 0, running;

    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP))
        bits |= CURL_CSELECT_IN;
    if (events & EPOLLOUT)
        bits |= CURL_CSELECT_OUT;
    if (events & EPOLLERR)
        bits |= CURL_CSELECT_ERR;
    curl_multi_socket_action(socket->wire->multi, watch->fd, bits, &running);
    wake(socket->wire);
}

static void forget_socket(struct wire *wire, struct wire_socket *socket)
{
    loop_unwatch(wire->loop, &socket->watch);
    socket->next = wire->sockets;
    wire->sockets = socket;
}

/* new_socket takes one of those that the transfers brought along: there are enough. */
static struct wire_socket *new_socket(struct wire *wire, curl_socket_t fd)
{
    struct wire_socket *socket = wire->sockets;

    if (socket) {
        wire->sockets = socket->next;
        *socket = (struct wire_socket){.watch = {.ready = socket_ready, .fd = -1}, .wire = wire};
        curl_multi_assign(wire->multi, fd, socket);
        return socket;
    }
    BUG("a transfer has more sockets than it brought along");
}

/* on_socket never says that it failed: libcurl would give up everything.  A descriptor that the
 * system does not watch is one on which nothing comes, until time is over. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *assigned)
{
    static const uint32_t wanted[] = {[CURL_POLL_IN] = EPOLLIN,
                                      [CURL_POLL_OUT] = EPOLLOUT,
                                      [CURL_POLL_INOUT] = EPOLLIN | EPOLLOUT};
    struct wire *wire = ctx;
    struct wire_socket *socket = assigned;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (socket)
            forget_socket(wire, socket);
        return 0;
    }
    if (!socket)
        socket = new_socket(wire, fd);
    if (socket->watch.fd >= 0)
        loop_rewatch(wire->loop, &socket->watch, wanted[what]);
    else
        (void)loop_watch(wire->loop, &socket->watch, fd, wanted[what], NULL);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *ctx)
{
    struct wire *wire = ctx;
    (void)multi;
    set_timer(wire, &wire->clock, timeout_ms < 0 ? NEVER : span_ms(timeout_ms));
    return 0;
}

static void clock_fire(struct loop_timer *timer)
{
    struct wire *wire = (struct wire *)((char *)timer - offsetof(struct wire, clock));
    int running;
    set_timer(wire, timer, NEVER);
    curl_multi_socket_action(wire->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    move_on(wire);
}

static void sweep_fire(struct loop_timer *timer)
{
    struct wire *wire = (struct wire *)((char *)timer - offsetof(struct wire, sweep));
    set_timer(wire, timer, NEVER);
    move_on(wire);
}

/* ---- open and close ---------------------------------------------------------------------------
 */

static bool copy_text(char **out, const char *text)
{
    return !text || !*text || (*out = mem_strdup(text));
}

static bool ready(struct wire *wire, const struct wire_config *config)
{
    if (!copy_text(&wire->user_agent, config->user_agent) ||
        !copy_text(&wire->authority, getenv("SSL_CERT_FILE")) ||
        !loop_timer_set(wire->loop, &wire->clock, NEVER) ||
        !loop_timer_set(wire->loop, &wire->sweep, NEVER) ||
        curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK || !(wire->multi = curl_multi_init()))
        return false;
    curl_multi_setopt(wire->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(wire->multi, CURLMOPT_SOCKETDATA, wire);
    curl_multi_setopt(wire->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(wire->multi, CURLMOPT_TIMERDATA, wire);
    curl_multi_setopt(wire->multi, CURLMOPT_MAXCONNECTS, (long)wire->line.parallel);
    curl_multi_setopt(wire->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return true;
}

enum status wire_open(const struct wire_config *config, struct wire **out, struct err *err)
{
    struct wire *wire = mem_zalloc(sizeof *wire);

    if (!wire)
        return err_no_memory(err);
    wire->loop = config->loop;
    wire->proxies = config->proxies;
    wire->host_parallel = config->host_parallel ? config->host_parallel : HOST_PARALLEL_DEFAULT;
    wire->ended_end = &wire->ended;
    wire->clock.fire = clock_fire;
    wire->sweep.fire = sweep_fire;
    line_init(&wire->line, config->parallel ? config->parallel : PARALLEL_DEFAULT);
    if (!ready(wire, config)) {
        wire_close(wire);
        return err_no_memory(err);
    }
    *out = wire;
    return STATUS_OK;
}

void wire_close(struct wire *wire)
{
    struct transfer *transfer;

    if (!wire)
        return;
    BUG_ON(wire->ended || wire->moving);
    line_release(&wire->line);
    curl_multi_cleanup(wire->multi); /* with the connections that were kept */
    while ((transfer = wire->transfers)) {
        wire->transfers = transfer->next;
        transfer_free(transfer);
    }
    loop_timer_clear(wire->loop, &wire->clock);
    loop_timer_clear(wire->loop, &wire->sweep);
    mem_free(wire->user_agent);
    mem_free(wire->authority);
    mem_free(wire);
}

/* ---- calls ------------------------------------------------------------------------------------
 */

void wire_call_init(struct wire_call *call)
{
    *call = (struct wire_call){0};
    buf_init(&call->answer, 0);
}

void wire_call_release(struct wire_call *call)
{
    buf_release(&call->answer);
}

/* clear_answer forgets what an earlier sending of the same call brought. */
static void clear_answer(struct wire_call *call)
{
    buf_clear(&call->answer);
    call->answer.max = call->answer_max;
    if (call->answer.cap > 0 && call->answer.cap - 1 > call->answer_max)
        buf_release(&call->answer);
    call->outcome = WIRE_UNSENT;
    call->sent = call->answer_cut = call->timed_out = call->untrusted = false;
    call->status = 0;
    call->content_type[0] = call->retry_after[0] = call->location[0] = '\0';
    call->err = (struct err){0};
    call->took = (struct span){0};
}

static bool is_local(struct slice host)
{
    struct address address;
    const char *range = address_parse(host, &address) ? address_range(address) : NULL;
    return url_same_host(host, SLICE("localhost")) || (range && strcmp(range, "loopback") == 0);
}

/* join puts a call into the line of its host.  A URL that is none ends it. */
static bool join(struct wire *wire, struct wire_part *part)
{
    struct wire_call *call = part->call;
    const struct url *url = &part->url;
    char name[URL_MAX + 8];

    if (url_parse(slice_of(call->url), &part->url, &call->err) != STATUS_OK) {
        end_part(wire, part);
        return true;
    }
    part->direct = !wire->proxies || call->may_connect || is_local(url->host);
    int len = snprintf(name, sizeof name, "%.*s:%u", SLICE_ARG(url->host), url->port);
    for (int i = 0; i < len; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] - 'A' + 'a');
    part->entry.limit = call->host_parallel ? call->host_parallel : wire->host_parallel;
    return line_join(&wire->line, &part->entry, (struct slice){name, (size_t)len});
}

bool wire_send(struct wire *wire, struct wire_call *call)
{
    struct wire_part *part = mem_zalloc(sizeof *part);

    if (!part)
        return false;
    part->call = call;
    clear_answer(call);
    if (!join(wire, part)) {
        mem_free(part);
        return false;
    }
    call->part = part;
    wake(wire);
    return true;
}

void wire_cancel(struct wire *wire, struct wire_call *call)
{
    struct wire_part *part = call->part;

    if (!part || part->ended)
        return;
    call->outcome = WIRE_STOPPED;
    err_set(&call->err, STATUS_CONFLICT, "it was stopped");
    if (part->transfer) {
        transfer_stop(part->transfer);
        give_back(wire, part->transfer);
    } else {
        line_leave(&wire->line, &part->entry);
        end_part(wire, part);
    }
    wake(wire);
}
