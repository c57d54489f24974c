/* alertbook: see alertbook.h.  Entries stand in one array and are found by the hash of their
 * fingerprint; the texts are copies of a bounded size. */
#include "bridge/alertbook.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"

#define FINGERPRINT_TEXT 64
#define SIGNATURE_TEXT 1024
#define NAME_TEXT 200

/* struct text: a copy, cut where there is no more room. */
#define TEXT(size)                                                                                 \
    struct {                                                                                       \
        char bytes[size];                                                                          \
        size_t len;                                                                                \
    }

struct entry {
    uint64_t hash; /* of the fingerprint; 0: the place is free */
    bool resolved, ignored;
    struct instant last_at; /* the last letter's */
    /* Of those that are counted and not said: */
    int64_t count;
    struct instant first_seen, last_seen;
    TEXT(NAME_TEXT) sample;
    /* Of the group, as its last letter has it: */
    TEXT(FINGERPRINT_TEXT) fingerprint;
    TEXT(SIGNATURE_TEXT) signature;
    TEXT(NAME_TEXT) reason;
    TEXT(NAME_TEXT) source;
    TEXT(NAME_TEXT) queue;
};

struct first {
    size_t entry;
    TEXT(NAME_TEXT) sample;
    struct instant at;
    int64_t seq;
};

struct alertbook {
    struct entry entries[ALERTBOOK_GROUPS_MAX];
    struct first firsts[ALERTBOOK_FIRSTS_MAX]; /* to be said at once */
    size_t first_count;
    size_t beginnings;      /* in the window since: */
    struct span begun;      /* of the first of them */
    int64_t counted;        /* letters, not said */
    int64_t unnamed;        /* of these: without an entry */
    int64_t counted_seq;    /* the event of the first of them */
    struct span opened;     /* when that was */
    struct instant last_at; /* of the last of them */
};

#define COPY(to, from) copy((to).bytes, sizeof((to).bytes), &(to).len, from)
#define SHOW(text) ((struct slice){(text).bytes, (text).len})

static void copy(char *bytes, size_t size, size_t *len, struct slice from)
{
    *len = from.len < size ? from.len : size;
    if (*len)
        memcpy(bytes, from.ptr, *len);
}

struct alertbook *alertbook_new(void)
{
    return mem_zalloc(sizeof(struct alertbook));
}

void alertbook_free(struct alertbook *book)
{
    mem_free(book);
}

void alertbook_clear(struct alertbook *book)
{
    memset(book, 0, sizeof(*book));
}

/* ---- entries --------------------------------------------------------------------------------- */

/* find is the place of a group; ALERTBOOK_GROUPS_MAX: there is none. */
static size_t find(const struct alertbook *book, struct slice fingerprint)
{
    uint64_t hash = hash64(fingerprint);
    size_t i = 0;
    while (i < ALERTBOOK_GROUPS_MAX && book->entries[i].hash != hash)
        i++;
    return i;
}

static struct entry *entry_of(struct alertbook *book, struct slice fingerprint)
{
    size_t index = find(book, fingerprint);
    return index < ALERTBOOK_GROUPS_MAX ? &book->entries[index] : NULL;
}

enum alertbook_standing alertbook_standing(const struct alertbook *book, struct slice fingerprint,
                                           struct instant at)
{
    size_t index = find(book, fingerprint);
    if (index == ALERTBOOK_GROUPS_MAX)
        return ALERTBOOK_NEW;
    const struct entry *entry = &book->entries[index];
    if (entry->ignored)
        return ALERTBOOK_IGNORED;
    bool quiet = instant_since(at, entry->last_at).us >= span_seconds(ALERTBOOK_QUIET_SECONDS).us;
    return entry->resolved || quiet ? ALERTBOOK_BEGINS : ALERTBOOK_GOES_ON;
}

/* is_needed says whether there is something to be said of an entry. */
static bool is_needed(const struct alertbook *book, size_t index)
{
    for (size_t i = 0; i < book->first_count; i++)
        if (book->firsts[i].entry == index)
            return true;
    return book->entries[index].count > 0;
}

/* make finds a place: a free one, else that of the group that was quiet for longest and has nothing
 * to be said of.  NULL: there is none. */
static struct entry *make(struct alertbook *book, struct slice fingerprint)
{
    struct entry *best = NULL;
    for (size_t i = 0; i < ALERTBOOK_GROUPS_MAX; i++) {
        struct entry *entry = &book->entries[i];
        if (entry->hash && is_needed(book, i))
            continue;
        if (!best || !entry->hash || instant_before(entry->last_at, best->last_at))
            best = entry;
        if (!entry->hash)
            break;
    }
    if (best) {
        *best = (struct entry){.hash = hash64(fingerprint)};
        COPY(best->fingerprint, fingerprint);
    }
    return best;
}

static void describe(struct entry *entry, const struct alertbook_death *death)
{
    COPY(entry->signature, death->signature);
    COPY(entry->reason, death->reason);
    COPY(entry->source, death->source);
    COPY(entry->queue, death->queue);
}

/* ---- noting ---------------------------------------------------------------------------------- */

/* may_begin says whether one more group may begin at once in this window. */
static bool may_begin(struct alertbook *book, struct span now)
{
    if (!book->beginnings || now.us - book->begun.us >= span_seconds(ALERTBOOK_WINDOW_SECONDS).us) {
        /* What was not said yet still counts. */
        book->beginnings = book->first_count;
        book->begun = now;
    }
    return book->beginnings < ALERTBOOK_FIRSTS_MAX;
}

