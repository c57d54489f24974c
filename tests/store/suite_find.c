/* suite_find: jobs of any state, one and by pages. */
#include "store/suite.h"

#define ANY (-1)

static struct job_row find(struct place *place, const char *id)
{
    struct job_row row;
    assert_ok(place,
              place->store->job_find(place->store, slice_of(id), &place->arena, &row, &place->err));
    return row;
}

/* page lists the job_ids of a page and moves *cursor on to its last seq. */
static const char *page(struct place *place, int state, const char *queue, int64_t *cursor,
                        size_t limit)
{
    struct job_row *rows;
    struct slice ids[64];
    size_t count;
    assert_ok(place, place->store->job_list(place->store, state, slice_of(queue), *cursor, limit,
                                            &place->arena, &rows, &count, &place->err));
    assert_true(count <= limit && count <= 64);
    for (size_t i = 0; i < count; i++) {
        ids[i] = rows[i].job_id;
        assert_true(state == ANY || rows[i].job.state == state);
        *cursor = rows[i].job.seq;
    }
    return joined(place, ids, count);
}

static const char *all(struct place *place, int state, const char *queue)
{
    int64_t cursor = 0;
    return page(place, state, queue, &cursor, 64);
}

/* one_of_each makes a job in every state; the ids are the states' names. */
static void one_of_each(struct place *place)
{
    begin(place);
    insert(place, job_on(place, "q", "pending"), "pending");
    struct job scheduled = job_on(place, "q", "scheduled");
    scheduled.state = JOB_SCHEDULED;
    scheduled.due_at = at(NOON + SECOND);
    insert(place, scheduled, "scheduled");
    struct job running = insert(place, job_on(place, "q", "running"), "running");
    running.state = JOB_RUNNING;
    update(place, &running, "w1");
    finish(place, insert(place, job_on(place, "q", "done"), "done"), "done", NOON + 5);
    struct job cancelled = insert(place, job_on(place, "r", "cancelled"), "cancelled");
    cancelled.state = JOB_CANCELLED;
    finish(place, cancelled, "cancelled", NOON + 6);
    struct job dying = insert(place, job_on(place, "q", "dead"), "dead");
    struct letter letter = letter_of(place, &dying, "letter-1", NOON + 7);
    bury(place, &dying, &letter, "text");
    commit(place);
}

static void a_job_is_found_in_whatever_state_it_is(void **state)
{
    struct place *place = *state;
    one_of_each(place);
    reopen(place);
    static const struct {
        const char *id, *queue, *worker, *dlq_id;
        int state;
        int64_t ended_at;
    } table[] = {
        {"pending", "q", "", "", JOB_PENDING, 0},
        {"scheduled", "q", "", "", JOB_SCHEDULED, 0},
        {"running", "q", "w1", "", JOB_RUNNING, 0},
        {"done", "q", "", "", JOB_DONE, NOON + 5},
        {"cancelled", "r", "", "", JOB_CANCELLED, NOON + 6},
        {"dead", "q", "", "letter-1", JOB_DEAD, NOON + 7},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct job_row row = find(place, table[i].id), again;
        assert_int_equal(row.job.state, table[i].state);
        assert_slice(row.job_id, table[i].id);
        assert_slice(row.queue, table[i].queue);
        assert_slice(row.worker, table[i].worker);
        assert_slice(row.dlq_id, table[i].dlq_id);
        assert_true(row.ended_at.us == table[i].ended_at);
        assert_ok(place, place->store->job_find_seq(place->store, row.job.seq, &place->arena,
                                                    &again, &place->err));
        assert_slice(again.job_id, table[i].id);
        assert_int_equal(again.job.state, table[i].state);
    }
}

static void an_unknown_job_is_not_found_and_the_answer_untouched(void **state)
{
    struct place *place = *state;
    struct job_row row = {.ended_at = at(1)};
    struct finished finished = {.at = at(2)};
    struct store *store = place->store;
    assert_int_equal(store->job_find(store, SLICE("no"), &place->arena, &row, &place->err),
                     STATUS_NOT_FOUND);
    assert_int_equal(store->job_find_seq(store, 1, &place->arena, &row, &place->err),
                     STATUS_NOT_FOUND);
    assert_int_equal(store->finished_get(store, 1, &place->arena, &finished, &place->err),
                     STATUS_NOT_FOUND);
    assert_true(row.ended_at.us == 1 && finished.at.us == 2);
}

