/* suite_job: live jobs, and what a transaction is. */
#include "store/suite.h"

static void assert_same_job(const struct job *a, const struct job *b)
{
    assert_true(a->seq == b->seq && a->envelope_seq == b->envelope_seq);
    assert_true(a->event_seq == b->event_seq && a->id_hash == b->id_hash);
    assert_true(a->idempotency_hash == b->idempotency_hash);
    assert_true(a->retry_key_hash == b->retry_key_hash && a->lease_nonce == b->lease_nonce);
    assert_true(a->pushed_at.us == b->pushed_at.us && a->due_at.us == b->due_at.us);
    assert_true(a->deadline_at.us == b->deadline_at.us && a->round_at.us == b->round_at.us);
    assert_true(a->queue == b->queue && a->capabilities == b->capabilities);
    assert_true(a->attempt == b->attempt && a->attempt_base == b->attempt_base);
    assert_true(a->attempts_max == b->attempts_max && a->redrive_count == b->redrive_count);
    assert_true(a->state == b->state && a->priority == b->priority && a->flags == b->flags);
}

static void a_job_is_the_same_after_reopening(void **state)
{
    struct place *place = *state;
    begin(place);
    struct job job = job_on(place, "q", "a");
    job.event_seq = INT64_MAX;
    job.idempotency_hash = UINT64_MAX;
    job.retry_key_hash = UINT64_C(1) << 63;
    job.lease_nonce = UINT64_MAX - 1;
    job.due_at = INSTANT_NEVER;
    job.deadline_at = at(INT64_MIN);
    job.round_at = at(NOON + 1);
    job.attempt = UINT32_MAX;
    job.attempt_base = UINT32_MAX - 1;
    job.attempts_max = UINT16_MAX;
    job.redrive_count = UINT32_MAX - 2;
    job.state = JOB_RUNNING;
    job.priority = 9;
    job.flags = 255;
    job = insert(place, job, "a");
    assert_true(job.seq > 0 && job.envelope_seq > 0);
    commit(place);
    struct job found;
    assert_true(live(place, job.seq, &found));
    assert_same_job(&job, &found);
    reopen(place);
    assert_true(live(place, job.seq, &found));
    assert_same_job(&job, &found);
}

static void seqs_grow_and_are_not_given_again_after_reopening(void **state)
{
    struct place *place = *state;
    struct job a = push(place, "q", "a"), b = push(place, "q", "b");
    assert_true(b.seq > a.seq);
    begin(place);
    finish(place, b, "b", NOON);
    commit(place);
    reopen(place);
    assert_true(push(place, "q", "c").seq > b.seq);
    assert_true(place->store->seq_next(place->store) > b.seq + 1);
}

static void a_given_seq_is_kept_and_stays_the_highest(void **state)
{
    struct place *place = *state;
    begin(place);
    struct job job = job_on(place, "q", "a");
    job.seq = place->store->seq_next(place->store);
    int64_t seq = job.seq, extra;
    /* The seq's own envelope number may be taken by then: a letter's envelope came first. */
    assert_ok(place, place->store->envelope_add(place->store, seq, SLICE("a"), SLICE("{}"), &extra,
                                                &place->err));
    job = insert(place, job, "a");
    assert_true(job.seq == seq && job.envelope_seq > extra);
    struct job other = insert(place, job_on(place, "q", "b"), "b");
    assert_true(other.seq > seq && other.seq > job.envelope_seq);
    struct job again = job_on(place, "q", "a");
    again.seq = seq;
    assert_int_equal(
        place->store->job_insert(place->store, &again, SLICE("a"), SLICE("{}"), &place->err),
        STATUS_CONFLICT);
    commit(place);
}

static void a_job_is_found_by_its_id_and_not_by_its_hash_alone(void **state)
{
    struct place *place = *state;
    struct job job = push(place, "q", "a"), found;
    begin(place);
    struct job other = job_on(place, "q", "other");
    other.id_hash = job.id_hash; /* a collision */
    other = insert(place, other, "other");
    commit(place);
    struct store *store = place->store;
    assert_true(store->job_by_id(store, SLICE("a"), job.id_hash, &found, &place->err));
    assert_true(found.seq == job.seq);
    assert_true(store->job_by_id(store, SLICE("other"), job.id_hash, &found, &place->err));
    assert_true(found.seq == other.seq);
    assert_false(store->job_by_id(store, SLICE("third"), job.id_hash, &found, &place->err));
    assert_false(store->job_by_id(store, SLICE("a"), job.id_hash + 1, &found, &place->err));
    assert_string_equal(place->err.text, "");
}

