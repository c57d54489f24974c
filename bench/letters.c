/* letters: what people ask of the quarantine, with ten thousand letters in it and with a million.
 *
 * Both stores hold the same kinds of letters over the same thirty days: fifty groups of failures,
 * each with a reason, a source and a queue, and texts in which numbers and ids differ.  They are
 * written through the store, in large transactions.  Both are open at the same time, and every
 * question is put to one and then to the other, so that they share the weather. */
#include <inttypes.h>

#include "base/mem.h"
#include "bench.h"
#include "core/signature.h"
#include "core/uuid.h"

#define GROUPS 50
#define KINDS 10
#define TRANSACTION 5000
#define SAMPLES 64      /* places in the middle that are remembered */
#define RARE_LETTERS 20 /* letters with the rare word, in either store */
#define RARE_WORD "zeppelin"
#define FREQUENT_WORD "timed"
#define PAGE 50
#define DAYS_US (INT64_C(30) * 86400 * 1000000)
#define REPETITIONS 400
#define QUESTION_NS_MAX INT64_C(8000000000) /* when a question has been put often enough */

/* struct kind: a way to fail.  A number stands between `before` and `after`. */
struct kind {
    const char *error_type, *reason, *before, *after;
    bool recoverable;
};

static const struct kind kinds[KINDS] = {
    {"Timeout", "timeout_in_progress", "request to the payment gateway timed out after ", " ms",
     true},
    {"Timeout", "retries_exhausted", "reading from the ledger replica timed out after ", " ms",
     true},
    {"CommandFailed", "retries_exhausted", "cargo test failed with exit code ",
     " in the integration suite", true},
    {"CommandFailed", "retries_exhausted", "git push was rejected by the remote, attempt ", "",
     true},
    {"ValidationFailed", "not_retryable", "the amount of invoice ", " is negative", false},
    {"ValidationFailed", "malformed", "unexpected token at byte ", " of the document", false},
    {"ResourceExhausted", "retries_exhausted", "the worker ran out of memory at ", " megabytes",
     true},
    {"Crashed", "agent_crashed", "the worker was lost: its lease ended without a result, pid ", "",
     true},
    {"Unknown", "policy_denied", "the action is not permitted for tenant ", "", false},
    {"Unknown", "dependency_down", "connection refused by warehouse node ", " of the eu cluster",
     true},
};

static const char *const steps[GROUPS / KINDS] = {"fetch", "render", "charge", "notify", "archive"};
static const char *const sources[] = {"lazaret", "warren", "gateway", "batch"};
static const char *const queues[] = {"invoices", "refunds", "mail", "reports", "sync", "imports"};

/* struct site: one store full of letters. */
struct site {
    struct store *store;
    size_t count;
    struct instant start; /* of the thirty days */
    int64_t middle[SAMPLES];
    struct random_state random;
    struct arena arena;
    struct buf text;
    struct slice signatures[GROUPS], fingerprints[GROUPS];
    struct arena names; /* of the signatures and fingerprints */
};

/* ---- filling --------------------------------------------------------------------------------- */

static struct slice keep(struct arena *arena, struct slice text)
{
    struct slice copy = arena_dup(arena, text);
    if (!copy.ptr)
        bench_die("no memory");
    return copy;
}

/* name_groups works out signature and fingerprint of each group. */
static void name_groups(struct site *site)
{
    for (size_t g = 0; g < GROUPS; g++) {
        const struct kind *kind = &kinds[g % KINDS];
        char fingerprint[FINGERPRINT_LEN + 1];
        struct failure failure;
        failure_init(&failure);
        failure.error_type = slice_of(kind->error_type);
        failure.step_failed = slice_of(steps[g / KINDS]);
        failure.message = slice_of(kind->before);
        buf_clear(&site->text);
        signature_print(&failure, &site->text);
        signature_fingerprint(&failure, fingerprint);
        site->signatures[g] = keep(&site->names, buf_slice(&site->text));
        site->fingerprints[g] = keep(&site->names, slice_of(fingerprint));
    }
}

