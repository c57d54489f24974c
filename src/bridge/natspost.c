/* natspost: see natspost.h.
 *
 * Answers come to PREFIX.ROUND.INDEX: those of a round before are dropped, as what they tell is
 * known from the round that follows.  After the messages of a round one is sent to
 * PREFIX.ROUND.END: the server handles what a connection sends in order, so when that comes back
 * everybody who listens has been found.  Answers are read by a thread of libnats; `lock` guards
 * what it touches. */
#include "bridge/natspost.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/seams.h"
#include "core/field.h"

#define KNOWN_MAX 4096      /* subjects that are remembered */
#define KNOWN_US 60000000   /* for so long */
#define SUBJECT_MAX 4096    /* bytes: what a letter may have */
#define LOOKUP_MS 3000      /* for the server to say whether a stream takes a subject */
#define LOOKUPS_US 10000000 /* for all subjects of a round: the others wait for the next */
#define STEP_NS 100000000   /* how often a wait looks at the connection */

/* struct known: whether a stream takes a subject. */
struct known {
    char *subject;
    bool captured;
    int64_t until_us; /* steady */
};

struct natspost {
    struct natsdesk *desk;
    struct natslink *link;
    natsInbox *inbox;
    natsSubscription *answers; /* of inbox.> */
    pthread_mutex_t lock;      /* of what follows, but for `known` */
    pthread_cond_t changed;
    bool completed; /* no answer is read any more */
    bool ended;     /* the end of this round has come back */
    uint64_t round;
    struct natspost_item *items; /* of this round; NULL: it is over */
    size_t count;
    struct known known[KNOWN_MAX]; /* by the subject's hash: one that falls on it replaces it */
};

static int64_t steady_us(void)
{
    const struct seams *world = seams_real();
    return world->steady(world->ctx).us;
}

enum status natspost_subject_check(struct slice subject, struct err *err)
{
    struct slice shown = field_head(subject, FIELD_SHOWN_MAX);
    size_t token = 0;
    if (subject.len == 0)
        return err_set(err, STATUS_INVALID, "the subject is empty: nothing can be published to it");
    if (subject.len > SUBJECT_MAX)
        return err_set(err, STATUS_INVALID, "the subject has more than %d bytes", SUBJECT_MAX);
    for (size_t i = 0; i <= subject.len; i++) {
        unsigned char c = i < subject.len ? (unsigned char)subject.ptr[i] : '.';
        bool wild = i == token + 1 && (subject.ptr[token] == '*' || subject.ptr[token] == '>');
        if (c == '.' && i == token)
            return err_set(err, STATUS_INVALID, "the subject \"%.*s\" has an empty word",
                           SLICE_ARG(shown));
        if (c == '.' && wild)
            return err_set(err, STATUS_INVALID,
                           "the subject \"%.*s\" has a wildcard: messages go to one subject",
                           SLICE_ARG(shown));
        if (c <= ' ' || c == '"' || c == '\\' || c == 0x7f)
            return err_set(err, STATUS_INVALID,
                           "the subject \"%.*s\" has a space, a quote or a control character",
                           SLICE_ARG(shown));
        if (c == '.')
            token = i + 1;
    }
    return STATUS_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void on_answer(natsConnection *connection, natsSubscription *subscription, natsMsg *msg,
                      void *closure);

/* on_complete is told when no answer is read any more. */
static void on_complete(void *closure)
{
    struct natspost *post = closure;
    pthread_mutex_lock(&post->lock);
    post->completed = true;
    pthread_cond_signal(&post->changed);
    pthread_mutex_unlock(&post->lock);
}

static natsStatus open_answers(struct natspost *post)
{
    natsConnection *connection = natslink_connection(post->link);
    char subject[128];
    natsStatus s = natsInbox_Create(&post->inbox);
    if (s != NATS_OK)
        return s;
    snprintf(subject, sizeof(subject), "%s.>", post->inbox);
    s = natsConnection_Subscribe(&post->answers, connection, subject, on_answer, post);
    if (s == NATS_OK)
        s = natsSubscription_SetOnCompleteCB(post->answers, on_complete, post);
    post->completed = s != NATS_OK;
    if (s == NATS_OK)
        s = natsSubscription_SetPendingLimits(post->answers, -1, -1);
    return s;
}

enum status natspost_open(struct natsdesk *desk, struct natspost **out, struct err *err)
{
    struct natspost *post = mem_zalloc(sizeof(*post));
    if (!post)
        return err_no_memory(err);
    post->desk = desk;
    post->link = desk->link;
    post->completed = true;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&post->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&post->lock, NULL);
    natsStatus s = open_answers(post);
    if (s != NATS_OK) {
        enum status status = natslink_fail(post->link, s, 0, "listening for answers", err);
        natspost_close(post);
        return status;
    }
    *out = post;
    return STATUS_OK;
}

