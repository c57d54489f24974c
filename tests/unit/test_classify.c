/* Classification: every table, and which fact wins over which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/failure.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct failure blank(void)
{
    struct failure failure;

    failure_init(&failure);
    failure.message = SLICE("it broke");
    return failure;
}

static void assert_class(const struct failure *failure, const char *name, const char *what)
{
    const char *class = class_name(failure_class(failure));

    if (strcmp(class, name) != 0)
        fail_msg("%s: %s, not %s", what, class, name);
}

static void class_names_are_those_of_the_contract_and_read_back(void **state)
{
    static const char *const retryable[] = {"timeout", "unavailable", "server_error",
                                            "network", "congestion",  "rate_limited",
                                            "crashed", "unknown"};
    static const char *const structural[] = {
        "permission_denied", "policy_violation", "invalid_input", "malformed_payload",
        "forbidden_tool",    "scope_mismatch",   "client_error"};
    enum failure_class class;

    (void)state;
    assert_int_equal(COUNT(retryable) + COUNT(structural), CLASS_COUNT);
    for (size_t i = 0; i < COUNT(retryable); i++) {
        assert_true(class_from_name(slice_of(retryable[i]), &class));
        assert_string_equal(class_name(class), retryable[i]);
        assert_true(class_is_retryable(class));
    }
    for (size_t i = 0; i < COUNT(structural); i++) {
        assert_true(class_from_name(slice_of(structural[i]), &class));
        assert_string_equal(class_name(class), structural[i]);
        assert_false(class_is_retryable(class));
    }
    assert_false(class_from_name(SLICE(""), &class));
    assert_false(class_from_name(SLICE("Timeout"), &class));
}

static void an_interruption_is_a_crash_unless_a_class_is_given(void **state)
{
    struct failure failure = blank();

    (void)state;
    failure.interrupted = true;
    assert_class(&failure, "crashed", "interrupted");
    failure.http_status = 403;
    failure.error_type = SLICE("Timeout");
    assert_class(&failure, "crashed", "interrupted, with other facts");
    failure.has_class = true;
    failure.given_class = CLASS_NETWORK;
    assert_class(&failure, "network", "interrupted, with a class");
}

static void nothing_that_tells_is_unknown(void **state)
{
    struct failure failure = blank();

    (void)state;
    assert_class(&failure, "unknown", "a blank failure");
    failure.message = (struct slice){0};
    assert_class(&failure, "unknown", "an empty failure");
}

static void http_statuses_tell_the_class(void **state)
{
    static const struct {
        int status;
        const char *class;
    } table[] = {
        {100, "unknown"},       {200, "unknown"},           {302, "unknown"},
        {400, "invalid_input"}, {401, "permission_denied"}, {403, "permission_denied"},
        {404, "client_error"},  {408, "timeout"},           {409, "client_error"},
        {410, "client_error"},  {422, "invalid_input"},     {429, "rate_limited"},
        {451, "client_error"},  {499, "client_error"},      {500, "server_error"},
        {501, "server_error"},  {502, "unavailable"},       {503, "unavailable"},
        {504, "timeout"},       {505, "server_error"},      {599, "server_error"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct failure failure = blank();
        failure.http_status = table[i].status;
        assert_class(&failure, table[i].class, "HTTP status");
    }
}

static void error_types_tell_the_class(void **state)
{
    static const struct {
        const char *type, *class;
    } table[] = {
        {"Timeout", "timeout"},
        {"TimeoutError", "timeout"},
        {"ResourceExhausted", "congestion"},
        {"RESOURCE_EXHAUSTED", "congestion"},
        {"Crashed", "crashed"},
        {"NetworkError", "network"},
        {"RATE_LIMIT_EXCEEDED", "rate_limited"},
        {"rate-limited", "rate_limited"},
        {"PermissionDenied", "permission_denied"},
        {"PolicyViolation", "policy_violation"},
        {"ScopeMismatch", "scope_mismatch"},
        /* These tell too little. */
        {"CommandFailed", "unknown"},
        {"ValidationFailed", "unknown"},
        {"CommitValidationFailed", "unknown"},
        {"MergeConflict", "unknown"},
        {"WorktreeError", "unknown"},
        {"Unknown", "unknown"},
        /* Only the whole name counts. */
        {"NoTimeout", "unknown"},
        {"Timeouts", "unknown"},
        {"Time", "unknown"},
        {"", "unknown"},
        {"___", "unknown"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct failure failure = blank();
        failure.error_type = slice_of(table[i].type);
        assert_class(&failure, table[i].class, table[i].type);
    }
}

