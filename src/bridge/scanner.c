/* scanner: a scan is in two parts: finding candidates, by bounded reads between which the engine
 * does other work, and bringing the chosen ones back.
 *
 *     window: the oldest candidates of all --- there are no others ---> choose
 *          `-- there are more than one scan takes: lanes, one for each group, each read from its
 *              oldest letter on, in rounds that share out what is left ---> choose */
#include "bridge/scanner.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "core/replay.h"

#define PAGE 500         /* letters of one read of the window */
#define WINDOW_PAGES 20  /* reads of it, when most of what there is cannot be brought back */
#define GROUP_PAGE 100   /* groups of one read */
#define LANES_A_READ 32  /* groups that one read looks into */
#define LANE_PAGE_MIN 50 /* letters of a group in one read */
#define LANE_PAGES 20    /* reads of one group in one scan */
#define LEFT_MAX 1000    /* letters that are looked at, of each kind, for those that were left */
#define TTL_BEYOND span_seconds(30) /* the duty is held for so long after the next scan is due */

/* ---- choosing -------------------------------------------------------------------------------- */

/* struct place: where a candidate stands: in its group, and where its group does. */
struct place {
    const struct scanner_candidate *candidate;
    size_t rank;    /* in its group: 0 is the oldest */
    int64_t oldest; /* position of the group's oldest letter */
};

static int slice_order(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.ptr, b.ptr, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int number_order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_group(const void *left, const void *right)
{
    const struct scanner_candidate *a = ((const struct place *)left)->candidate;
    const struct scanner_candidate *b = ((const struct place *)right)->candidate;
    int order = slice_order(a->fingerprint, b->fingerprint);
    if (!order)
        order = number_order(a->position, b->position);
    return order ? order : slice_order(a->dlq_id, b->dlq_id);
}

static int by_turn(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    int order = (a->rank > b->rank) - (a->rank < b->rank);
    if (!order)
        order = number_order(a->oldest, b->oldest);
    return order ? order : by_group(a, b);
}

/* rank_all finds the place of each in its group, drops what is there twice, and says how many are
 * left. */
static size_t rank_all(struct place *places, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct scanner_candidate *candidate = places[i].candidate;
        const struct place *last = kept ? &places[kept - 1] : NULL;
        bool same = last && slice_eq(last->candidate->fingerprint, candidate->fingerprint);
        if (same && slice_eq(last->candidate->dlq_id, candidate->dlq_id))
            continue;
        places[kept] = (struct place){.candidate = candidate,
                                      .rank = same ? last->rank + 1 : 0,
                                      .oldest = same ? last->oldest : candidate->position};
        kept++;
    }
    return kept;
}

