/* The clerk over a real engine, with an inbox of the test's: the embedded store has none. */
#include "bridge/seat_fixture.h"

#include "bridge/clerk.h"

#define ROWS_MAX 1200
#define ROW(id, more)                                                                              \
    "{\"dlq_id\":\"" id "\",\"original_subject\":\"tasks.run\",\"original_payload\":\"aGk=\","     \
    "\"reason\":\"agent_crashed\",\"failed_at\":\"2026-02-13T06:00:00Z\",\"retry_count\":3,"       \
    "\"max_retries\":3,\"retry_history\":[],\"source\":\"swarm\",\"recoverable\":true,"            \
    "\"recovered\":false" more "}"
#define UPDATE(id, more) "{\"dlq_id\":\"" id "\",\"recovered\":true" more "}"

/* The inbox.  What a transaction removes is gone at its commit. */
static struct inbox_item rows[ROWS_MAX];
static bool gone[ROWS_MAX], going[ROWS_MAX];
static size_t row_count, listed_max;
static enum status done_fails;
static enum status (*real_commit)(struct store *store, struct err *err);
static enum status (*real_rollback)(struct store *store, struct err *err);

static enum status list(struct store *store, size_t limit, struct arena *arena,
                        struct inbox_item **out, size_t *count, struct err *err)
{
    (void)store, (void)err;
    *out = arena_array(arena, limit, sizeof(**out));
    *count = 0;
    for (size_t i = 0; i < row_count && *count < limit; i++)
        if (!gone[i])
            (*out)[(*count)++] = rows[i];
    listed_max = *count > listed_max ? *count : listed_max;
    return STATUS_OK;
}

static enum status done(struct store *store, const int64_t *seqs, size_t count, struct err *err)
{
    (void)store;
    if (done_fails)
        return err_set(err, done_fails, "the inbox cannot be written");
    for (size_t i = 0; i < count; i++)
        going[seqs[i] - 1] = true;
    return STATUS_OK;
}

static enum status commit(struct store *store, struct err *err)
{
    enum status status = real_commit(store, err);
    for (size_t i = 0; i < row_count; i++)
        gone[i] = gone[i] || (!status && going[i]);
    memset(going, 0, sizeof(going));
    return status;
}

static enum status rollback(struct store *store, struct err *err)
{
    memset(going, 0, sizeof(going));
    return real_rollback(store, err);
}

static enum status take_over(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    (void)engine, (void)ctx, (void)arena, (void)err;
    real_commit = store->commit;
    real_rollback = store->rollback;
    store->inbox_list = list;
    store->inbox_done = done;
    store->commit = commit;
    store->rollback = rollback;
    return STATUS_OK;
}

/* struct office: a clerk and its seat. */
struct office {
    struct seat seat;
    struct clerk clerk;
};

static void appoint(struct world *world, struct office *office, const char *server)
{
    struct read_command command = {.read = take_over};
    row_count = listed_max = 0;
    memset(gone, 0, sizeof(gone));
    done_fails = STATUS_OK;
    assert_int_equal(run(world, &command.command, COMMAND_READ), STATUS_OK);
    office->seat = seat_of(world, server);
    clerk_init(&office->clerk, &office->seat);
}

static void put(bool is_new, const char *body)
{
    assert_true(row_count < ROWS_MAX);
    rows[row_count] = (struct inbox_item){(int64_t)row_count + 1, is_new, slice_of(body)};
    row_count++;
}

