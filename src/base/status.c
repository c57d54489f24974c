/* status: sentences for people, and the end of the program when an invariant is broken. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[STATUS_COUNT] = {
    [STATUS_OK] = "ok",
    [STATUS_INVALID] = "invalid",
    [STATUS_NOT_FOUND] = "not_found",
    [STATUS_CONFLICT] = "conflict",
    [STATUS_REFUSED] = "refused",
    [STATUS_LIMIT] = "limit",
    [STATUS_TOO_LARGE] = "too_large",
    [STATUS_LEASE_LOST] = "lease_lost",
    [STATUS_NO_MEMORY] = "no_memory",
    [STATUS_IO] = "io",
    [STATUS_FULL] = "full",
    [STATUS_READ_ONLY] = "read_only",
    [STATUS_CORRUPT] = "corrupt",
    [STATUS_FOREIGN] = "foreign",
    [STATUS_BUSY] = "busy",
    [STATUS_UNAVAILABLE] = "unavailable",
};

/* flatten keeps a sentence on one line, whatever bytes it repeats. */
static void flatten(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
}

/* err_set formats into a copy first: an argument may be the very sentence that is replaced. */
enum status err_set(struct err *err, enum status status, const char *format, ...)
{
    if (!err)
        return status;

    struct err made;
    va_list args;
    va_start(args, format);
    vsnprintf(made.text, sizeof(made.text), format, args);
    va_end(args);
    flatten(made.text);
    *err = made;
    return status;
}

void err_prefix(struct err *err, const char *format, ...)
{
    if (!err)
        return;

    struct err prefix;
    va_list args;
    va_start(args, format);
    vsnprintf(prefix.text, sizeof(prefix.text), format, args);
    va_end(args);
    err_set(err, STATUS_OK, "%s: %s", prefix.text, err->text);
}

enum status err_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "out of memory");
}

const char *status_name(enum status status)
{
    if ((unsigned)status >= STATUS_COUNT)
        BUG("no such status: %d", (int)status);
    return names[status];
}

void bug_at(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "lazaret: bug at %s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}