void natspost_close(struct natspost *post)
{
    if (!post)
        return;
    natsSubscription_Destroy(post->answers);
    pthread_mutex_lock(&post->lock);
    while (!post->completed)
        pthread_cond_wait(&post->changed, &post->lock);
    pthread_mutex_unlock(&post->lock);
    pthread_mutex_destroy(&post->lock);
    pthread_cond_destroy(&post->changed);
    natsInbox_Destroy(post->inbox);
    for (size_t i = 0; i < KNOWN_MAX; i++)
        mem_free(post->known[i].subject);
    mem_free(post);
}

/* ---- which streams there are ----------------------------------------------------------------- */

/* ask_streams asks whether a stream takes a subject.  That none does is only known when the server
 * says so, or has no JetStream: silence may be an outage, or a user that may not ask. */
static enum natspost_capture ask_streams(struct natspost *post, const char *subject)
{
    jsStreamNamesList *list = NULL;
    jsErrCode code = 0;
    jsOptions options;
    jsOptions_Init(&options);
    options.Wait = LOOKUP_MS;
    options.Stream.Info.SubjectsFilter = subject;
    natsStatus s = js_StreamNames(&list, natslink_jetstream(post->link), &options, &code);
    bool some = s == NATS_OK && list && list->Count > 0;
    jsStreamNamesList_Destroy(list);
    if (some)
        return NATSPOST_CAPTURED;
    if (s == NATS_OK || s == NATS_NOT_FOUND || s == NATS_NO_RESPONDERS || code == JSNotEnabledErr ||
        code == JSNotEnabledForAccountErr)
        return NATSPOST_FREE;
    return NATSPOST_UNKNOWN;
}

static struct known *place_of(struct natspost *post, const char *subject)
{
    return &post->known[hash64(slice_of(subject)) % KNOWN_MAX];
}

/* recall is what the server said of a subject a short time ago. */
static enum natspost_capture recall(struct natspost *post, const char *subject)
{
    const struct known *known = place_of(post, subject);
    if (!known->subject || strcmp(known->subject, subject) != 0 || steady_us() >= known->until_us)
        return NATSPOST_UNKNOWN;
    return known->captured ? NATSPOST_CAPTURED : NATSPOST_FREE;
}

static void remember(struct natspost *post, const char *subject, bool captured)
{
    struct known *known = place_of(post, subject);
    mem_free(known->subject);
    known->subject = mem_strdup(subject);
    known->captured = captured;
    known->until_us = steady_us() + KNOWN_US;
}

