/* ingest: the stream, the consumer, and two batches in turn.
 *
 * While nothing is under way a fetch waits for one message; while a batch is being committed it
 * takes what is there.  So a letter that comes alone is stored at once, and under load a batch is
 * fetched and read while the one before it is being committed. */
#include "bridge/ingest.h"

#include "base/log.h"
#include "base/mem.h"
#include "bridge/intake.h"

#define BATCH 1000                      /* messages of one fetch */
#define BATCH_BYTES (16 << 20)          /* likewise, but for one message */
#define WAIT_MS 500                     /* for a message, when there is none */
#define SOON_MS 50                      /* for the messages that there are */
#define FLUSH_MS 3000                   /* for acknowledgements, at the end */
#define AGAIN_MS 2000                   /* between attempts at a stream that cannot be used */
#define ACK_WAIT_NS (30 * 1000000000LL) /* when a message is delivered again */
#define ACK_PENDING_MAX 20000           /* messages that all servers have under way */
#define QUIET_US 10000000 /* without a message: then stream and consumer are looked at again */
#define NS_PER_MS 1000000LL

struct ingest {
    struct natsdesk desk;
    natsSubscription *subscription; /* NULL: stream and consumer are to be looked at */
    struct intake intakes[2];       /* one is under way, the other is filled */
    unsigned turn;                  /* which is filled next */
    int64_t looked_us;              /* when stream and consumer were there */
};

/* ---- stream and consumer --------------------------------------------------------------------- */

/* takes_all says that a stream takes every subject of dead letters. */
static bool takes_all(const jsStreamConfig *config)
{
    for (int i = 0; i < config->SubjectsLen; i++)
        if (strcmp(config->Subjects[i], INGEST_SUBJECTS) == 0 ||
            strcmp(config->Subjects[i], ">") == 0)
            return true;
    return false;
}

static enum status make_stream(struct ingest *ingest, struct err *err)
{
    struct natslink *link = ingest->desk.link;
    const char *subjects[] = {INGEST_SUBJECTS};
    jsStreamConfig config;
    jsErrCode code = 0;
    jsStreamConfig_Init(&config);
    config.Name = INGEST_STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Retention = js_LimitsPolicy;
    config.Storage = js_FileStorage;
    natsStatus s = js_AddStream(NULL, natslink_jetstream(link), &config, NULL, &code);
    if (s == NATS_OK) {
        log_line(LOG_INFO, "NATS ingest: made the stream %s for %s", INGEST_STREAM,
                 INGEST_SUBJECTS);
        return STATUS_OK;
    }
    return natslink_fail(link, s, code, "making the stream " INGEST_STREAM, err);
}

static enum status look_at_stream(struct ingest *ingest, struct err *err)
{
    struct natslink *link = ingest->desk.link;
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus s = js_GetStreamInfo(&info, natslink_jetstream(link), INGEST_STREAM, NULL, &code);
    if (s == NATS_NOT_FOUND)
        return make_stream(ingest, err);
    if (s != NATS_OK)
        return natslink_fail(link, s, code, "looking for the stream " INGEST_STREAM, err);
    bool all = takes_all(info->Config);
    jsStreamInfo_Destroy(info);
    return all ? STATUS_OK
               : err_set(err, STATUS_CONFLICT,
                         "the stream " INGEST_STREAM
                         " is there, but does not take all of " INGEST_SUBJECTS
                         ": add that to its subjects (nats stream edit)");
}

static enum status make_consumer(struct ingest *ingest, struct err *err)
{
    struct natslink *link = ingest->desk.link;
    jsConsumerConfig config;
    jsErrCode code = 0;
    jsConsumerConfig_Init(&config);
    config.Durable = INGEST_CONSUMER;
    config.AckPolicy = js_AckExplicit;
    config.AckWait = ACK_WAIT_NS;
    config.MaxAckPending = ACK_PENDING_MAX;
    config.DeliverPolicy = js_DeliverAll;
    config.FilterSubject = INGEST_SUBJECTS;
    natsStatus s =
        js_AddConsumer(NULL, natslink_jetstream(link), INGEST_STREAM, &config, NULL, &code);
    return s == NATS_OK ? STATUS_OK
                        : natslink_fail(link, s, code, "making the consumer " INGEST_CONSUMER, err);
}

static enum status look_at_consumer(struct ingest *ingest, struct err *err)
{
    struct natslink *link = ingest->desk.link;
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus s = js_GetConsumerInfo(&info, natslink_jetstream(link), INGEST_STREAM,
                                      INGEST_CONSUMER, NULL, &code);
    if (s == NATS_NOT_FOUND)
        return make_consumer(ingest, err);
    if (s != NATS_OK)
        return natslink_fail(link, s, code, "looking for the consumer " INGEST_CONSUMER, err);
    const char *push = info->Config->DeliverSubject;
    bool usable = (!push || !*push) && info->Config->AckPolicy == js_AckExplicit;
    jsConsumerInfo_Destroy(info);
    return usable ? STATUS_OK
                  : err_set(err, STATUS_CONFLICT,
                            "the consumer " INGEST_CONSUMER
                            " is there, but is not one that is pulled and acknowledged one by one: "
                            "remove it (nats consumer rm)");
}

static enum status subscribe(struct ingest *ingest, struct err *err)
{
    struct natslink *link = ingest->desk.link;
    jsSubOptions options;
    jsErrCode code = 0;
    jsSubOptions_Init(&options);
    options.Stream = INGEST_STREAM;
    options.Consumer = INGEST_CONSUMER;
    natsStatus s = js_PullSubscribe(&ingest->subscription, natslink_jetstream(link),
                                    INGEST_SUBJECTS, INGEST_CONSUMER, NULL, &options, &code);
    if (s == NATS_OK)
        s = natsSubscription_SetPendingLimits(ingest->subscription, -1, -1);
    return s == NATS_OK
               ? STATUS_OK
               : natslink_fail(link, s, code, "subscribing to the stream " INGEST_STREAM, err);
}