static void begin(struct alertbook *book, const struct entry *entry,
                  const struct alertbook_death *death)
{
    struct first *first = &book->firsts[book->first_count++];
    book->beginnings++;
    first->entry = (size_t)(entry - book->entries);
    first->at = death->at;
    first->seq = death->seq;
    COPY(first->sample, death->dlq_id);
}

static void count(struct alertbook *book, struct entry *entry, const struct alertbook_death *death,
                  struct span now)
{
    if (!book->counted++) {
        book->counted_seq = death->seq;
        book->opened = now;
    }
    book->last_at = death->at;
    if (!entry) {
        book->unnamed++;
        return;
    }
    if (!entry->count++)
        entry->first_seen = death->at;
    entry->last_seen = death->at;
    COPY(entry->sample, death->dlq_id);
}

void alertbook_note(struct alertbook *book, const struct alertbook_death *death, struct span now,
                    bool going_on)
{
    enum alertbook_standing standing = alertbook_standing(book, death->fingerprint, death->at);
    bool begins = standing == ALERTBOOK_BEGINS || (standing == ALERTBOOK_NEW && !going_on);
    struct entry *entry = standing == ALERTBOOK_NEW ? make(book, death->fingerprint)
                                                    : entry_of(book, death->fingerprint);
    if (standing == ALERTBOOK_IGNORED)
        return;
    if (entry && standing != ALERTBOOK_GOES_ON)
        describe(entry, death);
    if (entry) {
        entry->last_at = death->at;
        entry->resolved = false;
    }
    if (entry && begins && may_begin(book, now))
        begin(book, entry, death);
    else
        count(book, entry, death, now);
}

void alertbook_ignore(struct alertbook *book, struct slice fingerprint, bool ignored)
{
    size_t index = find(book, fingerprint);
    struct entry *entry = NULL;
    if (index < ALERTBOOK_GROUPS_MAX)
        entry = &book->entries[index];
    else if (ignored)
        entry = make(book, fingerprint);
    if (!entry)
        return;
    entry->resolved = entry->resolved || entry->ignored;
    entry->ignored = ignored;
}

void alertbook_resolved(struct alertbook *book, struct slice fingerprint)
{
    struct entry *entry = entry_of(book, fingerprint);
    if (entry)
        entry->resolved = true;
}

/* ---- saying ---------------------------------------------------------------------------------- */

static struct alert_group show(const struct entry *entry)
{
    return (struct alert_group){.fingerprint = SHOW(entry->fingerprint),
                                .signature = SHOW(entry->signature),
                                .reason = SHOW(entry->reason),
                                .source = SHOW(entry->source),
                                .queue = SHOW(entry->queue),
                                .sample_dlq_id = SHOW(entry->sample),
                                .count = entry->count,
                                .first_seen = entry->first_seen,
                                .last_seen = entry->last_seen};
}

size_t alertbook_firsts(const struct alertbook *book, struct alertbook_first *out)
{
    for (size_t i = 0; i < book->first_count; i++) {
        const struct first *first = &book->firsts[i];
        out[i] = (struct alertbook_first){show(&book->entries[first->entry]), first->seq};
        out[i].group.sample_dlq_id = SHOW(first->sample);
        out[i].group.count = 1;
        out[i].group.first_seen = out[i].group.last_seen = first->at;
    }
    return book->first_count;
}

void alertbook_firsts_said(struct alertbook *book)
{
    book->first_count = 0;
}

struct span alertbook_due(const struct alertbook *book)
{
    if (!book->counted)
        return (struct span){INT64_MAX};
    return (struct span){book->opened.us + span_seconds(ALERTBOOK_WINDOW_SECONDS).us};
}

/* by_count puts the largest first; of equal ones the one that began first. */
static int by_count(const void *left, const void *right)
{
    const struct alert_group *a = left, *b = right;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return (a->first_seen.us > b->first_seen.us) - (a->first_seen.us < b->first_seen.us);
}

bool alertbook_digest(const struct alertbook *book, struct arena *arena, struct alert *out)
{
    struct alert_group *groups = arena_array(arena, ALERTBOOK_GROUPS_MAX, sizeof(*groups));
    size_t n = 0;
    if (!groups)
        return false;
    for (size_t i = 0; i < ALERTBOOK_GROUPS_MAX; i++)
        if (book->entries[i].count > 0)
            groups[n++] = show(&book->entries[i]);
    qsort(groups, n, sizeof(*groups), by_count);
    *out = (struct alert){.window = span_seconds(ALERTBOOK_WINDOW_SECONDS),
                          .groups = groups,
                          .group_count = n < ALERT_GROUPS_MAX ? n : ALERT_GROUPS_MAX,
                          .more_letters = book->unnamed,
                          .total = book->counted,
                          .at = book->last_at};
    out->more_groups = n - out->group_count + (book->unnamed > 0);
    for (size_t i = out->group_count; i < n; i++)
        out->more_letters += groups[i].count;
    return true;
}

void alertbook_digest_said(struct alertbook *book)
{
    for (size_t i = 0; i < ALERTBOOK_GROUPS_MAX; i++)
        book->entries[i].count = 0;
    book->counted = book->unnamed = book->counted_seq = 0;
}

int64_t alertbook_unsaid(const struct alertbook *book)
{
    int64_t seq = book->counted ? book->counted_seq : 0;
    if (book->first_count && (!seq || book->firsts[0].seq < seq))
        seq = book->firsts[0].seq;
    return seq;
}
