/* test_postgres_limits: what the database must not ask of a store: a role with special rights,
 * short texts, a whole history of turns. */
#include "store/suite.h"

#include <libpq-fe.h>
#include <string.h>

#include "base/seams.h"
#include "store/pgserver.h"

static char url[PGSERVER_URL_MAX];
static struct place place;

static int setup(void **state)
{
    (void)state;
    memset(&place, 0, sizeof(place));
    pgserver_database(url, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (place.store)
        place.store->close(place.store);
    arena_release(&place.arena);
    pgserver_drop(url);
    return 0;
}

static void open_store(const char *where)
{
    const struct postgres_config config = {.url = where, .seams = seams_real()};
    assert_ok(&place, store_postgres_open(&config, &place.store, &place.err));
}

/* does runs statements in the database, as the role of `where`. */
static void does(const char *where, const char *sql)
{
    free(pgserver_sql(where, sql));
}

/* ---- roles ---------------------------------------------------------------------------------- */

/* as is the URL of the database for another role. */
static const char *as(const char *role)
{
    return arena_printf(&place.arena, "postgres://%s@%s", role, strchr(url, '@') + 1).ptr;
}

#define ONE "0192aaaa-0000-7000-8000-000000000001"
#define TWO "0192aaaa-0000-7000-8000-000000000002"

static void an_ordinary_role_that_owns_its_database_is_enough(void **state)
{
    struct inbox_item *items;
    size_t count;
    (void)state;
    does(url, "CREATE ROLE station LOGIN; CREATE ROLE program LOGIN");
    does(url,
         arena_printf(&place.arena, "ALTER DATABASE %s OWNER TO station", strrchr(url, '/') + 1)
             .ptr);
    open_store(as("station"));
    dead(&place, ONE, NOON);
    does(as("station"), "GRANT SELECT, INSERT, UPDATE ON swarm_dlq TO program");
    does(as("program"), "INSERT INTO swarm_dlq(dlq_id, original_subject) VALUES('" TWO "', 's')");
    does(as("program"), "UPDATE swarm_dlq SET recovered = true WHERE dlq_id = '" ONE "'");
    assert_ok(&place,
              place.store->inbox_list(place.store, 9, &place.arena, &items, &count, &place.err));
    assert_int_equal(count, 2);
    assert_true(items[0].is_new && !items[1].is_new);
    /* What the store itself writes is not heard. */
    dead(&place, "another", NOON + SECOND);
    assert_ok(&place,
              place.store->inbox_list(place.store, 9, &place.arena, &items, &count, &place.err));
    assert_int_equal(count, 2);
    char *shown = pgserver_sql(as("program"), "SELECT count(*) FROM swarm_dlq");
    assert_string_equal(shown, "3");
    free(shown);
    place.store->close(place.store);
    place.store = NULL;
    does(url, "DROP OWNED BY program; REASSIGN OWNED BY station TO postgres;"
              "DROP OWNED BY station; DROP ROLE program, station");
}

/* ---- long texts ----------------------------------------------------------------------------- */

#define LONG 100000

/* noise is a text that cannot be compressed, the same for the same seed; two of them have their
 * beginnings in common. */
static struct slice noise(uint64_t seed)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char *text = arena_alloc(&place.arena, LONG);
    assert_non_null(text);
    for (size_t i = 0; i < LONG; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        text[i] = i < 1000 ? 'x' : letters[seed >> 58];
    }
    return (struct slice){text, LONG};
}

