/* wire: the two protocols that the bench speaks. */
#include "bench.h"
#include "drive.h"

/* find is where `text` begins in a slice; NULL when it is not there. */
static const char *find(struct slice in, const char *text)
{
    return memmem(in.ptr, in.len, text, strlen(text));
}

/* digits reads a number; what follows it ends it. */
static size_t digits(const char *at, const char *end)
{
    size_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (size_t)(*at - '0');
    return value;
}

/* field is where the value of a header begins; NULL when it is not there. */
static const char *field(struct slice head, const char *name)
{
    size_t len = strlen(name);
    const char *end = head.ptr + head.len;
    for (const char *at = head.ptr; at && at + len + 2 < end;) {
        if (strncasecmp(at, name, len) == 0 && at[len] == ':')
            return at[len + 1] == ' ' ? at + len + 2 : at + len + 1;
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    return NULL;
}

bool wire_http(struct slice in, struct answer *out)
{
    const char *end = find(in, "\r\n\r\n");
    if (!end)
        return false;
    struct slice head = {in.ptr, (size_t)(end - in.ptr) + 2};
    const char *length = field(head, "Content-Length");
    if (head.len < strlen("HTTP/1.1 200") || !length)
        bench_die("an answer has no length: %.*s", SLICE_ARG(head));
    size_t body_len = digits(length, end);
    out->status = (int)digits(in.ptr + strlen("HTTP/1.1 "), end);
    out->len = head.len + 2 + body_len;
    out->body = (struct slice){in.ptr + head.len + 2, body_len};
    return in.len >= out->len;
}

bool wire_beanstalk(struct slice in, struct answer *out)
{
    const char *end = find(in, "\r\n");
    if (!end)
        return false;
    struct slice line = {in.ptr, (size_t)(end - in.ptr)};
    out->status = (unsigned char)in.ptr[0];
    out->len = line.len + 2;
    out->body = line;
    if (slice_starts(line, SLICE("RESERVED "))) {
        const char *size = memrchr(line.ptr, ' ', line.len);
        out->len += digits(size + 1, end) + 2;
    }
    return in.len >= out->len;
}

void http_ask(struct buf *out, const char *method, const char *path, const char *type,
              struct slice body)
{
    buf_add_str(out, method);
    buf_add_char(out, ' ');
    buf_add_str(out, path);
    buf_add_str(out, " HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    if (body.len) {
        char length[64];
        snprintf(length, sizeof(length), "\r\nContent-Length: %zu\r\n", body.len);
        buf_add_str(out, "Content-Type: ");
        buf_add_str(out, type);
        buf_add_str(out, length);
    }
    buf_add_str(out, "\r\n");
    buf_add_slice(out, body);
}

void answer_expect(const struct answer *answer, int status, const char *what)
{
    if (answer->status != status)
        bench_die("%s was answered with %d, not %d: %.*s", what, answer->status, status,
                  answer->body.len < 300 ? (int)answer->body.len : 300,
                  answer->body.len ? answer->body.ptr : "");
}
