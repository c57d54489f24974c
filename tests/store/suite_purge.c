/* suite_purge: removing, and what stays. */
#include "store/suite.h"

static enum status envelope_status(struct place *place, int64_t seq)
{
    struct stored_envelope envelope;
    return place->store->envelope_get(place->store, seq, &place->arena, &envelope, &place->err);
}

static struct tombstone tombstone(struct place *place, int64_t job_seq)
{
    struct tombstone found;
    assert_ok(place, place->store->tombstone_get(place->store, job_seq, &place->arena, &found,
                                                 &place->err));
    return found;
}

static size_t attempts(struct place *place, int64_t job_seq)
{
    struct attempt_record *records;
    size_t count;
    assert_ok(place, place->store->attempt_list(place->store, job_seq, &place->arena, &records,
                                                &count, &place->err));
    return count;
}

/* belongings gives a job an attempt, a document, another envelope and a key for good. */
static int64_t belongings(struct place *place, int64_t job_seq)
{
    struct store *store = place->store;
    int64_t edit;
    begin(place);
    assert_ok(place, store->attempt_add(store, job_seq, 1, SLICE("{}"), &place->err));
    assert_ok(place, store->document_put(store, job_seq, SLICE("{}"), &place->err));
    assert_ok(place,
              store->envelope_add(store, job_seq, SLICE("id"), SLICE("{}"), &edit, &place->err));
    assert_ok(place, store->forever_put(store, STORE_KEY_RETRY, SLICE("k"), job_seq, &place->err));
    commit(place);
    return edit;
}

static void assert_nothing_left(struct place *place, int64_t job_seq, int64_t envelope,
                                int64_t edit)
{
    struct slice body;
    struct job_row row;
    int64_t kept = 0;
    struct store *store = place->store;
    assert_int_equal(envelope_status(place, envelope), STATUS_NOT_FOUND);
    assert_int_equal(envelope_status(place, edit), STATUS_NOT_FOUND);
    assert_int_equal(attempts(place, job_seq), 0);
    assert_int_equal(store->document_get(store, job_seq, &place->arena, &body, &place->err),
                     STATUS_NOT_FOUND);
    assert_int_equal(store->job_find_seq(store, job_seq, &place->arena, &row, &place->err),
                     STATUS_NOT_FOUND);
    struct err none = {0};
    assert_true(store->forever_get(store, STORE_KEY_RETRY, SLICE("k"), &kept, &none));
    assert_true(kept == job_seq);
}

static void a_purged_letter_leaves_a_tombstone_and_nothing_else(void **state)
{
    struct place *place = *state;
    struct letter letter = dead(place, "d-1", NOON), other = dead(place, "d-2", NOON + 1);
    int64_t edit = belongings(place, letter.job.seq);
    begin(place);
    letter.job.event_seq = 12;
    assert_ok(place, place->store->letter_purge(place->store, &letter, at(NOON + 9), &place->err));
    commit(place);
    reopen(place);
    assert_nothing_left(place, letter.job.seq, letter.envelope_seq, edit);
    assert_string_equal(listed(place, (struct letter_filter){0}), "d-2");
    assert_string_equal(listed(place, (struct letter_filter){.q = SLICE("d")}), "d-2");
    struct tombstone found = tombstone(place, letter.job.seq);
    assert_slice(found.what, "letter");
    assert_slice(found.job_id, "job-d-1");
    assert_slice(found.dlq_id, "d-1");
    assert_true(found.at.us == NOON + 9 && found.event_seq == 12);
    assert_true(found.job_seq == letter.job.seq);
    assert_ok(place, envelope_status(place, other.envelope_seq));
    begin(place);
    assert_int_equal(place->store->letter_purge(place->store, &letter, at(NOON), &place->err),
                     STATUS_NOT_FOUND);
    commit(place);
    /* Its group remembers that it was there. */
    struct letter_group group;
    assert_ok(place, place->store->group_get(place->store, letter.fingerprint, at(NOON),
                                             &place->arena, &group, &place->err));
    assert_true(group.count == 1 && group.total == 2);
}

static void seqs_of_what_was_purged_are_not_given_again(void **state)
{
    struct place *place = *state;
    struct letter letter = dead(place, "d-1", NOON);
    int64_t edit = belongings(place, letter.job.seq);
    begin(place);
    assert_ok(place, place->store->letter_purge(place->store, &letter, at(NOON), &place->err));
    commit(place);
    reopen(place);
    assert_true(push(place, "q", "next").seq > edit);
}