static struct slice make_id(struct site *site, struct instant at)
{
    uint8_t bytes[16];
    uint64_t halves[2] = {random_next(&site->random), random_next(&site->random)};
    char text[UUID_TEXT_LEN + 1];
    memcpy(bytes, halves, sizeof(bytes));
    uuid_format(uuid_v7(at, bytes), text);
    return keep(&site->arena, slice_of(text));
}

/* group_of and state_of spread groups and states evenly, so that both stores have all of them. */
static size_t group_of(size_t i)
{
    return i * 7 % GROUPS;
}

static enum letter_state state_of(size_t i)
{
    switch ((i / GROUPS + group_of(i)) % 20) {
    case 7:
    case 13:
        return LETTER_RECOVERED;
    case 19:
        return LETTER_DISCARDED;
    default:
        return LETTER_DEAD;
    }
}

/* fill_text writes what search finds of the letter: what the engine would, with an envelope. */
static struct slice fill_text(struct site *site, const struct letter *letter, const char *rare)
{
    buf_clear(&site->text);
    buf_addf(&site->text, "%.*s\n%.*s\n%.*s\n%.*s\n%.*s\n%.*s\n%.*s\n%.*s\n",
             SLICE_ARG(letter->signature), SLICE_ARG(letter->reason),
             SLICE_ARG(letter->reason_detail), SLICE_ARG(letter->job_id),
             SLICE_ARG(letter->trace_id), SLICE_ARG(letter->queue), SLICE_ARG(letter->source),
             SLICE_ARG(letter->agent));
    buf_addf(&site->text,
             "{\"action\":\"invoice.send\",\"requested_by\":\"billing@example.org\",\"inputs\":{"
             "\"invoice\":%" PRIu64 ",\"customer\":\"c-%06" PRIu64 "\",\"amount_cents\":%" PRIu64
             ",\"currency\":\"EUR\",\"note\":\"please deliver before noon %s\"}}\n",
             random_next(&site->random) % 100000000, random_next(&site->random) % 1000000,
             random_next(&site->random) % 1000000, rare);
    if (buf_status(&site->text, NULL) != STATUS_OK)
        bench_die("no memory");
    return buf_slice(&site->text);
}

/* fill_letter makes letter `i`. */
static void fill_letter(struct site *site, size_t i, struct letter *letter)
{
    size_t g = group_of(i);
    const struct kind *kind = &kinds[g % KINDS];
    struct instant at = {site->start.us + (int64_t)i * (DAYS_US / (int64_t)site->count)};
    *letter = (struct letter){
        .dlq_id = make_id(site, at),
        .job_id = make_id(site, at),
        .trace_id = arena_printf(&site->arena, "%016" PRIx64, random_next(&site->random)),
        .agent = arena_printf(&site->arena, "worker-%02" PRIu64, random_next(&site->random) % 40),
        .reason_detail = arena_printf(&site->arena, "%s%" PRIu64 "%s", kind->before,
                                      random_next(&site->random) % 100000, kind->after),
        .queue = slice_of(queues[g % (sizeof(queues) / sizeof(queues[0]))]),
        .source = slice_of(sources[g % (sizeof(sources) / sizeof(sources[0]))]),
        .reason = slice_of(kind->reason),
        .error_type = slice_of(kind->error_type),
        .original_subject = SLICE("jobs.invoices"),
        .signature = site->signatures[g],
        .fingerprint = site->fingerprints[g],
        .state = state_of(i),
        .failed_at = at,
        .first_attempt_at = at,
        .last_attempt_at = at,
        .failure_count = 1 + (uint32_t)(i % 5),
        .max_attempts = 5,
        .recoverable = kind->recoverable,
        .eligible = kind->recoverable,
        .review = !kind->recoverable,
    };
    if (!letter->trace_id.ptr || !letter->agent.ptr || !letter->reason_detail.ptr)
        bench_die("no memory");
    if (letter->state != LETTER_DEAD) {
        letter->recovered_at = at;
        letter->recovered_by = SLICE("human:ada");
    }
    letter->job = (struct job){.seq = site->store->seq_next(site->store),
                               .pushed_at = at,
                               .round_at = at,
                               .queue = 1,
                               .attempt = (uint16_t)letter->failure_count,
                               .state = JOB_DEAD,
                               .priority = 4};
    letter->envelope_seq = letter->job.envelope_seq = letter->job.seq;
}