static void a_finished_job_keeps_its_seq_its_record_and_its_result(void **state)
{
    struct place *place = *state;
    struct finished finished;
    struct job job = push(place, "q", "a");
    begin(place);
    job.attempt = 3;
    job.event_seq = 99;
    job.flags = JOB_HAS_DOCUMENT;
    finish(place, job, "a", NOON + 5);
    commit(place);
    reopen(place);
    assert_false(live(place, job.seq, NULL));
    assert_ok(place, place->store->finished_get(place->store, job.seq, &place->arena, &finished,
                                                &place->err));
    assert_true(finished.job.seq == job.seq && finished.job.event_seq == 99);
    assert_int_equal(finished.job.attempt, 3);
    assert_int_equal(finished.job.flags, JOB_HAS_DOCUMENT);
    assert_int_equal(finished.job.state, JOB_DONE);
    assert_true(finished.at.us == NOON + 5);
    assert_slice(finished.result, "{\"ok\":1}");
}

static void a_list_shows_every_state_newest_first(void **state)
{
    struct place *place = *state;
    one_of_each(place);
    assert_string_equal(all(place, ANY, ""), "dead cancelled done running scheduled pending");
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        assert_string_equal(all(place, i, ""), job_state_name((enum job_state)i));
    assert_string_equal(all(place, ANY, "q"), "dead done running scheduled pending");
    assert_string_equal(all(place, JOB_CANCELLED, "q"), "");
    assert_string_equal(all(place, ANY, "r"), "cancelled");
    assert_string_equal(all(place, ANY, "unknown"), "");
    place->store->due(place->store, at(NOON + SECOND));
    assert_string_equal(all(place, JOB_PENDING, ""), "scheduled pending");
    assert_string_equal(all(place, JOB_SCHEDULED, ""), "");
}

static void pages_leave_nothing_out_and_repeat_nothing(void **state)
{
    struct place *place = *state;
    one_of_each(place);
    int64_t cursor = 0;
    assert_string_equal(page(place, ANY, "", &cursor, 4), "dead cancelled done running");
    assert_string_equal(page(place, ANY, "", &cursor, 4), "scheduled pending");
    assert_string_equal(page(place, ANY, "", &cursor, 4), "");
}

static void a_job_that_came_back_from_the_quarantine_is_listed_once(void **state)
{
    struct place *place = *state;
    one_of_each(place);
    struct letter letter;
    begin(place);
    assert_ok(place, place->store->letter_get(place->store, SLICE("letter-1"), &place->arena,
                                              &letter, &place->err));
    struct job job = letter.job;
    job.state = JOB_PENDING;
    job.flags |= JOB_HAS_LETTER;
    assert_ok(place, place->store->job_revive(place->store, &job, &place->err));
    letter.state = LETTER_RECOVERING;
    put(place, &letter, NULL, false);
    commit(place);
    assert_string_equal(all(place, ANY, ""), "dead cancelled done running scheduled pending");
    assert_string_equal(all(place, JOB_DEAD, ""), "");
    assert_int_equal(find(place, "dead").job.state, JOB_PENDING);
    begin(place);
    finish(place, job, "dead", NOON + HOUR);
    letter.state = LETTER_RECOVERED;
    put(place, &letter, NULL, false);
    commit(place);
    assert_string_equal(all(place, ANY, ""), "dead cancelled done running scheduled pending");
    assert_string_equal(all(place, JOB_DONE, ""), "dead done");
    assert_int_equal(find(place, "dead").job.state, JOB_DONE);
}

struct cases find_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_job_is_found_in_whatever_state_it_is),
        CASE(an_unknown_job_is_not_found_and_the_answer_untouched),
        CASE(a_finished_job_keeps_its_seq_its_record_and_its_result),
        CASE(a_list_shows_every_state_newest_first),
        CASE(pages_leave_nothing_out_and_repeat_nothing),
        CASE(a_job_that_came_back_from_the_quarantine_is_listed_once),
    };
    return CASES(tests);
}
