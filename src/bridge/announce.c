/* announce: duty, events, letters, publishing. */
#include "bridge/announce.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"
#include "bridge/natspost.h"
#include "core/event.h"
#include "core/reason.h"
#include "engine/letterprint.h"

#define DUTY "publisher"
#define DUTY_SECONDS 30
#define RENEW_US 10000000 /* how often the duty is asked for again */
#define TAKE_MS 5000      /* how often, when another has it */
#define LOOK_MS 1000      /* how often for events, when there are none */
#define AGAIN_MS 1000
#define ANSWER_MS 5000
#define ROUNDS_MAX 3                /* a page with what is refused is sent so often */
#define EVENTS_MAX 500              /* of one page */
#define PAGE_BYTES (8u << 20)       /* of the letters of one page, but for one */
#define PRINT_BYTES_MAX (64u << 20) /* of one letter */

/* Before the first event: a cursor of 0 says that there never was one. */
#define CURSOR_BEGIN (-1)

struct announce {
    struct natsdesk desk;
    struct natspost *post;
    struct arena arena; /* of one page */
    bool held;
    int64_t cursor;
    int64_t asked_us; /* when the duty was asked for last */
    unsigned rounds;  /* how often the page at the cursor was sent in vain */
};

/* struct page: events, and the letters among them. */
struct page {
    int64_t after; /* the cursor */
    int64_t seen;  /* the last event that was looked at */
    int64_t head;  /* the last event that there is */
    size_t count;  /* of letters */
    struct letter_view *views;
    struct natspost_item *items;
};

/* ---- the duty -------------------------------------------------------------------------------- */

/* ask_duty asks for the duty, or to keep it, with the cursor moved on when `advance`. */
static enum status ask_duty(struct announce *announce, bool advance, struct span ttl)
{
    struct duty_command command = {.name = SLICE(DUTY),
                                   .holder = slice_of(announce->desk.config->server_name),
                                   .ttl = ttl,
                                   .advance = advance,
                                   .cursor = announce->cursor};
    enum status status =
        natsdesk_call(&announce->desk, &command.command, COMMAND_DUTY, &announce->arena);
    announce->asked_us = natsdesk_steady_us();
    announce->held = status == STATUS_OK && command.held;
    if (announce->held)
        announce->cursor = command.cursor;
    if (status != STATUS_OK)
        natsdesk_trouble(&announce->desk, &command.command.err);
    return status;
}

static enum status read_head(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    int64_t *head = ctx;
    struct hash hash;
    (void)engine;
    (void)arena;
    (void)err;
    store->event_head(store, head, &hash);
    return STATUS_OK;
}

/* begin sets the first cursor there is: the deaths before it are history. */
static enum status begin(struct announce *announce)
{
    int64_t head = 0;
    struct read_command command = {.read = read_head, .ctx = &head};
    enum status status =
        natsdesk_call(&announce->desk, &command.command, COMMAND_READ, &announce->arena);
    if (status != STATUS_OK)
        return status;
    announce->cursor = head ? head : CURSOR_BEGIN;
    return ask_duty(announce, true, span_seconds(DUTY_SECONDS));
}

/* set_out writes the first cursor before NATS is there: what dies from now on is told, however
 * late it comes.  Where the engine cannot, that is done with the first duty. */
static void set_out(struct announce *announce)
{
    ask_duty(announce, false, span_seconds(DUTY_SECONDS));
    if (announce->held && announce->cursor == 0)
        begin(announce);
    if (announce->held)
        ask_duty(announce, false, (struct span){0});
    announce->held = false;
    arena_reset(&announce->arena);
}

