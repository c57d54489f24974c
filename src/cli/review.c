/* review: what a person decides about dead letters: retry, discard, rollback, escalate, restore.
 *
 * Letters that are named are taken as they are named.  A net (a run, a group, all) is cast by the
 * API, which freezes what is in it before anything is done; here it is only asked about first. */
#include <inttypes.h>

#include "base/jsonw.h"
#include "cli/file.h"
#include "cli/letters.h"
#include "cli/request.h"
#include "cli/retry.h"
#include "cli/say.h"
#include "cli/view.h"
#include "core/filter.h"

#define BODY_MAX REQUEST_BODY_MAX
#define PATCH_MAX ((size_t)2 << 20)

/* struct choice: which letters. */
struct choice {
    struct slice *ids; /* NULL: a net */
    size_t id_count;
    const char *run, *group; /* a net: one of these, or else all */
    int64_t count;           /* letters, at most */
    struct retry_plan plan;  /* of a retry: what follows it */
};

/* struct verb: an action and its words. */
struct verb {
    const char *name; /* "retry": also the last part of the path */
    const char *done; /* "retried": also a member of the answer */
};

static const struct verb verb_retry = {"retry", "retried"};
static const struct verb verb_discard = {"discard", "discarded"};
static const struct verb verb_rollback = {"rollback", "rolled_back"};
static const struct verb verb_escalate = {"escalate", "escalated"};
static const struct verb verb_restore = {"restore", "restored"};

/* ---- which letters --------------------------------------------------------------------------- */

/* count_open is how many open letters a run has (NULL: all of them). */
static int count_open(struct cli *cli, const char *run, int64_t *out)
{
    struct reply reply;
    struct buf query;

    buf_init(&query, 4096);
    if (run)
        request_query(&query, "job_id", slice_of(run));
    int code = request_send(cli, "GET", "/api/v1/dlq/analyze", buf_slice(&query), (struct slice){0},
                            &reply);
    *out = view_int(reply.value, "total");
    reply_release(&reply);
    buf_release(&query);
    return code;
}

static int choose_group(struct cli *cli, struct choice *choice)
{
    struct reply reply;
    const char *path = request_path(cli, "/api/v1/dlq/groups/", slice_of(choice->group), "");
    int code = request_send(cli, "GET", path, (struct slice){0}, (struct slice){0}, &reply);

    choice->count = view_int(reply.value, "count");
    reply_release(&reply);
    if (code == CLI_MISSING)
        say_hint("lazaret dlq groups lists the groups");
    return code;
}

/* choose_run takes one operand that is no letter for a run, when there is one of that name. */
static int choose_run(struct cli *cli, const char *word, struct choice *choice)
{
    struct slice none;
    int code = count_open(cli, word, &choice->count);
    if (code == 0 && (choice->count > 0 || retry_run_waits(cli, word)))
        choice->run = word;
    else if (code == 0)
        code = letters_find(cli, word, &none); /* says that there is none, and what was meant */
    return code;
}

static int choose_ids(struct cli *cli, struct choice *choice)
{
    const struct args *args = &cli->args;

    choice->ids = arena_array(&cli->arena, args->operand_count, sizeof *choice->ids);
    if (!choice->ids)
        return say_no_memory();
    for (size_t i = 0; i < args->operand_count; i++) {
        struct slice id;
        bool only = args->operand_count == 1;
        int code = only ? letters_find_quiet(cli, args->operands[i], &id)
                        : letters_find(cli, args->operands[i], &id);
        if (code == 0 && id.len == 0) {
            choice->ids = NULL;
            return choose_run(cli, args->operands[i], choice);
        }
        if (code != 0)
            return code;
        choice->ids[choice->id_count++] = id;
    }
    choice->count = (int64_t)choice->id_count;
    return 0;
}

static int choose(struct cli *cli, struct choice *choice)
{
    bool ids = cli->args.operand_count > 0, all = args_has(&cli->args, "all");

    *choice = (struct choice){.group = args_value(&cli->args, "group")};
    if (ids + all + (choice->group != NULL) != 1) {
        say_error(CLI_USAGE, "say which letters: IDs, a RUN, --group or --all");
        say_hint("lazaret %s --help shows how", cli->args.command->name);
        return CLI_USAGE;
    }
    if (choice->group)
        return choose_group(cli, choice);
    return ids ? choose_ids(cli, choice) : count_open(cli, NULL, &choice->count);
}

