/* log: one line at a time, from any thread.
 *
 * A lock is held while a line is sent, so lines never mix, and once log_set has returned the sink
 * before it is not called again.  A sink that logs would wait for itself: its lines are dropped.
 * What is logged may come from a job, so control characters never reach a sink. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define LINE_SIZE 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink)(enum log_level, const char *, void *); /* NULL: standard error */
static void *sink_ctx;
static atomic_int level_max = LOG_INFO;
static _Thread_local bool sending;

void log_set(enum log_level level, void (*to)(enum log_level, const char *line, void *ctx),
             void *ctx)
{
    pthread_mutex_lock(&lock);
    sink = to;
    sink_ctx = ctx;
    atomic_store(&level_max, (int)level);
    pthread_mutex_unlock(&lock);
}

static void to_stderr(enum log_level level, const char *line)
{
    static const char *const names[] = {
        [LOG_ERROR] = "error",
        [LOG_WARN] = "warning",
        [LOG_INFO] = "info",
        [LOG_DEBUG] = "debug",
    };
    fprintf(stderr, "lazaret: %s: %s\n", names[level], line);
}

/* clean puts a '?' for every byte that is no text: control characters and broken UTF-8. */
static void clean(char *line)
{
    size_t left = strlen(line), len;
    for (; left > 0; line += len, left -= len) {
        const uint8_t *at = (const uint8_t *)line;
        bool valid;
        len = utf8_step(at, left, &valid);
        bool control = at[0] < 0x20 || at[0] == 0x7F || (at[0] == 0xC2 && len == 2 && at[1] < 0xA0);
        if (!valid || control)
            memset(line, '?', len);
    }
}

void log_line(enum log_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&level_max, memory_order_relaxed) || sending)
        return;

    char line[LINE_SIZE] = "";
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (len >= LINE_SIZE)
        memcpy(line + LINE_SIZE - 4, "...", 4);
    clean(line);

    pthread_mutex_lock(&lock);
    sending = true;
    if (sink)
        sink(level, line, sink_ctx);
    else
        to_stderr(level, line);
    sending = false;
    pthread_mutex_unlock(&lock);
}
