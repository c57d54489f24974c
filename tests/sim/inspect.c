/* inspect: whether the store holds exactly what the model does.
 *
 *   the chain     every event is there, in order, and fits: nothing that was acknowledged is lost
 *   each job      found by its id, in one state, with its bytes, attempts, failures and events
 *   all jobs      listed once each, and no others
 *   letters       in inspect_letter.c: what is counted is what is there */
#include "sim/inspect.h"

#include <inttypes.h>

#define PAGE 64

void inspect_wrong(struct inspection *in, const struct model_job *job, const char *what)
{
    model_violated(in->model, "in the store: job %.*s (seq %" PRId64 ", %s): %s%s%s",
                   SLICE_ARG(job->id), job->seq, model_state_name(job->state), what,
                   in->err.text[0] ? ": " : "", in->err.text);
}

bool inspect_failed(struct inspection *in, enum status status, const char *what)
{
    if (status == STATUS_OK)
        return false;
    model_violated(in->model, "in the store: %s: %s: %s", what, status_name(status), in->err.text);
    return true;
}

/* ---- the chain ------------------------------------------------------------------------------- */

static void check_chain(struct inspection *in)
{
    struct model *model = in->model;
    struct event *events;
    size_t count = 0, seen = 0;
    int64_t seq;
    struct hash hash, previous = {{0}};

    in->store->event_head(in->store, &seq, &hash);
    if (seq != (int64_t)model->ledger_count)
        model_violated(model, "%zu events were acknowledged, and the store has %" PRId64,
                       model->ledger_count, seq);
    do {
        if (inspect_failed(in,
                           in->store->event_list(in->store, (int64_t)seen, PAGE, &in->arena,
                                                 &events, &count, &in->err),
                           "events"))
            return;
        for (size_t i = 0; i < count && !model->violated; i++, seen++) {
            previous = event_hash(&events[i], previous);
            if (events[i].seq != (int64_t)seen + 1 || seen >= model->ledger_count ||
                memcmp(previous.bytes, events[i].hash.bytes, HASH_SIZE) != 0 ||
                memcmp(previous.bytes, model->ledger[seen].hash.bytes, HASH_SIZE) != 0)
                model_violated(model, "event %zu does not fit the chain", seen + 1);
        }
    } while (count == PAGE && !model->violated);
    if (seen != model->ledger_count)
        model_violated(model, "%zu events were acknowledged, and %zu are listed",
                       model->ledger_count, seen);
}

/* ---- one job --------------------------------------------------------------------------------- */

static bool state_fits(enum model_state model, enum job_state state)
{
    switch (model) {
    case MODEL_WAITING:
        return state == JOB_PENDING || state == JOB_SCHEDULED;
    case MODEL_RUNNING:
        return state == JOB_RUNNING;
    case MODEL_DONE:
        return state == JOB_DONE;
    case MODEL_CANCELLED:
        return state == JOB_CANCELLED;
    case MODEL_DEAD:
        return state == JOB_DEAD;
    default:
        return false;
    }
}

static void check_events(struct inspection *in, const struct model_job *job, int64_t last)
{
    struct event *events;
    size_t count = 0;

    if (inspect_failed(in,
                       in->store->event_of_job(in->store, last, 0, 10000, &in->arena, &events,
                                               &count, &in->err),
                       "events of a job"))
        return;
    bool same = count == job->event_count;
    for (size_t i = 0; same && i < count; i++)
        same = events[i].seq == job->events[i] && events[i].job_seq == job->seq;
    if (!same)
        inspect_wrong(in, job, "its events are not those that were seen");
}

/* failure_fits compares one piece of evidence with what was reported. */
static bool failure_fits(struct inspection *in, const struct attempt_record *record,
                         const struct model_failure *failure)
{
    struct json json, message;
    int64_t number;

    if (json_parse(record->failure, &json, &in->err) != STATUS_OK ||
        !json_get(json, "error_message", &message))
        return false;
    struct slice text = json_text(message, &in->arena);
    bool counted = json_get(json, "attempt_number", &message) && json_int(message, &number) &&
                   number == (int64_t)failure->attempt;
    return counted && record->attempt == failure->attempt &&
           (!failure->message.len || slice_eq(text, failure->message));
}