static void a_job_is_found_by_its_keys_as_its_envelope_has_them(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct job found;
    begin(place);
    struct job job = job_on(place, "q", "a");
    job.idempotency_hash = 7;
    job.retry_key_hash = 8;
    assert_ok(place, store->job_insert(store, &job, SLICE("a"),
                                       SLICE("{\"idempotency_key\":\"k\\u00e9y\",\"action\":\"x\","
                                             "\"retry_key\":\"r\"}"),
                                       &place->err));
    assert_true(store->job_by_key(store, STORE_KEY_IDEMPOTENCY, SLICE("k\xc3\xa9y"), 7, &found,
                                  &place->err));
    assert_true(found.seq == job.seq);
    assert_true(store->job_by_key(store, STORE_KEY_RETRY, SLICE("r"), 8, &found, &place->err));
    assert_false(store->job_by_key(store, STORE_KEY_RETRY, SLICE("s"), 8, &found, &place->err));
    assert_false(store->job_by_key(store, STORE_KEY_RETRY, SLICE("r"), 7, &found, &place->err));
    assert_false(store->job_by_key(store, STORE_KEY_RETRY, SLICE(""), 0, &found, &place->err));
    /* The key follows the envelope in force. */
    assert_ok(place, store->envelope_add(store, job.seq, SLICE("a"), SLICE("{\"retry_key\":\"t\"}"),
                                         &job.envelope_seq, &place->err));
    job.retry_key_hash = 9;
    update(place, &job, "");
    assert_false(store->job_by_key(store, STORE_KEY_RETRY, SLICE("r"), 8, &found, &place->err));
    assert_true(store->job_by_key(store, STORE_KEY_RETRY, SLICE("t"), 9, &found, &place->err));
    commit(place);
    assert_string_equal(place->err.text, "");
}

static void the_worker_of_a_running_job_is_kept_until_it_runs_no_more(void **state)
{
    struct place *place = *state;
    struct job job = push(place, "q", "a");
    struct slice worker;
    begin(place);
    job.state = JOB_RUNNING;
    update(place, &job, "w1");
    job.due_at = at(NOON + SECOND);
    update(place, &job, ""); /* nobody else has it */
    commit(place);
    reopen(place);
    assert_ok(place,
              place->store->job_worker(place->store, job.seq, &place->arena, &worker, &place->err));
    assert_slice(worker, "w1");
    begin(place);
    job.state = JOB_PENDING;
    update(place, &job, "w1");
    commit(place);
    assert_ok(place,
              place->store->job_worker(place->store, job.seq, &place->arena, &worker, &place->err));
    assert_slice(worker, "");
    assert_int_equal(
        place->store->job_worker(place->store, job.seq + 1, &place->arena, &worker, &place->err),
        STATUS_NOT_FOUND);
}

static void a_job_that_is_not_live_cannot_be_updated_finished_or_buried(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    begin(place);
    struct job job = job_on(place, "q", "a");
    job.seq = 17;
    assert_int_equal(store->job_update(store, &job, SLICE(""), &place->err), STATUS_NOT_FOUND);
    assert_int_equal(store->job_bury(store, &job, &place->err), STATUS_NOT_FOUND);
    job.state = JOB_DONE;
    assert_int_equal(store->job_finish(store, &job, SLICE("a"), at(NOON), SLICE(""), &place->err),
                     STATUS_NOT_FOUND);
    insert(place, job_on(place, "q", "b"), "b");
    commit(place); /* a refusal is no failure */
    assert_int_equal(store->live_count(store), 1);
}

