/* letters: see letters.h. */
#include "cli/letters.h"

#include <inttypes.h>

#include "cli/request.h"
#include "cli/say.h"
#include "cli/view.h"

#define LIKE_MAX 4 /* ids that a shortened one is compared with */

/* The flags that become parameters as they are. */
static const struct {
    const char *flag, *param;
} filters[] = {
    {"recovered", "recovered"},
    {"job-id", "job_id"},
    {"reason", "reason"},
    {"source", "source"},
    {"queue", "queue"},
    {"signature", "signature"},
    {"fingerprint", "fingerprint"},
    {"error-type", "error_type"},
    {"q", "q"},
    {"trace-id", "trace_id"},
    {"agent", "agent"},
    {"actor", "actor"},
    {"after", "after"},
    {"before", "before"},
    {"attempts-min", "attempts_min"},
    {"attempts-max", "attempts_max"},
    {"filter", "filter"},
};
#define FILTER_COUNT (sizeof filters / sizeof *filters)

int letters_query(struct cli *cli, struct buf *query)
{
    const struct args *args = &cli->args;
    const char *state = args_value(args, "state");
    const char *sort = args_value(args, "sort");

    for (size_t i = 0; i < FILTER_COUNT; i++) {
        const char *value = args_value(args, filters[i].flag);
        if (value && !*value)
            return say_error(CLI_USAGE, "--%s: must not be empty", filters[i].flag);
        if (value)
            request_query(query, filters[i].param, slice_of(value));
    }
    if (args_has(args, "eligible"))
        request_query(query, "eligible", SLICE("true"));
    if (!state && !args_has(args, "recovered"))
        state = "open";
    if (state && strcmp(state, "all") != 0)
        request_query(query, "state", slice_of(state));
    if (sort && strcmp(sort, "oldest") == 0)
        request_query(query, "sort", SLICE("oldest"));
    if (buf_status(query, NULL) != STATUS_OK)
        return say_error(CLI_USAGE, "the filters are too long");
    return 0;
}

bool letters_filtered(const struct args *args)
{
    bool filtered = args_has(args, "eligible");
    for (size_t i = 0; i < FILTER_COUNT; i++)
        filtered = filtered || args_has(args, filters[i].flag);
    return filtered;
}

/* struct walk: where a walk over pages is. */
struct walk {
    int64_t left; /* letters to hand over still; INT64_MAX: all */
    int64_t cursor;
    bool more;
};

static int one_page(struct cli *cli, struct slice base, struct walk *walk,
                    int (*visit)(void *ctx, struct json letter), void *ctx)
{
    int64_t limit = walk->left < REQUEST_PAGE_MAX ? walk->left : REQUEST_PAGE_MAX;
    struct json_iter iter;
    struct json letter;
    struct reply reply;
    struct buf query;

    buf_init(&query, base.len + 256);
    buf_add_slice(&query, base);
    buf_addf(&query, "%slimit=%" PRId64, base.len > 0 ? "&" : "", limit);
    if (walk->cursor != 0)
        buf_addf(&query, "&cursor=%" PRId64, walk->cursor);
    int code =
        request_send(cli, "GET", "/api/v1/dlq", buf_slice(&query), (struct slice){0}, &reply);
    if (code == 0)
        json_iter_init(&iter, reply.value);
    while (code == 0 && json_next(&iter, NULL, &letter)) {
        code = visit(ctx, letter);
        walk->left--;
    }
    walk->cursor = reply.answer.cursor;
    walk->more = walk->cursor != 0;
    reply_release(&reply);
    buf_release(&query);
    return code;
}

int letters_each(struct cli *cli, struct slice query, int64_t limit,
                 int (*visit)(void *ctx, struct json letter), void *ctx, bool *more)
{
    struct walk walk = {.left = limit > 0 ? limit : INT64_MAX, .more = true};
    int code = 0;

    while (code == 0 && walk.more && walk.left > 0 && out_ok(&cli->out))
        code = one_page(cli, query, &walk, visit, ctx);
    if (more)
        *more = walk.more;
    return code;
}