static void check_failures(struct inspection *in, const struct model_job *job)
{
    struct attempt_record *records;
    size_t count = 0;

    if (inspect_failed(
            in,
            in->store->attempt_list(in->store, job->seq, &in->arena, &records, &count, &in->err),
            "attempts"))
        return;
    bool same = count == job->failure_count;
    for (size_t i = 0; same && i < count; i++)
        same = failure_fits(in, &records[i], &job->failures[i]);
    if (!same)
        inspect_wrong(in, job, "its failure history is not one entry for each failed attempt");
}

static void check_body(struct inspection *in, const struct model_job *job, int64_t envelope_seq)
{
    struct stored_envelope stored;

    if (inspect_failed(
            in, in->store->envelope_get(in->store, envelope_seq, &in->arena, &stored, &in->err),
            "envelope"))
        return;
    if (!slice_eq(stored.body, job->body_now) || !slice_eq(stored.job_id, job->id))
        inspect_wrong(in, job, "its payload is not what was pushed");
}

/* check_places says that the job is in the one table of its state, and in no other. */
static void check_places(struct inspection *in, const struct model_job *job)
{
    struct job live;
    struct finished finished;
    struct err err = {0};
    bool is_live = job->state == MODEL_WAITING || job->state == MODEL_RUNNING;
    bool is_finished = job->state == MODEL_DONE || job->state == MODEL_CANCELLED;

    if (in->store->job_by_seq(in->store, job->seq, &live) != is_live)
        inspect_wrong(in, job, "it is among the live jobs, or is missing there");
    if (is_live && !state_fits(job->state, (enum job_state)live.state))
        inspect_wrong(in, job, "memory has it in another state");
    enum status status = in->store->finished_get(in->store, job->seq, &in->arena, &finished, &err);
    if ((status == STATUS_OK) != is_finished)
        inspect_wrong(in, job, "it is among the finished jobs, or is missing there");
    else if (is_finished && !slice_eq(finished.result, job->result))
        inspect_wrong(in, job, "its result is not what its worker handed back");
}

static void check_row(struct inspection *in, const struct model_job *job, const struct job_row *row)
{
    if (row->job.seq != job->seq || !state_fits(job->state, (enum job_state)row->job.state))
        inspect_wrong(in, job, job_state_name((enum job_state)row->job.state));
    else if (row->job.attempt != job->attempt || row->job.attempt_base != job->attempt_base ||
             row->job.attempts_max != job->attempts_max || row->job.redrive_count != job->redrives)
        inspect_wrong(in, job, "its attempts are miscounted");
    else if (job->state == MODEL_RUNNING &&
             (row->job.flags & JOB_CANCEL_WANTED ? !job->cancel_wanted : job->cancel_wanted))
        inspect_wrong(in, job, "the wish to cancel it is not kept");
    else if (instant_is_set(job->lease_until) && job->state == MODEL_RUNNING &&
             instant_before(row->job.due_at, job->lease_until))
        inspect_wrong(in, job, "its lease ends sooner than was promised");
    else if (!job->foreign && (row->job.priority != job->envelope.priority ||
                               !slice_eq(row->queue, job->envelope.queue)))
        inspect_wrong(in, job, "its queue or priority is not what was asked for");
}

static void check_job(struct inspection *in, const struct model_job *job)
{
    struct job_row row;

    if (inspect_failed(in, in->store->job_find(in->store, job->id, &in->arena, &row, &in->err),
                       "a job is lost"))
        return;
    check_row(in, job, &row);
    check_places(in, job);
    check_body(in, job, row.job.envelope_seq);
    check_events(in, job, row.job.event_seq);
    check_failures(in, job);
    if (job->state == MODEL_DEAD && !slice_eq(row.dlq_id, job->dlq_id))
        inspect_wrong(in, job, "it does not name its letter");
}

