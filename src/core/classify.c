/* classify: from the facts of a failure to its class.
 *
 * The most exact fact wins; what it does not tell is left to the next:
 *
 *     1. the class that the worker gave          class
 *     2. that its runner was cut off             CLASS_CRASHED, whatever came of it
 *     3. the HTTP status                         table `statuses`
 *     4. the error type                          table `types`
 *     5. the exit code                           table `exits`
 *     6. the words of the message                table `phrases`
 *     7. CLASS_UNKNOWN, which may be retried
 *
 * Some error types tell too little to decide by (CommandFailed, ValidationFailed, MergeConflict,
 * WorktreeError, CommitValidationFailed): they are in no table, and the exit code or the message
 * may still tell.  A wrong guess costs more on the structural side, where a job is not tried again,
 * than on the environmental side; so the phrases of the first are few and exact, and are looked at
 * last. */
#include "core/failure.h"

/* ---- the classes ---------------------------------------------------------------------------- */

static const char *const names[CLASS_COUNT] = {
    [CLASS_TIMEOUT] = "timeout",
    [CLASS_UNAVAILABLE] = "unavailable",
    [CLASS_SERVER_ERROR] = "server_error",
    [CLASS_NETWORK] = "network",
    [CLASS_CONGESTION] = "congestion",
    [CLASS_RATE_LIMITED] = "rate_limited",
    [CLASS_CRASHED] = "crashed",
    [CLASS_UNKNOWN] = "unknown",
    [CLASS_PERMISSION_DENIED] = "permission_denied",
    [CLASS_POLICY_VIOLATION] = "policy_violation",
    [CLASS_INVALID_INPUT] = "invalid_input",
    [CLASS_MALFORMED_PAYLOAD] = "malformed_payload",
    [CLASS_FORBIDDEN_TOOL] = "forbidden_tool",
    [CLASS_SCOPE_MISMATCH] = "scope_mismatch",
    [CLASS_CLIENT_ERROR] = "client_error",
};

const char *class_name(enum failure_class class)
{
    BUG_ON((unsigned)class >= CLASS_COUNT);
    return names[class];
}

bool class_from_name(struct slice name, enum failure_class *out)
{
    for (int i = 0; i < CLASS_COUNT; i++) {
        if (slice_is(name, names[i])) {
            *out = (enum failure_class)i;
            return true;
        }
    }
    return false;
}

bool class_is_retryable(enum failure_class class)
{
    return class <= CLASS_UNKNOWN;
}

/* ---- HTTP statuses -------------------------------------------------------------------------- */

/* The first row that holds a status decides.  Statuses below 400 tell nothing. */
static const struct status_row {
    int from, to;
    enum failure_class class;
} statuses[] = {
    {400, 400, CLASS_INVALID_INPUT},     {401, 401, CLASS_PERMISSION_DENIED},
    {403, 403, CLASS_PERMISSION_DENIED}, {408, 408, CLASS_TIMEOUT},
    {422, 422, CLASS_INVALID_INPUT},     {429, 429, CLASS_RATE_LIMITED},
    {502, 503, CLASS_UNAVAILABLE},       {504, 504, CLASS_TIMEOUT},
    {400, 499, CLASS_CLIENT_ERROR},      {500, 599, CLASS_SERVER_ERROR},
};

static bool by_status(const struct failure *failure, enum failure_class *out)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        if (failure->http_status >= statuses[i].from && failure->http_status <= statuses[i].to) {
            *out = statuses[i].class;
            return true;
        }
    }
    return false;
}

/* ---- error types ---------------------------------------------------------------------------- */

