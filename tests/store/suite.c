/* suite: running the cases, and the words that they use. */
#include "store/suite.h"

#include <dirent.h>
#include <unistd.h>

#include "base/buf.h"

static const struct store_kind *kind_in_turn;

/* -- places ------------------------------------------------------------------------------------ */

int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    if (!place)
        return -1;
    place->kind = kind_in_turn;
    if (place->kind->renew)
        place->kind->renew();
    memcpy(place->directory, "/tmp/lazaret-store-XXXXXX", sizeof("/tmp/lazaret-store-XXXXXX"));
    if (!mkdtemp(place->directory) ||
        place->kind->open(place->directory, &place->store, &place->err) != STATUS_OK) {
        print_error("%s\n", place->err.text);
        free(place);
        return -1;
    }
    *state = place;
    return 0;
}

static void directory_remove(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    char name[512];
    while (directory && (entry = readdir(directory))) {
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(name);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
}

int place_teardown(void **state)
{
    struct place *place = *state;
    place->store->close(place->store);
    arena_release(&place->arena);
    directory_remove(place->directory);
    free(place);
    return 0;
}

void reopen(struct place *place)
{
    place->store->close(place->store);
    assert_ok(place, place->kind->open(place->directory, &place->store, &place->err));
}

int suite_run(const struct store_kind *kind)
{
    const struct cases parts[] = {
        job_cases(),   ready_cases(), body_cases(),  find_cases(), letter_cases(), list_cases(),
        group_cases(), purge_cases(), event_cases(), name_cases(), shared_cases(),
    };
    const size_t part_count = sizeof(parts) / sizeof(parts[0]) - (kind->shared ? 0 : 1);
    struct CMUnitTest tests[256];
    size_t count = 0;
    for (size_t i = 0; i < part_count; i++) {
        assert_true(count + parts[i].count <= sizeof(tests) / sizeof(tests[0]));
        memcpy(tests + count, parts[i].tests, parts[i].count * sizeof(tests[0]));
        count += parts[i].count;
    }
    kind_in_turn = kind;
    return _cmocka_run_group_tests(kind->name, tests, count, NULL, NULL);
}

/* -- words ------------------------------------------------------------------------------------- */

void assert_ok_at(struct place *place, enum status status, const char *call, const char *file,
                  int line)
{
    if (status == STATUS_OK)
        return;
    print_error("%s:%d: %s: %s: %s\n", file, line, call, status_name(status), place->err.text);
    _fail(file, line);
}

void assert_slice_at(struct slice slice, const char *text, const char *file, int line)
{
    if (slice_is(slice, text))
        return;
    print_error("%s:%d: \"%.*s\" is not \"%s\"\n", file, line, SLICE_ARG(slice), text);
    _fail(file, line);
}

void begin(struct place *place)
{
    assert_ok(place, place->store->begin(place->store, &place->err));
}

void commit(struct place *place)
{
    assert_ok(place, place->store->commit(place->store, &place->err));
}

void rollback(struct place *place)
{
    assert_ok(place, place->store->rollback(place->store, &place->err));
}

const char *joined(struct place *place, const struct slice *texts, size_t count)
{
    struct buf buf;
    buf_init(&buf, 1 << 20);
    for (size_t i = 0; i < count; i++)
        buf_addf(&buf, "%s%.*s", i ? " " : "", SLICE_ARG(texts[i]));
    struct slice copy = arena_dup(&place->arena, buf_slice(&buf));
    buf_release(&buf);
    assert_non_null(copy.ptr);
    return copy.ptr;
}

/* -- jobs -------------------------------------------------------------------------------------- */

struct job job_on(struct place *place, const char *queue, const char *job_id)
{
    struct job job = {
        .id_hash = hash64(slice_of(job_id)),
        .pushed_at = at(NOON),
        .due_at = at(NOON),
        .deadline_at = INSTANT_NEVER,
        .priority = 4,
        .state = JOB_PENDING,
    };
    assert_ok(place,
              place->store->queue_number(place->store, slice_of(queue), &job.queue, &place->err));
    return job;
}

struct job insert(struct place *place, struct job job, const char *job_id)
{
    struct slice body = arena_printf(&place->arena, "{\"action\":\"x\",\"job_id\":\"%s\"}", job_id);
    assert_ok(place,
              place->store->job_insert(place->store, &job, slice_of(job_id), body, &place->err));
    return job;
}

struct job push(struct place *place, const char *queue, const char *job_id)
{
    begin(place);
    struct job job = insert(place, job_on(place, queue, job_id), job_id);
    commit(place);
    return job;
}

void update(struct place *place, const struct job *job, const char *worker)
{
    assert_ok(place, place->store->job_update(place->store, job, slice_of(worker), &place->err));
}

static struct slice id_of(struct place *place, const struct job *job)
{
    struct slice id;
    assert_ok(place, place->store->envelope_job_id(place->store, job->envelope_seq, &place->arena,
                                                   &id, &place->err));
    return id;
}

const char *ready(struct place *place, const char *queue, const char *capability, size_t max)
{
    struct job jobs[64];
    struct slice ids[64];
    struct slice queues = slice_of(queue), capabilities = slice_of(capability);
    const struct ready_query query = {&queues, queue != NULL, &capabilities, capability != NULL};
    assert_true(max <= 64);
    size_t count = place->store->ready(place->store, &query, jobs, max);
    for (size_t i = 0; i < count; i++)
        ids[i] = id_of(place, &jobs[i]);
    return joined(place, ids, count);
}

bool live(struct place *place, int64_t seq, struct job *out)
{
    struct job ignored;
    return place->store->job_by_seq(place->store, seq, out ? out : &ignored);
}

void finish(struct place *place, struct job job, const char *job_id, int64_t at_us)
{
    if (job.state != JOB_CANCELLED)
        job.state = JOB_DONE;
    assert_ok(place, place->store->job_finish(place->store, &job, slice_of(job_id), at(at_us),
                                              SLICE("{\"ok\":1}"), &place->err));
}

/* -- letters ----------------------------------------------------------------------------------- */

struct letter letter_of(struct place *place, const struct job *job, const char *dlq_id,
                        int64_t failed_at)
{
    struct letter letter = {
        .job = *job,
        .envelope_seq = job->envelope_seq,
        .dlq_id = slice_of(dlq_id),
        .job_id = id_of(place, job),
        .queue = place->store->queue_name(place->store, job->queue),
        .original_subject = SLICE("jobs.q"),
        .reason = SLICE("retries_exhausted"),
        .reason_detail = SLICE("5 of 5 attempts"),
        .source = SLICE("lazaret"),
        .signature = SLICE("Timeout::connection to host timed out"),
        .fingerprint = SLICE("00000000000000aa"),
        .error_type = SLICE("Timeout"),
        .state = LETTER_DEAD,
        .replay_safety = REPLAY_UNKNOWN,
        .failed_at = at(failed_at),
        .first_attempt_at = instant_add(at(failed_at), (struct span){-SECOND}),
        .last_attempt_at = at(failed_at),
        .failure_count = 5,
        .max_attempts = 5,
        .recoverable = true,
        .eligible = true,
    };
    letter.job.state = JOB_DEAD;
    return letter;
}

void put(struct place *place, struct letter *letter, const char *text, bool died)
{
    struct slice slice = slice_of(text);
    assert_ok(place, place->store->letter_put(place->store, letter, text ? &slice : NULL, died,
                                              &place->err));
}

void bury(struct place *place, struct job *job, struct letter *letter, const char *text)
{
    assert_ok(place, place->store->job_bury(place->store, job, &place->err));
    put(place, letter, text, true);
}

struct letter dead(struct place *place, const char *dlq_id, int64_t failed_at)
{
    struct slice job_id = arena_printf(&place->arena, "job-%s", dlq_id);
    begin(place);
    struct job job = insert(place, job_on(place, "q", job_id.ptr), job_id.ptr);
    struct letter letter = letter_of(place, &job, dlq_id, failed_at);
    bury(place, &job, &letter, dlq_id);
    commit(place);
    return letter;
}

const char *listed(struct place *place, struct letter_filter filter)
{
    struct letter *letters;
    struct slice ids[64];
    size_t count;
    if (filter.limit == 0)
        filter.limit = 64;
    assert_true(filter.limit <= 64);
    assert_ok(place, place->store->letter_list(place->store, &filter, &place->arena, &letters,
                                               &count, &place->err));
    for (size_t i = 0; i < count; i++)
        ids[i] = letters[i].dlq_id;
    return joined(place, ids, count);
}