/* have_duty sees to it that the duty is ours; false: it is not. */
static bool have_duty(struct announce *announce)
{
    if (!announce->held || natsdesk_steady_us() - announce->asked_us > RENEW_US) {
        ask_duty(announce, false, span_seconds(DUTY_SECONDS));
        if (announce->held && announce->cursor == 0)
            begin(announce);
    }
    return announce->held;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* add_letter puts the letter of a death into the page.  One that is gone, or came from elsewhere,
 * is not told. */
static enum status add_letter(struct store *store, const struct event *event, struct page *page,
                              struct arena *arena, struct err *err)
{
    struct letter letter;
    enum status status = store->letter_by_job(store, event->job_seq, arena, &letter, err);
    if (status == STATUS_OK && !letter.foreign) {
        status = letter_view_read(store, &letter, arena, &page->views[page->count], err);
        page->count += status == STATUS_OK;
    }
    if (status != STATUS_NOT_FOUND)
        return status;
    err->text[0] = '\0';
    return STATUS_OK;
}

/* read_page reads the events after the cursor, on the engine's thread. */
static enum status read_page(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    struct page *page = ctx;
    struct event *events;
    struct hash hash;
    size_t count, begin = arena->used;
    (void)engine;
    store->event_head(store, &page->head, &hash);
    if (page->head <= page->after)
        return STATUS_OK;
    enum status status = store->event_list(store, page->after > 0 ? page->after : 0, EVENTS_MAX,
                                           arena, &events, &count, err);
    if (status != STATUS_OK)
        return status;
    page->views = arena_array(arena, count + 1, sizeof(*page->views));
    if (!page->views)
        return err_no_memory(err);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (arena->used - begin > PAGE_BYTES && page->count)
            break;
        if (slice_is(events[i].what, EVENT_DEAD_LETTERED))
            status = add_letter(store, &events[i], page, arena, err);
        page->seen = events[i].seq;
    }
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* print_short prints a letter that is larger than the server takes: who it is, without what it
 * carries.  It can be read where it is kept. */
static void print_short(const struct letter *letter, size_t left_out, struct jsonw *out)
{
    jsonw_object(out);
    jsonw_put_string(out, "dlq_id", letter->dlq_id);
    jsonw_put_string(out, "original_subject", letter->original_subject);
    jsonw_put_raw(out, "original_payload", SLICE("null"));
    jsonw_put_string(out, "reason", letter->reason);
    jsonw_put_instant(out, "failed_at", letter->failed_at);
    jsonw_put_int(out, "retry_count", letter->failure_count);
    jsonw_put_int(out, "max_retries", letter->max_attempts);
    jsonw_put_string(out, "source", letter->source);
    jsonw_put_bool(out, "recoverable", false);
    jsonw_put_bool(out, "recovered", false);
    jsonw_put_string(out, "job_id", letter->job_id);
    jsonw_put_string(out, "queue", letter->queue);
    jsonw_put_int(out, "truncated_bytes", (int64_t)left_out);
    jsonw_object_end(out);
}

/* keep_text puts what was printed into the arena. */
static enum status keep_text(struct announce *announce, struct buf *text, struct slice *out,
                             struct err *err)
{
    enum status status = buf_status(text, err);
    if (status == STATUS_OK) {
        *out = arena_dup(&announce->arena, buf_slice(text));
        if (!out->ptr)
            status = err_no_memory(err);
    }
    buf_release(text);
    return status;
}

static enum status print_item(struct announce *announce, const struct letter_view *view,
                              struct natspost_item *item, struct err *err)
{
    const struct letter *letter = &view->letter;
    struct buf text;
    struct jsonw out;
    bool is_short = item->too_large;
    buf_init(&text, PRINT_BYTES_MAX);
    jsonw_init(&out, &text);
    enum status status = STATUS_OK;
    if (is_short)
        print_short(letter, item->body.len, &out);
    else
        status = letter_print(&out, view, &announce->arena, err);
    *item = (struct natspost_item){0};
    item->subject = reason_subject(letter->reason, letter->source);
    item->id = arena_printf(&announce->arena, "%.*s:%" PRId64, SLICE_ARG(letter->dlq_id),
                            letter->failed_at.us);
    enum status kept = keep_text(announce, &text, &item->body, err);
    if (!item->id.ptr)
        return err_no_memory(err);
    return status ? status : kept;
}

static enum status print_page(struct announce *announce, struct page *page, struct err *err)
{
    enum status status = STATUS_OK;
    page->items = arena_array(&announce->arena, page->count + 1, sizeof(*page->items));
    if (!page->items)
        return err_no_memory(err);
    for (size_t i = 0; i < page->count && status == STATUS_OK; i++)
        status = print_item(announce, &page->views[i], &page->items[i], err);
    return status;
}

/* ---- publishing ------------------------------------------------------------------------------ */

/* shorten prints what was refused for its size again, shorter. */
static enum status shorten(struct announce *announce, struct page *page, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < page->count && status == STATUS_OK; i++)
        if (page->items[i].fate == NATSPOST_REFUSED && page->items[i].too_large)
            status = print_item(announce, &page->views[i], &page->items[i], err);
    return status;
}

/* is_hopeless says that one letter is refused for what it is: it is too large even when it is
 * short, or the stream has refused it again and again and taken one that came after it.  A stream
 * that takes nothing at all is waited for. */
static bool is_hopeless(const struct announce *announce, const struct page *page, size_t at)
{
    const struct natspost_item *item = &page->items[at];
    if (item->fate != NATSPOST_REFUSED || item->nobody)
        return false;
    if (item->too_large)
        return true;
    for (size_t i = at + 1; i < page->count && announce->rounds >= ROUNDS_MAX; i++)
        if (page->items[i].fate == NATSPOST_STORED)
            return true;
    return false;
}

/* skip leaves a letter out. */
static void skip(struct announce *announce, const struct page *page, size_t at)
{
    const struct letter *letter = &page->views[at].letter;
    atomic_fetch_add(&announce->desk.tally->announce_skipped, 1);
    log_line(LOG_ERROR, "NATS announce: the letter %.*s is not told, as the stream refuses it: %s",
             SLICE_ARG(letter->dlq_id), page->items[at].err.text);
}