static void the_letter_of_a_live_job_is_not_purged(void **state)
{
    struct place *place = *state;
    struct letter letter = dead(place, "d-1", NOON);
    begin(place);
    struct job job = letter.job;
    job.state = JOB_PENDING;
    assert_ok(place, place->store->job_revive(place->store, &job, &place->err));
    assert_int_equal(place->store->letter_purge(place->store, &letter, at(NOON), &place->err),
                     STATUS_CONFLICT);
    commit(place);
    assert_string_equal(listed(place, (struct letter_filter){0}), "d-1");
}

static void a_letter_takes_its_finished_job_along(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct letter letter = dead(place, "d-1", NOON);
    int64_t edit = belongings(place, letter.job.seq);
    struct finished *found;
    size_t count;
    begin(place);
    struct job job = letter.job;
    job.state = JOB_PENDING;
    job.flags = JOB_HAS_LETTER;
    job.event_seq = 77;
    assert_ok(place, store->job_revive(store, &job, &place->err));
    finish(place, job, "job-d-1", NOON + 2);
    letter.state = LETTER_RECOVERED;
    put(place, &letter, NULL, false);
    commit(place);
    assert_ok(place, store->finished_before(store, at(NOON + HOUR), 9, &place->arena, &found,
                                            &count, &place->err));
    assert_int_equal(count, 0); /* it goes with its letter */
    struct finished finished = {.job = job};
    begin(place);
    assert_int_equal(store->finished_purge(store, &finished, at(NOON), &place->err),
                     STATUS_CONFLICT);
    assert_ok(place, store->letter_purge(store, &letter, at(NOON + 9), &place->err));
    commit(place);
    assert_nothing_left(place, letter.job.seq, letter.envelope_seq, edit);
    assert_true(tombstone(place, letter.job.seq).event_seq == 77);
    struct queue_info *queues;
    assert_ok(place, store->queue_list(store, &place->arena, &queues, &count, &place->err));
    assert_int_equal(queues[0].counts[JOB_DONE], 0);
}

static void finished_jobs_are_found_oldest_first_and_purged_whole(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct finished *found;
    struct job jobs[4];
    size_t count;
    static const int64_t ends[] = {30, 10, 20, 40};
    for (int i = 0; i < 4; i++) {
        char id[] = {(char)('a' + i), 0};
        jobs[i] = push(place, "q", id);
        begin(place);
        finish(place, jobs[i], id, NOON + ends[i]);
        commit(place);
    }
    int64_t edit = belongings(place, jobs[1].seq);
    assert_ok(place, store->finished_before(store, at(NOON + 40), 9, &place->arena, &found, &count,
                                            &place->err));
    assert_int_equal(count, 3);
    assert_true(found[0].job.seq == jobs[1].seq && found[1].job.seq == jobs[2].seq &&
                found[2].job.seq == jobs[0].seq);
    assert_true(found[0].at.us == NOON + 10);
    assert_ok(place, store->finished_before(store, at(NOON + 40), 1, &place->arena, &found, &count,
                                            &place->err));
    assert_int_equal(count, 1);
    begin(place);
    assert_ok(place, store->finished_purge(store, &found[0], at(NOON + 99), &place->err));
    commit(place);
    reopen(place);
    store = place->store;
    assert_nothing_left(place, jobs[1].seq, jobs[1].envelope_seq, edit);
    struct tombstone left = tombstone(place, jobs[1].seq);
    assert_slice(left.what, "job");
    assert_slice(left.job_id, "b");
    assert_slice(left.dlq_id, "");
    struct queue_info *queues;
    assert_ok(place, store->queue_list(store, &place->arena, &queues, &count, &place->err));
    assert_int_equal(queues[0].counts[JOB_DONE], 3);
}

static void only_what_is_finished_is_purged_as_such(void **state)
{
    struct place *place = *state;
    struct tombstone none = {.job_seq = 42};
    struct finished finished = {.job = push(place, "q", "a")};
    begin(place);
    assert_int_equal(place->store->finished_purge(place->store, &finished, at(NOON), &place->err),
                     STATUS_NOT_FOUND);
    commit(place);
    assert_true(live(place, finished.job.seq, NULL));
    assert_int_equal(place->store->tombstone_get(place->store, finished.job.seq, &place->arena,
                                                 &none, &place->err),
                     STATUS_NOT_FOUND);
    assert_true(none.job_seq == 42);
}

struct cases purge_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_purged_letter_leaves_a_tombstone_and_nothing_else),
        CASE(seqs_of_what_was_purged_are_not_given_again),
        CASE(the_letter_of_a_live_job_is_not_purged),
        CASE(a_letter_takes_its_finished_job_along),
        CASE(finished_jobs_are_found_oldest_first_and_purged_whole),
        CASE(only_what_is_finished_is_purged_as_such),
    };
    return CASES(tests);
}
