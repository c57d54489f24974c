/* kill_check: what must be true of a data directory whose owner was killed.
 *
 * The checker trusts two things only: the lines of the victim (what was acknowledged) and the chain
 * of evidence (verified).  It folds the events into runs and states by itself and asks for each job
 * whether the store says the same. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/kill.h"

#define PAGE 1000
#define COMPLAINTS_MAX 10
#define RACES_MAX                                                                                  \
    20 /* the engine of the checker works on, so a job can move while it is looked at */

enum phase { UNSEEN, WAITING, RUNNING, DONE, CANCELLED, DEAD };

struct entry {
    char id[KILL_ID_SIZE];              /* empty: a free place */
    bool acknowledged, completed, died; /* what the victim was told */
    enum phase phase;                   /* what the evidence says */
    int runs;
    bool settled; /* it was found ended, and as it should be */
};

struct ledger {
    struct entry *entries; /* a hash table with open addressing */
    size_t cap, count, acknowledged;
    long long seq; /* of the last event that was folded */
    int complaints;
};

struct ledger *ledger_new(void)
{
    struct ledger *ledger = calloc(1, sizeof(*ledger));

    if (!ledger)
        abort();
    return ledger;
}

void ledger_free(struct ledger *ledger)
{
    if (ledger)
        free(ledger->entries);
    free(ledger);
}

size_t ledger_acknowledged(const struct ledger *ledger)
{
    return ledger->acknowledged;
}

static struct entry *place(struct ledger *ledger, const char *id)
{
    size_t hash = 1469598103934665603u;

    for (const char *c = id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    size_t at = hash & (ledger->cap - 1);
    while (ledger->entries[at].id[0] && strcmp(ledger->entries[at].id, id) != 0)
        at = (at + 1) & (ledger->cap - 1);
    return &ledger->entries[at];
}

static void grow(struct ledger *ledger)
{
    struct entry *before = ledger->entries;
    size_t cap = ledger->cap;

    ledger->cap = cap ? cap * 2 : 1024;
    ledger->entries = calloc(ledger->cap, sizeof(*ledger->entries));
    if (!ledger->entries)
        abort();
    for (size_t i = 0; i < cap; i++)
        if (before[i].id[0])
            *place(ledger, before[i].id) = before[i];
    free(before);
}

static struct entry *find(struct ledger *ledger, const char *id)
{
    if (ledger->count * 2 >= ledger->cap)
        grow(ledger);
    struct entry *entry = place(ledger, id);
    if (!entry->id[0]) {
        snprintf(entry->id, sizeof(entry->id), "%s", id);
        ledger->count++;
    }
    return entry;
}

void ledger_note(struct ledger *ledger, const char *line)
{
    struct entry *entry;

    if (strlen(line) < 3)
        return;
    entry = find(ledger, line + 2);
    if (line[0] == 'p') {
        ledger->acknowledged += !entry->acknowledged;
        entry->acknowledged = true;
    }
    entry->completed = entry->completed || line[0] == 'c';
    entry->died = entry->died || line[0] == 'd';
}

static void complain(struct ledger *ledger, const char *id, const char *what, const char *more)
{
    if (ledger->complaints++ < COMPLAINTS_MAX)
        fprintf(stderr, "kill_loop: job %s: %s%s%s\n", id, what, *more ? ": " : "", more);
}

/* ---- the evidence ---------------------------------------------------------------------------- */

static void fold(struct ledger *ledger, const char *id, const char *what)
{
    static const struct {
        const char *what;
        enum phase from, to;
        int runs;
    } moves[] = {
        {"pushed", UNSEEN, WAITING, 0},      {"leased", WAITING, RUNNING, 1},
        {"started", RUNNING, RUNNING, 0},    {"released", RUNNING, WAITING, -1},
        {"completed", RUNNING, DONE, 0},     {"retry-scheduled", RUNNING, WAITING, 0},
        {"dead-lettered", RUNNING, DEAD, 0},
    };
    struct entry *entry = find(ledger, id);

    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
        if (strcmp(what, moves[i].what) != 0)
            continue;
        if (entry->phase != moves[i].from)
            complain(ledger, id, "an event that may not follow", what);
        entry->phase = moves[i].to;
        entry->runs += moves[i].runs;
        if (entry->runs > KILL_ATTEMPTS)
            complain(ledger, id, "more runs than its policy allows", what);
        return;
    }
    complain(ledger, id, "an event that nobody caused", what);
}