static void a_buried_job_is_not_live_and_a_revived_one_is(void **state)
{
    struct place *place = *state;
    struct job job = push(place, "q", "a"), found;
    begin(place);
    assert_ok(place, place->store->job_bury(place->store, &job, &place->err));
    assert_false(live(place, job.seq, NULL));
    commit(place);
    reopen(place);
    assert_false(live(place, job.seq, NULL));
    begin(place);
    job.attempt = 3;
    assert_ok(place, place->store->job_revive(place->store, &job, &place->err));
    assert_int_equal(place->store->job_revive(place->store, &job, &place->err), STATUS_CONFLICT);
    commit(place);
    reopen(place);
    assert_true(live(place, job.seq, &found));
    assert_same_job(&job, &found);
}

static void a_rollback_leaves_nothing_behind_in_memory_or_on_disk(void **state)
{
    struct place *place = *state;
    struct store *store = place->store;
    struct job kept = push(place, "q", "kept"), found;
    int64_t seq_before, seq_after;
    struct hash hash_before, hash_after;
    store->event_head(store, &seq_before, &hash_before);
    begin(place);
    struct job lost = insert(place, job_on(place, "fresh", "lost"), "lost");
    kept.state = JOB_RUNNING;
    kept.due_at = at(NOON + SECOND);
    update(place, &kept, "w");
    struct event event = {
        .at = at(NOON), .actor = SLICE("me"), .what = SLICE("x"), .why = SLICE("{}")};
    assert_ok(place, store->event_append(store, &event, &place->err));
    struct job gone = insert(place, job_on(place, "q", "gone"), "gone");
    finish(place, gone, "gone", NOON);
    assert_true(live(place, lost.seq, NULL)); /* a transaction sees its own writes */
    rollback(place);
    for (int i = 0; i < 2; i++) {
        store = place->store;
        assert_false(live(place, lost.seq, NULL));
        assert_true(live(place, kept.seq, &found));
        assert_int_equal(found.state, JOB_PENDING);
        assert_int_equal(store->live_count(store), 1);
        assert_string_equal(ready(place, NULL, NULL, 9), "kept");
        store->event_head(store, &seq_after, &hash_after);
        assert_true(seq_after == seq_before);
        assert_memory_equal(&hash_after, &hash_before, sizeof(hash_after));
        struct queue_info *queues;
        size_t count;
        assert_ok(place, store->queue_list(store, &place->arena, &queues, &count, &place->err));
        assert_int_equal(count, 1);
        assert_int_equal(queues[0].counts[JOB_DONE], 0);
        reopen(place);
    }
}

static void a_rollback_without_a_transaction_and_a_reload_change_nothing(void **state)
{
    struct place *place = *state;
    struct job job = push(place, "q", "a"), found;
    rollback(place);
    assert_ok(place, place->store->reload(place->store, &place->err));
    assert_true(live(place, job.seq, &found));
    assert_same_job(&job, &found);
}

static void a_store_that_is_closed_inside_a_transaction_forgets_it(void **state)
{
    struct place *place = *state;
    begin(place);
    struct job job = insert(place, job_on(place, "q", "a"), "a");
    reopen(place);
    assert_false(live(place, job.seq, NULL));
    assert_int_equal(place->store->live_count(place->store), 0);
}