/* plan_retry finds the map runs that the letters belong to: their items are run here. */
static int plan_retry(struct cli *cli, struct choice *choice)
{
    struct buf query;
    int code = 0;

    for (size_t i = 0; choice->ids && i < choice->id_count && code == 0; i++)
        code = retry_plan_letter(cli, &choice->plan, choice->ids[i]);
    if (code != 0 || choice->ids)
        return code;
    buf_init(&query, 4096);
    if (choice->run)
        request_query(&query, "job_id", slice_of(choice->run));
    if (choice->group)
        request_query(&query, "fingerprint", slice_of(choice->group));
    request_query(&query, "recovered", SLICE("false"));
    code = retry_plan_query(cli, &choice->plan, buf_slice(&query));
    buf_release(&query);
    if (code == 0 && choice->run && choice->count == 0)
        code = retry_plan_run(cli, &choice->plan, slice_of(choice->run));
    return code;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static void put_choice(struct jsonw *w, const struct choice *choice)
{
    if (choice->run) {
        jsonw_put_str(w, "job_id", choice->run);
    } else if (choice->group) {
        jsonw_put_str(w, "fingerprint", choice->group);
    } else if (!choice->ids) {
        jsonw_put_bool(w, "all", true);
    } else {
        jsonw_key(w, "ids");
        jsonw_array(w);
        for (size_t i = 0; i < choice->id_count; i++)
            jsonw_string(w, choice->ids[i]);
        jsonw_array_end(w);
    }
}

static void put_said(struct cli *cli, struct jsonw *w)
{
    const char *note = args_value(&cli->args, "note");

    jsonw_put_str(w, "actor", cli->actor);
    if (note)
        jsonw_put_str(w, "note", note);
}

/* put_patch writes the edit: a JSON Patch is an array, a merge patch an object. */
static int put_patch(struct cli *cli, struct jsonw *w)
{
    const char *path = args_value(&cli->args, "patch");
    struct err err = {0};
    struct json value;
    struct buf text;
    int code = 0;

    if (!path)
        return 0;
    buf_init(&text, PATCH_MAX);
    if (file_read(path, &text, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "--patch: %s", err.text);
    else if (json_parse(buf_slice(&text), &value, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "--patch: %s: %s", path, err.text);
    else if (value.type != JSON_ARRAY && value.type != JSON_OBJECT)
        code = say_error(CLI_USAGE, "--patch: must be an array (JSON Patch) or an object (merge)");
    else
        jsonw_put_raw(w, value.type == JSON_ARRAY ? "patch" : "merge", value.raw);
    buf_release(&text);
    return code;
}

static int put_retry(struct cli *cli, const struct choice *choice, struct jsonw *w)
{
    const char *queue = args_value(&cli->args, "queue"), *policy = args_value(&cli->args, "policy");
    int64_t runs = 0;
    int code = args_int(&cli->args, "max-retries", 1, 1000, &runs);

    if (runs > 0)
        jsonw_put_int(w, "max_retries", runs);
    if (queue)
        jsonw_put_str(w, "queue", queue);
    if (policy)
        jsonw_put_str(w, "policy", policy);
    if (args_has(&cli->args, "force"))
        jsonw_put_bool(w, "force", true);
    if (args_has(&cli->args, "wait") || (choice->plan.hold && !cli->server))
        jsonw_put_bool(w, "hold", true);
    return code != 0 ? code : put_patch(cli, w);
}

static int make_body(struct cli *cli, const struct verb *verb, const struct choice *choice,
                     struct buf *body)
{
    const char *filter = args_value(&cli->args, "filter");
    struct jsonw w;
    int code = 0;

    jsonw_init(&w, body);
    jsonw_object(&w);
    put_choice(&w, choice);
    put_said(cli, &w);
    if (filter)
        jsonw_put_str(&w, "filter", filter);
    if (verb == &verb_retry)
        code = put_retry(cli, choice, &w);
    jsonw_object_end(&w);
    if (code == 0 && buf_status(body, NULL) != STATUS_OK)
        code = say_error(CLI_USAGE, "that is too much for one request: use a group or --filter");
    return code;
}

/* check_filter refuses a filter that is none before anybody is asked about it. */
static int check_filter(struct cli *cli, const char *text)
{
    const struct filter *filter;
    struct err err = {0};

    if (!text || filter_parse(slice_of(text), &cli->arena, &filter, &err) == STATUS_OK)
        return 0;
    return say_error(CLI_USAGE, "--filter: %s", err.text);
}

/* ask asks before more than one letter is changed. */
static int ask(struct cli *cli, const struct verb *verb, const struct choice *choice)
{
    const char *filter = args_value(&cli->args, "filter");
    struct slice count = view_count(choice->count, "dead letter", &cli->arena);
    struct slice what;
    int code = check_filter(cli, filter);

    if (code != 0 || choice->count <= 1)
        return code;
    what = filter ? arena_printf(&cli->arena, "%s those of %.*s for which %s", verb->name,
                                 SLICE_ARG(count), filter)
                  : arena_printf(&cli->arena, "%s %.*s", verb->name, SLICE_ARG(count));
    return what.ptr ? say_confirm(cli, what.ptr) : say_no_memory();
}

/* ---- what came of it ------------------------------------------------------------------------- */

/* show_result prints one letter's outcome, and returns the exit code for it. */
static int show_result(struct cli *cli, struct json result)
{
    struct arena arena = {0};
    struct slice id = view_text(result, "dlq_id", &arena);
    struct slice error = view_text(result, "error", &arena);
    struct slice status = view_text(result, "status", &arena);
    int code = 0;

    if (error.len > 0)
        code = say_error(request_exit_of(view_text(result, "code", &arena)), "%.*s: %.*s",
                         SLICE_ARG(id), SLICE_ARG(error));
    else if (!cli->json && !slice_is(status, "skipped")) {
        struct slice left = cli->out.terminal ? status : id;
        struct slice right = cli->out.terminal ? id : status;
        out_clean(&cli->out, left);
        out_str(&cli->out, cli->out.terminal ? " " : "\t");
        out_clean(&cli->out, right);
        out_str(&cli->out, "\n");
    }
    arena_release(&arena);
    return code;
}

static int show_results(struct cli *cli, const struct verb *verb, struct json answer)
{
    struct json_iter iter;
    struct json result;
    int64_t done = view_int(answer, verb->done), failed = view_int(answer, "failed");
    int64_t skipped = view_int(answer, "skipped");
    int code = 0;

    json_iter_init(&iter, view_get(answer, "results"));
    while (json_next(&iter, NULL, &result)) {
        int one = show_result(cli, result);
        code = one > code ? one : code;
    }
    if (!cli->json && cli->out.terminal && view_int(answer, "total") > 1)
        out_format(&cli->out, "%" PRId64 " %s, %" PRId64 " failed, %" PRId64 " left out\n", done,
                   verb->done, failed, skipped);
    if (!cli->json && view_int(answer, "total") == 0)
        say_note("no dead letter was selected");
    if (skipped > 0)
        say_note("%" PRId64 " left out: %s; --force takes %s too", skipped,
                 skipped == 1 ? "it needs review or may not pass by itself"
                              : "they need review or may not pass by themselves",
                 skipped == 1 ? "it" : "them");
    return code != 0 ? code : failed > 0 ? CLI_REFUSED : skipped > 0 && done == 0 ? CLI_REFUSED : 0;
}

/* send_choice has the letters reviewed, and shows what came of it. */
static int send_choice(struct cli *cli, const struct verb *verb, const struct choice *choice,
                       struct slice body)
{
    struct reply reply;
    bool known = choice->run && choice->count == 0; /* nothing is dead: only what waits is run */
    const char *path = request_path(cli, "/api/v1/dlq/", slice_of(verb->name), "");
    int code = 0, follows;

    reply = (struct reply){0};
    if (!known)
        code = request_send(cli, "POST", path, (struct slice){0}, body, &reply);
    if (code == 0 && !known && cli->json)
        out_json(&cli->out, buf_slice(&reply.answer.body));
    if (code == 0 && !known)
        code = show_results(cli, verb, reply.value);
    if (verb == &verb_retry &&
        (code == 0 || view_int(reply.value, verb->done) > 0 || retry_waits(cli, &choice->plan))) {
        follows = retry_follow(cli, &choice->plan, reply.value);
        code = follows > code ? follows : code;
    }
    reply_release(&reply);
    return code;
}

static int review_many(struct cli *cli, const struct verb *verb)
{
    struct choice choice;
    struct buf body;
    int code = choose(cli, &choice);

    if (code == 0 && verb == &verb_retry)
        code = plan_retry(cli, &choice);
    if (code != 0)
        return code;
    buf_init(&body, BODY_MAX);
    code = make_body(cli, verb, &choice, &body);
    if (code == 0)
        code = ask(cli, verb, &choice);
    if (code == 0 && verb == &verb_retry)
        code = retry_confirm(cli, &choice.plan);
    if (code == 0)
        code = send_choice(cli, verb, &choice, buf_slice(&body));
    buf_release(&body);
    return code;
}

/* ---- one letter after the other -------------------------------------------------------------- */

static void show_one(struct cli *cli, struct json answer, bool many, size_t index)
{
    struct slice job = view_text(answer, "compensation", &cli->arena);

    if (cli->json) {
        out_str(&cli->out, !many ? "" : index > 0 ? ",\n" : "[");
        out_raw(&cli->out, answer.raw);
        return;
    }
    show_result(cli, answer);
    if (cli->out.terminal && job.len > 0) {
        out_str(&cli->out, "its compensation is job ");
        out_clean(&cli->out, job);
        out_str(&cli->out, "\n");
    }
}

static int review_one(struct cli *cli, const struct verb *verb, struct slice id, struct slice body,
                      bool many, size_t index)
{
    struct reply reply;
    const char *after = arena_printf(&cli->arena, "/%s", verb->name).ptr;
    const char *path = after ? request_path(cli, "/api/v1/dlq/", id, after) : NULL;
    int code = request_try(cli, "POST", path, (struct slice){0}, body, &reply);

    if (code == 0 && reply.answer.status >= 300) {
        struct slice error = view_text(reply.value, "error", &cli->arena);
        code = say_error(request_exit(reply.answer.status), "%.*s: %.*s", SLICE_ARG(id),
                         SLICE_ARG(error));
    } else if (code == 0) {
        show_one(cli, reply.value, many, index);
    }
    reply_release(&reply);
    return code;
}

static int review_each(struct cli *cli, const struct verb *verb)
{
    struct choice choice = {0};
    struct buf body;
    struct jsonw w;
    size_t done = 0;
    int code = 0;

    choice.ids = arena_array(&cli->arena, cli->args.operand_count, sizeof *choice.ids);
    if (!choice.ids)
        return say_no_memory();
    for (; choice.id_count < cli->args.operand_count && code == 0; choice.id_count++)
        code = letters_find(cli, cli->args.operands[choice.id_count], &choice.ids[choice.id_count]);
    choice.count = (int64_t)choice.id_count;
    if (code == 0)
        code = ask(cli, verb, &choice);
    if (code != 0)
        return code;
    buf_init(&body, BODY_MAX);
    jsonw_init(&w, &body);
    jsonw_object(&w);
    put_said(cli, &w);
    jsonw_object_end(&w);
    for (size_t i = 0; i < choice.id_count; i++) {
        int one = review_one(cli, verb, choice.ids[i], buf_slice(&body), choice.id_count > 1, done);
        done += one == 0;
        code = one > code ? one : code;
    }
    if (cli->json && (done > 0 || choice.id_count > 1))
        out_str(&cli->out, choice.id_count == 1 ? "\n" : done > 0 ? "]\n" : "[]\n");
    buf_release(&body);
    return code;
}

int cmd_retry(struct cli *cli)
{
    return review_many(cli, &verb_retry);
}

int cmd_discard(struct cli *cli)
{
    return review_many(cli, &verb_discard);
}

int cmd_rollback(struct cli *cli)
{
    return review_each(cli, &verb_rollback);
}

int cmd_escalate(struct cli *cli)
{
    return review_each(cli, &verb_escalate);
}

int cmd_restore(struct cli *cli)
{
    return review_each(cli, &verb_restore);
}