static void forget(struct natspost *post, struct slice subject)
{
    struct known *known = &post->known[hash64(subject) % KNOWN_MAX];
    mem_free(known->subject);
    known->subject = NULL;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void refuse(struct natspost_item *item, struct err *err)
{
    item->fate = NATSPOST_REFUSED;
    if (err != &item->err)
        item->err = *err;
}

/* publish hands one message to libnats. */
static natsStatus publish(struct natspost *post, const struct natspost_item *item,
                          const char *subject, const char *id, size_t index)
{
    natsMsg *msg = NULL;
    char reply[160];
    snprintf(reply, sizeof(reply), "%s.%llu.%zu", post->inbox, (unsigned long long)post->round,
             index);
    natsStatus s = item->body.len > INT32_MAX
                       ? NATS_MAX_PAYLOAD
                       : natsMsg_Create(&msg, subject, reply, item->body.ptr, (int)item->body.len);
    if (s == NATS_OK && *id)
        s = natsMsgHeader_Set(msg, "Nats-Msg-Id", id);
    if (s == NATS_OK)
        s = natsConnection_PublishMsg(natslink_connection(post->link), msg);
    natsMsg_Destroy(msg);
    return s;
}

/* struct asking: the subjects of one round. */
struct asking {
    struct natspost *post;
    struct arena arena;
    int64_t until_us; /* steady */
    bool silent;      /* the server did not answer: it is not asked again in this round */
};

/* may_ask says that there is time to ask, and somebody. */
static bool may_ask(const struct asking *asking)
{
    struct natspost *post = asking->post;
    return steady_us() < asking->until_us && natslink_connected(post->link) &&
           !natsdesk_stopping(post->desk);
}

/* ask_capture finds out whether a stream takes the subject of a message. */
static void ask_capture(struct asking *asking, struct natspost_item *item)
{
    const char *subject = arena_dup(&asking->arena, item->subject).ptr;
    item->capture = subject ? recall(asking->post, subject) : NATSPOST_UNKNOWN;
    if (item->capture != NATSPOST_UNKNOWN || asking->silent)
        return;
    item->held = !subject || !may_ask(asking);
    if (item->held)
        return;
    item->capture = ask_streams(asking->post, subject);
    asking->silent = item->capture == NATSPOST_UNKNOWN;
    if (!asking->silent)
        remember(asking->post, subject, item->capture == NATSPOST_CAPTURED);
}

/* ask_one looks at the subject of a message, and at whether a stream takes it.  What somebody has
 * got, as became known in a round before, was delivered when no stream takes it. */
static void ask_one(struct asking *asking, struct natspost_item *item)
{
    item->err.text[0] = '\0';
    item->nobody = item->held = false;
    if (natspost_subject_check(item->subject, &item->err) != STATUS_OK) {
        refuse(item, &item->err);
        return;
    }
    ask_capture(asking, item);
    if (item->passed && item->capture == NATSPOST_FREE)
        item->fate = NATSPOST_DELIVERED;
    else if (item->passed && item->capture == NATSPOST_UNKNOWN)
        item->held = true;
}

static void ask_all(struct natspost *post, struct natspost_item *items, size_t count)
{
    struct asking asking = {.post = post, .until_us = steady_us() + LOOKUPS_US};
    for (size_t i = 0; i < count; i++) {
        items[i].sent = false;
        if (items[i].fate == NATSPOST_UNSURE)
            ask_one(&asking, &items[i]);
    }
    arena_release(&asking.arena);
}

/* send_one sends one message; false: there is no use in going on. */
static bool send_one(struct natspost *post, struct natspost_item *item, size_t index,
                     struct arena *arena)
{
    char doing[128];
    struct slice subject = arena_dup(arena, item->subject), id = arena_dup(arena, item->id);
    if (!subject.ptr || !id.ptr) {
        err_no_memory(&item->err);
        return false;
    }
    natsStatus s = publish(post, item, subject.ptr, id.ptr, index);
    item->sent = s == NATS_OK;
    if (item->sent)
        return true;
    struct slice shown = field_head(subject, FIELD_SHOWN_MAX);
    snprintf(doing, sizeof(doing), "publishing to %.*s", SLICE_ARG(shown));
    item->too_large = natslink_fail(post->link, s, 0, doing, &item->err) == STATUS_TOO_LARGE;
    if (item->too_large)
        refuse(item, &item->err);
    return item->too_large;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* nobody_listens settles a message that the server could give to nobody.  Where a stream is said
 * to take it, that is asked once more. */
static void nobody_listens(struct natspost_item *item)
{
    struct slice shown = field_head(item->subject, 200);
    err_set(&item->err, STATUS_UNAVAILABLE,
            "nobody listens on %.*s: no stream takes it, and no subscriber", SLICE_ARG(shown));
    item->nobody = true;
    if (item->capture != NATSPOST_CAPTURED)
        refuse(item, &item->err);
}

/* read_ack reads the acknowledgement of a stream; what a subscriber answers is none. */
static void read_ack(struct natspost_item *item, struct slice text)
{
    struct json ack, error, value, description = {0};
    struct slice shown = field_head(item->subject, 200);
    if (json_parse(text, &ack, NULL) != STATUS_OK)
        return;
    if (json_get(ack, "error", &error) && json_get(error, "code", &value)) {
        int64_t number;
        json_get(error, "description", &description);
        item->too_large = json_get(error, "err_code", &value) && json_int(value, &number) &&
                          number == JSStreamMessageExceedsMaximumErr;
        err_set(&item->err, STATUS_UNAVAILABLE, "the stream that takes %.*s refuses it: %.*s",
                SLICE_ARG(shown), SLICE_ARG(field_head(description.raw, 200)));
        refuse(item, &item->err);
    } else if (json_get(ack, "stream", &value) && json_get(ack, "seq", &value)) {
        item->fate = NATSPOST_STORED;
    }
}

/* item_of finds the message that an answer is for; NULL: it is of another round.  The end of the
 * round has the index that follows the last. */
static struct natspost_item *item_of(struct natspost *post, const char *address)
{
    size_t prefix = strlen(post->inbox), index;
    unsigned long long round;
    if (!post->items || strlen(address) <= prefix ||
        sscanf(address + prefix, ".%llu.%zu", &round, &index) != 2 || round != post->round)
        return NULL;
    post->ended = post->ended || index == post->count;
    return index < post->count && post->items[index].fate == NATSPOST_UNSURE ? &post->items[index]
                                                                             : NULL;
}

/* on_answer runs on a thread of libnats. */
static void on_answer(natsConnection *connection, natsSubscription *subscription, natsMsg *msg,
                      void *closure)
{
    struct natspost *post = closure;
    struct slice text = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    (void)connection;
    (void)subscription;
    pthread_mutex_lock(&post->lock);
    struct natspost_item *item = item_of(post, natsMsg_GetSubject(msg));
    if (item && natsMsg_IsNoResponders(msg))
        nobody_listens(item);
    else if (item && item->capture != NATSPOST_FREE)
        read_ack(item, text);
    pthread_cond_signal(&post->changed);
    pthread_mutex_unlock(&post->lock);
    natsMsg_Destroy(msg);
}

/* is_open says that an answer is still awaited. */
static bool is_open(const struct natspost *post)
{
    if (!post->ended)
        return true;
    for (size_t i = 0; i < post->count; i++) {
        const struct natspost_item *item = &post->items[i];
        if (item->fate == NATSPOST_UNSURE && item->sent && item->capture != NATSPOST_FREE &&
            !item->err.text[0])
            return true;
    }
    return false;
}

/* await_answers waits until all have come, the time is over or the connection is gone. */
static void await_answers(struct natspost *post, int64_t until_us)
{
    struct timespec step;
    while (is_open(post) && steady_us() < until_us && natslink_connected(post->link)) {
        clock_gettime(CLOCK_MONOTONIC, &step);
        step.tv_nsec += STEP_NS;
        step.tv_sec += step.tv_nsec / 1000000000;
        step.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&post->changed, &post->lock, &step);
    }
}

static void say_unsure(struct natspost_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct slice shown = field_head(items[i].subject, 200);
        if (items[i].fate != NATSPOST_UNSURE || items[i].err.text[0])
            continue;
        if (items[i].passed && items[i].capture == NATSPOST_UNKNOWN)
            err_set(&items[i].err, STATUS_UNAVAILABLE,
                    "somebody has got the message to %.*s, but no stream acknowledged it, and NATS "
                    "does not say whether one takes it: let the user ask $JS.API.STREAM.NAMES",
                    SLICE_ARG(shown));
        else
            err_set(&items[i].err, STATUS_UNAVAILABLE,
                    "NATS did not say in time whether the message to %.*s arrived",
                    SLICE_ARG(shown));
    }
}

