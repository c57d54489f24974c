/* accesslog: lines go into a buffer under a lock; a thread swaps it for an empty one and writes.
 *
 *     accesslog_add --> pending --swap--> spare --write--> the file
 *
 * The thread waits a moment after the first line, so that a busy server makes a few large writes
 * and not one for each request.
 *
 * Invariants: `pending` holds whole lines and never passes PENDING_MAX.  A line that was left out,
 * or that the disk did not take, is counted in `dropped` until a line that goes out says so.  Only
 * the thread uses `fd`; who reopens leaves a descriptor in `fd_next` and the place in `pending`
 * from which lines belong to it, so that a line that is added after accesslog_reopen is in the file
 * of that name. */
#include "api/accesslog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"

#define PENDING_MAX (1u << 20)
#define LINE_MAX_BYTES (256u << 10)
#define GATHER_MS 50      /* how long a first line waits for others */
#define STUCK_MS 1000     /* how long a pipe that is full may stay so */
#define NAME_MAX_BYTES 64 /* of a parameter: a longer one is masked, whatever it is */
#define MASKED "[masked]"
#define TOKEN_MARK "lzt_" /* how a token begins: see tokens.h */

struct accesslog {
    char *path; /* "-": standard error */
    const struct seams *seams;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something to write, or the end */
    struct buf pending;     /* lines that are not yet taken by the thread */
    uint64_t dropped;       /* lines that nobody was told of */
    int fd_next;            /* of accesslog_reopen; -1: none */
    size_t next_from;       /* where in `pending` its lines begin */
    bool closing;

    /* The thread's own. */
    struct buf spare;
    int fd;
    bool torn;   /* what was written last does not end a line */
    bool failed; /* the last write failed: said once */
};

/* is_urgent says that the thread should not wait for more lines: the buffer has become large, or a
 * line did not fit, which it remembers until it is emptied.  With the lock. */
static bool is_urgent(const struct accesslog *log)
{
    return log->pending.len > PENDING_MAX / 2 || log->pending.status != STATUS_OK ||
           log->fd_next >= 0 || log->closing;
}

/* ---- masking ----------------------------------------------------------------------------------
 */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* decoded undoes percent-encoding as far as it is one, as nobody should get around a mask by
 * writing a name in another way.  False when it does not fit. */
static bool decoded(struct slice text, char out[NAME_MAX_BYTES + 1])
{
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        int high = -1, low = -1;
        if (text.ptr[i] == '%' && i + 2 < text.len) {
            high = hex_digit(text.ptr[i + 1]);
            low = hex_digit(text.ptr[i + 2]);
        }
        if (len == NAME_MAX_BYTES)
            return false;
        bool encoded = high >= 0 && low >= 0;
        out[len++] = encoded ? (char)(high << 4 | low) : text.ptr[i];
        i += encoded ? 2 : 0;
    }
    out[len] = '\0';
    return strlen(out) == len;
}

/* is_secret says whether the value of a parameter may be one: by what its name contains, or because
 * it is free text that is held against payloads. */
static bool is_secret(struct slice name)
{
    static const char *const inside[] = {"token", "key",        "secret",  "passw",  "pwd",
                                         "auth",  "credential", "session", "cookie", "bearer"};
    char text[NAME_MAX_BYTES + 1];

    if (!decoded(name, text))
        return true;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (strcasestr(text, inside[i]))
            return true;
    return strcasecmp(text, "q") == 0 || strcasecmp(text, "filter") == 0;
}

/* add_plain appends text as it stands in an address: bytes that may not are percent-encoded, and
 * what looks like a token is masked wherever it is. */
static void add_plain(struct buf *out, struct slice text)
{
    static const char token_bytes[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    const struct slice mark = SLICE(TOKEN_MARK);

    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        if (slice_starts((struct slice){text.ptr + i, text.len - i}, mark)) {
            while (i + 1 < text.len && memchr(token_bytes, text.ptr[i + 1], sizeof token_bytes - 1))
                i++;
            buf_add_str(out, MASKED);
        } else if (byte <= ' ' || byte >= 0x7f) {
            buf_addf(out, "%%%02X", byte);
        } else {
            buf_add_char(out, text.ptr[i]);
        }
    }
}

/* is_separator knows more separators of a query than the API has: what another reader might take
 * for a parameter is looked at as one. */
static bool is_separator(char c)
{
    return c == '&' || c == ';' || c == '?';
}