/* fold_page folds one page of events; it returns how many, or -1. */
static int fold_page(struct ledger *ledger, struct lz *lz)
{
    char target[80];
    char *answer = NULL;
    int status = 0;
    struct lz_error error;
    json_t *events, *event;
    size_t i;

    snprintf(target, sizeof(target), "/api/v1/audit?after=%lld&limit=%d", ledger->seq, PAGE);
    if (lz_request(lz, "GET", target, NULL, &status, &answer, &error) != LZ_OK || status != 200) {
        fprintf(stderr, "kill_loop: the evidence cannot be read: %s\n",
                answer ? answer : error.text);
        lz_free(answer);
        return -1;
    }
    events = json_loads(answer, 0, NULL);
    lz_free(answer);
    json_array_foreach(events, i, event)
    {
        const char *id = json_string_value(json_object_get(event, "job_id"));
        const char *what = json_string_value(json_object_get(event, "what"));
        long long seq = json_integer_value(json_object_get(event, "seq"));

        if (seq != ledger->seq + 1)
            complain(ledger, "-", "the chain has a gap", "");
        ledger->seq = seq;
        if (id && what)
            fold(ledger, id, what);
    }
    int count = (int)json_array_size(events);
    json_decref(events);
    return count;
}

static bool fold_all(struct ledger *ledger, struct lz *lz)
{
    int count;

    do
        count = fold_page(ledger, lz);
    while (count == PAGE);
    return count >= 0;
}

/* ---- the jobs -------------------------------------------------------------------------------- */

static enum phase phase_of(const char *state)
{
    if (!state)
        return UNSEEN;
    if (strcmp(state, "pending") == 0 || strcmp(state, "scheduled") == 0)
        return WAITING;
    if (strcmp(state, "running") == 0)
        return RUNNING;
    if (strcmp(state, "done") == 0)
        return DONE;
    return strcmp(state, "dead") == 0 ? DEAD : CANCELLED;
}

/* check_job asks for one job.  It returns false when what the store says is not what the evidence
 * says: perhaps the job has moved in between. */
static bool check_job(struct ledger *ledger, struct lz *lz, struct entry *entry, bool *wrong)
{
    char *answer = NULL;
    char body[KILL_BODY_SIZE];
    struct lz_error error;

    *wrong = true;
    if (lz_job(lz, entry->id, &answer, &error) != LZ_OK) {
        complain(ledger, entry->id, "acknowledged, and not found", error.text);
        lz_free(answer);
        return true;
    }
    json_t *job = json_loads(answer, 0, NULL);
    enum phase phase = phase_of(json_string_value(json_object_get(job, "state")));
    kill_body(entry->id, body);
    if (phase != entry->phase)
        goto moved;
    if (!strstr(answer, body))
        complain(ledger, entry->id, "its payload is not what was pushed", answer);
    else if (entry->completed && phase != DONE)
        complain(ledger, entry->id, "its completion was acknowledged, and it is not done", "");
    else if (entry->died && phase != DEAD)
        complain(ledger, entry->id, "it was dead, and is not", "");
    else
        *wrong = false;
    entry->settled = !*wrong && phase >= DONE;
moved:
    json_decref(job);
    lz_free(answer);
    return phase == entry->phase;
}

static int check_jobs(struct ledger *ledger, struct lz *lz, int all)
{
    int lost = 0;

    for (size_t i = 0; i < ledger->cap; i++) {
        struct entry *entry = &ledger->entries[i];
        bool wrong = false;
        int races = 0;

        if (!entry->id[0] || !entry->acknowledged || (entry->settled && !all))
            continue;
        while (!check_job(ledger, lz, entry, &wrong)) {
            if (races++ == RACES_MAX) {
                complain(ledger, entry->id, "its state is not what the evidence says", "");
                break;
            }
            if (!fold_all(ledger, lz))
                return -1;
        }
        lost += wrong;
    }
    return lost;
}

int ledger_check(struct ledger *ledger, const char *data, int all)
{
    struct lz_options options = {.data = data, .actor = "checker", .lock_wait_ms = 5000};
    struct lz_error error;
    struct lz *lz;
    uint64_t events = 0;
    int lost = -1;

    ledger->complaints = 0;
    if (lz_open(&options, &lz, &error) != LZ_OK) {
        fprintf(stderr, "kill_loop: cannot be opened: %s\n", error.text);
        return -1;
    }
    if (lz_audit_verify(lz, &events, &error) != LZ_OK)
        fprintf(stderr, "kill_loop: the chain does not verify: %s\n", error.text);
    else if (fold_all(ledger, lz))
        lost = check_jobs(ledger, lz, all);
    lz_close(lz);
    return lost == 0 && ledger->complaints ? -1 : lost;
}