/* send_all sends what is unsure; it stops where there is no use in going on. */
static void send_all(struct natspost *post, struct natspost_item *items, size_t count)
{
    struct arena arena = {0};
    bool going = true;
    for (size_t i = 0; i < count && going && !natsdesk_stopping(post->desk); i++)
        if (items[i].fate == NATSPOST_UNSURE && !items[i].held)
            going = send_one(post, &items[i], i, &arena);
    arena_release(&arena);
}

/* send_end sends what comes back when all before it was handled. */
static void send_end(struct natspost *post, size_t count)
{
    char address[160];
    snprintf(address, sizeof(address), "%s.%llu.%zu", post->inbox, (unsigned long long)post->round,
             count);
    natsConnection_Publish(natslink_connection(post->link), address, "", 0);
}

/* settle_one closes the round for one: what was not refused when its end came back was delivered,
 * where no stream takes it; elsewhere somebody has got it, and that is all that is known. */
static void settle_one(struct natspost *post, struct natspost_item *item)
{
    if (item->nobody)
        forget(post, item->subject);
    if (item->fate != NATSPOST_UNSURE || !item->sent || item->nobody)
        return;
    if (post->ended && item->capture == NATSPOST_FREE) {
        item->fate = NATSPOST_DELIVERED;
        return;
    }
    item->doubtful = true;
    item->passed = item->passed || (post->ended && item->capture == NATSPOST_UNKNOWN);
}

static void settle(struct natspost *post)
{
    for (size_t i = 0; i < post->count; i++)
        settle_one(post, &post->items[i]);
    say_unsure(post->items, post->count);
    post->items = NULL;
}

void natspost_send(struct natspost *post, struct natspost_item *items, size_t count,
                   unsigned wait_ms)
{
    int64_t until_us = steady_us() + (int64_t)wait_ms * 1000;
    ask_all(post, items, count);
    pthread_mutex_lock(&post->lock);
    post->round++;
    post->items = items;
    post->count = count;
    post->ended = false;
    send_all(post, items, count);
    send_end(post, count);
    await_answers(post, until_us);
    settle(post);
    pthread_mutex_unlock(&post->lock);
}