/* Written without case and separators: "rate_limited", "RateLimited" and "RATE-LIMITED" are one. */
static const struct type_row {
    const char *type;
    enum failure_class class;
} types[] = {
    {"timeout", CLASS_TIMEOUT},
    {"timeouterror", CLASS_TIMEOUT},
    {"deadlineexceeded", CLASS_TIMEOUT},
    {"unavailable", CLASS_UNAVAILABLE},
    {"serviceunavailable", CLASS_UNAVAILABLE},
    {"servererror", CLASS_SERVER_ERROR},
    {"network", CLASS_NETWORK},
    {"networkerror", CLASS_NETWORK},
    {"connectionerror", CLASS_NETWORK},
    {"connectionrefused", CLASS_NETWORK},
    {"connectionreset", CLASS_NETWORK},
    {"congestion", CLASS_CONGESTION},
    {"resourceexhausted", CLASS_CONGESTION},
    {"ratelimit", CLASS_RATE_LIMITED},
    {"ratelimited", CLASS_RATE_LIMITED},
    {"ratelimitexceeded", CLASS_RATE_LIMITED},
    {"quotaexceeded", CLASS_RATE_LIMITED},
    {"crashed", CLASS_CRASHED},
    {"leaseexpired", CLASS_CRASHED},
    {"permissiondenied", CLASS_PERMISSION_DENIED},
    {"unauthorized", CLASS_PERMISSION_DENIED},
    {"policyviolation", CLASS_POLICY_VIOLATION},
    {"invalidinput", CLASS_INVALID_INPUT},
    {"malformedpayload", CLASS_MALFORMED_PAYLOAD},
    {"forbiddentool", CLASS_FORBIDDEN_TOOL},
    {"scopemismatch", CLASS_SCOPE_MISMATCH},
    {"clienterror", CLASS_CLIENT_ERROR},
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_separator(char c)
{
    return c == ' ' || c == '_' || c == '-' || c == '\t' || c == '\n' || c == '\r';
}

/* type_is compares a type with a row's spelling. */
static bool type_is(struct slice type, const char *spelling)
{
    for (size_t i = 0; i < type.len; i++) {
        if (is_separator(type.ptr[i]))
            continue;
        if (lower(type.ptr[i]) != *spelling || *spelling == '\0')
            return false;
        spelling++;
    }
    return *spelling == '\0';
}

static bool by_type(const struct failure *failure, enum failure_class *out)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (type_is(failure->error_type, types[i].type)) {
            *out = types[i].class;
            return true;
        }
    }
    return false;
}

/* ---- exit codes ----------------------------------------------------------------------------- */

/* Codes of timeout(1), sysexits.h, and of shells for a command that a signal ended: 128 + signal.
 */
static const struct exit_row {
    int code;
    enum failure_class class;
} exits[] = {
    {124, CLASS_TIMEOUT},          /* timeout(1) ended it */
    {64, CLASS_INVALID_INPUT},     /* EX_USAGE */
    {65, CLASS_INVALID_INPUT},     /* EX_DATAERR */
    {69, CLASS_UNAVAILABLE},       /* EX_UNAVAILABLE */
    {75, CLASS_UNAVAILABLE},       /* EX_TEMPFAIL */
    {77, CLASS_PERMISSION_DENIED}, /* EX_NOPERM */
    {128 + 4, CLASS_CRASHED},      /* SIGILL */
    {128 + 6, CLASS_CRASHED},      /* SIGABRT */
    {128 + 7, CLASS_CRASHED},      /* SIGBUS */
    {128 + 8, CLASS_CRASHED},      /* SIGFPE */
    {128 + 9, CLASS_CRASHED},      /* SIGKILL, also of the kernel when memory is exhausted */
    {128 + 11, CLASS_CRASHED},     /* SIGSEGV */
};

static bool by_exit(const struct failure *failure, enum failure_class *out)
{
    int code = failure->exit_code;

    if (!failure->has_exit_code)
        return false;
    if (code < 0 && code > -64)
        code = 128 - code; /* some report a signal as its negative number */
    for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
        if (code == exits[i].code) {
            *out = exits[i].class;
            return true;
        }
    }
    return false;
}

/* ---- words of the message ------------------------------------------------------------------- */

/* A phrase matches whole words, without case; a space in it stands for any run of spaces, dashes
 * and underscores.  The first row that occurs anywhere in the message decides: environmental ones
 * come first, so that a message which tells of both is retried. */
