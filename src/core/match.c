/* match: scoring workers for a job.
 *
 * Shares are compared as fractions, a/b < c/d as a*d < c*b, so equal ones are equal.  A share is
 * held against the policy's number as a quotient: both are the double that is nearest to the same
 * value, so that 7 of 10 is 0.7. */
#include "core/match.h"

bool match_list_has(struct match_list list, struct slice name)
{
    for (size_t i = 0; i < list.count; i++)
        if (slice_eq(list.names[i], name))
            return true;
    return false;
}

/* hint_of is the hint of attempt `n`: past the last one the last one repeats.  False: none. */
static bool hint_of(const struct policy *policy, uint32_t n, struct json *out)
{
    struct json_iter iter;
    struct json entry;
    bool found = false;

    json_iter_init(&iter, policy->hints);
    for (uint32_t i = 0; (i == 0 || i < n) && json_next(&iter, NULL, &entry); i++) {
        *out = entry;
        found = true;
    }
    return found;
}

double match_min(const struct policy *policy, uint32_t n)
{
    struct json hint, value;
    double min;

    if (!hint_of(policy, n, &hint))
        return 1;
    if (json_get(hint, "min_match", &value) && json_double(value, &min))
        return min;
    return json_get(hint, "match", &value) && json_string_is(value, "broadened") ? MATCH_BROADENED
                                                                                 : 1;
}

struct match_share match_share(struct match_list required, struct match_list capabilities)
{
    struct match_share share = {.of = (uint32_t)required.count};

    for (size_t i = 0; i < required.count; i++)
        share.has += match_list_has(capabilities, required.names[i]);
    for (size_t i = 0; i < capabilities.count; i++)
        share.spare += !match_list_has(required, capabilities.names[i]);
    return share;
}

bool match_suffices(struct match_share share, double min)
{
    return share.of == 0 || (double)share.has / (double)share.of >= min;
}

bool match_covers_scope(struct match_list scopes, struct slice scope_lock)
{
    return scopes.count == 0 || scope_lock.len == 0 || match_list_has(scopes, scope_lock);
}

bool match_covers_permissions(struct match_list permissions, struct match_list needed)
{
    for (size_t i = 0; permissions.count > 0 && i < needed.count; i++)
        if (!match_list_has(permissions, needed.names[i]))
            return false;
    return true;
}

/* compare_quality is match_compare without what does not matter after a moment. */
static int compare_quality(const struct match_score *a, const struct match_score *b)
{
    uint64_t x = (uint64_t)a->share.has * b->share.of, y = (uint64_t)b->share.has * a->share.of;

    if (x != y)
        return x > y ? -1 : 1;
    if (a->failed_last != b->failed_last)
        return a->failed_last ? 1 : -1;
    if (a->running != b->running)
        return a->running < b->running ? -1 : 1;
    if (a->share.spare != b->share.spare)
        return a->share.spare < b->share.spare ? -1 : 1;
    return 0;
}

int match_compare(const struct match_score *a, const struct match_score *b)
{
    int quality = compare_quality(a, b);

    if (quality != 0 || a->idle_since.us == b->idle_since.us)
        return quality;
    return instant_before(a->idle_since, b->idle_since) ? -1 : 1;
}

bool match_is_worth(const struct match_score *a, const struct match_score *b)
{
    return compare_quality(a, b) < 0;
}
