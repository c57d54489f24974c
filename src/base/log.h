/* log: what happened, one line each, to standard error or to the program that embeds the library.
 */
#ifndef LAZARET_BASE_LOG_H
#define LAZARET_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* log_set sends lines to `sink` (NULL: standard error) and drops those above `level`. */
void log_set(enum log_level level, void (*sink)(enum log_level, const char *line, void *ctx),
             void *ctx);

/* log_line formats and sends one line.  Log once, where a trouble is handled. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
