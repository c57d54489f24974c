/* intake: messages become letters, letters are stored, messages are acknowledged. */
#include "bridge/intake.h"

#include <inttypes.h>

#include "core/reason.h"
#include "engine/letterform.h"

#define AGAIN_MS 1000    /* between attempts at a store that fails */
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

/* keep_refused stores a message whose letter the engine refuses as one that is malformed. */
static enum status keep_refused(struct intake *intake, size_t i, struct err *err)
{
    struct import_item *item = &intake->items[i];
    struct err why = item->err;
    enum status status = make_malformed(intake, i, why.text, err);
    struct import_command command = {.items = item, .count = 1};
    if (status == STATUS_OK)
        status = natsdesk_call(intake->desk, &command.command, COMMAND_IMPORT, &intake->arena);
    if (status == STATUS_OK)
        status = item->status;
    if (status != STATUS_OK)
        *err = command.command.err.text[0] ? command.command.err : item->err;
    return status;
}

/* is_malformed looks at what the letter became. */
static bool is_malformed(const struct import_item *item)
{
    return item->letter.foreign && slice_is(item->letter.reason, REASON_MALFORMED);
}

/* acknowledge tells the stream of each message whose letter is on disk.  A refused one that cannot
 * be kept either (the store has just failed) stays in the stream. */
static void acknowledge(struct intake *intake)
{
    struct err err = {0};
    for (int i = 0; i < intake->messages.Count; i++) {
        struct import_item *item = &intake->items[i];
        if (item->status != STATUS_OK && keep_refused(intake, (size_t)i, &err) != STATUS_OK) {
            natsdesk_trouble(intake->desk, &err);
            continue;
        }
        count_item(intake, item, is_malformed(item));
        natsMsg_Ack(intake->messages.Msgs[i], NULL);
    }
}

/* keep_alive tells the stream that work on the messages goes on. */
static void keep_alive(struct intake *intake)
{
    for (int i = 0; i < intake->messages.Count; i++)
        natsMsg_InProgress(intake->messages.Msgs[i], NULL);
}

void intake_finish(struct intake *intake)
{
    struct natsdesk *desk = intake->desk;
    int64_t told_us = natsdesk_steady_us();
    if (!intake->submitted)
        return;
    enum status status = await_answer(intake);
    while (status != STATUS_OK) {
        natsdesk_trouble(desk, &intake->command.command.err);
        if (natsdesk_rest(desk, AGAIN_MS) || natslink_lost(desk->link))
            break;
        if (natsdesk_steady_us() - told_us > KEEP_US) {
            keep_alive(intake);
            told_us = natsdesk_steady_us();
        }
        intake_submit(intake);
        status = await_answer(intake);
    }
    if (status == STATUS_OK) {
        natsdesk_fine(desk);
        acknowledge(intake);
    }
    let_go(intake);
}
