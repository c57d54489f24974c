#include "talk.h"

#include "bench.h"
#include "load.h"

/* after is what follows `text`; empty, at no address, when it is not there. */
static struct slice after(struct slice in, const char *text)
{
    size_t len = strlen(text);
    const char *at = in.len ? memmem(in.ptr, in.len, text, len) : NULL;
    if (!at)
        return (struct slice){0};
    return (struct slice){at + len, in.len - (size_t)(at + len - in.ptr)};
}

bool leased_next(struct slice *rest, struct leased *out)
{
    struct slice id = after(*rest, "{\"lease_id\":\"");
    const char *quote = id.ptr ? memchr(id.ptr, '"', id.len) : NULL;
    if (!quote)
        return false;
    out->lease_id = (struct slice){id.ptr, (size_t)(quote - id.ptr)};
    out->attempt = number_of(id, "\"attempt\":");
    out->job = after(id, "\"job\":");
    *rest = out->job;
    return true;
}

bool skip_to(struct slice *rest, const char *text)
{
    struct slice found = after(*rest, text);
    if (found.ptr)
        *rest = found;
    return found.ptr != NULL;
}

size_t number_of(struct slice in, const char *text)
{
    struct slice digits = after(in, text);
    size_t value = 0;
    for (size_t i = 0; i < digits.len && digits.ptr[i] >= '0' && digits.ptr[i] <= '9'; i++)
        value = value * 10 + (size_t)(digits.ptr[i] - '0');
    return value;
}

size_t count_of(struct slice in, const char *text)
{
    size_t count = 0;
    for (struct slice rest = after(in, text); rest.ptr; rest = after(rest, text))
        count++;
    return count;
}

void add_success(struct buf *out, const struct leased *leased)
{
    buf_add_str(out, "{\"lease_id\":\"");
    buf_add_slice(out, leased->lease_id);
    buf_add_str(out, "\",\"status\":\"complete\",\"result\":" LOAD_RESULT "}");
}

void add_failure(struct buf *out, const struct leased *leased)
{
    buf_add_str(out, "{\"lease_id\":\"");
    buf_add_slice(out, leased->lease_id);
    buf_add_str(out, "\",\"status\":\"failed\",\"failure\":{\"error_type\":\"Timeout\","
                     "\"message\":\"the host did not answer\","
                     "\"stack_trace\":\"Error: the host did not answer\\n"
                     "    at run (/srv/app/lib/worker.js:38:62)\\n"
                     "    at Worker.callProcessJob (/srv/app/lib/pool.js:101:40)\\n"
                     "    at Worker.processJob (/srv/app/lib/pool.js:466:43)\\n"
                     "    at processTicksAndRejections (internal:task_queues:95:5)\"}}");
}