static void a_shift_moves_leases_and_retries_but_no_chosen_times(void **state)
{
    struct place *place = *state;
    struct job found;
    /* The times of a shared store are of all servers: one clock that jumps is not theirs. */
    const int64_t moved = place->kind->shared ? 0 : HOUR;
    begin(place);
    struct job running = insert(place, job_on(place, "q", "running"), "running");
    struct job retry = insert(place, job_on(place, "q", "retry"), "retry");
    struct job chosen = insert(place, job_on(place, "q", "chosen"), "chosen");
    struct job never = insert(place, job_on(place, "q", "never"), "never");
    running.state = JOB_RUNNING;
    running.deadline_at = at(NOON + 9 * SECOND);
    retry.state = chosen.state = never.state = JOB_SCHEDULED;
    running.due_at = retry.due_at = chosen.due_at = at(NOON + 5 * SECOND);
    never.due_at = INSTANT_NEVER;
    chosen.flags = JOB_RUN_AT;
    running.flags = JOB_RUN_AT; /* its due_at is the lease's end all the same */
    update(place, &running, "w");
    update(place, &retry, "");
    update(place, &chosen, "");
    update(place, &never, "");
    commit(place);
    assert_true(place->store->next_timer(place->store).us == NOON + 5 * SECOND);
    begin(place);
    assert_ok(place, place->store->shift(place->store, (struct span){HOUR}, &place->err));
    commit(place);
    for (int i = 0; i < 2; i++) {
        assert_true(live(place, running.seq, &found));
        assert_true(found.due_at.us == NOON + 5 * SECOND + moved);
        assert_true(found.deadline_at.us == NOON + 9 * SECOND + moved);
        assert_true(live(place, retry.seq, &found));
        assert_true(found.due_at.us == NOON + 5 * SECOND + moved);
        assert_true(found.deadline_at.us == INT64_MAX);
        assert_true(live(place, chosen.seq, &found));
        assert_true(found.due_at.us == NOON + 5 * SECOND);
        assert_true(live(place, never.seq, &found));
        assert_true(found.due_at.us == INT64_MAX);
        assert_true(place->store->next_timer(place->store).us == NOON + 5 * SECOND);
        reopen(place);
    }
}

/* walk takes `count` jobs through a whole life in the transaction that is open. */
static void walk(struct place *place, int count)
{
    struct store *store = place->store;
    struct job jobs[40];
    struct job_row row;
    struct slice worker;
    char id[16];
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof(id), "j%d", i);
        jobs[i] = insert(place, job_on(place, "q", id), id);
    }
    for (int i = 0; i < count; i++) {
        jobs[i].state = JOB_RUNNING;
        update(place, &jobs[i], i % 2 ? "odd" : "even");
    }
    assert_ok(place,
              store->job_worker(store, jobs[count - 1].seq, &place->arena, &worker, &place->err));
    assert_slice(worker, (count - 1) % 2 ? "odd" : "even");
    for (int i = 0; i < count; i += 2) {
        snprintf(id, sizeof(id), "j%d", i);
        finish(place, jobs[i], id, NOON + i);
    }
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof(id), "j%d", i);
        assert_ok(place, store->job_find(store, slice_of(id), &place->arena, &row, &place->err));
        assert_int_equal(row.job.state, i % 2 ? JOB_RUNNING : JOB_DONE);
    }
}

static void the_steps_of_many_jobs_in_one_transaction_are_seen_and_kept(void **state)
{
    struct place *place = *state;
    struct job_row *rows;
    size_t count;
    for (int jobs = 1; jobs <= 40; jobs += 3) {
        begin(place);
        walk(place, jobs);
        rollback(place);
        assert_int_equal(place->store->live_count(place->store), 0);
    }
    begin(place);
    walk(place, 37);
    commit(place);
    reopen(place);
    assert_int_equal(place->store->live_count(place->store), 18);
    assert_ok(place, place->store->job_list(place->store, JOB_DONE, SLICE("q"), 0, 64,
                                            &place->arena, &rows, &count, &place->err));
    assert_int_equal(count, 19);
}

struct cases job_cases(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_job_is_the_same_after_reopening),
        CASE(seqs_grow_and_are_not_given_again_after_reopening),
        CASE(a_given_seq_is_kept_and_stays_the_highest),
        CASE(a_job_is_found_by_its_id_and_not_by_its_hash_alone),
        CASE(a_job_is_found_by_its_keys_as_its_envelope_has_them),
        CASE(the_worker_of_a_running_job_is_kept_until_it_runs_no_more),
        CASE(a_job_that_is_not_live_cannot_be_updated_finished_or_buried),
        CASE(a_buried_job_is_not_live_and_a_revived_one_is),
        CASE(a_rollback_leaves_nothing_behind_in_memory_or_on_disk),
        CASE(a_rollback_without_a_transaction_and_a_reload_change_nothing),
        CASE(a_store_that_is_closed_inside_a_transaction_forgets_it),
        CASE(a_shift_moves_leases_and_retries_but_no_chosen_times),
        CASE(the_steps_of_many_jobs_in_one_transaction_are_seen_and_kept),
    };
    return CASES(tests);
}
