/* republish: lease, publish, resolve. */
#include "bridge/republish.h"

#include "base/mem.h"
#include "bridge/natspost.h"
#include "core/replay.h"

#define LEASES_MAX 64 /* what a server that is killed may have sent twice, without a stream */
#define LEASE_SECONDS 30
#define WAIT_SECONDS 10 /* for a job, when there is none */
#define ANSWER_MS 5000  /* for the acknowledgements of a batch */
#define SURE_US                                                                                    \
    90000000 /* for how long what is unsure is sent again: a stream remembers ids for              \
                two minutes unless it is told otherwise */
#define HEARTBEAT_US 10000000
#define AGAIN_MS 1000
#define KEPT_MAX 1024 /* fates that are remembered */

/* struct kept: what became of a message whose lease ended before it was reported. */
struct kept {
    char *id;
    bool arrived; /* it did; else it may have */
};

/* struct replay: one letter on its way. */
struct replay {
    const struct lease *lease;
    struct slice dlq_id, subject;
    uint32_t redrive_count;
    struct err err; /* the letter cannot be read: why */
};

struct republish {
    struct natsdesk desk;
    struct natspost *post;
    char worker_id[160];
    struct arena arena; /* of one batch */
    pthread_mutex_t lock;
    pthread_cond_t answered;
    struct lease_command *waiting; /* under way; NULL: none */
    bool leased;                   /* it was answered */
    struct kept kept[KEPT_MAX];    /* the newest replaces the oldest */
    size_t kept_next;
};

static bool has_arrived(const struct natspost_item *item)
{
    return item->fate == NATSPOST_STORED || item->fate == NATSPOST_DELIVERED;
}

/* is_known says that there is something to report: also that nobody knows. */
static bool is_known(const struct natspost_item *item)
{
    return item->fate != NATSPOST_UNSURE || item->doubtful;
}

/* ---- what could not be reported -------------------------------------------------------------- */

static struct kept *find_kept(struct republish *republish, struct slice id)
{
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (republish->kept[i].id && slice_is(id, republish->kept[i].id))
            return &republish->kept[i];
    return NULL;
}

static void drop_kept(struct kept *kept)
{
    if (kept)
        mem_free(kept->id);
    if (kept)
        *kept = (struct kept){0};
}

/* keep_fate remembers what became of a message. */
static void keep_fate(struct republish *republish, const struct natspost_item *item)
{
    if (find_kept(republish, item->id) || (!has_arrived(item) && !item->doubtful))
        return;
    struct kept *kept = &republish->kept[republish->kept_next++ % KEPT_MAX];
    drop_kept(kept);
    *kept = (struct kept){.id = mem_strdup(item->id.ptr), .arrived = has_arrived(item)};
}

/* recall_fate gives a message the fate that it is known to have. */
static void recall_fate(struct republish *republish, struct natspost_item *item)
{
    const struct kept *kept = find_kept(republish, item->id);
    if (!kept)
        return;
    item->fate = kept->arrived ? NATSPOST_STORED : NATSPOST_REFUSED;
    item->doubtful = !kept->arrived;
    err_set(&item->err, STATUS_UNAVAILABLE, "the message was sent before, and not answered");
}

/* ---- leasing --------------------------------------------------------------------------------- */

static void on_leased(struct command *command)
{
    struct republish *republish = command->owner;
    pthread_mutex_lock(&republish->lock);
    republish->leased = true;
    pthread_cond_signal(&republish->answered);
    pthread_mutex_unlock(&republish->lock);
}

/* await_leases waits for the answer; republish_stop may end the engine's wait. */
static void await_leases(struct republish *republish, struct lease_command *command)
{
    pthread_mutex_lock(&republish->lock);
    republish->waiting = command;
    republish->leased = false;
    pthread_mutex_unlock(&republish->lock);
    engine_submit(republish->desk.engine, &command->command);
    /* A stop that came before the command was submitted did not end its wait. */
    if (natsdesk_stopping(&republish->desk))
        engine_abandon(republish->desk.engine, command);
    pthread_mutex_lock(&republish->lock);
    while (!republish->leased)
        pthread_cond_wait(&republish->answered, &republish->lock);
    republish->waiting = NULL;
    pthread_mutex_unlock(&republish->lock);
}

