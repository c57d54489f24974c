/* sink: where an export goes: a file that appears whole, or standard output. */
#ifndef LAZARET_CLI_SINK_H
#define LAZARET_CLI_SINK_H

#include "cli/cli.h"
#include "cli/file.h"

struct sink {
    struct cli *cli;
    bool standard; /* "-": standard output */
    struct file_output file;
};

/* sink_open begins an export to `path`.  0, or an exit code after it has said what is wrong. */
int sink_open(struct sink *sink, struct cli *cli, const char *path);
int sink_json(struct sink *sink, struct slice json);  /* JSON, or a piece of it */
int sink_plain(struct sink *sink, struct slice text); /* text that was made safe */

/* sink_close ends the export: when `code` is 0 the file takes its place, else it is removed.  It
 * returns `code`, or the exit code of what went wrong last. */
int sink_close(struct sink *sink, int code);

/* sink_failed says a failure of a file, and returns the exit code for it. */
int sink_failed(enum status status, const struct err *err);

#endif
