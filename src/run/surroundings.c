/* surroundings: the environment is copied pointer by pointer; only what is ours is made anew. */
#include "run/surroundings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "run/process.h"

#define OURS 16         /* variables of our own, to begin with */
#define INPUTS_MAX 100  /* inputs of a job that become variables */
#define NAME_MAX_LEN 64 /* bytes of an input's name that becomes a variable */

extern char **environ;

static bool grow(struct surroundings *s, struct arena *arena)
{
    size_t cap = s->cap * 2;
    char **grown = arena_array(arena, cap, sizeof(*grown));
    if (!grown)
        return false;
    memcpy(grown, s->envp, s->count * sizeof(*grown));
    s->envp = grown;
    s->cap = cap;
    return true;
}

enum status surroundings_add(struct surroundings *s, struct arena *arena, const char *name,
                             struct slice value, struct err *err)
{
    if (memchr(value.len ? value.ptr : "", '\0', value.len))
        return err_set(err, STATUS_INVALID, "%s: has a NUL, which no variable can hold", name);
    if (value.len + strlen(name) + 1 > ARGUMENT_MAX)
        return err_set(err, STATUS_INVALID, "%s: has %zu bytes: a variable may have %u", name,
                       value.len, ARGUMENT_MAX);
    struct slice text = arena_printf(arena, "%s=%.*s", name, SLICE_ARG(value));
    if (!text.ptr)
        return err_no_memory(err);
    if (s->count + 1 >= s->cap && !grow(s, arena))
        return err_no_memory(err);
    s->envp[s->count++] = (char *)(uintptr_t)text.ptr;
    s->envp[s->count] = NULL;
    return STATUS_OK;
}

/* has says whether a variable of ours, from `first` on, has this name already. */
static bool has(const struct surroundings *s, size_t first, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = first; i < s->count; i++)
        if (strncmp(s->envp[i], name, len) == 0 && s->envp[i][len] == '=')
            return true;
    return false;
}

/* add_where_it_can leaves out what cannot be a variable. */
static enum status add_where_it_can(struct surroundings *s, struct arena *arena, const char *name,
                                    struct slice value, struct err *err)
{
    enum status status = surroundings_add(s, arena, name, value, err);
    return status == STATUS_INVALID ? STATUS_OK : status;
}

/* ---- the job's own ----------------------------------------------------------------------------
 */

static const struct {
    const char *member, *variable;
} members[] = {
    {"action", "LAZARET_ACTION"},
    {"trace_id", "LAZARET_TRACE_ID"},
    {"requested_by", "LAZARET_REQUESTED_BY"},
    {"scope_lock", "LAZARET_SCOPE_LOCK"},
    {"source", "LAZARET_SOURCE"},
    {"idempotency_key", "LAZARET_IDEMPOTENCY_KEY"},
    {"retry_key", "LAZARET_RETRY_KEY"},
    {"run_id", "LAZARET_RUN_ID"},
};

/* input_variable makes LAZARET_INPUT_NAME of a member's name; NULL when it is too long. */
static const char *input_variable(struct slice name, struct arena *arena)
{
    char text[NAME_MAX_LEN + 1];
    if (!name.ptr || name.len == 0 || name.len > NAME_MAX_LEN)
        return NULL;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool lower = c >= 'a' && c <= 'z';
        bool plain = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        text[i] = lower ? (char)(c - 'a' + 'A') : plain ? c : '_';
    }
    text[name.len] = '\0';
    return arena_printf(arena, "LAZARET_INPUT_%s", text).ptr;
}

/* add_inputs gives the inputs that are plain values.  Of two that have the same name as variables
 * ("a-b" and "a_b") the first is given. */
static enum status add_inputs(struct surroundings *s, struct grant *grant, struct err *err)
{
    struct json_iter iter;
    struct json key, value;
    size_t left = INPUTS_MAX, first = s->count;
    enum status status = STATUS_OK;
    json_iter_init(&iter, grant->inputs);
    while (!status && left && json_next(&iter, &key, &value)) {
        if (value.type == JSON_OBJECT || value.type == JSON_ARRAY)
            continue;
        const char *name = input_variable(json_text(key, &grant->arena), &grant->arena);
        struct slice text = value.type == JSON_STRING ? json_text(value, &grant->arena) : value.raw;
        if (!name || !text.ptr || has(s, first, name))
            continue;
        status = add_where_it_can(s, &grant->arena, name, text, err);
        left--;
    }
    return status;
}

static enum status add_payload(struct surroundings *s, struct grant *grant, struct err *err)
{
    struct arena *arena = &grant->arena;
    enum status status = surroundings_add(s, arena, "LAZARET_LEASE_ID", grant->lease_id, err);
    if (!status)
        status = add_where_it_can(s, arena, "LAZARET_QUEUE", grant->queue, err);
    if (!status)
        status = add_where_it_can(s, arena, "LAZARET_MATCH", grant->match, err);
    for (size_t i = 0; !status && i < sizeof(members) / sizeof(members[0]); i++) {
        struct json value;
        if (json_get(grant->job, members[i].member, &value) && value.type == JSON_STRING)
            status = add_where_it_can(s, arena, members[i].variable, json_text(value, arena), err);
    }
    return status ? status : add_inputs(s, grant, err);
}