/* prepare sees to stream and consumer: at first, and after a time without messages, as a fetch
 * from what was removed is met with silence. */
static bool prepare(struct ingest *ingest)
{
    struct err err = {0};
    int64_t now = natsdesk_steady_us();
    if (ingest->subscription && now - ingest->looked_us < QUIET_US)
        return true;
    enum status status = look_at_stream(ingest, &err);
    if (status == STATUS_OK)
        status = look_at_consumer(ingest, &err);
    if (status == STATUS_OK && !ingest->subscription)
        status = subscribe(ingest, &err);
    if (status == STATUS_OK) {
        ingest->looked_us = now;
        natsdesk_fine(&ingest->desk);
        return true;
    }
    if (natslink_connected(ingest->desk.link))
        natsdesk_trouble(&ingest->desk, &err);
    natsdesk_rest(&ingest->desk, AGAIN_MS);
    return false;
}

static void unsubscribe(struct ingest *ingest)
{
    natsSubscription_Destroy(ingest->subscription);
    ingest->subscription = NULL;
}

/* ---- fetching -------------------------------------------------------------------------------- */

/* fetch asks for one message, and waits for it; or for all that are there.  A server lets also who
 * does not want to wait do so, until its request expires, when it has nothing at all: so that is
 * soon. */
static natsStatus fetch(struct ingest *ingest, bool one, natsMsgList *messages)
{
    jsFetchRequest request;
    jsFetchRequest_Init(&request);
    request.Batch = one ? 1 : BATCH;
    request.MaxBytes = one ? 0 : BATCH_BYTES;
    request.NoWait = !one;
    request.Expires = (one ? WAIT_MS : SOON_MS) * NS_PER_MS;
    return natsSubscription_FetchRequest(messages, ingest->subscription, &request);
}

/* gather waits for a first message, or takes those that are there.  One that is larger than a batch
 * may be is an error there: it comes alone. */
static natsStatus gather(struct ingest *ingest, bool wait, natsMsgList *messages)
{
    natsStatus s = fetch(ingest, wait, messages);
    if (!wait && s != NATS_OK && s != NATS_NOT_FOUND && s != NATS_TIMEOUT)
        s = fetch(ingest, true, messages);
    return s == NATS_NOT_FOUND ? NATS_TIMEOUT : s;
}

/* fetch_failed handles what a fetch cannot get over: stream and consumer are looked at again, as
 * somebody may have removed them. */
static void fetch_failed(struct ingest *ingest, natsStatus s)
{
    struct err err = {0};
    if (natslink_connected(ingest->desk.link)) {
        natslink_fail(ingest->desk.link, s, 0, "fetching from the stream " INGEST_STREAM, &err);
        natsdesk_trouble(&ingest->desk, &err);
        unsubscribe(ingest);
    }
    natsdesk_rest(&ingest->desk, AGAIN_MS);
}

/* ---- the desk -------------------------------------------------------------------------------- */

/* work fetches and reads one batch, then finishes the one before it, and submits. */
static void work(struct natsdesk *desk)
{
    struct ingest *ingest = (struct ingest *)desk;
    struct intake *next = &ingest->intakes[ingest->turn % 2];
    struct intake *before = &ingest->intakes[(ingest->turn + 1) % 2];
    natsMsgList messages = {0};
    struct err err = {0};
    if (!prepare(ingest))
        return;
    natsStatus s = gather(ingest, !before->submitted, &messages);
    enum status status = STATUS_OK;
    if (s == NATS_OK)
        status = intake_read(next, &messages, &err);
    intake_finish(before);
    if (s == NATS_OK && status == STATUS_OK) {
        intake_submit(next);
        ingest->turn++;
        ingest->looked_us = natsdesk_steady_us();
    } else if (status != STATUS_OK) {
        natsdesk_trouble(desk, &err);
        natsdesk_rest(desk, AGAIN_MS);
    } else if (s != NATS_TIMEOUT) {
        fetch_failed(ingest, s);
    }
}

/* leave finishes what is under way: its messages belong to the connection. */
static void leave(struct natsdesk *desk)
{
    struct ingest *ingest = (struct ingest *)desk;
    intake_finish(&ingest->intakes[0]);
    intake_finish(&ingest->intakes[1]);
    if (natslink_connected(desk->link))
        natsConnection_FlushTimeout(natslink_connection(desk->link), FLUSH_MS);
    unsubscribe(ingest);
}

enum status ingest_open(const struct natsoffice_config *config, struct natstally *tally,
                        struct ingest **out, struct err *err)
{
    struct ingest *ingest = mem_zalloc(sizeof(*ingest));
    if (!ingest)
        return err_no_memory(err);
    ingest->desk = (struct natsdesk){.name = "ingest",
                                     .config = config,
                                     .engine = config->engine,
                                     .tally = tally,
                                     .work = work,
                                     .leave = leave};
    intake_init(&ingest->intakes[0], &ingest->desk);
    intake_init(&ingest->intakes[1], &ingest->desk);
    enum status status = natsdesk_open(&ingest->desk, err);
    if (status != STATUS_OK) {
        ingest_close(ingest);
        return status;
    }
    *out = ingest;
    return STATUS_OK;
}

struct natsdesk *ingest_desk(struct ingest *ingest)
{
    return &ingest->desk;
}

void ingest_close(struct ingest *ingest)
{
    if (!ingest)
        return;
    natsdesk_close(&ingest->desk);
    intake_release(&ingest->intakes[0]);
    intake_release(&ingest->intakes[1]);
    mem_free(ingest);
}