/* add_query appends a query with the values of secrets masked. */
static void add_query(struct buf *out, struct slice query)
{
    while (query.len > 0) {
        size_t len = 0, name = 0;
        while (len < query.len && !is_separator(query.ptr[len]))
            len++;
        while (name < len && query.ptr[name] != '=')
            name++;
        bool secret = name < len && is_secret((struct slice){query.ptr, name});
        add_plain(out, (struct slice){query.ptr, secret ? name + 1 : len});
        if (secret)
            buf_add_str(out, MASKED);
        if (len < query.len)
            buf_add_char(out, query.ptr[len++]);
        query = (struct slice){query.ptr + len, query.len - len};
    }
}

/* ---- lines ------------------------------------------------------------------------------------
 */

/* print_line appends a line but for its end, which says what was dropped before it. */
static void print_line(const struct access *access, struct instant at, struct buf *line)
{
    struct jsonw w;
    struct buf address;

    buf_init(&address, LINE_MAX_BYTES);
    add_plain(&address, access->path);
    if (access->query.len > 0) {
        buf_add_char(&address, '?');
        add_query(&address, access->query);
    }
    jsonw_init(&w, line);
    jsonw_object(&w);
    jsonw_put_instant(&w, "at", at);
    jsonw_put_string(&w, "id", access->id);
    jsonw_put_string(&w, "peer", access->peer);
    jsonw_put_string(&w, "actor", access->actor);
    jsonw_put_string(&w, "role", slice_of(access->role));
    jsonw_put_string(&w, "method", slice_of(access->method));
    jsonw_put_string(&w, "path", buf_slice(&address));
    jsonw_put_string(&w, "route", slice_of(access->route));
    jsonw_put_int(&w, "status", access->status);
    jsonw_put_int(&w, "bytes_in", (int64_t)access->bytes_in);
    jsonw_put_int(&w, "bytes_out", (int64_t)access->bytes_out);
    jsonw_put_double(&w, "ms", (double)access->took.us / 1000);
    if (address.status != STATUS_OK)
        line->status = address.status;
    buf_release(&address);
}

#define DROPPED ",\"dropped\":"

/* end_line says what was dropped before the line and ends it. */
static void end_line(struct buf *line, uint64_t dropped)
{
    if (dropped > 0)
        buf_addf(line, DROPPED "%" PRIu64, dropped);
    buf_add_str(line, "}\n");
}

void accesslog_add(struct accesslog *log, const struct access *access)
{
    struct buf line;

    if (!log)
        return;
    buf_init(&line, LINE_MAX_BYTES);
    print_line(access, log->seams->wall(log->seams->ctx), &line);

    pthread_mutex_lock(&log->lock);
    bool first = log->pending.len == 0;
    end_line(&line, log->dropped);
    if (line.status == STATUS_OK)
        buf_add_slice(&log->pending, buf_slice(&line));
    bool kept = line.status == STATUS_OK && log->pending.status == STATUS_OK;
    log->dropped = kept ? 0 : log->dropped + 1;
    if (first || is_urgent(log))
        pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->lock);
    buf_release(&line);
}

/* ---- the thread -------------------------------------------------------------------------------
 */

/* write_some writes once; 0 when the file takes nothing at the moment. */
static ssize_t write_some(int fd, struct slice bytes)
{
    ssize_t wrote;

    do
        wrote = write(fd, bytes.ptr, bytes.len);
    while (wrote < 0 && errno == EINTR);
    if (wrote < 0 && errno == EAGAIN) {
        struct pollfd full = {.fd = fd, .events = POLLOUT};
        if (poll(&full, 1, STUCK_MS) == 1)
            return 0;
        errno = EAGAIN;
    }
    return wrote;
}

/* lines_in counts the lines that end in `text`, and those that they say were dropped before them.
 */
static uint64_t lines_in(struct slice text)
{
    const char *const end = text.ptr + text.len;
    uint64_t count = 0;

    for (const char *at = text.ptr, *line_end; at < end; at = line_end + 1) {
        line_end = memchr(at, '\n', (size_t)(end - at));
        /* It is the last member, and a quote inside of a text would have a backslash before it. */
        const char *comma = memrchr(at, ',', (size_t)(line_end - at));
        size_t left = comma ? (size_t)(line_end - comma) : 0;
        count += 1;
        if (slice_starts((struct slice){comma, left}, SLICE(DROPPED)))
            count += strtoull(comma + strlen(DROPPED), NULL, 10);
    }
    return count;
}

/* write_lines writes whole lines and returns how many were lost. */
static uint64_t write_lines(struct accesslog *log, struct slice lines)
{
    if (lines.len == 0)
        return 0;
    /* After a line that was cut the next begins on a line of its own. */
    if (log->torn)
        log->torn = write(log->fd, "\n", 1) != 1;
    while (lines.len > 0) {
        ssize_t wrote = write_some(log->fd, lines);
        if (wrote < 0)
            break;
        if (wrote > 0)
            log->torn = lines.ptr[wrote - 1] != '\n';
        lines = (struct slice){lines.ptr + wrote, lines.len - (size_t)wrote};
    }
    if (lines.len > 0 && !log->failed)
        log_line(LOG_WARN, "cannot write the access log %s: %s", log->path, strerror(errno));
    log->failed = lines.len > 0;
    return lines_in(lines);
}