bool scanner_choose(const struct scanner_candidate *all, size_t count, size_t max,
                    struct arena *arena, const struct scanner_candidate **out, size_t *chosen)
{
    struct place *places = arena_array(arena, count + 1, sizeof(*places));
    if (!places)
        return false;
    for (size_t i = 0; i < count; i++)
        places[i].candidate = &all[i];
    qsort(places, count, sizeof(*places), by_group);
    count = rank_all(places, count);
    qsort(places, count, sizeof(*places), by_turn);
    *chosen = count < max ? count : max;
    for (size_t i = 0; i < *chosen; i++)
        out[i] = places[i].candidate;
    return true;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* struct lane: a group, and how far it was read. */
struct lane {
    struct slice fingerprint;
    int64_t cursor;
    unsigned pages;
    bool dry; /* there are no more, or enough of it was read */
};

/* struct scan: one scan.  All that was read is in the arena. */
struct scan {
    struct scanner *scanner;
    struct arena arena;
    struct err err;
    size_t budget;   /* letters that may still be brought back */
    bool no_foreign; /* nobody can publish: letters from elsewhere stay */
    bool stopped;    /* the engine takes no more, or the duty is another's */
    size_t replayed, refused;
    struct scanner_candidate *list;
    size_t count, room;
    int64_t cursor; /* of the window, or of the groups */
    bool ended;     /* there are no more of these */
    struct lane lanes[SCANNER_GROUPS_MAX];
    size_t lane_count;
    size_t lane_begin, lane_end, share; /* what a read is to look into */
    int64_t groups_from;                /* where the groups of this scan begin */
    bool wrapped;                       /* and went on from the newest */
    size_t left;
};

static struct letter_filter filter_of(struct engine *engine)
{
    struct instant now = engine_now(engine);
    return (struct letter_filter){.has_state = true,
                                  .state = LETTER_DEAD,
                                  .recoverable = YES,
                                  .after = {now.us - span_seconds(SCANNER_AGE_SECONDS).us + 1},
                                  .redrives_below = REPLAY_AUTOMATIC_MAX,
                                  .oldest_first = true};
}

static bool is_candidate(const struct scan *scan, struct store *store, const struct letter *letter)
{
    return !letter->review && !letter->escalated && !(letter->foreign && scan->no_foreign) &&
           !store->queue_paused(store, letter->job.queue);
}

/* add takes a candidate in.  There is room for what one scan may read. */
static void add(struct scan *scan, const struct letter *letter)
{
    if (scan->count < scan->room)
        scan->list[scan->count++] = (struct scanner_candidate){.dlq_id = letter->dlq_id,
                                                               .fingerprint = letter->fingerprint,
                                                               .position = letter->position,
                                                               .foreign = letter->foreign};
}

static enum status read_window(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    struct scan *scan = ctx;
    struct letter_filter filter = filter_of(engine);
    struct letter *letters;
    size_t count;
    filter.cursor = scan->cursor;
    filter.limit = PAGE;
    enum status status = store->letter_list(store, &filter, arena, &letters, &count, err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        scan->cursor = letters[i].position;
        if (is_candidate(scan, store, &letters[i]))
            add(scan, &letters[i]);
    }
    scan->ended = count < PAGE;
    return STATUS_OK;
}

/* read_groups adds lanes for a page of groups: those that have open letters, and failed lately. */
static enum status read_groups(struct engine *engine, struct store *store, void *ctx,
                               struct arena *arena, struct err *err)
{
    struct scan *scan = ctx;
    struct instant now = engine_now(engine);
    struct letter_group *groups;
    size_t count;
    int64_t oldest = now.us - span_seconds(SCANNER_AGE_SECONDS).us;
    enum status status =
        store->group_list(store, now, scan->cursor, GROUP_PAGE, arena, &groups, &count, err);
    if (status)
        return status;
    scan->ended = count < GROUP_PAGE;
    for (size_t i = 0; i < count && scan->lane_count < SCANNER_GROUPS_MAX; i++) {
        int64_t seen = groups[i].last_seen.us;
        if (seen <= oldest || (scan->wrapped && seen < scan->groups_from)) {
            scan->ended = true;
            break;
        }
        scan->cursor = seen;
        if (groups[i].count > 0)
            scan->lanes[scan->lane_count++] = (struct lane){.fingerprint = groups[i].fingerprint};
    }
    return STATUS_OK;
}

/* read_lane reads the next letters of a group, until `share` of them are candidates. */
static enum status read_lane(struct engine *engine, struct store *store, struct scan *scan,
                             struct lane *lane, struct arena *arena, struct err *err)
{
    struct letter_filter filter = filter_of(engine);
    struct letter *letters;
    size_t count, found = 0, i;
    filter.fingerprint = lane->fingerprint;
    filter.cursor = lane->cursor;
    filter.limit = scan->share > LANE_PAGE_MIN ? scan->share : LANE_PAGE_MIN;
    enum status status = store->letter_list(store, &filter, arena, &letters, &count, err);
    if (status)
        return status;
    for (i = 0; i < count && found < scan->share; i++) {
        lane->cursor = letters[i].position;
        if (!is_candidate(scan, store, &letters[i]))
            continue;
        add(scan, &letters[i]);
        found++;
    }
    lane->dry = (i == count && count < filter.limit) || ++lane->pages == LANE_PAGES;
    return STATUS_OK;
}

static enum status read_lanes(struct engine *engine, struct store *store, void *ctx,
                              struct arena *arena, struct err *err)
{
    struct scan *scan = ctx;
    enum status status = STATUS_OK;
    for (size_t i = scan->lane_begin; !status && i < scan->lane_end; i++)
        if (!scan->lanes[i].dry)
            status = read_lane(engine, store, scan, &scan->lanes[i], arena, err);
    return status;
}

/* count_left counts letters of one kind that came back too often. */
static enum status count_left(struct engine *engine, struct store *store, struct scan *scan,
                              enum tristate recoverable, struct arena *arena, struct err *err)
{
    struct letter_filter filter = filter_of(engine);
    struct letter *letters;
    size_t count;
    filter.recoverable = recoverable;
    filter.redrives_below = 0;
    filter.oldest_first = false;
    filter.limit = LEFT_MAX;
    enum status status = store->letter_list(store, &filter, arena, &letters, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        scan->left += letters[i].job.redrive_count >= REPLAY_AUTOMATIC_MAX;
    return status;
}

static enum status read_left(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    enum status status = count_left(engine, store, ctx, YES, arena, err);
    return status ? status : count_left(engine, store, ctx, NO, arena, err);
}

static enum status ask(struct scan *scan,
                       enum status (*read)(struct engine *engine, struct store *store, void *ctx,
                                           struct arena *arena, struct err *err))
{
    return seat_read(scan->scanner->seat, read, scan, &scan->arena, &scan->err);
}

/* find_groups makes the lanes, going on where the scan before ended. */
static enum status find_groups(struct scan *scan)
{
    struct scanner *scanner = scan->scanner;
    enum status status = STATUS_OK;
    scan->lane_count = 0;
    scan->groups_from = scan->cursor = scanner->group_cursor;
    scan->wrapped = scan->groups_from == 0;
    do {
        status = ask(scan, read_groups);
        if (!status && scan->ended && !scan->wrapped) {
            scan->wrapped = true;
            scan->ended = false;
            scan->cursor = 0;
        }
    } while (!status && !scan->ended && scan->lane_count < SCANNER_GROUPS_MAX);
    scanner->group_cursor = scan->lane_count == SCANNER_GROUPS_MAX ? scan->cursor : 0;
    return status;
}

static size_t lanes_wet(const struct scan *scan)
{
    size_t wet = 0;
    for (size_t i = 0; i < scan->lane_count; i++)
        wet += !scan->lanes[i].dry;
    return wet;
}

/* find_lanes reads each group from its oldest letter on, in rounds: what is left of the budget is
 * shared out among the groups that have more. */
static enum status find_lanes(struct scan *scan)
{
    enum status status = find_groups(scan);
    size_t wet;
    scan->count = 0;
    while (!status && scan->count < scan->budget && (wet = lanes_wet(scan)) > 0) {
        scan->share = (scan->budget - scan->count) / wet;
        if (scan->share == 0)
            scan->share = 1;
        for (size_t i = 0; !status && i < scan->lane_count; i += LANES_A_READ) {
            scan->lane_begin = i;
            scan->lane_end =
                i + LANES_A_READ < scan->lane_count ? i + LANES_A_READ : scan->lane_count;
            status = ask(scan, read_lanes);
        }
    }
    return status;
}

/* find fills the list with the candidates that are to be chosen from. */
static enum status find(struct scan *scan)
{
    enum status status = STATUS_OK;
    scan->room = 2 * SCANNER_MAX + PAGE;
    scan->list = arena_array(&scan->arena, scan->room, sizeof(*scan->list));
    if (!scan->list)
        return err_no_memory(&scan->err);
    scan->count = 0;
    scan->cursor = 0;
    scan->ended = false;
    for (unsigned i = 0; i < WINDOW_PAGES && !status && !scan->ended && scan->count <= scan->budget;
         i++)
        status = ask(scan, read_window);
    bool all = scan->ended && scan->count <= scan->budget;
    return status || all ? status : find_lanes(scan);
}

/* ---- bringing back --------------------------------------------------------------------------- */

/* take_answer counts what became of one letter. */
static void take_answer(struct scan *scan, const struct review_item *item, bool foreign)
{
    if (item->status == STATUS_OK) {
        scan->replayed++;
        scan->budget--;
    } else if (item->status == STATUS_UNAVAILABLE && foreign) {
        scan->no_foreign = true;
    } else if (item->status == STATUS_LIMIT) {
        log_line(LOG_WARN, "scanner: it stops here: %s", item->err.text);
        scan->stopped = true;
    } else {
        scan->refused++;
    }
}

/* carry_wave brings one wave back. */
static enum status carry_wave(struct scan *scan, const struct scanner_candidate *const *chosen,
                              size_t count)
{
    struct review_item items[SCANNER_WAVE] = {0};
    bool foreign[SCANNER_WAVE];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (chosen[i]->foreign && scan->no_foreign)
            continue;
        foreign[n] = chosen[i]->foreign;
        items[n++].dlq_id = chosen[i]->dlq_id;
    }
    struct review_command command = {.action = REVIEW_RETRY,
                                     .items = items,
                                     .count = n,
                                     .by = SLICE(SCANNER_BY),
                                     .refuse_review = true};
    if (n == 0)
        return STATUS_OK;
    enum status status = seat_ask(scan->scanner->seat, &command.command, COMMAND_REVIEW, "scanner",
                                  &scan->arena, &scan->err);
    for (size_t i = 0; !status && i < n; i++)
        take_answer(scan, &items[i], foreign[i]);
    return status;
}

/* carry brings the chosen ones back.  It may take long: the duty is kept meanwhile. */
static enum status carry(struct scan *scan, const struct scanner_candidate *const *chosen,
                         size_t count)
{
    const struct seat *seat = scan->scanner->seat;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && !status && !scan->stopped; i += SCANNER_WAVE) {
        size_t wave = count - i < SCANNER_WAVE ? count - i : SCANNER_WAVE;
        status = seat_hold(seat, &scan->scanner->duty, &scan->err);
        scan->stopped = !scan->scanner->duty.held || seat_ended(seat);
        if (!status && !scan->stopped)
            status = carry_wave(scan, chosen + i, wave);
    }
    return status;
}

