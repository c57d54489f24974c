/* reduce: the roll says which items there are, and their order; the store says what became of
 * each. */
#include "run/reduce.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "run/artifact.h"
#include "run/plain.h"
#include "run/roll.h"

#define RESULTS_MAX ((size_t)1 << 30)

/* struct tally: what is gathered. */
struct tally {
    const struct link *link;
    const struct map_spec *spec;
    int64_t successful, failed, total;
    struct buf results; /* the array */
    struct jsonw out;
    struct buf answer, path;
};

/* add asks for one item.  One that is not there was not pushed any more. */
static enum status add(void *ctx, struct slice id, struct err *err)
{
    struct tally *tally = ctx;
    struct json job, state, result;
    buf_clear(&tally->path);
    buf_add_str(&tally->path, "/api/v1/jobs/");
    for (const char *c = tally->spec->run_id; *c; c++)
        buf_addf(&tally->path, "%%%02X", (unsigned)(unsigned char)*c);
    buf_add_str(&tally->path, "%2F");
    for (size_t i = 0; i < id.len; i++)
        buf_addf(&tally->path, "%%%02X", (unsigned)(unsigned char)id.ptr[i]);
    enum status status = link_ask(tally->link, "GET", buf_str(&tally->path), (struct slice){0},
                                  &tally->answer, &job, err);
    if (status)
        return status == STATUS_NOT_FOUND ? STATUS_OK : status;
    json_get(job, "state", &state);
    json_get(job, "result", &result);
    bool done = json_string_is(state, "done");
    tally->total++;
    tally->successful += done;
    tally->failed += !done;
    jsonw_object(&tally->out);
    jsonw_put_string(&tally->out, "item_id", id);
    jsonw_put_raw(&tally->out, "state", state.raw);
    jsonw_put_raw(&tally->out, "result", result.raw);
    jsonw_object_end(&tally->out);
    return buf_status(&tally->results, err);
}

static enum status gather(struct tally *tally, const char *data, struct err *err)
{
    jsonw_array(&tally->out);
    enum status status = roll_each(data, tally->spec->run_id, add, tally, err);
    jsonw_array_end(&tally->out);
    return status;
}

/* write_results makes DIR/artifacts/RUN/results.json. */
static enum status write_results(const char *data, const struct tally *tally, struct buf *path,
                                 struct err *err)
{
    buf_addf(path, "%s/artifacts", data);
    mkdir(buf_str(path), 0700);
    buf_add_char(path, '/');
    artifact_name(slice_of(tally->spec->run_id), path);
    mkdir(buf_str(path), 0700);
    buf_add_str(path, "/results.json");
    int fd = open(buf_str(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct slice text = buf_slice(&tally->results);
    bool ok = fd >= 0;
    for (size_t done = 0; ok && done < text.len;) {
        ssize_t n = write(fd, text.ptr + done, text.len - done);
        ok = n >= 0 || errno == EINTR;
        done += n > 0 ? (size_t)n : 0;
    }
    int error = errno;
    if (fd >= 0)
        close(fd);
    return ok ? STATUS_OK : err_set(err, STATUS_IO, "%s: %s", buf_str(path), strerror(error));
}

/* print_places writes what the steps' places stand for: {"map":{...}}. */
static void print_places(const struct tally *tally, const struct buf *path, struct buf *out)
{
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_object(&w);
    jsonw_key(&w, "map");
    jsonw_object(&w);
    jsonw_put_int(&w, "successful", tally->successful);
    jsonw_put_int(&w, "failed", tally->failed);
    jsonw_put_int(&w, "total", tally->total);
    jsonw_put_str(&w, "results_file", buf_str(path));
    jsonw_put_raw(&w, "results", buf_slice(&tally->results));
    jsonw_object_end(&w);
    jsonw_object_end(&w);
}

enum status reduce_run(const struct link *link, const char *data, const struct map_spec *spec,
                       const struct steps *steps, int out, struct err *err)
{
    struct tally tally = {.link = link, .spec = spec};
    struct buf path, places;
    struct item item = {0};
    buf_init(&tally.results, RESULTS_MAX);
    buf_init(&tally.answer, (size_t)64 << 20);
    buf_init(&tally.path, 4096);
    buf_init(&path, 8192);
    buf_init(&places, RESULTS_MAX + 8192);
    jsonw_init(&tally.out, &tally.results);
    enum status status = gather(&tally, data, err);
    if (!status)
        status = write_results(data, &tally, &path, err);
    if (!status) {
        print_places(&tally, &path, &places);
        status = json_parse(buf_slice(&places), &item.value, err);
    }
    item.bytes = item.value.raw;
    if (!status)
        status = plain_run("reduce", steps, &item, spec->cwd, out, err);
    buf_release(&tally.results);
    buf_release(&tally.answer);
    buf_release(&tally.path);
    buf_release(&path);
    buf_release(&places);
    return status;
}