/* long_letter buries a job with long texts wherever a letter has one. */
static struct letter long_letter(uint64_t seed, const char *job_id)
{
    begin(&place);
    struct job job = insert(&place, job_on(&place, "q", job_id), job_id);
    struct letter letter = letter_of(&place, &job, "short", NOON);
    struct slice *const texts[] = {
        &letter.dlq_id,   &letter.job_id,    &letter.run_id,       &letter.item_id,
        &letter.trace_id, &letter.queue,     &letter.reason,       &letter.reason_detail,
        &letter.source,   &letter.signature, &letter.fingerprint,  &letter.error_type,
        &letter.agent,    &letter.artifacts, &letter.recovered_by, &letter.original_subject,
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        *texts[i] = noise(seed + i);
    bury(&place, &job, &letter, "text");
    commit(&place);
    return letter;
}

/* alone says that a filter finds this letter and no other. */
static void alone(struct letter_filter filter, const struct letter *letter)
{
    struct letter *found;
    size_t count;
    filter.limit = 9;
    assert_ok(&place, place.store->letter_list(place.store, &filter, &place.arena, &found, &count,
                                               &place.err));
    assert_int_equal(count, 1);
    assert_true(slice_eq(found[0].dlq_id, letter->dlq_id));
}

static void a_letter_is_found_by_texts_of_any_length(void **state)
{
    (void)state;
    open_store(url);
    struct letter letter = long_letter(1, "a");
    long_letter(1000, "b");
    alone((struct letter_filter){.reason = letter.reason}, &letter);
    alone((struct letter_filter){.source = letter.source}, &letter);
    alone((struct letter_filter){.queue = letter.queue}, &letter);
    alone((struct letter_filter){.signature = letter.signature}, &letter);
    alone((struct letter_filter){.fingerprint = letter.fingerprint}, &letter);
    alone((struct letter_filter){.error_type = letter.error_type}, &letter);
    alone((struct letter_filter){.agent = letter.agent}, &letter);
    alone((struct letter_filter){.actor = letter.recovered_by}, &letter);
    alone((struct letter_filter){.job_id = letter.job_id}, &letter);
    alone((struct letter_filter){.job_id = letter.run_id}, &letter);
    alone((struct letter_filter){.trace_id = letter.trace_id}, &letter);
}

static void a_long_id_is_an_id(void **state)
{
    struct store *store;
    struct letter got;
    struct slice *ids;
    struct tombstone tombstone;
    struct job_row row;
    size_t count;
    (void)state;
    open_store(url);
    store = place.store;
    struct letter letter = long_letter(1, "a");
    struct letter other = long_letter(1000, "b");
    assert_ok(&place, store->letter_get(store, letter.dlq_id, &place.arena, &got, &place.err));
    assert_true(slice_eq(got.agent, letter.agent) && got.job.seq == letter.job.seq);
    assert_ok(&place,
              store->letter_like(store, slice_of("xx"), 9, &place.arena, &ids, &count, &place.err));
    assert_int_equal(count, 2);
    const struct slice prefix = {letter.dlq_id.ptr, LONG - 1};
    assert_ok(&place, store->letter_like(store, prefix, 9, &place.arena, &ids, &count, &place.err));
    assert_int_equal(count, 1);
    assert_ok(&place, store->job_find(store, other.job_id, &place.arena, &row, &place.err));
    assert_true(row.job.seq == other.job.seq);
    begin(&place);
    assert_ok(&place, store->letter_purge(store, &letter, at(NOON), &place.err));
    commit(&place);
    assert_ok(&place,
              store->tombstone_find(store, letter.dlq_id, &place.arena, &tombstone, &place.err));
    assert_true(tombstone.job_seq == letter.job.seq);
    assert_int_equal(
        store->tombstone_find(store, other.job_id, &place.arena, &tombstone, &place.err),
        STATUS_NOT_FOUND);
}

static void long_texts_are_counted_and_grouped(void **state)
{
    struct letter_count *counts;
    struct letter_group group;
    struct instant oldest;
    size_t count;
    int64_t dead_count, recovering;
    (void)state;
    open_store(url);
    struct store *store = place.store;
    struct letter letter = long_letter(1, "a");
    long_letter(1000, "b");
    letter.state = LETTER_RECOVERING;
    begin(&place);
    put(&place, &letter, NULL, false);
    commit(&place);
    assert_ok(&place, store->letter_counts(store, &place.arena, &counts, &count, &place.err));
    assert_int_equal(count, 2);
    assert_ok(&place, store->group_get(store, letter.fingerprint, at(NOON), &place.arena, &group,
                                       &place.err));
    assert_int_equal(group.count, 1);
    assert_int_equal(group.sample_count, 1);
    assert_int_equal(group.trend[GROUP_TREND_HOURS - 1], 1);
    assert_ok(&place, store->letter_oldest(store, letter.queue, &oldest, &place.err));
    assert_true(oldest.us == NOON);
    assert_ok(&place,
              store->letter_run(store, letter.run_id, &dead_count, &recovering, &place.err));
    assert_true(dead_count == 0 && recovering == 1);
}

static void keys_and_names_may_be_long(void **state)
{
    int64_t seq;
    uint32_t queue;
    (void)state;
    open_store(url);
    struct store *store = place.store;
    struct slice one = noise(1), two = noise(2);
    begin(&place);
    assert_ok(&place, store->forever_put(store, STORE_KEY_IDEMPOTENCY, one, 7, &place.err));
    assert_ok(&place, store->forever_put(store, STORE_KEY_IDEMPOTENCY, two, 8, &place.err));
    assert_ok(&place, store->queue_number(store, one, &queue, &place.err));
    commit(&place);
    assert_true(store->forever_get(store, STORE_KEY_IDEMPOTENCY, one, &seq, &place.err));
    assert_true(seq == 7);
    assert_true(store->forever_get(store, STORE_KEY_IDEMPOTENCY, two, &seq, &place.err));
    assert_true(seq == 8);
    assert_false(store->forever_get(store, STORE_KEY_IDEMPOTENCY, noise(3), &seq, &place.err));
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void turns_that_are_not_there_are_damage(void **state)
{
    (void)state;
    open_store(url);
    push(&place, "q", "a");
    does(url, "TRUNCATE lazaret.turn");
    assert_int_equal(place.store->begin(place.store, &place.err), STATUS_OK);
    rollback(&place); /* it was the last to write */
    does(url, "UPDATE lazaret.head SET nonce = nonce + 1");
    assert_int_equal(place.store->begin(place.store, &place.err), STATUS_CORRUPT);
    assert_non_null(strstr(place.err.text, "the turn of its head is not there"));
}

#define LIMIT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        LIMIT_TEST(an_ordinary_role_that_owns_its_database_is_enough),
        LIMIT_TEST(a_letter_is_found_by_texts_of_any_length),
        LIMIT_TEST(a_long_id_is_an_id),
        LIMIT_TEST(long_texts_are_counted_and_grouped),
        LIMIT_TEST(keys_and_names_may_be_long),
        LIMIT_TEST(turns_that_are_not_there_are_damage),
    };
    return cmocka_run_group_tests_name("postgres_limits", tests, NULL, NULL);
}
