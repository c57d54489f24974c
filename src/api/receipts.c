/* receipts: two counters of INTERFACES 6.  The third, how many are dead, is the store's to know. */
#include "api/receipts.h"

#include <stdatomic.h>

#include "base/mem.h"

/* The statuses that a receipt has; one that it should not have is the last. */
static const char *const statuses[] = {"complete", "failed", "running", "other"};
#define STATUSES (sizeof(statuses) / sizeof(statuses[0]))

struct receipts {
    atomic_uint_fast64_t sent[STATUSES][2]; /* attempts, by status and success */
    atomic_uint_fast64_t retries;
};

struct receipts *receipts_new(void)
{
    return mem_zalloc(sizeof(struct receipts));
}

void receipts_free(struct receipts *receipts)
{
    mem_free(receipts);
}

void receipts_count(struct receipts *receipts, struct slice status, const struct result_item *item)
{
    size_t at = 0;
    if (!receipts || !status.len || item->status != STATUS_OK)
        return;
    while (at < STATUSES - 1 && !slice_is(status, statuses[at]))
        at++;
    atomic_fetch_add(&receipts->sent[at][!item->failed], 1);
    if (item->failed && item->state != JOB_DEAD)
        atomic_fetch_add(&receipts->retries, 1);
}

void receipts_expose(const struct receipts *receipts, struct expose *expose)
{
    static const char *const success[] = {"false", "true"};
    expose_family(expose, "cognigate_receipts_total", "counter",
                  "Attempts to send a receipt, by the status that it reports and whether it "
                  "arrived.");
    for (size_t i = 0; receipts && i < STATUSES; i++) {
        for (int ok = 0; ok < 2; ok++) {
            int64_t count = (int64_t)atomic_load(&receipts->sent[i][ok]);
            if (count || i < STATUSES - 1)
                expose_int(expose, count,
                           EXPOSE_LABELS({"status", slice_of(statuses[i])},
                                         {"success", slice_of(success[ok])}));
        }
    }
    expose_family(expose, "cognigate_receipt_retries_total", "counter",
                  "Retries of receipts that a policy allowed.");
    expose_int(expose, receipts ? (int64_t)atomic_load(&receipts->retries) : 0, EXPOSE_PLAIN);
}