static void put_letter(struct site *site, size_t i)
{
    struct letter letter;
    struct err err = {0};
    bool rare = i % (site->count / RARE_LETTERS) == 0;
    fill_letter(site, i, &letter);
    struct slice text = fill_text(site, &letter, rare ? RARE_WORD : "");
    bench_check(site->store->letter_put(site->store, &letter, &text, true, &err), &err,
                "writing a letter");
    size_t stride = site->count / 2 / SAMPLES; /* samples are from the middle half */
    size_t from = site->count / 4;
    if (i >= from && (i - from) % stride == 0 && (i - from) / stride < SAMPLES)
        site->middle[(i - from) / stride] = letter.position;
}

static void site_open(struct site *site, enum scratch which, size_t count)
{
    struct err err = {0};
    *site = (struct site){.count = count, .random = {count}};
    buf_init(&site->text, 1 << 20);
    scratch_remove(which);
    site->store = bench_store(which);
    site->start = (struct instant){seams_real()->wall(seams_real()->ctx).us - DAYS_US};
    name_groups(site);
    for (size_t i = 0; i < count; i++) {
        if (i % TRANSACTION == 0)
            bench_check(site->store->begin(site->store, &err), &err, "beginning");
        put_letter(site, i);
        if (i % TRANSACTION == TRANSACTION - 1 || i == count - 1) {
            bench_check(site->store->commit(site->store, &err), &err, "committing");
            arena_reset(&site->arena);
        }
        if (i > 0 && i % 100000 == 0)
            bench_progress("dead letters: %zu of %zu", i, count);
    }
}

static void site_close(struct site *site)
{
    site->store->close(site->store);
    arena_release(&site->arena);
    arena_release(&site->names);
    buf_release(&site->text);
}

/* ---- questions: each returns how many things it found ---------------------------------------- */

static size_t list(struct site *site, struct letter_filter filter)
{
    struct err err = {0};
    struct letter *letters;
    size_t count;
    filter.limit = PAGE;
    bench_check(
        site->store->letter_list(site->store, &filter, &site->arena, &letters, &count, &err), &err,
        "listing letters");
    return count;
}

static size_t ask_first(struct site *site)
{
    return list(site, (struct letter_filter){0});
}

static size_t ask_middle(struct site *site)
{
    return list(
        site, (struct letter_filter){.cursor = site->middle[random_next(&site->random) % SAMPLES]});
}

static size_t ask_filtered(struct site *site)
{
    return list(site, (struct letter_filter){.reason = SLICE("retries_exhausted"),
                                             .has_state = true,
                                             .state = LETTER_DEAD});
}

static size_t ask_frequent(struct site *site)
{
    return list(site, (struct letter_filter){.q = SLICE(FREQUENT_WORD)});
}

static size_t ask_rare(struct site *site)
{
    return list(site, (struct letter_filter){.q = SLICE(RARE_WORD)});
}

static size_t ask_within(struct site *site)
{
    return list(site, (struct letter_filter){.q = SLICE(FREQUENT_WORD " ledger"),
                                             .reason = SLICE("retries_exhausted"),
                                             .has_state = true,
                                             .state = LETTER_DEAD});
}