/* check_page says whether a stream has all of a page, but for what is hopeless. */
static enum status check_page(const struct announce *announce, const struct page *page,
                              struct err *err)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct natspost_item *item = &page->items[i];
        if (item->fate == NATSPOST_DELIVERED)
            return err_set(err, STATUS_UNAVAILABLE, "no stream takes %.*s",
                           SLICE_ARG(item->subject));
        if (item->fate != NATSPOST_STORED && !is_hopeless(announce, page, i))
            return err_set(err, STATUS_UNAVAILABLE, "%s", item->err.text);
    }
    return STATUS_OK;
}

/* publish publishes a page; STATUS_OK when a stream has all of it that it takes. */
static enum status publish(struct announce *announce, struct page *page, struct err *err)
{
    natspost_send(announce->post, page->items, page->count, ANSWER_MS);
    enum status status = shorten(announce, page, err);
    if (status == STATUS_OK)
        natspost_send(announce->post, page->items, page->count, ANSWER_MS);
    announce->rounds++;
    if (status == STATUS_OK)
        status = check_page(announce, page, err);
    for (size_t i = 0; i < page->count && status == STATUS_OK; i++) {
        if (page->items[i].fate == NATSPOST_STORED)
            atomic_fetch_add(&announce->desk.tally->announced, 1);
        else
            skip(announce, page, i);
    }
    return status;
}

/* tell publishes a page and moves the cursor; what was published and not acknowledged is published
 * again, with the same ids. */
static enum status tell(struct announce *announce, struct page *page, struct err *err)
{
    enum status status = print_page(announce, page, err);
    if (status == STATUS_OK && page->count)
        status = publish(announce, page, err);
    if (status != STATUS_OK)
        return status;
    int64_t before = announce->cursor;
    announce->rounds = 0;
    announce->cursor = page->seen;
    status = ask_duty(announce, true, span_seconds(DUTY_SECONDS));
    if (status != STATUS_OK)
        announce->cursor = before;
    return STATUS_OK;
}

/* ---- the desk -------------------------------------------------------------------------------- */

/* look tells what has happened since the cursor; `more` says that there may be more of it. */
static enum status look(struct announce *announce, bool *more, struct err *err)
{
    struct page page = {.after = announce->cursor, .seen = announce->cursor};
    struct read_command command = {.read = read_page, .ctx = &page};
    enum status status =
        natsdesk_call(&announce->desk, &command.command, COMMAND_READ, &announce->arena);
    if (status != STATUS_OK) {
        *err = command.command.err;
        return status;
    }
    if (page.seen > announce->cursor)
        status = tell(announce, &page, err);
    *more = status == STATUS_OK && page.seen < page.head;
    return status;
}

static void work(struct natsdesk *desk)
{
    struct announce *announce = (struct announce *)desk;
    struct err err = {0};
    bool more = false;
    arena_reset(&announce->arena);
    if (!have_duty(announce)) {
        natsdesk_rest(desk, TAKE_MS);
        return;
    }
    enum status status = STATUS_OK;
    if (!announce->post)
        status = natspost_open(desk, &announce->post, &err);
    if (status == STATUS_OK)
        status = look(announce, &more, &err);
    if (status != STATUS_OK) {
        if (natslink_connected(desk->link))
            natsdesk_trouble(desk, &err);
        natsdesk_rest(desk, AGAIN_MS);
        return;
    }
    natsdesk_fine(desk);
    if (!more)
        natsdesk_rest(desk, LOOK_MS);
}

/* leave gives the duty up: who has no connection cannot do it. */
static void leave(struct natsdesk *desk)
{
    struct announce *announce = (struct announce *)desk;
    natspost_close(announce->post);
    announce->post = NULL;
    if (announce->held)
        ask_duty(announce, false, (struct span){0});
    announce->held = false;
}

enum status announce_open(const struct natsoffice_config *config, struct natstally *tally,
                          struct announce **out, struct err *err)
{
    struct announce *announce = mem_zalloc(sizeof(*announce));
    if (!announce)
        return err_no_memory(err);
    announce->desk = (struct natsdesk){.name = "announce",
                                       .config = config,
                                       .engine = config->engine,
                                       .tally = tally,
                                       .work = work,
                                       .leave = leave};
    set_out(announce);
    enum status status = natsdesk_open(&announce->desk, err);
    if (status != STATUS_OK) {
        announce_close(announce);
        return status;
    }
    *out = announce;
    return STATUS_OK;
}

struct natsdesk *announce_desk(struct announce *announce)
{
    return &announce->desk;
}

void announce_close(struct announce *announce)
{
    if (!announce)
        return;
    natsdesk_close(&announce->desk);
    arena_release(&announce->arena);
    mem_free(announce);
}
