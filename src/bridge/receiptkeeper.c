/* receiptkeeper: a thread that keeps receipts.json and the letters in step.
 *
 * Once a second it looks whether anything was recorded since the last sync (the head of the audit),
 * and whether the file is another one; only then it syncs.  After a sync it rests for twenty times
 * as long as that took, so that it takes a twentieth of the time at most. */
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/seams.h"
#include "bridge/lockedfile.h"
#include "bridge/receiptfile.h"

#define LOOK_US 1000000 /* from one look to the next */
#define REST_FACTOR 20

struct receiptfile_keeper {
    struct link link;
    char *path;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* `ended` is set */
    bool ended;          /* guarded by the lock */
    /* Of the thread alone: */
    int64_t head;       /* of the audit, before the last sync; -1: not known */
    bool there;         /* the file, after the last sync */
    struct stat seen;   /* and which one it was */
    uint64_t memory;    /* of the last sync: see receiptfile_sync */
    struct err trouble; /* what the log says last; empty: all is well */
    struct err bad;     /* and what it says of entries that are no receipts */
};

/* ---- looking --------------------------------------------------------------------------------- */

/* read_head asks how much was recorded; -1 when nobody answers. */
static int64_t read_head(struct receiptfile_keeper *keeper)
{
    struct json value, seq;
    struct buf answer;
    struct err err;
    int64_t head = -1;
    buf_init(&answer, 4096);
    if (link_ask(&keeper->link, "GET", "/api/v1/audit/head", (struct slice){0}, &answer, &value,
                 &err) == STATUS_OK &&
        json_get(value, "seq", &seq) && !json_int(seq, &head))
        head = -1;
    buf_release(&answer);
    return head;
}

static bool file_changed(const struct receiptfile_keeper *keeper)
{
    struct stat now;
    bool there = stat(keeper->path, &now) == 0;
    return there != keeper->there || (there && !lockedfile_same(&now, &keeper->seen));
}

/* say logs what a sync came to; a trouble that lasts, once. */
static void say(struct receiptfile_keeper *keeper, enum status status, const struct err *err,
                const struct receiptfile_counts *counts)
{
    if (status != STATUS_OK && strcmp(keeper->trouble.text, err->text) != 0)
        log_line(LOG_ERROR, "the dead receipts are not written down: %s", err->text);
    if (status != STATUS_OK) {
        keeper->trouble = *err;
        return;
    }
    if (keeper->trouble.text[0])
        log_line(LOG_INFO, "%s is in step with the dead letters again", keeper->path);
    if (counts->taken)
        log_line(LOG_INFO, "entries of %s that became dead letters: %zu", keeper->path,
                 counts->taken);
    keeper->trouble = (struct err){0};
}

/* say_bad logs that entries are no receipts: when somebody edited the file, and once.  That others
 * come and go, so that it is another entry by number, is not worth a line. */
static void say_bad(struct receiptfile_keeper *keeper, bool edited,
                    const struct receiptfile_counts *counts)
{
    const char *text = counts->bad_err.text, *said = keeper->bad.text;
    if (counts->bad && said[0] && (!edited || strcmp(said, text) == 0))
        return;
    if (counts->bad == 1)
        log_line(LOG_ERROR, "%s", text);
    else if (counts->bad)
        log_line(LOG_ERROR, "%s (such entries in all: %zu)", text, counts->bad);
    else if (said[0])
        log_line(LOG_INFO, "all entries of %s are receipts again", keeper->path);
    keeper->bad = counts->bad_err;
}

static enum status sync_now(struct receiptfile_keeper *keeper)
{
    struct receiptfile_counts counts;
    struct err err = {0};
    bool edited = file_changed(keeper);
    int64_t head = read_head(keeper);
    enum status status =
        receiptfile_sync(&keeper->link, keeper->path, &keeper->memory, &counts, &err);
    say(keeper, status, &err, &counts);
    if (status == STATUS_OK)
        say_bad(keeper, edited, &counts);
    keeper->head = status == STATUS_OK ? head : -1;
    keeper->there = counts.there;
    keeper->seen = counts.seen;
    return status;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* rest waits until it is to end, which it says, or the time is over. */
static bool rest(struct receiptfile_keeper *keeper, int64_t us)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + us % 1000000 * 1000;
    until.tv_sec += us / 1000000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->ended && pthread_cond_timedwait(&keeper->wake, &keeper->lock, &until) == 0)
        ;
    bool ended = keeper->ended;
    pthread_mutex_unlock(&keeper->lock);
    return ended;
}

static void *run(void *ctx)
{
    struct receiptfile_keeper *keeper = ctx;
    const struct seams *world = seams_real();
    int64_t pause = LOOK_US;
    while (!rest(keeper, pause)) {
        pause = LOOK_US;
        int64_t begin = world->steady(world->ctx).us;
        bool changed =
            keeper->head < 0 || file_changed(keeper) || read_head(keeper) != keeper->head;
        if (!changed)
            continue;
        enum status status = sync_now(keeper);
        int64_t took = world->steady(world->ctx).us - begin;
        /* Waiting for a lock is no work. */
        if (status != STATUS_BUSY && took * REST_FACTOR > pause)
            pause = took * REST_FACTOR;
    }
    return NULL;
}

/* start begins the thread.  Signals are for those who wait for them. */
static int start(struct receiptfile_keeper *keeper)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&keeper->thread, NULL, run, keeper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void keeper_free(struct receiptfile_keeper *keeper)
{
    pthread_mutex_destroy(&keeper->lock);
    pthread_cond_destroy(&keeper->wake);
    mem_free(keeper->path);
    mem_free(keeper);
}

enum status receiptfile_keep(const struct link *link, const char *path,
                             struct receiptfile_keeper **out, struct err *err)
{
    struct receiptfile_keeper *keeper = mem_zalloc(sizeof(*keeper));
    pthread_condattr_t steady;
    if (!keeper)
        return err_no_memory(err);
    keeper->link = *link;
    keeper->path = mem_strdup(path);
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->wake, &steady);
    pthread_condattr_destroy(&steady);
    if (!keeper->path) {
        keeper_free(keeper);
        return err_no_memory(err);
    }
    sync_now(keeper);
    int failed = start(keeper);
    if (failed) {
        keeper_free(keeper);
        return err_set(err, STATUS_NO_MEMORY, "cannot start a thread: %s", strerror(failed));
    }
    *out = keeper;
    return STATUS_OK;
}

void receiptfile_release(struct receiptfile_keeper *keeper)
{
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->ended = true;
    pthread_cond_signal(&keeper->wake);
    pthread_mutex_unlock(&keeper->lock);
    pthread_join(keeper->thread, NULL);
    sync_now(keeper);
    keeper_free(keeper);
}
