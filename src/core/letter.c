/* letter: what a quarantined job may hope for, and the table of what may be done with it.
 *
 *     dead --retry-----> recovered
 *      |  `--held retry-> recovering --done------> recovered
 *      |                             --cancelled-> discarded
 *      |                             --dies------> dead
 *      |-----discard----> discarded --restore--> dead
 *      |-----rollback---> rolled_back
 *      `-----escalate---> dead, flagged
 *
 * A letter that is recovered without being held is dead again, too, when its job dies.
 *
 * Two questions are kept apart.  *Eligible* asks about the failure: may its kind pass by itself?
 * *Review* asks about the job: must a person look before it runs again?  A machine may replay what
 * is retryable and needs no review. */
#include "core/letter.h"

#include "base/jsonw.h"
#include "core/reason.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

/* text_has_word says whether a word of `text` begins with `word`, which is in lower case. */
static bool text_has_word(struct slice text, const char *word)
{
    size_t len = strlen(word), i, n;

    for (i = 0; i + len <= text.len; i++) {
        if (i > 0 && is_letter(text.ptr[i - 1]))
            continue;
        for (n = 0; n < len && lower(text.ptr[i + n]) == word[n]; n++)
            ;
        if (n == len)
            return true;
    }
    return false;
}

/* message_is_grave looks for words that say a failure will not pass by itself.  It is asked only
 * when nothing else tells what kind of failure it is. */
static bool message_is_grave(struct slice message)
{
    static const char *const words[] = {"permission", "access denied", "critical",
                                        "fatal",      "corrupted",     "validation"};

    if (message.len > FAILURE_MESSAGE_MAX)
        message.len = FAILURE_MESSAGE_MAX;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (text_has_word(message, words[i]))
            return true;
    return false;
}

/* type_needs_person is true for failures that the same run gives again until somebody changes
 * something. */
static bool type_needs_person(struct slice type)
{
    return slice_is(type, "ValidationFailed") || slice_is(type, "CommitValidationFailed") ||
           slice_is(type, "MergeConflict");
}

/* may_pass says whether this kind of failure may pass by itself. */
static bool may_pass(const struct failure *failure, enum failure_class class)
{
    if (!class_is_retryable(class) || failure->retryable == NO)
        return false;
    if (type_needs_person(failure->error_type))
        return false;
    return class != CLASS_UNKNOWN || !message_is_grave(failure->message);
}

static enum replay_safety safety_of(const struct failure *failure, bool has_idempotency_key)
{
    if (has_idempotency_key || failure->side_effects == EFFECTS_NONE)
        return REPLAY_SAFE;
    return failure->side_effects == EFFECTS_COMMITTED ? REPLAY_UNSAFE : REPLAY_UNKNOWN;
}