static void check_purged(struct inspection *in, const struct model_job *job)
{
    struct tombstone tombstone;
    struct job_row row;
    struct err err = {0};

    if (inspect_failed(
            in, in->store->tombstone_get(in->store, job->seq, &in->arena, &tombstone, &in->err),
            "a tombstone"))
        return;
    if (!slice_eq(tombstone.job_id, job->id) || !slice_eq(tombstone.dlq_id, job->dlq_id))
        inspect_wrong(in, job, "its tombstone names something else");
    if (in->store->job_find_seq(in->store, job->seq, &in->arena, &row, &err) != STATUS_NOT_FOUND)
        inspect_wrong(in, job, "it was purged, and is still there");
}

/* ---- all jobs -------------------------------------------------------------------------------- */

/* check_listing pages through all jobs: each that was not purged is listed once. */
static void check_listing(struct inspection *in)
{
    struct model *model = in->model;
    struct job_row *rows;
    size_t count = 0, listed = 0, expected = 0, live = 0;
    int64_t cursor = 0;

    for (const struct model_job *job = model->jobs; job; job = job->next) {
        expected += job->state != MODEL_PURGED;
        live += job->state == MODEL_WAITING || job->state == MODEL_RUNNING;
    }
    do {
        if (inspect_failed(in,
                           in->store->job_list(in->store, -1, (struct slice){0}, cursor, 7,
                                               &in->arena, &rows, &count, &in->err),
                           "the list of jobs"))
            return;
        for (size_t i = 0; i < count; i++, listed++) {
            const struct model_job *job = model_by_seq(model, rows[i].job.seq);

            if (!job || (cursor && rows[i].job.seq >= cursor))
                model_violated(model, "job %.*s is listed twice, or was never pushed",
                               SLICE_ARG(rows[i].job_id));
            cursor = rows[i].job.seq;
        }
    } while (count == 7 && !model->violated);
    if (listed != expected)
        model_violated(model, "%zu jobs exist, and %zu are listed", expected, listed);
    if (in->store->live_count(in->store) != live)
        model_violated(model, "%zu jobs are live, and the store counts %zu", live,
                       in->store->live_count(in->store));
}

static void check_policies(struct inspection *in)
{
    struct stored_policy *list;
    size_t count = 0, expected = 0;

    if (inspect_failed(in, in->store->policy_list(in->store, &in->arena, &list, &count, &in->err),
                       "policies"))
        return;
    for (const struct model_policy *policy = in->model->policies; policy; policy = policy->next) {
        bool found = false;

        expected++;
        for (size_t i = 0; i < count; i++)
            found = found ||
                    (slice_eq(list[i].name, policy->name) && slice_eq(list[i].body, policy->body) &&
                     list[i].version == policy->version);
        if (!found)
            model_violated(in->model, "policy %.*s is lost, or is another version",
                           SLICE_ARG(policy->name));
    }
    if (count != expected)
        model_violated(in->model, "%zu policies were set, and %zu are stored", expected, count);
}

void model_inspect(struct model *model, struct store *store)
{
    struct inspection in = {.model = model, .store = store};

    check_chain(&in);
    for (const struct model_job *job = model->jobs; job && !model->violated; job = job->next) {
        if (job->state == MODEL_PURGED)
            check_purged(&in, job);
        else
            check_job(&in, job);
    }
    if (!model->violated)
        check_listing(&in);
    if (!model->violated)
        check_policies(&in);
    if (!model->violated)
        inspect_letters(&in);
    arena_release(&in.arena);
}

bool model_recover(struct model *model, struct store *store, struct batch *doubtful)
{
    struct inspection in = {.model = model, .store = store};
    struct event *events;
    size_t count = 0;

    if (!inspect_failed(&in,
                        store->event_list(store, (int64_t)model->ledger_count, 10000, &in.arena,
                                          &events, &count, &in.err),
                        "events after the crash")) {
        for (size_t i = 0; i < count; i++)
            world_trace(model->world, "found event %" PRId64 " job %" PRId64 " %.*s by %.*s",
                        events[i].seq, events[i].job_seq, SLICE_ARG(events[i].what),
                        SLICE_ARG(events[i].actor));
        if (count && !doubtful)
            model_violated(model, "%zu events appeared in a crash, and nothing was under way",
                           count);
        model_fold(model, store, events, count, NULL, doubtful);
        model_whole(model, doubtful);
    }
    arena_release(&in.arena);
    return count > 0;
}
