/* import: dead letters from a file or from the map system's directory. */
#include <inttypes.h>
#include <sys/stat.h>

#include "base/jsonw.h"
#include "cli/documents.h"
#include "cli/file.h"
#include "cli/mapdir.h"
#include "cli/request.h"
#include "cli/say.h"
#include "cli/view.h"

struct import {
    struct cli *cli;
    struct batch batch;
    struct slice run; /* of a directory: the run that its items belong to */
    int64_t done;     /* letters that were answered */
    int64_t imported, known, failed;
    int code; /* the worst of the letters that were refused */
};

/* say_refused says why letters of an answer were not taken. */
static void say_refused(struct import *import, struct json results)
{
    struct json_iter iter;
    struct json result;

    json_iter_init(&iter, results);
    while (json_next(&iter, NULL, &result)) {
        struct arena arena = {0};
        struct slice error = view_text(result, "error", &arena);
        import->done++;
        if (error.len > 0) {
            int code = request_exit_of(view_text(result, "code", &arena));
            say_error(code, "letter %" PRId64 ": %.*s", import->done, SLICE_ARG(error));
            import->code = code > import->code ? code : import->code;
        }
        arena_release(&arena);
    }
}

static int send_batch(void *ctx, struct slice array)
{
    struct import *import = ctx;
    struct reply reply;
    struct buf query;

    buf_init(&query, 4096);
    if (import->run.len > 0)
        request_query(&query, "job_id", import->run);
    int code =
        request_send(import->cli, "POST", "/api/v1/dlq/import", buf_slice(&query), array, &reply);
    if (code == 0) {
        import->imported += view_int(reply.value, "imported");
        import->known += view_int(reply.value, "known");
        import->failed += view_int(reply.value, "failed");
        say_refused(import, view_get(reply.value, "results"));
    }
    reply_release(&reply);
    buf_release(&query);
    return code;
}

static int add(void *ctx, struct json letter)
{
    struct import *import = ctx;
    return batch_add(&import->batch, letter.raw);
}

static int look(void *ctx, struct json letter)
{
    (void)ctx, (void)letter;
    return 0;
}

/* import_directory reads everything once before it sends anything: a file that is damaged is found
 * in time. */
static int import_directory(struct import *import, const char *path)
{
    int code = mapdir_read(import->cli, path, &import->run, look, NULL);
    return code != 0 ? code : mapdir_read(import->cli, path, &import->run, add, import);
}

static int import_file(struct import *import, const char *path)
{
    struct err err = {0};
    struct buf text;
    bool many;
    int code;

    buf_init(&text, FILE_INPUT_MAX);
    if (file_read(path, &text, &err) != STATUS_OK)
        code = say_error(CLI_USAGE, "%s", err.text);
    else
        code = documents_each(path, buf_slice(&text), &many, add, import);
    /* The batch has copies: what is left of it is sent by the caller. */
    buf_release(&text);
    return code;
}

int cmd_import(struct cli *cli)
{
    struct import import = {.cli = cli};
    const char *path = cli->args.operands[0];
    struct stat info;
    int code;

    batch_init(&import.batch, send_batch, &import);
    if (strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        code = import_directory(&import, path);
    else
        code = import_file(&import, path);
    if (code == 0)
        code = batch_flush(&import.batch);
    batch_release(&import.batch);
    if (code == 0 && cli->json)
        out_format(&cli->out,
                   "{\"imported\":%" PRId64 ",\"known\":%" PRId64 ",\"failed\":%" PRId64 "}\n",
                   import.imported, import.known, import.failed);
    else if (code == 0)
        out_format(&cli->out, "%" PRId64 " imported, %" PRId64 " known, %" PRId64 " failed\n",
                   import.imported, import.known, import.failed);
    return code != 0 ? code : import.code;
}