static enum status take_leases(struct republish *republish, struct lease_command *command)
{
    static const struct slice queue = {REPLAY_QUEUE, sizeof(REPLAY_QUEUE) - 1};
    static const struct slice capability = {REPLAY_CAPABILITY, sizeof(REPLAY_CAPABILITY) - 1};
    *command = (struct lease_command){
        .command = {.kind = COMMAND_LEASE,
                    .actor = slice_of(republish->worker_id),
                    .arena = &republish->arena,
                    .done = on_leased,
                    .owner = republish},
        .worker_id = slice_of(republish->worker_id),
        .query = {.queues = &queue,
                  .queue_count = 1,
                  .capabilities = &capability,
                  .capability_count = 1},
        .max = LEASES_MAX,
        .lease = span_seconds(LEASE_SECONDS),
        .wait = span_seconds(WAIT_SECONDS),
    };
    await_leases(republish, command);
    return command->command.status;
}

/* give_back returns the leases of what never went out (of all, without `items`), unstarted: another
 * publisher, or this one later, sends it. */
static void give_back(struct republish *republish, const struct lease_command *leased,
                      const struct natspost_item *items)
{
    struct release_item *releases =
        arena_array(&republish->arena, leased->count, sizeof(*releases));
    struct release_command command = {.items = releases};
    for (size_t i = 0; releases && i < leased->count; i++)
        if (!items || !is_known(&items[i]))
            releases[command.count++].lease_id = slice_of(leased->leases[i].lease_id);
    if (command.count)
        natsdesk_call(&republish->desk, &command.command, COMMAND_RELEASE, &republish->arena);
}

/* ---- finding the letters --------------------------------------------------------------------- */

struct search {
    struct replay *replays;
    size_t count;
};

static enum status find_letter(struct store *store, struct replay *replay, struct arena *arena,
                               struct err *err)
{
    struct job_row row;
    struct letter letter;
    enum status status = store->job_find(store, replay->lease->job_id, arena, &row, err);
    if (status == STATUS_OK)
        status = store->letter_by_job(store, row.job.seq, arena, &letter, err);
    if (status != STATUS_OK)
        return status;
    replay->dlq_id = letter.dlq_id;
    replay->subject = letter.original_subject;
    replay->redrive_count = row.job.redrive_count;
    return STATUS_OK;
}

/* find_letters looks up each.  One that is gone fails alone; a store that fails fails them all. */
static enum status find_letters(struct engine *engine, struct store *store, void *ctx,
                                struct arena *arena, struct err *err)
{
    struct search *search = ctx;
    enum status status = STATUS_OK;
    (void)engine;
    for (size_t i = 0; i < search->count && status == STATUS_OK; i++) {
        struct replay *replay = &search->replays[i];
        status = find_letter(store, replay, arena, err);
        if (status != STATUS_NOT_FOUND)
            continue;
        err_set(&replay->err, status, "the letter of the job is gone");
        err->text[0] = '\0';
        status = STATUS_OK;
    }
    return status;
}

static enum status read_letters(struct republish *republish, const struct lease_command *leased,
                                struct replay *replays)
{
    struct search search = {replays, leased->count};
    struct read_command command = {.read = find_letters, .ctx = &search};
    for (size_t i = 0; i < leased->count; i++)
        replays[i].lease = &leased->leases[i];
    enum status status =
        natsdesk_call(&republish->desk, &command.command, COMMAND_READ, &republish->arena);
    if (status != STATUS_OK)
        natsdesk_trouble(&republish->desk, &command.command.err);
    return status;
}

/* ---- publishing ------------------------------------------------------------------------------ */

static enum status fill_items(struct republish *republish, const struct replay *replays,
                              size_t count, struct natspost_item *items)
{
    for (size_t i = 0; i < count; i++) {
        items[i].subject = replays[i].subject;
        items[i].body = replays[i].lease->body;
        items[i].id = arena_printf(&republish->arena, "%.*s:%u", SLICE_ARG(replays[i].dlq_id),
                                   replays[i].redrive_count);
        if (!items[i].id.ptr)
            return STATUS_NO_MEMORY;
        if (replays[i].err.text[0]) {
            items[i].fate = NATSPOST_REFUSED;
            items[i].err = replays[i].err;
        } else {
            recall_fate(republish, &items[i]);
        }
    }
    return STATUS_OK;
}