static size_t left(void)
{
    size_t count = 0;
    for (size_t i = 0; i < row_count; i++)
        count += !gone[i];
    return count;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void an_inserted_row_becomes_a_letter(void **state)
{
    struct world *world = *state;
    struct office office;
    appoint(world, &office, "one");
    put(true, ROW("d-1", ""));
    struct span next = clerk_run(&office.clerk);
    assert_int_equal(next.us - world->steady.us, INT64_C(1000000));
    assert_int_equal(left(), 0);
    struct letter got = letter(world, SLICE("d-1"));
    assert_int_equal(got.state, LETTER_DEAD);
    assert_true(got.foreign);
    assert_true(got.recoverable);
    assert_true(slice_is(got.reason, "agent_crashed"));
    assert_true(slice_is(got.original_subject, "tasks.run"));
    assert_int_equal(office.clerk.counts.imported, 1);
    assert_int_equal(office.clerk.counts.malformed, 0);
    assert_chain_holds(world);
}

static void an_update_to_recovered_settles_the_letter(void **state)
{
    struct world *world = *state;
    struct office office;
    appoint(world, &office, "one");
    put(true, ROW("d-1", ""));
    put(true, ROW("d-2", ""));
    put(false, UPDATE("d-1", ",\"recovered_at\":\"2026-02-13T06:10:00Z\","
                             "\"recovered_by\":\"ops\""));
    put(false, UPDATE("d-2", ",\"recovered_at\":null,\"recovered_by\":null"));
    clerk_run(&office.clerk);
    assert_int_equal(left(), 0);
    struct letter got = letter(world, SLICE("d-1"));
    assert_int_equal(got.state, LETTER_RECOVERED);
    assert_true(slice_is(got.recovered_by, "ops"));
    assert_int_equal(got.recovered_at.us, INT64_C(1770963000) * 1000000);
    got = letter(world, SLICE("d-2"));
    assert_int_equal(got.state, LETTER_RECOVERED);
    assert_true(slice_is(got.recovered_by, "swarm_dlq:one"));
    assert_int_equal(got.recovered_at.us, world->wall.us);
    assert_int_equal(office.clerk.counts.settled, 2);
}

static void an_update_says_whether_a_letter_may_be_brought_back(void **state)
{
    struct world *world = *state;
    struct office office;
    appoint(world, &office, "one");
    put(true, ROW("d-1", ""));
    put(false, "{\"dlq_id\":\"d-1\",\"recovered\":false,\"recoverable\":false}");
    clerk_run(&office.clerk);
    assert_int_equal(left(), 0);
    assert_int_equal(letter(world, SLICE("d-1")).state, LETTER_DEAD);
    assert_false(letter(world, SLICE("d-1")).recoverable);
    assert_int_equal(office.clerk.counts.settled, 1);
    put(false, "{\"dlq_id\":\"d-1\",\"recovered\":false,\"recoverable\":true}");
    clerk_run(&office.clerk);
    assert_true(letter(world, SLICE("d-1")).recoverable);
    /* That it is recovered says more. */
    put(false, UPDATE("d-1", ",\"recoverable\":false"));
    clerk_run(&office.clerk);
    assert_int_equal(letter(world, SLICE("d-1")).state, LETTER_RECOVERED);
    assert_chain_holds(world);
}

static void what_changes_nothing_leaves_the_inbox(void **state)
{
    struct world *world = *state;
    struct office office;
    appoint(world, &office, "one");
    put(true, ROW("d-1", ""));
    put(true, ROW("d-1", ""));                              /* once more */
    put(false, "{\"dlq_id\":\"d-1\",\"recovered\":false}"); /* no news */
    put(false, UPDATE("d-9", ""));                          /* nobody knows it */
    put(false, "no JSON");
    put(false, "{\"recovered\":true}");
    clerk_run(&office.clerk);
    assert_int_equal(left(), 0);
    assert_int_equal(letter(world, SLICE("d-1")).state, LETTER_DEAD);
    assert_int_equal(office.clerk.counts.imported, 1);
    assert_int_equal(office.clerk.counts.settled, 0);
    put(false, UPDATE("d-1", ""));
    put(false, UPDATE("d-1", ",\"recovered_by\":\"late\""));
    clerk_run(&office.clerk);
    assert_int_equal(left(), 0);
    assert_int_equal(office.clerk.counts.settled, 1);
    assert_true(slice_is(letter(world, SLICE("d-1")).recovered_by, "swarm_dlq:one"));
}

static void a_row_that_was_recovered_when_it_came_is(void **state)
{
    struct world *world = *state;
    struct office office;
    appoint(world, &office, "one");
    put(true, "{\"dlq_id\":\"d-1\",\"original_subject\":\"a.b\",\"original_payload\":\"aGk=\","
              "\"reason\":\"r\",\"source\":\"s\",\"failed_at\":\"2026-02-13T06:00:00Z\","
              "\"recovered\":true,\"recovered_at\":\"2026-02-13T06:10:00Z\","
              "\"recovered_by\":\"api-retry\"}");
    clerk_run(&office.clerk);
    struct letter got = letter(world, SLICE("d-1"));
    assert_int_equal(got.state, LETTER_RECOVERED);
    assert_true(slice_is(got.recovered_by, "api-retry"));
}

/* struct last: the newest letter. */
static enum status read_last(struct engine *engine, struct store *store, void *ctx,
                             struct arena *arena, struct err *err)
{
    struct letter_filter filter = {.limit = 1, .reason = SLICE("malformed")};
    struct letter *letters;
    size_t count;
    (void)engine;
    enum status status = store->letter_list(store, &filter, arena, &letters, &count, err);
    if (!status && count)
        *(struct letter *)ctx = letters[0];
    return status;
}

static void a_row_that_is_no_letter_is_kept_as_a_malformed_one(void **state)
{
    struct world *world = *state;
    struct office office;
    struct letter got = {0};
    struct read_command command = {.read = read_last, .ctx = &got};
    appoint(world, &office, "one");
    put(true, "{\"dlq_id\":\"d-1\",\"original_payload\":\"%%%\",\"reason\":\"r\"}");
    clerk_run(&office.clerk);
    assert_int_equal(left(), 0);
    assert_int_equal(office.clerk.counts.malformed, 1);
    assert_int_equal(run(world, &command.command, COMMAND_READ), STATUS_OK);
    assert_true(slice_is(got.reason, "malformed"));
    assert_false(got.recoverable);
    /* The same row seen by another server is the same letter. */
    gone[0] = false;
    struct clerk other;
    struct seat seat = seat_of(world, "two");
    clerk_init(&other, &seat);
    clerk_run(&other);
    assert_int_equal(left(), 0);
    assert_int_equal(other.counts.imported, 0);
    assert_int_equal(other.counts.ignored, 1);
}

static void many_rows_are_taken_in_pages(void **state)
{
    struct world *world = *state;
    struct office office;
    appoint(world, &office, "one");
    for (int i = 0; i < 1100; i++)
        put(true, arena_printf(&world->arena,
                               "{\"dlq_id\":\"m-%d\",\"original_subject\":\"a.b\","
                               "\"original_payload\":\"%06d==\",\"reason\":\"r\",\"source\":\"s\"}",
                               i, i)
                      .ptr);
    clerk_run(&office.clerk);
    assert_int_equal(left(), 0);
    assert_int_equal(listed_max, 500);
    assert_int_equal(office.clerk.counts.imported, 1100);
    assert_int_equal(letter(world, SLICE("m-1099")).state, LETTER_DEAD);
}

static void nothing_is_done_by_halves(void **state)
{
    struct world *world = *state;
    struct office office;
    appoint(world, &office, "one");
    put(true, ROW("d-1", ""));
    done_fails = STATUS_IO;
    clerk_run(&office.clerk);
    assert_int_equal(left(), 1);
    assert_int_equal(tally_of(world, NULL).counts[LETTER_DEAD], 0);
    assert_int_equal(office.clerk.counts.imported, 0);
    assert_string_not_equal(office.clerk.trouble.said.text, "");
    done_fails = STATUS_OK;
    clerk_run(&office.clerk);
    assert_int_equal(left(), 0);
    assert_int_equal(letter(world, SLICE("d-1")).state, LETTER_DEAD);
    assert_string_equal(office.clerk.trouble.said.text, "");
    assert_chain_holds(world);
}

static void an_empty_inbox_writes_nothing(void **state)
{
    struct world *world = *state;
    struct office office;
    appoint(world, &office, "one");
    clerk_run(&office.clerk);
    assert_int_equal(office.clerk.counts.imported + office.clerk.counts.ignored, 0);
    assert_string_equal(office.clerk.trouble.said.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_inserted_row_becomes_a_letter),
        CASE(an_update_to_recovered_settles_the_letter),
        CASE(an_update_says_whether_a_letter_may_be_brought_back),
        CASE(what_changes_nothing_leaves_the_inbox),
        CASE(a_row_that_was_recovered_when_it_came_is),
        CASE(a_row_that_is_no_letter_is_kept_as_a_malformed_one),
        CASE(many_rows_are_taken_in_pages),
        CASE(nothing_is_done_by_halves),
        CASE(an_empty_inbox_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
