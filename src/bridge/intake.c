/* intake: messages become letters, letters are stored, messages are acknowledged. */
#include "bridge/intake.h"

#include <inttypes.h>

#include "core/reason.h"
#include "engine/letterform.h"

#define AGAIN_MS 1000    /* between attempts at a store that fails */
#define REFUSALS_MAX 3   /* of one letter by the store: then it is the letter */
#define KEEP_US 10000000 /* how often the stream is told that work goes on: within the ack wait */

void intake_init(struct intake *intake, struct natsdesk *desk)
{
    *intake = (struct intake){.desk = desk};
    pthread_mutex_init(&intake->lock, NULL);
    pthread_cond_init(&intake->done, NULL);
}

/* let_go empties the intake.  What was not acknowledged is delivered again. */
static void let_go(struct intake *intake)
{
    natsMsgList_Destroy(&intake->messages);
    intake->messages = (natsMsgList){0};
    intake->submitted = false;
    arena_reset(&intake->arena);
}

void intake_release(struct intake *intake)
{
    let_go(intake);
    arena_release(&intake->arena);
    pthread_mutex_destroy(&intake->lock);
    pthread_cond_destroy(&intake->done);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* text_of is a subject as text: a byte that is no text becomes a question mark. */
static struct slice text_of(const char *subject, struct arena *arena)
{
    struct slice whole = slice_of(subject);
    if (json_utf8_valid(whole))
        return whole;
    char *text = arena_alloc(arena, whole.len + 1);
    for (size_t i = 0; text && i < whole.len; i++)
        text[i] = (unsigned char)whole.ptr[i] < 0x80 ? whole.ptr[i] : '?';
    return (struct slice){text, text ? whole.len : 0};
}

/* origin_of says how a message came.  Its place in the stream names it: however often it is
 * delivered, it is the same letter. */
static enum status origin_of(natsMsg *msg, struct arena *arena, struct letterform_origin *out,
                             struct err *err)
{
    jsMsgMetaData *meta = NULL;
    natsStatus s = natsMsg_GetMetaData(&meta, msg);
    if (s != NATS_OK)
        return err_set(err, STATUS_UNAVAILABLE, "a message of the stream is without its place: %s",
                       natsStatus_GetText(s));
    struct slice subject = text_of(natsMsg_GetSubject(msg), arena);
    *out = (struct letterform_origin){.subject = subject,
                                      .seed = arena_printf(arena, "%s %" PRIu64 " %" PRId64,
                                                           meta->Stream, meta->Sequence.Stream,
                                                           meta->Timestamp),
                                      .at = {meta->Timestamp / 1000}};
    jsMsgMetaData_Destroy(meta);
    return out->seed.ptr && subject.ptr ? STATUS_OK : err_no_memory(err);
}

static struct slice bytes_of(natsMsg *msg)
{
    return (struct slice){natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
}

static enum status make_malformed(struct intake *intake, size_t i, const char *why, struct err *err)
{
    return letterform_malformed(bytes_of(intake->messages.Msgs[i]), &intake->origins[i], why,
                                &intake->arena, &intake->items[i], err);
}

static enum status read_one(struct intake *intake, size_t i, struct err *err)
{
    natsMsg *msg = intake->messages.Msgs[i];
    enum status status = origin_of(msg, &intake->arena, &intake->origins[i], err);
    if (status != STATUS_OK)
        return status;
    struct err why = {0};
    status = letterform_read(bytes_of(msg), &intake->origins[i], &intake->arena, &intake->items[i],
                             &why);
    if (status == STATUS_NO_MEMORY)
        return err_no_memory(err);
    return status == STATUS_OK ? status : make_malformed(intake, i, why.text, err);
}

enum status intake_read(struct intake *intake, natsMsgList *messages, struct err *err)
{
    size_t count = (size_t)messages->Count;
    intake->messages = *messages;
    *messages = (natsMsgList){0};
    intake->items = arena_array(&intake->arena, count, sizeof(*intake->items));
    intake->origins = arena_array(&intake->arena, count, sizeof(*intake->origins));
    enum status status = intake->items && intake->origins ? STATUS_OK : err_no_memory(err);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = read_one(intake, i, err);
    if (status != STATUS_OK)
        let_go(intake);
    return status;
}

/* ---- storing --------------------------------------------------------------------------------- */

/* on_done runs on the engine's thread. */
static void on_done(struct command *command)
{
    struct intake *intake = command->owner;
    pthread_mutex_lock(&intake->lock);
    intake->answered = true;
    pthread_cond_signal(&intake->done);
    pthread_mutex_unlock(&intake->lock);
}

void intake_submit(struct intake *intake)
{
    intake->command = (struct import_command){.command = {.kind = COMMAND_IMPORT,
                                                          .actor = SLICE("nats"),
                                                          .arena = &intake->arena,
                                                          .done = on_done,
                                                          .owner = intake},
                                              .items = intake->items,
                                              .count = (size_t)intake->messages.Count};
    intake->answered = false;
    intake->submitted = true;
    engine_submit(intake->desk->engine, &intake->command.command);
}

static enum status await_answer(struct intake *intake)
{
    pthread_mutex_lock(&intake->lock);
    while (!intake->answered)
        pthread_cond_wait(&intake->done, &intake->lock);
    pthread_mutex_unlock(&intake->lock);
    return intake->command.command.status;
}

/* ---- acknowledging --------------------------------------------------------------------------- */

/* count_item counts a letter that is on disk. */
static void count_item(struct intake *intake, const struct import_item *item, bool malformed)
{
    struct natstally *tally = intake->desk->tally;
    if (!item->created) {
        atomic_fetch_add_explicit(&tally->duplicates, 1, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(&tally->ingested, 1, memory_order_relaxed);
    if (malformed)
        atomic_fetch_add_explicit(&tally->malformed, 1, memory_order_relaxed);
}

/* is_outage says that the store may take tomorrow what it does not take today. */
static bool is_outage(enum status status)
{
    switch (status) {
    case STATUS_INVALID:
    case STATUS_NOT_FOUND:
    case STATUS_CONFLICT:
    case STATUS_REFUSED:
    case STATUS_TOO_LARGE:
    case STATUS_CORRUPT:
        return false;
    default:
        return status != STATUS_OK;
    }
}

/* import_one stores one letter.  The status is its own, or that of a store that fails: then it is
 * not `its_own`, and may be due to what others asked for at the same time. */
static enum status import_one(struct intake *intake, struct import_item *item, bool *its_own,
                              struct err *err)
{
    struct import_command command = {.items = item, .count = 1};
    enum status status =
        natsdesk_call(intake->desk, &command.command, COMMAND_IMPORT, &intake->arena);
    *its_own = status == STATUS_OK;
    if (*its_own)
        status = item->status;
    if (status != STATUS_OK)
        *err = *its_own ? item->err : command.command.err;
    return status;
}

/* keep_refused stores a message whose letter is refused as one that is malformed. */
static enum status keep_refused(struct intake *intake, size_t i, const struct err *why,
                                struct err *err)
{
    bool its_own;
    enum status status = make_malformed(intake, i, why->text, err);
    return status ? status : import_one(intake, &intake->items[i], &its_own, err);
}

/* is_malformed looks at what the letter became. */
static bool is_malformed(const struct import_item *item)
{
    return item->letter.foreign && slice_is(item->letter.reason, REASON_MALFORMED);
}

/* settle acknowledges a message whose letter is on disk. */
static void settle(struct intake *intake, size_t i)
{
    count_item(intake, &intake->items[i], is_malformed(&intake->items[i]));
    natsMsg_Ack(intake->messages.Msgs[i], NULL);
}

/* acknowledge tells the stream of each message whose letter is on disk.  A refused one that cannot
 * be kept either (the store has just failed) stays in the stream. */
static void acknowledge(struct intake *intake)
{
    for (size_t i = 0; i < (size_t)intake->messages.Count; i++) {
        struct err why = intake->items[i].err, err = {0};
        if (intake->items[i].status == STATUS_OK ||
            keep_refused(intake, i, &why, &err) == STATUS_OK)
            settle(intake, i);
        else
            natsdesk_trouble(intake->desk, &err);
    }
}

/* keep_alive tells the stream that work on the messages goes on. */
static void keep_alive(struct intake *intake)
{
    for (int i = 0; i < intake->messages.Count; i++)
        natsMsg_InProgress(intake->messages.Msgs[i], NULL);
}

/* go_on tells the stream from time to time that work goes on. */
static void go_on(struct intake *intake, int64_t *told_us)
{
    if (natsdesk_steady_us() - *told_us < KEEP_US)
        return;
    keep_alive(intake);
    *told_us = natsdesk_steady_us();
}

/* pause_for waits before the store is asked again; false: there is no use in it. */
static bool pause_for(struct intake *intake, int64_t *told_us)
{
    struct natsdesk *desk = intake->desk;
    if (natsdesk_rest(desk, AGAIN_MS) || natslink_lost(desk->link))
        return false;
    go_on(intake, told_us);
    return true;
}

/* try_one stores one letter, until the store takes it, or has refused it again and again.  False:
 * the desk is to stop. */
static bool try_one(struct intake *intake, size_t i, int64_t *told_us, enum status *status,
                    struct err *why)
{
    bool its_own;
    for (int refusals = 0;;) {
        *status = import_one(intake, &intake->items[i], &its_own, why);
        if (its_own || (!is_outage(*status) && ++refusals == REFUSALS_MAX))
            return true;
        natsdesk_trouble(intake->desk, why);
        if (!pause_for(intake, told_us))
            return false;
    }
}

/* store_one stores one message, as a letter or as malformed.  What the store takes in neither form
 * stays in the stream.  False: the desk is to stop. */
static bool store_one(struct intake *intake, size_t i, int64_t *told_us)
{
    struct err why = {0}, err = {0};
    enum status status;
    go_on(intake, told_us);
    if (!try_one(intake, i, told_us, &status, &why))
        return false;
    if (status != STATUS_OK)
        status = keep_refused(intake, i, &why, &err);
    if (status == STATUS_OK) {
        settle(intake, i);
        return true;
    }
    natsdesk_trouble(intake->desk, &err);
    return pause_for(intake, told_us);
}

/* store_singly stores the messages of a batch that the store refused as a whole. */
static void store_singly(struct intake *intake, int64_t *told_us)
{
    for (size_t i = 0; i < (size_t)intake->messages.Count; i++)
        if (!store_one(intake, i, told_us))
            return;
    natsdesk_fine(intake->desk);
}

void intake_finish(struct intake *intake)
{
    int64_t told_us = natsdesk_steady_us();
    if (!intake->submitted)
        return;
    enum status status = await_answer(intake);
    while (is_outage(status)) {
        natsdesk_trouble(intake->desk, &intake->command.command.err);
        if (!pause_for(intake, &told_us))
            break;
        intake_submit(intake);
        status = await_answer(intake);
    }
    if (status == STATUS_OK) {
        natsdesk_fine(intake->desk);
        acknowledge(intake);
    } else if (!is_outage(status)) {
        natsdesk_trouble(intake->desk, &intake->command.command.err);
        store_singly(intake, &told_us);
    }
    let_go(intake);
}
