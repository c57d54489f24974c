/* spec: written as JSON, read back with every value checked: somebody may have edited it. */
#include "run/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "run/artifact.h"

#define SPEC_MAX ((size_t)4 << 20)

enum status spec_check_run_id(const char *run_id, struct err *err)
{
    size_t len = strlen(run_id);
    if (len == 0 || len > RUN_ID_MAX)
        return err_set(err, STATUS_INVALID, "a run's id has 1 to %d bytes, not %zu", RUN_ID_MAX,
                       len);
    if (!json_utf8_valid(slice_of(run_id)))
        return err_set(err, STATUS_INVALID, "a run's id must be UTF-8");
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)run_id[i] < ' ' || run_id[i] == '\x7f')
            return err_set(err, STATUS_INVALID, "a run's id must not have control characters");
    return STATUS_OK;
}

enum status spec_path(const char *data, const char *run_id, const char *ending, struct buf *out,
                      struct err *err)
{
    buf_addf(out, "%s/runs", data);
    if (mkdir(buf_str(out), 0700) != 0 && errno != EEXIST)
        return err_set(err, STATUS_IO, "%s: %s", buf_str(out), strerror(errno));
    buf_add_char(out, '/');
    artifact_name(slice_of(run_id), out);
    buf_add_str(out, ending);
    return buf_status(out, err);
}

/* ---- the lock ---------------------------------------------------------------------------------
 */

/* lock_file takes the lock of a record, which is this process's own: a flock would be its
 * children's too, until they have become the command, and such a child may outlive a runner that is
 * killed by a moment. */
static bool lock_file(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole) == 0;
}