/* wait_for_lines returns when there is something to do, and has then given it time to become
 * more.  With the lock. */
static void wait_for_lines(struct accesslog *log)
{
    struct timespec until;
    int timed_out = 0;

    while (log->pending.len == 0 && !is_urgent(log))
        pthread_cond_wait(&log->changed, &log->lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += GATHER_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!timed_out && !is_urgent(log))
        timed_out = pthread_cond_timedwait(&log->changed, &log->lock, &until);
}

/* take_and_write writes what is pending.  The lock is held on the way in and out. */
static void take_and_write(struct accesslog *log)
{
    struct buf taken = log->pending;
    int fd_next = log->fd_next;
    size_t boundary = fd_next >= 0 ? log->next_from : taken.len;
    uint64_t lost;

    log->pending = log->spare;
    log->fd_next = -1;
    pthread_mutex_unlock(&log->lock);

    struct slice lines = buf_slice(&taken);
    lost = write_lines(log, (struct slice){lines.ptr, boundary});
    if (fd_next >= 0) {
        close(log->fd);
        log->fd = fd_next;
        log->torn = false;
        lost += write_lines(log, (struct slice){lines.ptr + boundary, lines.len - boundary});
    }
    buf_clear(&taken);

    pthread_mutex_lock(&log->lock);
    log->spare = taken;
    log->dropped += lost;
}

static void *thread_main(void *arg)
{
    struct accesslog *log = arg;

    pthread_mutex_lock(&log->lock);
    while (!log->closing || log->pending.len > 0 || log->fd_next >= 0) {
        wait_for_lines(log);
        take_and_write(log);
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static bool is_stderr(const char *path)
{
    return strcmp(path, "-") == 0;
}

static enum status open_file(const char *path, int *fd, struct err *err)
{
    if (is_stderr(path))
        *fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    else
        *fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
    if (*fd < 0)
        return err_set(err, STATUS_IO, "cannot open the access log %s: %s", path, strerror(errno));
    return STATUS_OK;
}

static enum status start_thread(struct accesslog *log, struct err *err)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&log->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&log->lock, NULL);
    int error = pthread_create(&log->thread, NULL, thread_main, log);
    if (error == 0)
        return STATUS_OK;
    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->lock);
    return err_set(err, STATUS_UNAVAILABLE, "cannot start the access log's thread: %s",
                   strerror(error));
}

static void release(struct accesslog *log)
{
    if (log->fd >= 0)
        close(log->fd);
    buf_release(&log->pending);
    buf_release(&log->spare);
    mem_free(log->path);
    mem_free(log);
}

enum status accesslog_open(const char *path, const struct seams *seams, struct accesslog **out,
                           struct err *err)
{
    struct accesslog *log = mem_zalloc(sizeof *log);
    enum status status;

    if (!log)
        return err_no_memory(err);
    log->fd = log->fd_next = -1;
    log->seams = seams;
    buf_init(&log->pending, PENDING_MAX);
    buf_init(&log->spare, PENDING_MAX);
    log->path = mem_strdup(path);
    status = log->path ? open_file(path, &log->fd, err) : err_no_memory(err);
    if (status == STATUS_OK)
        status = start_thread(log, err);
    if (status == STATUS_OK)
        *out = log;
    else
        release(log);
    return status;
}

void accesslog_reopen(struct accesslog *log)
{
    struct err err = {0};
    int fd;

    if (!log || is_stderr(log->path))
        return;
    if (open_file(log->path, &fd, &err) != STATUS_OK) {
        log_line(LOG_WARN, "%s; lines go on to the file as it was", err.text);
        return;
    }
    pthread_mutex_lock(&log->lock);
    /* A descriptor that the thread did not come to use gives way to the later one; lines between
     * the two go to the file before both. */
    if (log->fd_next >= 0)
        close(log->fd_next);
    log->fd_next = fd;
    log->next_from = log->pending.len;
    pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->lock);
}

/* confess says what was dropped when no line came after it. */
static void confess(struct accesslog *log)
{
    struct jsonw w;

    if (log->dropped == 0)
        return;
    jsonw_init(&w, &log->pending);
    jsonw_object(&w);
    jsonw_put_instant(&w, "at", log->seams->wall(log->seams->ctx));
    end_line(&log->pending, log->dropped);
    write_lines(log, buf_slice(&log->pending));
}

void accesslog_close(struct accesslog *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->closing = true;
    pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->thread, NULL);
    confess(log);
    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->lock);
    release(log);
}
