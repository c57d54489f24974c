/* sink: see sink.h. */
#include "cli/sink.h"

#include "cli/say.h"

int sink_failed(enum status status, const struct err *err)
{
    int code = status == STATUS_CONFLICT                                ? CLI_REFUSED
               : status == STATUS_INVALID || status == STATUS_NOT_FOUND ? CLI_USAGE
                                                                        : CLI_STORE;
    return say_error(code, "%s", err->text);
}

int sink_open(struct sink *sink, struct cli *cli, const char *path)
{
    struct err err = {0};
    enum status status;

    *sink = (struct sink){.cli = cli, .standard = strcmp(path, "-") == 0, .file = {.fd = -1}};
    if (sink->standard)
        return 0;
    status = file_create(&sink->file, path, args_has(&cli->args, "force"), &err);
    if (status == STATUS_OK)
        return 0;
    file_release(&sink->file);
    return sink_failed(status, &err);
}

static int add(struct sink *sink, struct slice bytes)
{
    struct err err = {0};
    enum status status = file_add(&sink->file, bytes, &err);
    return status == STATUS_OK ? 0 : sink_failed(status, &err);
}

int sink_json(struct sink *sink, struct slice json)
{
    if (!sink->standard)
        return add(sink, json);
    out_raw(&sink->cli->out, json);
    return 0;
}

int sink_plain(struct sink *sink, struct slice text)
{
    if (!sink->standard)
        return add(sink, text);
    out_format(&sink->cli->out, "%.*s", SLICE_ARG(text));
    return 0;
}

int sink_close(struct sink *sink, int code)
{
    struct err err = {0};
    if (sink->standard)
        return code;
    if (code == 0) {
        enum status status = file_commit(&sink->file, &err);
        if (status != STATUS_OK)
            code = sink_failed(status, &err);
    }
    file_release(&sink->file);
    return code;
}