static enum status pass(struct scan *scan)
{
    const struct scanner_candidate **chosen =
        arena_array(&scan->arena, SCANNER_MAX, sizeof(struct scanner_candidate *));
    size_t count = 0;
    enum status status = find(scan);
    if (status)
        return status;
    if (!chosen ||
        !scanner_choose(scan->list, scan->count, scan->budget, &scan->arena, chosen, &count))
        return err_no_memory(&scan->err);
    return carry(scan, chosen, count);
}

/* work is a whole scan.  When it turns out that letters from elsewhere cannot be published now,
 * what they would have taken of the budget goes to the others. */
static enum status work(struct scan *scan)
{
    scan->budget = SCANNER_MAX;
    enum status status = pass(scan);
    if (!status && !scan->stopped && scan->no_foreign && scan->budget > 0)
        status = pass(scan);
    return status ? status : ask(scan, read_left);
}

/* tell counts, and logs what is worth a line. */
static void tell(struct scanner *scanner, const struct scan *scan)
{
    struct scanner_counts *counts = &scanner->counts;
    size_t before = atomic_exchange(&counts->left, scan->left);
    atomic_fetch_add(&counts->scans, 1);
    atomic_fetch_add(&counts->replayed, scan->replayed);
    atomic_fetch_add(&counts->refused, scan->refused);
    if (scan->replayed || scan->refused || scan->left != before)
        log_line(LOG_INFO,
                 "scanner: brought back: %zu; refused: %zu; left for people, as they came back %d "
                 "times: %zu",
                 scan->replayed, scan->refused, REPLAY_AUTOMATIC_MAX, scan->left);
}

