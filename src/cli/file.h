/* file: reading input and writing output files. */
#ifndef LAZARET_CLI_FILE_H
#define LAZARET_CLI_FILE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/status.h"

#define FILE_INPUT_MAX ((size_t)1 << 30) /* bytes of an input file that is read whole */

/* file_read appends a file's bytes; "-" is standard input.  Errors name the file. */
enum status file_read(const char *path, struct buf *out, struct err *err);

/* struct file_output: a file that appears whole or not at all: it is written beside its place,
 * synced, and renamed into it. */
struct file_output {
    int fd; /* -1: not open */
    struct buf place, beside, pending;
};

/* file_create begins a file.  STATUS_CONFLICT when `path` exists and `replace` is false. */
enum status file_create(struct file_output *file, const char *path, bool replace, struct err *err);
enum status file_add(struct file_output *file, struct slice bytes, struct err *err);
/* file_commit puts the file in its place. */
enum status file_commit(struct file_output *file, struct err *err);
/* file_release frees, and removes what was not committed.  Fine after any of the above. */
void file_release(struct file_output *file);

/* file_name appends `id` as a file's name: everything but letters, digits, ".", "_" and "-" is
 * percent-encoded, so is a leading dot, and a name that would be too long ends with a hash. */
void file_name(struct slice id, struct buf *out);

#endif