/* ---- ids that people shorten ----------------------------------------------------------------- */

/* like asks for the ids that begin with `prefix`; `ids` is an array of strings in `reply`. */
static int like(struct cli *cli, struct slice prefix, struct reply *reply, struct json *ids)
{
    struct buf query;

    buf_init(&query, 4096);
    request_query(&query, "prefix", prefix);
    buf_addf(&query, "&limit=%d", LIKE_MAX);
    int code =
        request_send(cli, "GET", "/api/v1/dlq/like", buf_slice(&query), (struct slice){0}, reply);
    buf_release(&query);
    *ids = code == 0 ? view_get(reply->value, "dlq_ids") : (struct json){0};
    return code;
}

static int ambiguous(struct cli *cli, const char *word, struct json ids)
{
    struct json_iter iter;
    struct json id;

    say_error(CLI_USAGE, "more than one dead letter begins with %s", word);
    json_iter_init(&iter, ids);
    while (json_next(&iter, NULL, &id)) {
        struct slice text = view_value(id, &cli->arena);
        say_hint("%.*s", SLICE_ARG(text));
    }
    return CLI_USAGE;
}

/* by_prefix finds the one id that begins with `word`; `*dlq_id` is empty when there is none. */
static int by_prefix(struct cli *cli, const char *word, struct slice *dlq_id)
{
    struct json_iter iter;
    struct json ids, id;
    struct reply reply;
    int code = like(cli, slice_of(word), &reply, &ids);
    size_t count = code == 0 ? json_count(ids) : 0;

    if (count > 1) {
        code = ambiguous(cli, word, ids);
    } else if (count == 1) {
        json_iter_init(&iter, ids);
        json_next(&iter, NULL, &id);
        struct slice text = view_value(id, &cli->arena);
        *dlq_id = arena_dup(&cli->arena, text);
    }
    reply_release(&reply);
    return code;
}

int letters_find_quiet(struct cli *cli, const char *word, struct slice *dlq_id)
{
    struct reply reply;
    const char *path = request_path(cli, "/api/v1/dlq/", slice_of(word), "");
    int code;

    *dlq_id = (struct slice){0};
    if (!*word)
        return say_error(CLI_USAGE, "an ID must not be empty");
    code = request_try(cli, "GET", path, (struct slice){0}, (struct slice){0}, &reply);
    if (code == 0 && reply.answer.status == 200)
        *dlq_id = arena_dup(&cli->arena, view_text(reply.value, "dlq_id", &cli->arena));
    else if (code == 0 && reply.answer.status != 404)
        code = request_failed(&reply);
    reply_release(&reply);
    if (code == 0 && dlq_id->len == 0 && strlen(word) >= LETTERS_PREFIX_MIN)
        code = by_prefix(cli, word, dlq_id);
    return code;
}

/* suggest says which letter may have been meant: one that begins as `word` does. */
static void suggest(struct cli *cli, const char *word)
{
    struct json_iter iter;
    struct json ids, id;
    struct slice found = {0};

    for (size_t len = strlen(word); len >= 4 && found.len == 0; len -= len > 12 ? len / 4 : 2) {
        struct reply reply;
        if (like(cli, (struct slice){word, len}, &reply, &ids) == 0) {
            json_iter_init(&iter, ids);
            if (json_next(&iter, NULL, &id))
                found = arena_dup(&cli->arena, view_value(id, &cli->arena));
        }
        reply_release(&reply);
    }
    if (found.len > 0)
        say_error(CLI_MISSING, "no dead letter %s; did you mean %.*s?", word, SLICE_ARG(found));
    else
        say_error(CLI_MISSING, "no dead letter %s", word);
}

int letters_find(struct cli *cli, const char *word, struct slice *dlq_id)
{
    int code = letters_find_quiet(cli, word, dlq_id);
    if (code != 0 || dlq_id->len > 0)
        return code;
    suggest(cli, word);
    say_hint("lazaret dlq list shows what is there");
    return CLI_MISSING;
}