/* ---- the item ---------------------------------------------------------------------------------
 */

static enum status write_file(const char *path, struct slice bytes, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t done = 0;
    while (fd >= 0 && done < bytes.len) {
        ssize_t n = write(fd, bytes.ptr + done, bytes.len - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    int error = fd < 0 || done < bytes.len ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error ? err_set(err, error == ENOSPC ? STATUS_FULL : STATUS_IO, "%s: %s", path,
                           strerror(error))
                 : STATUS_OK;
}

static enum status add_item(const struct attempt_plan *plan, struct surroundings *s,
                            struct grant *grant, const struct item *item, unsigned slot,
                            struct err *err)
{
    struct arena *arena = &grant->arena;
    enum status status = surroundings_add(s, arena, "LAZARET_ITEM", item->bytes, err);
    if (status != STATUS_INVALID)
        return status;
    s->item_file = arena_printf(arena, "%s/%u.item", plan->scratch, slot).ptr;
    if (!s->item_file)
        return err_no_memory(err);
    status = write_file(s->item_file, item->bytes, err);
    return status ? status
                  : surroundings_add(s, arena, "LAZARET_ITEM_FILE", slice_of(s->item_file), err);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* is_ours says that a variable is one that we set: it is not passed on from whoever started us, who
 * may be the command of another job. */
static bool is_ours(const char *variable, bool payload)
{
    static const char *const always[] = {
        "LAZARET_ITEM=",    "LAZARET_ITEM_ID=", "LAZARET_ITEM_FILE=",
        "LAZARET_ATTEMPT=", "LAZARET_JOB_ID=",  "LAZARET_FAILURE_FILE="};
    static const char *const fields[] = {
        "LAZARET_LEASE_ID=", "LAZARET_QUEUE=", "LAZARET_MATCH=", "LAZARET_INPUT_"};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        if (begins(variable, always[i]))
            return true;
    for (size_t i = 0; payload && i < sizeof(fields) / sizeof(fields[0]); i++)
        if (begins(variable, fields[i]))
            return true;
    for (size_t i = 0; payload && i < sizeof(members) / sizeof(members[0]); i++)
        if (begins(variable, members[i].variable) && variable[strlen(members[i].variable)] == '=')
            return true;
    return false;
}

static enum status inherit(struct surroundings *s, bool payload, struct arena *arena,
                           struct err *err)
{
    size_t count = 0;
    while (environ[count])
        count++;
    s->cap = count + OURS;
    s->envp = arena_array(arena, s->cap, sizeof(*s->envp));
    if (!s->envp)
        return err_no_memory(err);
    for (size_t i = 0; i < count; i++)
        if (!is_ours(environ[i], payload))
            s->envp[s->count++] = environ[i];
    return STATUS_OK;
}

enum status surroundings_make(const struct attempt_plan *plan, struct grant *grant,
                              const struct item *item, unsigned slot, struct surroundings *out,
                              struct err *err)
{
    struct arena *arena = &grant->arena;
    char attempt[16];
    snprintf(attempt, sizeof(attempt), "%" PRIu32, grant->attempt);
    *out = (struct surroundings){0};
    /* A name of its own: what an earlier command left running must not speak for this one. */
    out->failure_file =
        arena_printf(arena, "%s/%.*s.failure", plan->scratch, SLICE_ARG(grant->lease_id)).ptr;
    if (!out->failure_file)
        return err_no_memory(err);
    enum status status = inherit(out, plan->payload, arena, err);
    if (!status)
        status = surroundings_add(out, arena, "LAZARET_ATTEMPT", slice_of(attempt), err);
    if (!status)
        status =
            surroundings_add(out, arena, "LAZARET_FAILURE_FILE", slice_of(out->failure_file), err);
    if (!status)
        status = add_where_it_can(out, arena, "LAZARET_JOB_ID",
                                  plan->run_id.len ? plan->run_id : grant->job_id, err);
    if (!status)
        status = add_where_it_can(out, arena, "LAZARET_ITEM_ID", grant->item_id, err);
    if (!status)
        status = add_item(plan, out, grant, item, slot, err);
    if (!status && plan->payload)
        status = add_payload(out, grant, err);
    return status;
}

void surroundings_said(const struct surroundings *s, struct buf *out)
{
    int fd = open(s->failure_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char bytes[4096];
    ssize_t n;
    if (fd < 0)
        return;
    while (out->len < PROCESS_SAID_MAX && (n = read(fd, bytes, sizeof(bytes))) > 0)
        buf_add(out, bytes, (size_t)n);
    close(fd);
    unlink(s->failure_file);
}

void surroundings_clear(const struct surroundings *s)
{
    if (s->failure_file)
        unlink(s->failure_file);
    if (s->item_file)
        unlink(s->item_file);
}
