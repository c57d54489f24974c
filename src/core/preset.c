/* preset: the policies of the systems that Lazaret unites, as data.
 *
 * Each is JSON that policy_parse reads like any other policy, so that `policy show NAME` gives
 * something to copy and edit.  The delays they make stand in INTERFACES 3. */
#include "core/policy.h"

/* What the governed pattern recommends is also what a job gets that asks for nothing. */
#define GOVERNED                                                                                   \
    "{\"max_attempts\":6,\"backoff_strategy\":\"schedule\","                                       \
    "\"schedule_seconds\":[5,30,120,600,3600],\"max_delay_seconds\":3600,"                         \
    "\"jitter\":true,\"jitter_mode\":\"full\"}"

#define BACKGROUND                                                                                 \
    "\"max_attempts\":4,\"backoff_strategy\":\"exponential\","                                     \
    "\"initial_delay_seconds\":0.025,\"multiplier\":2,\"jitter\":false"

static const struct preset {
    const char *name;
    struct slice json;
} presets[] = {
    /* A receipt is sent at once, then after 2, 4, 8 and 16 seconds. */
    {"receipts", SLICE("{\"max_attempts\":5,\"backoff_strategy\":\"exponential\","
                       "\"initial_delay_seconds\":2,\"multiplier\":2,\"jitter\":false}")},

    /* The best agent at once, all agents scored anew after 10 seconds, any that match by 70 % after
     * 30 more. */
    {"dispatch", SLICE("{\"max_attempts\":3,\"backoff_strategy\":\"schedule\","
                       "\"schedule_seconds\":[10,30],\"jitter\":false,"
                       "\"hints\":[{\"match\":\"best\"},{\"match\":\"rescore\"},"
                       "{\"match\":\"broadened\",\"min_match\":0.7}]}")},

    {"governed", SLICE(GOVERNED)},

    /* An item of a map run: two quick retries. */
    {"map", SLICE("{\"max_attempts\":3,\"backoff_strategy\":\"exponential\","
                  "\"initial_delay_seconds\":1,\"multiplier\":2,\"max_delay_seconds\":30,"
                  "\"jitter\":false}")},

    /* A background task: three retries after 25, 50 and 100 milliseconds. */
    {"background", SLICE("{" BACKGROUND "}")},

    /* The same for settlements: a task that dies hands the dispute back to people. */
    {"post-adjudication",
     SLICE("{" BACKGROUND ",\"evidence_source\":\"post_adjudication_retry\","
           "\"on_dead\":{\"settlement_progression_status\":\"dispute-ready\","
           "\"settlement_progression_reason_code\":\"escalate\","
           "\"settlement_progression_reason\":\"post-adjudication execution dead-lettered\","
           "\"dispute_lifecycle_status\":\"re-escalated\"}}")},

    /* A letter from elsewhere that is published again: only a lost publisher is replaced. */
    {"replay", SLICE("{\"max_attempts\":10,\"backoff_strategy\":\"fixed\","
                     "\"initial_delay_seconds\":1,\"jitter\":false,"
                     "\"retry_on\":[\"crashed\",\"timeout\"]}")},

    {POLICY_DEFAULT, SLICE(GOVERNED)},
};

bool policy_preset(size_t index, const char **name, struct slice *json)
{
    if (index >= sizeof(presets) / sizeof(presets[0]))
        return false;
    *name = presets[index].name;
    *json = presets[index].json;
    return true;
}