enum status spec_lock(const char *data, const char *run_id, int *fd, struct err *err)
{
    struct buf path;
    buf_init(&path, 8192);
    enum status status = spec_path(data, run_id, ".lock", &path, err);
    if (!status) {
        int lock = open(buf_str(&path), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (lock < 0)
            status = err_set(err, STATUS_IO, "%s: %s", buf_str(&path), strerror(errno));
        else if (!lock_file(lock)) {
            status =
                err_set(err, STATUS_BUSY, "run \"%s\" is being run by another process", run_id);
            close(lock);
        } else {
            *fd = lock;
        }
    }
    buf_release(&path);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static const char *const formats[] = {[ITEMS_DETECT] = "detect",
                                      [ITEMS_JSON] = "json",
                                      [ITEMS_NDJSON] = "ndjson",
                                      [ITEMS_LINES] = "lines"};

static void put_text(struct jsonw *w, const char *key, const char *text)
{
    if (text)
        jsonw_put_str(w, key, text);
}

static void spec_print(const struct map_spec *spec, struct jsonw *w)
{
    jsonw_object(w);
    jsonw_put_str(w, "run_id", spec->run_id);
    jsonw_put_str(w, "cwd", spec->cwd);
    put_text(w, "workflow", spec->workflow);
    put_text(w, "workflow_name", spec->workflow_name);
    jsonw_key(w, "command");
    jsonw_array(w);
    for (size_t i = 0; i < spec->command_count; i++)
        jsonw_string(w, slice_of(spec->command[i]));
    jsonw_array_end(w);
    put_text(w, "input", spec->input);
    put_text(w, "json_path", spec->json_path);
    put_text(w, "id_field", spec->id_field);
    put_text(w, "filter", spec->filter);
    put_text(w, "sort_by", spec->sort_by);
    put_text(w, "distinct", spec->distinct);
    jsonw_put_int(w, "offset", spec->offset);
    jsonw_put_int(w, "max_items", spec->items_max);
    jsonw_put_str(w, "format", formats[spec->format]);
    jsonw_put_int(w, "parallel", spec->parallel);
    jsonw_put_double(w, "timeout_seconds", span_to_seconds(spec->timeout));
    jsonw_put_double(w, "grace_seconds", span_to_seconds(spec->grace));
    put_text(w, "validate", spec->validate);
    put_text(w, "custom", spec->custom);
    jsonw_put_bool(w, "worktree", spec->worktree);
    jsonw_put_bool(w, "commit_required", spec->commit_required);
    jsonw_put_str(w, "on_item_failure", on_failure_name(spec->on_failure));
    jsonw_put_int(w, "max_failures", spec->failures_max);
    jsonw_put_double(w, "failure_threshold", spec->failure_threshold);
    jsonw_put_raw(w, "policy", slice_of(spec->policy));
    jsonw_object_end(w);
}

/* write_whole writes a file so that it is there whole or not at all. */
static enum status write_whole(const char *path, const char *temporary, struct slice text,
                               struct err *err)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0;
    for (size_t done = 0; ok && done < text.len;) {
        ssize_t n = write(fd, text.ptr + done, text.len - done);
        ok = n >= 0 || errno == EINTR;
        done += n > 0 ? (size_t)n : 0;
    }
    ok = ok && fsync(fd) == 0 && rename(temporary, path) == 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (!ok)
        unlink(temporary);
    return ok ? STATUS_OK
              : err_set(err, error == ENOSPC ? STATUS_FULL : STATUS_IO, "%s: %s", path,
                        strerror(error));
}

enum status spec_write(const char *data, const struct map_spec *spec, struct err *err)
{
    struct buf path, temporary, text;
    struct jsonw w;
    buf_init(&path, 8192);
    buf_init(&temporary, 8192);
    buf_init(&text, SPEC_MAX);
    jsonw_init(&w, &text);
    spec_print(spec, &w);
    buf_add_char(&text, '\n');
    enum status status = buf_status(&text, err);
    if (!status)
        status = spec_path(data, spec->run_id, ".json", &path, err);
    if (!status)
        status = spec_path(data, spec->run_id, ".json.new", &temporary, err);
    if (!status)
        status = write_whole(buf_str(&path), buf_str(&temporary), buf_slice(&text), err);
    buf_release(&text);
    buf_release(&temporary);
    buf_release(&path);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

struct reading {
    struct json object;
    struct arena *arena;
    bool bad; /* a value was not what it must be */
};

static const char *get_text(struct reading *r, const char *key)
{
    struct json value;
    if (!json_get(r->object, key, &value) || value.type == JSON_NULL)
        return NULL;
    struct slice text = json_text(value, r->arena);
    if (!text.ptr || memchr(text.ptr, '\0', text.len))
        r->bad = true;
    return r->bad ? NULL : arena_dup(r->arena, text).ptr;
}

static int64_t get_int(struct reading *r, const char *key, int64_t min, int64_t max)
{
    struct json value;
    int64_t number = 0;
    json_get(r->object, key, &value);
    if (!json_int(value, &number) || number < min || number > max)
        r->bad = true;
    return number;
}

static double get_double(struct reading *r, const char *key)
{
    struct json value;
    double number = 0;
    json_get(r->object, key, &value);
    if (!json_double(value, &number))
        r->bad = true;
    return number;
}

static bool get_bool(struct reading *r, const char *key)
{
    struct json value;
    json_get(r->object, key, &value);
    return value.type == JSON_TRUE;
}

static void get_command(struct reading *r, struct map_spec *out)
{
    struct json array, entry;
    struct json_iter iter;
    size_t count = 0;
    json_get(r->object, "command", &array);
    const char **words = arena_array(r->arena, json_count(array) + 1, sizeof(*words));
    json_iter_init(&iter, array);
    while (words && json_next(&iter, NULL, &entry)) {
        struct slice text = json_text(entry, r->arena);
        words[count] = text.ptr ? arena_dup(r->arena, text).ptr : NULL;
        r->bad = r->bad || !words[count++];
    }
    out->command = words;
    out->command_count = count;
    r->bad = r->bad || !words;
}

static void get_words(struct reading *r, struct map_spec *out)
{
    const char *format = get_text(r, "format"), *policy = get_text(r, "on_item_failure");
    struct json value;
    for (int i = ITEMS_DETECT; i <= ITEMS_LINES; i++)
        if (format && strcmp(format, formats[i]) == 0)
            out->format = (enum items_format)i;
    r->bad = r->bad || !policy || !on_failure_from_name(slice_of(policy), &out->on_failure);
    json_get(r->object, "policy", &value);
    out->policy = arena_dup(r->arena, value.raw).ptr;
    r->bad = r->bad || !out->policy || !value.raw.len;
}

static void spec_fill(struct reading *r, struct map_spec *out)
{
    *out = (struct map_spec){
        .run_id = get_text(r, "run_id"),
        .cwd = get_text(r, "cwd"),
        .workflow = get_text(r, "workflow"),
        .workflow_name = get_text(r, "workflow_name"),
        .input = get_text(r, "input"),
        .json_path = get_text(r, "json_path"),
        .id_field = get_text(r, "id_field"),
        .filter = get_text(r, "filter"),
        .sort_by = get_text(r, "sort_by"),
        .distinct = get_text(r, "distinct"),
        .offset = get_int(r, "offset", 0, INT64_MAX),
        .items_max = get_int(r, "max_items", 0, INT64_MAX),
        .parallel = (unsigned)get_int(r, "parallel", 1, PARALLEL_MAX),
        .timeout = span_from_seconds(get_double(r, "timeout_seconds")),
        .grace = span_from_seconds(get_double(r, "grace_seconds")),
        .validate = get_text(r, "validate"),
        .custom = get_text(r, "custom"),
        .worktree = get_bool(r, "worktree"),
        .commit_required = get_bool(r, "commit_required"),
        .failures_max = get_int(r, "max_failures", -1, INT64_MAX),
        .failure_threshold = get_double(r, "failure_threshold"),
    };
    get_command(r, out);
    get_words(r, out);
    r->bad = r->bad || !out->run_id || !out->cwd || (!out->workflow && !out->command_count);
}

static enum status read_file(const char *path, struct buf *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char bytes[8192];
    ssize_t n = 0;
    if (fd < 0)
        return errno == ENOENT ? err_set(err, STATUS_NOT_FOUND, "there is no such run")
                               : err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        buf_add(out, bytes, (size_t)n);
    int error = errno;
    close(fd);
    if (n < 0)
        return err_set(err, STATUS_IO, "%s: %s", path, strerror(error));
    return buf_status(out, err);
}

enum status spec_read(const char *data, const char *run_id, struct arena *arena,
                      struct map_spec *out, struct err *err)
{
    struct buf path, text;
    struct reading r = {.arena = arena};
    buf_init(&path, 8192);
    buf_init(&text, SPEC_MAX);
    enum status status = spec_path(data, run_id, ".json", &path, err);
    if (!status)
        status = read_file(buf_str(&path), &text, err);
    if (!status) {
        status = json_parse(buf_slice(&text), &r.object, err);
        if (!status)
            spec_fill(&r, out);
        if (status || r.bad)
            status =
                err_set(err, STATUS_CORRUPT,
                        "%s cannot be read: give the command again, with --resume", buf_str(&path));
    }
    buf_release(&text);
    buf_release(&path);
    return status;
}

/* ---- what follows from it ---------------------------------------------------------------------
 */

enum status spec_steps(const struct map_spec *spec, struct arena *arena, struct steps *out,
                       struct err *err)
{
    if (spec->workflow) {
        struct workflow workflow;
        enum status status =
            workflow_parse(slice_of(spec->workflow), spec->workflow_name, arena, &workflow, err);
        *out = workflow.map;
        return status;
    }
    struct step *step = arena_alloc(arena, sizeof(*step));
    if (!step)
        return err_no_memory(err);
    *out = (struct steps){.steps = step, .count = 1};
    return template_parse(spec->command, spec->command_count, arena, &step->template, err);
}

enum status spec_items(const struct map_spec *spec, struct arena *arena, struct items_config *out,
                       struct err *err)
{
    *out = (struct items_config){.path = spec->input,
                                 .format = spec->format,
                                 .json_path = spec->json_path,
                                 .id_field = spec->id_field,
                                 .sort_by = spec->sort_by,
                                 .distinct = spec->distinct,
                                 .offset = spec->offset,
                                 .items_max = spec->items_max};
    if (!spec->filter)
        return STATUS_OK;
    enum status status = filter_parse(slice_of(spec->filter), arena, &out->filter, err);
    if (status)
        err_prefix(err, "--filter");
    return status;
}