static const struct phrase_row {
    const char *phrase;
    enum failure_class class;
} phrases[] = {
    {"rate limit", CLASS_RATE_LIMITED},
    {"rate limited", CLASS_RATE_LIMITED},
    {"ratelimit", CLASS_RATE_LIMITED},
    {"too many requests", CLASS_RATE_LIMITED},
    {"quota exceeded", CLASS_RATE_LIMITED},
    {"http 429", CLASS_RATE_LIMITED},
    {"status 429", CLASS_RATE_LIMITED},
    {"status code 429", CLASS_RATE_LIMITED},

    {"timed out", CLASS_TIMEOUT},
    {"timeout", CLASS_TIMEOUT},
    {"time out", CLASS_TIMEOUT},
    {"deadline exceeded", CLASS_TIMEOUT},
    {"etimedout", CLASS_TIMEOUT},
    {"timeouterror", CLASS_TIMEOUT},

    {"connection refused", CLASS_NETWORK},
    {"connection reset", CLASS_NETWORK},
    {"connection closed", CLASS_NETWORK},
    {"connection aborted", CLASS_NETWORK},
    {"could not connect", CLASS_NETWORK},
    {"failed to connect", CLASS_NETWORK},
    {"network is unreachable", CLASS_NETWORK},
    {"network unreachable", CLASS_NETWORK},
    {"network error", CLASS_NETWORK},
    {"network interruption", CLASS_NETWORK},
    {"host unreachable", CLASS_NETWORK},
    {"host is unreachable", CLASS_NETWORK},
    {"no route to host", CLASS_NETWORK},
    {"could not resolve host", CLASS_NETWORK},
    {"name resolution", CLASS_NETWORK},
    {"dns", CLASS_NETWORK},
    {"broken pipe", CLASS_NETWORK},
    {"econnrefused", CLASS_NETWORK},
    {"econnreset", CLASS_NETWORK},
    {"ehostunreach", CLASS_NETWORK},
    {"enetunreach", CLASS_NETWORK},
    {"enotfound", CLASS_NETWORK},

    {"temporarily unavailable", CLASS_UNAVAILABLE},
    {"service unavailable", CLASS_UNAVAILABLE},
    {"dependency unavailable", CLASS_UNAVAILABLE},
    {"bad gateway", CLASS_UNAVAILABLE},
    {"temporary failure", CLASS_UNAVAILABLE},
    {"try again later", CLASS_UNAVAILABLE},
    {"http 502", CLASS_UNAVAILABLE},
    {"http 503", CLASS_UNAVAILABLE},
    {"status 502", CLASS_UNAVAILABLE},
    {"status 503", CLASS_UNAVAILABLE},
    {"status code 502", CLASS_UNAVAILABLE},
    {"status code 503", CLASS_UNAVAILABLE},
    {"error 502", CLASS_UNAVAILABLE},
    {"error 503", CLASS_UNAVAILABLE},

    {"internal server error", CLASS_SERVER_ERROR},
    {"http 500", CLASS_SERVER_ERROR},
    {"status 500", CLASS_SERVER_ERROR},
    {"status code 500", CLASS_SERVER_ERROR},

    {"out of memory", CLASS_CONGESTION},
    {"cannot allocate memory", CLASS_CONGESTION},
    {"no space left", CLASS_CONGESTION},
    {"disk full", CLASS_CONGESTION},
    {"resource exhausted", CLASS_CONGESTION},
    {"resources exhausted", CLASS_CONGESTION},
    {"too many open files", CLASS_CONGESTION},
    {"congestion", CLASS_CONGESTION},
    {"congested", CLASS_CONGESTION},
    {"overloaded", CLASS_CONGESTION},
    {"enospc", CLASS_CONGESTION},
    {"enomem", CLASS_CONGESTION},
    {"emfile", CLASS_CONGESTION},

    {"segmentation fault", CLASS_CRASHED},
    {"core dumped", CLASS_CRASHED},

    {"policy violation", CLASS_POLICY_VIOLATION},
    {"violates policy", CLASS_POLICY_VIOLATION},
    {"denied by policy", CLASS_POLICY_VIOLATION},
    {"forbidden tool", CLASS_FORBIDDEN_TOOL},
    {"scope mismatch", CLASS_SCOPE_MISMATCH},
    {"scope lock mismatch", CLASS_SCOPE_MISMATCH},
    {"permission denied", CLASS_PERMISSION_DENIED},
    {"access denied", CLASS_PERMISSION_DENIED},
    {"operation not permitted", CLASS_PERMISSION_DENIED},
    {"not authorized", CLASS_PERMISSION_DENIED},
    {"unauthorized", CLASS_PERMISSION_DENIED},
    {"forbidden", CLASS_PERMISSION_DENIED},
    {"eacces", CLASS_PERMISSION_DENIED},
    {"malformed payload", CLASS_MALFORMED_PAYLOAD},
    {"malformed json", CLASS_MALFORMED_PAYLOAD},
    {"malformed request", CLASS_MALFORMED_PAYLOAD},
    {"cannot parse payload", CLASS_MALFORMED_PAYLOAD},
    {"invalid input", CLASS_INVALID_INPUT},
    {"malformed input", CLASS_INVALID_INPUT},
    {"cannot parse input", CLASS_INVALID_INPUT},
    {"invalid schema", CLASS_INVALID_INPUT},
    {"schema mismatch", CLASS_INVALID_INPUT},
    {"schema validation failed", CLASS_INVALID_INPUT},
};