static bool is_unsure(const struct natspost_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].fate == NATSPOST_UNSURE)
            return true;
    return false;
}

/* keep_leases tells the engine that the work goes on. */
static void keep_leases(struct republish *republish, const struct lease_command *leased)
{
    struct heartbeat_item *items = arena_array(&republish->arena, leased->count, sizeof(*items));
    struct heartbeat_command command = {.worker_id = slice_of(republish->worker_id),
                                        .lease = span_seconds(LEASE_SECONDS),
                                        .items = items,
                                        .count = leased->count};
    for (size_t i = 0; items && i < leased->count; i++)
        items[i].lease_id = slice_of(leased->leases[i].lease_id);
    if (items)
        natsdesk_call(&republish->desk, &command.command, COMMAND_HEARTBEAT, &republish->arena);
}

/* publish sends until the fate of each is known, or the time is over in which a stream drops what
 * it has already: then what never went out counts as refused, and the rest stays unsure.  When the
 * desk is to stop, or its connection is lost, both stay unsure. */
static void publish(struct republish *republish, const struct lease_command *leased,
                    struct natspost_item *items)
{
    int64_t begin = natsdesk_steady_us(), kept = begin;
    for (;;) {
        natspost_send(republish->post, items, leased->count, ANSWER_MS);
        int64_t now = natsdesk_steady_us();
        if (!is_unsure(items, leased->count) || natsdesk_stopping(&republish->desk) ||
            natslink_lost(republish->desk.link))
            return;
        if (now - begin > SURE_US)
            break;
        if (now - kept > HEARTBEAT_US) {
            keep_leases(republish, leased);
            kept = now;
        }
        if (natslink_wait(republish->desk.link, AGAIN_MS))
            natsdesk_rest(&republish->desk, AGAIN_MS);
    }
    for (size_t i = 0; i < leased->count; i++)
        if (!is_known(&items[i]))
            items[i].fate = NATSPOST_REFUSED;
}

/* ---- the outcome ----------------------------------------------------------------------------- */

/* fill_failure says why a message did not arrive, or that nobody knows whether it did: that is
 * also so of one that was refused after it had gone out before without an answer. */
static void fill_failure(struct republish *republish, const struct natspost_item *item,
                         struct failure *failure)
{
    failure_init(failure);
    failure->message = slice_of(item->err.text);
    failure->has_class = true;
    failure->given_class = CLASS_UNAVAILABLE;
    failure->side_effects = item->doubtful ? EFFECTS_UNKNOWN : EFFECTS_NONE;
    if (item->doubtful)
        failure->message =
            arena_printf(&republish->arena,
                         "it is not known whether the message arrived, look there before it is "
                         "sent again: %s",
                         item->err.text);
}

static void fill_result(struct republish *republish, const struct natspost_item *item,
                        const struct lease *lease, struct result_item *result)
{
    result->lease_id = slice_of(lease->lease_id);
    result->failed = !has_arrived(item);
    if (result->failed)
        fill_failure(republish, item, &result->failure);
}

/* note_reported counts those that the engine has on disk, and remembers the fates of those whose
 * leases had ended. */
static void note_reported(struct republish *republish, const struct natspost_item *items,
                          size_t count, const struct result_item *results)
{
    struct natstally *tally = republish->desk.tally;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_known(&items[i]))
            continue;
        const struct result_item *result = &results[n++];
        if (result->status != STATUS_OK) {
            keep_fate(republish, &items[i]);
            continue;
        }
        drop_kept(find_kept(republish, items[i].id));
        atomic_fetch_add(result->failed ? &tally->refused : &tally->replayed, 1);
    }
}

/* resolve says what became of those that went out or were refused, until the engine has it on disk
 * or the desk is to stop: then the leases end by themselves, and the ids keep what was published
 * from being doubled, as long as a stream remembers them. */