static size_t ask_groups(struct site *site)
{
    struct err err = {0};
    struct letter_group *groups;
    size_t count;
    struct instant now = {site->start.us + DAYS_US};
    bench_check(
        site->store->group_list(site->store, now, 0, GROUPS, &site->arena, &groups, &count, &err),
        &err, "listing groups");
    return count;
}

static size_t ask_stats(struct site *site)
{
    struct err err = {0};
    struct letter_count *counts;
    size_t count;
    struct instant oldest, newest;
    bench_check(site->store->letter_counts(site->store, &site->arena, &counts, &count, &err), &err,
                "counting letters");
    bench_check(site->store->letter_bounds(site->store, &oldest, &newest, &err), &err,
                "finding the oldest letter");
    return count;
}

struct question {
    const char *label, *name;
    size_t (*ask)(struct site *site);
};

static const struct question questions[] = {
    {"first page", "page_first", ask_first},
    {"a page in the middle, by cursor", "page_middle", ask_middle},
    {"page of one reason and state", "page_filtered", ask_filtered},
    {"search of a frequent word", "search_frequent", ask_frequent},
    {"search of a rare word", "search_rare", ask_rare},
    {"search of two words in one reason and state", "search_filtered", ask_within},
    {"groups", "groups", ask_groups},
    {"stats", "stats", ask_stats},
};

/* ---- measuring ------------------------------------------------------------------------------- */

static double ask_us(const struct question *question, struct site *site, size_t *found)
{
    int64_t start = clock_ns();
    *found = question->ask(site);
    double us = (double)(clock_ns() - start) / 1e3;
    arena_reset(&site->arena);
    return us;
}

static void measure(struct bench *bench, const struct question *question, struct site *few,
                    struct site *many)
{
    static double few_us[REPETITIONS], many_us[REPETITIONS];
    size_t few_found, many_found, n = 0;
    ask_us(question, few, &few_found); /* what is read once is not counted */
    ask_us(question, many, &many_found);
    if (few_found != many_found || few_found == 0)
        bench_die("%s: %zu found among %zu letters, %zu among %zu: they cannot be compared",
                  question->label, few_found, few->count, many_found, many->count);
    int64_t end = clock_ns() + QUESTION_NS_MAX;
    for (; n < REPETITIONS && (n < 5 || clock_ns() < end); n++) {
        few_us[n] = ask_us(question, few, &few_found);
        many_us[n] = ask_us(question, many, &many_found);
    }
    double few_median = median(few_us, n), many_median = median(many_us, n);
    double ratio = many_median / few_median;
    const char *verdict = report_ratio(bench->report, ratio, (struct goal){GOAL_AT_MOST, 2},
                                       "letters_%s", question->name);
    report_figure(bench->report, few_median, (struct goal){0}, "letters_%s_few_us", question->name);
    report_figure(bench->report, many_median, (struct goal){0}, "letters_%s_many_us",
                  question->name);
    printf("  %-44s %8.0f %11.0f %19.2f  %s\n", question->label, few_median, many_median, ratio,
           verdict);
    fflush(stdout);
}

void letters_run(struct bench *bench)
{
    static struct site few, many;
    char left[THOUSANDS_SIZE], right[THOUSANDS_SIZE];
    site_open(&few, SCRATCH_BARE, bench->quick ? 1000 : 10000);
    int64_t start = clock_ns();
    site_open(&many, SCRATCH_ENGINE, bench->quick ? 3000 : 1000000);
    double seconds = (double)(clock_ns() - start) / 1e9;
    report_figure(bench->report, (double)many.count / seconds, (struct goal){0},
                  "letters_written_per_s");
    printf("\n%s and %s dead letters: median of a question, in us\n",
           thousands((double)few.count, left), thousands((double)many.count, right));
    printf("  %-44s %8s %11s %19s  %s\n", "", left, right, "ratio", "<= 2");
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        measure(bench, &questions[i], &few, &many);
    site_close(&few);
    site_close(&many);
    scratch_remove(SCRATCH_BARE);
    scratch_remove(SCRATCH_ENGINE);
}
