/* evidence: comparing what lies beside the events with the digests in them. */
#include "api/evidence.h"

#include "base/hash.h"
#include "base/json.h"

/* digest_fits compares a text with the hex digest in member `name` of the event's facts.  Facts
 * without that member have nothing to compare. */
static bool digest_fits(struct json why, const char *name, struct slice text)
{
    static const char hex[] = "0123456789abcdef";
    struct json member;
    char printed[2 * HASH_SIZE + 1] = {0};
    if (!json_get(why, name, &member))
        return true;
    struct hash hash = hash_sha256(&text, 1);
    for (size_t i = 0; i < HASH_SIZE; i++) {
        printed[2 * i] = hex[hash.bytes[i] >> 4];
        printed[2 * i + 1] = hex[hash.bytes[i] & 15];
    }
    return json_string_is(member, printed);
}

/* is_there says whether the job is in the store; *purged, that it is gone with a tombstone. */
static enum status is_there(struct store *store, int64_t job_seq, struct arena *arena, bool *there,
                            bool *purged, struct err *err)
{
    struct job_row row;
    struct tombstone tombstone;
    *purged = false;
    enum status status = store->job_find_seq(store, job_seq, arena, &row, err);
    *there = status == STATUS_OK;
    if (status != STATUS_NOT_FOUND)
        return status;
    status = store->tombstone_get(store, job_seq, arena, &tombstone, err);
    *purged = status == STATUS_OK;
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status check_envelope(struct store *store, const struct event *event, struct json why,
                                  struct arena *arena, const char **wrong, struct err *err)
{
    int64_t *seqs;
    size_t count;
    struct stored_envelope stored;
    enum status status = store->envelope_list(store, event->job_seq, arena, &seqs, &count, err);
    if (status == STATUS_OK && count > 0)
        status = store->envelope_get(store, seqs[0], arena, &stored, err);
    if (status != STATUS_OK)
        return status;
    if (count == 0)
        *wrong = "the envelope that was pushed is missing";
    else if (!digest_fits(why, "envelope_sha256", stored.body))
        *wrong = "the envelope is not the one that was pushed: it was changed";
    return STATUS_OK;
}

static enum status check_attempt(struct store *store, const struct event *event, struct json why,
                                 struct arena *arena, const char **wrong, struct err *err)
{
    struct attempt_record *records;
    size_t count;
    int64_t attempt = 0;
    struct json member;
    if (json_get(why, "attempt", &member))
        json_int(member, &attempt);
    enum status status = store->attempt_list(store, event->job_seq, arena, &records, &count, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        if (records[i].attempt != attempt)
            continue;
        if (!digest_fits(why, "failure_sha256", records[i].failure))
            *wrong =
                "the record of the failed attempt is not the one that was kept: it was changed";
        return STATUS_OK;
    }
    *wrong = "the record of the failed attempt is missing";
    return STATUS_OK;
}

enum status evidence_check(struct store *store, const struct event *event, struct arena *arena,
                           const char **wrong, struct err *err)
{
    bool pushed = slice_is(event->what, EVENT_PUSHED);
    bool failed =
        slice_is(event->what, EVENT_RETRY_SCHEDULED) || slice_is(event->what, EVENT_DEAD_LETTERED);
    bool there, purged;
    struct json why;
    *wrong = NULL;
    if (!pushed && !failed && !slice_is(event->what, EVENT_IMPORTED))
        return STATUS_OK;
    enum status status = is_there(store, event->job_seq, arena, &there, &purged, err);
    if (status != STATUS_OK || purged)
        return status;
    if (!there)
        *wrong = "the job that it is about is gone without a tombstone";
    else if (json_parse(event->why, &why, NULL) != STATUS_OK)
        *wrong = "its facts are not JSON";
    else if (pushed)
        return check_envelope(store, event, why, arena, wrong, err);
    else if (failed)
        return check_attempt(store, event, why, arena, wrong, err);
    return STATUS_OK;
}