static void every_class_name_is_an_error_type_too(void **state)
{
    (void)state;
    for (int i = 0; i < CLASS_COUNT; i++) {
        struct failure failure = blank();
        failure.error_type = slice_of(class_name((enum failure_class)i));
        assert_int_equal(failure_class(&failure), i);
    }
}

static void a_type_with_a_nul_is_no_known_type(void **state)
{
    struct failure failure = blank();

    (void)state;
    failure.error_type = (struct slice){"Timeout\0", 8};
    assert_class(&failure, "unknown", "Timeout and a NUL");
}

static void exit_codes_tell_the_class(void **state)
{
    static const struct {
        int code;
        const char *class;
    } table[] = {
        {0, "unknown"},         {1, "unknown"},
        {2, "unknown"},         {101, "unknown"},
        {124, "timeout"},       {75, "unavailable"},
        {69, "unavailable"},    {77, "permission_denied"},
        {64, "invalid_input"},  {65, "invalid_input"},
        {126, "unknown"},       {127, "unknown"},
        {134, "crashed"},       {137, "crashed"},
        {139, "crashed"},       {130, "unknown"},
        {-9, "crashed"},        {-11, "crashed"},
        {-1, "unknown"},        {255, "unknown"},
        {INT32_MIN, "unknown"}, {INT32_MAX, "unknown"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct failure failure = blank();
        failure.error_type = SLICE("CommandFailed");
        failure.has_exit_code = true;
        failure.exit_code = table[i].code;
        assert_class(&failure, table[i].class, "exit code");
    }
}

static void words_of_the_message_tell_the_class(void **state)
{
    static const struct {
        const char *message, *class;
    } table[] = {
        {"request timed out after 30 s", "timeout"},
        {"Timeout: no answer", "timeout"},
        {"ETIMEDOUT", "timeout"},
        {"context deadline exceeded", "timeout"},
        {"dial tcp 10.0.0.1:5432: connect: connection refused", "network"},
        {"Connection reset by peer", "network"},
        {"connect ECONNREFUSED 127.0.0.1:80", "network"},
        {"Network is unreachable", "network"},
        {"no route to host", "network"},
        {"DNS lookup failed", "network"},
        {"network interruption", "network"},
        {"API rate limit exceeded", "rate_limited"},
        {"rate-limited", "rate_limited"},
        {"Too Many Requests", "rate_limited"},
        {"quota exceeded for project", "rate_limited"},
        {"503 Service Unavailable", "unavailable"},
        {"resource temporarily unavailable", "unavailable"},
        {"502 Bad Gateway", "unavailable"},
        {"server answered HTTP 503", "unavailable"},
        {"dependency unavailable", "unavailable"},
        {"500 Internal Server Error", "server_error"},
        {"fatal: Out of memory, malloc failed", "congestion"},
        {"write: No space left on device", "congestion"},
        {"accept: too many open files", "congestion"},
        {"queue congestion", "congestion"},
        {"Segmentation fault (core dumped)", "crashed"},
        {"open /etc/shadow: Permission denied", "permission_denied"},
        {"AccessDenied: access denied", "permission_denied"},
        {"403 Forbidden", "permission_denied"},
        {"401 Unauthorized", "permission_denied"},
        {"policy violation: no external posting", "policy_violation"},
        {"forbidden tool class", "forbidden_tool"},
        {"scope mismatch", "scope_mismatch"},
        {"scope_lock mismatch", "scope_mismatch"},
        {"invalid input schema", "invalid_input"},
        {"malformed payload", "malformed_payload"},
        {"Malformed JSON at byte 7", "malformed_payload"},
        {"rate\n\t limit", "rate_limited"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        struct failure failure = blank();
        failure.message = slice_of(table[i].message);
        assert_class(&failure, table[i].class, table[i].message);
    }
}

static void parts_of_words_tell_nothing(void **state)
{
    static const char *const messages[] = {
        "cargo test failed with exit code 101",
        "unforbidden",
        "forbiddenness",
        "the timeouts table is missing",
        "sdns",
        "line 503: syntax error",
        "schema.sql not applied",
        "accurate limits",
        "rate",
        "limit rate",
        "rate,limit",
        "parse error near line 3",
        "\xc3\xa9timeout",
        "timeout\xc3\xa9",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(messages); i++) {
        struct failure failure = blank();
        failure.message = slice_of(messages[i]);
        assert_class(&failure, "unknown", messages[i]);
    }
}

static void a_message_that_tells_of_both_sides_may_be_retried(void **state)
{
    struct failure failure = blank();

    (void)state;
    failure.message = SLICE("permission denied: connection reset while asking");
    assert_class(&failure, "network", "both sides");
}

static void any_bytes_are_looked_at_safely(void **state)
{
    static char huge[10 << 20];
    struct failure failure = blank();

    (void)state;
    failure.message = (struct slice){"a\0timeout\0b", 11};
    assert_class(&failure, "timeout", "a word between NUL bytes");
    memset(huge, ' ', sizeof(huge));
    failure.message = (struct slice){huge, sizeof(huge)};
    assert_class(&failure, "unknown", "ten megabytes of space");
    memcpy(huge, "timeout", 7);
    assert_class(&failure, "timeout", "ten megabytes that begin with a timeout");
    memset(huge, 0xff, sizeof(huge));
    assert_class(&failure, "unknown", "ten megabytes of no UTF-8");
    for (size_t len = 0; len < 7; len++) {
        failure.message = (struct slice){"timeout", len};
        assert_class(&failure, "unknown", "the beginning of a word at the end");
    }
}

/* Facts of every kind at once, taken away one by one: each time the next kind decides. */
static void the_most_exact_fact_wins(void **state)
{
    struct failure failure = blank();

    (void)state;
    failure.has_class = true;
    failure.given_class = CLASS_SCOPE_MISMATCH;
    failure.http_status = 429;
    failure.error_type = SLICE("Timeout");
    failure.has_exit_code = true;
    failure.exit_code = 77;
    failure.message = SLICE("connection refused");
    assert_class(&failure, "scope_mismatch", "the given class");
    failure.has_class = false;
    assert_class(&failure, "rate_limited", "the HTTP status");
    failure.http_status = 200;
    assert_class(&failure, "timeout", "the error type");
    failure.error_type = SLICE("CommandFailed");
    assert_class(&failure, "permission_denied", "the exit code");
    failure.exit_code = 1;
    assert_class(&failure, "network", "the message");
    failure.message = SLICE("it broke");
    assert_class(&failure, "unknown", "nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_names_are_those_of_the_contract_and_read_back),
        cmocka_unit_test(an_interruption_is_a_crash_unless_a_class_is_given),
        cmocka_unit_test(nothing_that_tells_is_unknown),
        cmocka_unit_test(http_statuses_tell_the_class),
        cmocka_unit_test(error_types_tell_the_class),
        cmocka_unit_test(every_class_name_is_an_error_type_too),
        cmocka_unit_test(a_type_with_a_nul_is_no_known_type),
        cmocka_unit_test(exit_codes_tell_the_class),
        cmocka_unit_test(words_of_the_message_tell_the_class),
        cmocka_unit_test(parts_of_words_tell_nothing),
        cmocka_unit_test(a_message_that_tells_of_both_sides_may_be_retried),
        cmocka_unit_test(any_bytes_are_looked_at_safely),
        cmocka_unit_test(the_most_exact_fact_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