void letter_judge(struct letter *letter, const struct failure *failure,
                  const struct decision *decision, bool has_idempotency_key,
                  bool requires_human_ack)
{
    letter->reason = failure->reason.len ? failure->reason : slice_of(decision->reason);
    letter->reason_detail = failure->reason_detail.len ? failure->reason_detail : failure->message;
    letter->replay_safety = safety_of(failure, has_idempotency_key);
    letter->eligible = may_pass(failure, decision->class);
    letter->review = !letter->eligible || requires_human_ack ||
                     letter->replay_safety == REPLAY_UNSAFE ||
                     slice_is(letter->reason, REASON_NOT_IDEMPOTENT) ||
                     slice_is(letter->reason, REASON_POLICY_DENIED);
    letter->recoverable =
        class_is_retryable(decision->class) && !letter->review && !letter->escalated;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* struct step: where an action leads, or why it leads nowhere. */
struct step {
    enum letter_state next;
    const char *why;
};

#define TO(state)                                                                                  \
    {                                                                                              \
        LETTER_##state, NULL                                                                       \
    }
#define NO_STEP(why)                                                                               \
    {                                                                                              \
        LETTER_STATE_COUNT, why                                                                    \
    }

static const char being_replayed[] = "it is being replayed";
static const char already_recovered[] = "already recovered";
static const char already_rolled_back[] = "already rolled back";
static const char restore_first[] = "it is discarded: restore it first";

static const struct step steps[LETTER_STATE_COUNT][REVIEW_COUNT] = {
    [LETTER_DEAD] = {[REVIEW_RETRY] = TO(RECOVERED),
                     [REVIEW_DISCARD] = TO(DISCARDED),
                     [REVIEW_ROLLBACK] = TO(ROLLED_BACK),
                     [REVIEW_ESCALATE] = TO(DEAD),
                     [REVIEW_RESTORE] = NO_STEP("it is not discarded")},
    [LETTER_RECOVERING] = {[REVIEW_RETRY] = NO_STEP(being_replayed),
                           [REVIEW_DISCARD] = NO_STEP(being_replayed),
                           [REVIEW_ROLLBACK] = NO_STEP(being_replayed),
                           [REVIEW_ESCALATE] = NO_STEP(being_replayed),
                           [REVIEW_RESTORE] = NO_STEP(being_replayed)},
    [LETTER_RECOVERED] = {[REVIEW_RETRY] = NO_STEP(already_recovered),
                          [REVIEW_DISCARD] = NO_STEP(already_recovered),
                          [REVIEW_ROLLBACK] = NO_STEP(already_recovered),
                          [REVIEW_ESCALATE] = NO_STEP(already_recovered),
                          [REVIEW_RESTORE] = NO_STEP(already_recovered)},
    [LETTER_DISCARDED] = {[REVIEW_RETRY] = NO_STEP(restore_first),
                          [REVIEW_DISCARD] = NO_STEP("already discarded"),
                          [REVIEW_ROLLBACK] = NO_STEP(restore_first),
                          [REVIEW_ESCALATE] = NO_STEP(restore_first),
                          [REVIEW_RESTORE] = TO(DEAD)},
    [LETTER_ROLLED_BACK] = {[REVIEW_RETRY] = NO_STEP(already_rolled_back),
                            [REVIEW_DISCARD] = NO_STEP(already_rolled_back),
                            [REVIEW_ROLLBACK] = NO_STEP(already_rolled_back),
                            [REVIEW_ESCALATE] = NO_STEP(already_rolled_back),
                            [REVIEW_RESTORE] = NO_STEP(already_rolled_back)},
};

enum letter_state letter_next(enum letter_state state, enum review_action action, const char **why)
{
    BUG_ON((unsigned)state >= LETTER_STATE_COUNT || (unsigned)action >= REVIEW_COUNT);
    const struct step *step = &steps[state][action];

    if (why)
        *why = step->why;
    return step->next;
}

enum letter_state letter_after(enum letter_state state, enum job_state end)
{
    BUG_ON((unsigned)state >= LETTER_STATE_COUNT || job_is_live(end));
    if (end == JOB_DEAD)
        return LETTER_DEAD;
    if (state != LETTER_RECOVERING)
        return state;
    return end == JOB_DONE ? LETTER_RECOVERED : LETTER_DISCARDED;
}

/* ---- artifacts ------------------------------------------------------------------------------- */

#define NAMES_MAX 128 /* bytes of the members' names and what stands between them */

enum status letter_artifacts(const struct failure *failure, struct arena *arena, struct slice *out,
                             struct err *err)
{
    static const char *const members[] = {"worktree_path", "branch_name", "uncommitted_changes",
                                          "error_logs"};
    struct json value;
    struct buf text;
    struct jsonw w;

    *out = (struct slice){0};
    if (!json_get(failure->artifacts, members[0], &value) || value.type == JSON_NULL)
        return STATUS_OK;
    buf_init(&text, failure->artifacts.raw.len + NAMES_MAX);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        jsonw_put_raw(&w, members[i],
                      json_get(failure->artifacts, members[i], &value) ? value.raw : SLICE("null"));
    jsonw_object_end(&w);
    enum status status = buf_status(&text, err);
    if (status == STATUS_OK) {
        *out = arena_dup(arena, buf_slice(&text));
        status = out->ptr ? STATUS_OK : err_no_memory(err);
    }
    buf_release(&text);
    return status;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *const state_names[LETTER_STATE_COUNT] = {[LETTER_DEAD] = "dead",
                                                            [LETTER_RECOVERING] = "recovering",
                                                            [LETTER_RECOVERED] = "recovered",
                                                            [LETTER_DISCARDED] = "discarded",
                                                            [LETTER_ROLLED_BACK] = "rolled_back"};

struct slice letter_name(struct slice text)
{
    if (text.len <= LETTER_NAME_MAX)
        return text;
    text.len = LETTER_NAME_MAX;
    while (text.len > 0 && ((unsigned char)text.ptr[text.len] & 0xc0) == 0x80)
        text.len--;
    return text;
}

const char *letter_state_name(enum letter_state state)
{
    BUG_ON((unsigned)state >= LETTER_STATE_COUNT);
    return state_names[state];
}

bool letter_state_from_name(struct slice name, enum letter_state *out)
{
    for (size_t i = 0; i < LETTER_STATE_COUNT; i++) {
        if (slice_is(name, state_names[i])) {
            *out = (enum letter_state)i;
            return true;
        }
    }
    return false;
}

const char *replay_safety_name(enum replay_safety safety)
{
    static const char *const names[] = {
        [REPLAY_SAFE] = "safe", [REPLAY_UNKNOWN] = "unknown", [REPLAY_UNSAFE] = "unsafe"};

    BUG_ON((unsigned)safety > REPLAY_UNSAFE);
    return names[safety];
}

const char *review_action_name(enum review_action action)
{
    static const char *const names[REVIEW_COUNT] = {[REVIEW_RETRY] = "retry",
                                                    [REVIEW_DISCARD] = "discard",
                                                    [REVIEW_ROLLBACK] = "rollback",
                                                    [REVIEW_ESCALATE] = "escalate",
                                                    [REVIEW_RESTORE] = "restore"};

    BUG_ON((unsigned)action >= REVIEW_COUNT);
    return names[action];
}

const char *review_status_name(enum review_action action)
{
    static const char *const names[REVIEW_COUNT] = {[REVIEW_RETRY] = "retried",
                                                    [REVIEW_DISCARD] = "discarded",
                                                    [REVIEW_ROLLBACK] = "rolled_back",
                                                    [REVIEW_ESCALATE] = "escalated",
                                                    [REVIEW_RESTORE] = "restored"};

    BUG_ON((unsigned)action >= REVIEW_COUNT);
    return names[action];
}