#define PHRASE_COUNT (sizeof(phrases) / sizeof(phrases[0]))
#define MESSAGE_SCANNED (4 << 10) /* bytes of a message that are looked at */

_Static_assert(MESSAGE_SCANNED <= FAILURE_MESSAGE_MAX / 4, "what is scanned is kept");

/* is_word says whether a byte is part of a word; those of non-ASCII characters are. */
static bool is_word(char c)
{
    unsigned char byte = (unsigned char)c;

    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || byte >= 0x80;
}

/* phrase_at says whether `phrase` stands at the beginning of `text`, up to the end of a word. */
static bool phrase_at(struct slice text, const char *phrase)
{
    size_t i = 0;

    for (; *phrase != '\0'; phrase++) {
        if (i >= text.len)
            return false;
        if (*phrase != ' ') {
            if (lower(text.ptr[i++]) != *phrase)
                return false;
            continue;
        }
        if (!is_separator(text.ptr[i]))
            return false;
        while (i < text.len && is_separator(text.ptr[i]))
            i++;
    }
    return i == text.len || !is_word(text.ptr[i]);
}

/* by_message goes over the words of the message once, as far as MESSAGE_SCANNED: the beginning is
 * always kept as evidence, so a reader sees what the class came from. */
static bool by_message(const struct failure *failure, enum failure_class *out)
{
    struct slice text = failure->message;
    size_t best = PHRASE_COUNT;

    if (text.len > MESSAGE_SCANNED)
        text.len = MESSAGE_SCANNED;
    for (size_t at = 0; at < text.len; at++) {
        if (!is_word(text.ptr[at]) || (at > 0 && is_word(text.ptr[at - 1])))
            continue;
        struct slice rest = {text.ptr + at, text.len - at};
        char first = lower(text.ptr[at]);
        for (size_t i = 0; i < best; i++) {
            if (phrases[i].phrase[0] == first && phrase_at(rest, phrases[i].phrase))
                best = i;
        }
    }
    if (best == PHRASE_COUNT)
        return false;
    *out = phrases[best].class;
    return true;
}

enum failure_class failure_class(const struct failure *failure)
{
    enum failure_class class = CLASS_UNKNOWN;

    if (failure->has_class)
        return failure->given_class;
    if (failure->interrupted)
        return CLASS_CRASHED;
    if (by_status(failure, &class) || by_type(failure, &class) || by_exit(failure, &class) ||
        by_message(failure, &class))
        return class;
    return CLASS_UNKNOWN;
}