static void resolve(struct republish *republish, const struct lease_command *leased,
                    const struct natspost_item *items)
{
    struct result_item *results = arena_array(&republish->arena, leased->count, sizeof(*results));
    struct resolve_command command = {.items = results};
    for (size_t i = 0; results && i < leased->count; i++)
        if (is_known(&items[i]))
            fill_result(republish, &items[i], &leased->leases[i], &results[command.count++]);
    if (command.count == 0)
        return;
    struct arena scratch = {0}; /* of one attempt: an outage may be long */
    while (natsdesk_call(&republish->desk, &command.command, COMMAND_RESOLVE, &scratch) !=
           STATUS_OK) {
        natsdesk_trouble(&republish->desk, &command.command.err);
        arena_reset(&scratch);
        if (natsdesk_rest(&republish->desk, AGAIN_MS)) {
            arena_release(&scratch);
            return;
        }
    }
    arena_release(&scratch);
    note_reported(republish, items, leased->count, results);
    natsdesk_fine(&republish->desk);
}

/* ---- the desk -------------------------------------------------------------------------------- */

static void carry_out(struct republish *republish, const struct lease_command *leased)
{
    struct replay *replays = arena_array(&republish->arena, leased->count, sizeof(*replays));
    struct natspost_item *items = arena_array(&republish->arena, leased->count, sizeof(*items));
    if (!natslink_connected(republish->desk.link) || !replays || !items ||
        read_letters(republish, leased, replays) != STATUS_OK ||
        fill_items(republish, replays, leased->count, items) != STATUS_OK) {
        give_back(republish, leased, NULL);
        return;
    }
    publish(republish, leased, items);
    resolve(republish, leased, items);
    give_back(republish, leased, items);
}

static bool prepare(struct republish *republish)
{
    struct err err = {0};
    if (republish->post || natspost_open(&republish->desk, &republish->post, &err) == STATUS_OK)
        return true;
    natsdesk_trouble(&republish->desk, &err);
    natsdesk_rest(&republish->desk, AGAIN_MS);
    return false;
}

static void work(struct natsdesk *desk)
{
    struct republish *republish = (struct republish *)desk;
    struct lease_command leased;
    if (!prepare(republish))
        return;
    enum status status = take_leases(republish, &leased);
    if (status == STATUS_OK && leased.count) {
        natsdesk_fine(desk);
        carry_out(republish, &leased);
    } else if (status != STATUS_OK) {
        natsdesk_trouble(desk, &leased.command.err);
        natsdesk_rest(desk, AGAIN_MS);
    }
    arena_reset(&republish->arena);
}

static void leave(struct natsdesk *desk)
{
    struct republish *republish = (struct republish *)desk;
    natspost_close(republish->post);
    republish->post = NULL;
}

/* linked tells the engine whether letters can be brought back. */
static void linked(struct natsdesk *desk, bool connected)
{
    engine_publisher(desk->engine, connected);
}

enum status republish_open(const struct natsoffice_config *config, struct natstally *tally,
                           struct republish **out, struct err *err)
{
    struct republish *republish = mem_zalloc(sizeof(*republish));
    if (!republish)
        return err_no_memory(err);
    snprintf(republish->worker_id, sizeof(republish->worker_id), "nats:%.140s",
             config->server_name);
    pthread_mutex_init(&republish->lock, NULL);
    pthread_cond_init(&republish->answered, NULL);
    republish->desk = (struct natsdesk){.name = "republish",
                                        .config = config,
                                        .engine = config->engine,
                                        .tally = tally,
                                        .work = work,
                                        .leave = leave,
                                        .linked = linked};
    enum status status = natsdesk_open(&republish->desk, err);
    if (status != STATUS_OK) {
        republish_close(republish);
        return status;
    }
    *out = republish;
    return STATUS_OK;
}

struct natsdesk *republish_desk(struct republish *republish)
{
    return &republish->desk;
}

void republish_stop(struct republish *republish)
{
    natsdesk_stop(&republish->desk);
    pthread_mutex_lock(&republish->lock);
    if (republish->waiting)
        engine_abandon(republish->desk.engine, republish->waiting);
    pthread_mutex_unlock(&republish->lock);
}

void republish_close(struct republish *republish)
{
    if (!republish)
        return;
    republish_stop(republish);
    natsdesk_close(&republish->desk);
    for (size_t i = 0; i < KEPT_MAX; i++)
        mem_free(republish->kept[i].id);
    arena_release(&republish->arena);
    pthread_mutex_destroy(&republish->lock);
    pthread_cond_destroy(&republish->answered);
    mem_free(republish);
}