static enum status scan_now(struct scanner *scanner, struct err *err)
{
    enum status status = seat_hold(scanner->seat, &scanner->duty, err);
    if (status || !scanner->duty.held)
        return status;
    struct scan *scan = mem_zalloc(sizeof(*scan));
    if (!scan)
        return err_no_memory(err);
    scan->scanner = scanner;
    status = work(scan);
    if (status) {
        *err = scan->err;
        scan->left = atomic_load(&scanner->counts.left);
    }
    tell(scanner, scan);
    arena_release(&scan->arena);
    mem_free(scan);
    return status;
}

/* ---- from outside ---------------------------------------------------------------------------- */

void scanner_init(struct scanner *scanner, const struct seat *seat, struct span interval)
{
    *scanner = (struct scanner){.seat = seat, .interval = interval};
    scanner->next.us = seat_now(seat).us + interval.us;
    scanner->duty = (struct seat_duty){.name = SCANNER_DUTY, .ttl = {interval.us + TTL_BEYOND.us}};
}

struct span scanner_run(struct scanner *scanner)
{
    struct err err = {0};
    if (seat_now(scanner->seat).us < scanner->next.us)
        return scanner->next;
    enum status status = scan_now(scanner, &err);
    seat_say(&scanner->trouble, "scanner", status, &err);
    scanner->next.us = seat_now(scanner->seat).us + scanner->interval.us;
    return scanner->next;
}

void scanner_leave(struct scanner *scanner)
{
    seat_leave(scanner->seat, &scanner->duty);
}
