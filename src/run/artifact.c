/* artifact: a file that is made with its first byte.
 *
 * Invariants: `fd` is open from the first byte until artifact_close; size <= max; after an error
 * nothing is written, and what was written stays. */
#include "run/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

#define HASHED_BYTES 16                                        /* of the hash in a long name */
#define HASHED_KEPT (ARTIFACT_NAME_MAX - 1 - 2 * HASHED_BYTES) /* of its beginning */

static bool stays(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

/* escape writes one byte of a name and returns how many it became. */
static size_t escape(char c, bool front, char *out)
{
    static const char digits[] = "0123456789ABCDEF";

    if (stays(c) && !(front && c == '.')) {
        out[0] = c;
        return 1;
    }
    out[0] = '%';
    out[1] = digits[(unsigned char)c >> 4];
    out[2] = digits[(unsigned char)c & 15];
    return 3;
}

void artifact_name(struct slice text, struct buf *out)
{
    char name[ARTIFACT_NAME_MAX + 3];
    size_t len = 0, kept = 0;

    for (size_t i = 0; i < text.len && len <= ARTIFACT_NAME_MAX; i++) {
        len += escape(text.ptr[i], i == 0, name + len);
        if (len <= HASHED_KEPT)
            kept = len;
    }
    if (text.len == 0) {
        buf_add_char(out, '%');
    } else if (len <= ARTIFACT_NAME_MAX) {
        buf_add(out, name, len);
    } else {
        /* No name that is not cut has a "~", so that the two kinds cannot be the same. */
        struct hash hash = hash_sha256(&text, 1);
        buf_add(out, name, kept);
        buf_add_char(out, '~');
        buf_add_hex(out, hash.bytes, HASHED_BYTES);
    }
}

enum status artifact_init(struct artifact *artifact, const char *directory, struct slice run,
                          struct slice item, uint32_t attempt, uint64_t max, struct err *err)
{
    struct buf path;
    struct hash hash = hash_sha256(&item, 1);

    buf_init(&path, PATH_MAX - 1);
    buf_addf(&path, "%s/", directory);
    artifact_name(run, &path);
    buf_addf(&path, "/%02x/", hash.bytes[0]);
    artifact_name(item, &path);
    buf_addf(&path, "-%" PRIu32 ".log", attempt);
    enum status status = buf_status(&path, err);
    if (status != STATUS_OK) {
        buf_release(&path);
        err_prefix(err, "the name of a file in %s", directory);
        return status;
    }
    *artifact = (struct artifact){.path = path.ptr, .fd = -1, .max = max};
    return STATUS_OK;
}

/* make_directories makes those above a file that are not there. */
static void make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700); /* One that cannot be made is told by the open. */
        *slash = '/';
    }
}

/* open_file makes the file, or empties one that a run that was cut off has left. */
static bool open_file(struct artifact *artifact)
{
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;

    artifact->fd = open(artifact->path, flags, 0600);
    if (artifact->fd < 0 && errno == ENOENT) {
        make_directories(artifact->path);
        artifact->fd = open(artifact->path, flags, 0600);
    }
    if (artifact->fd < 0)
        artifact->error = errno;
    return artifact->fd >= 0;
}

/* write_all returns how many bytes were written: less than all of them after an error. */
static size_t write_all(struct artifact *artifact, struct slice bytes)
{
    size_t done = 0;

    while (done < bytes.len) {
        ssize_t n = write(artifact->fd, bytes.ptr + done, bytes.len - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            artifact->error = errno;
            break;
        }
    }
    return done;
}

void artifact_add(struct artifact *artifact, struct slice bytes)
{
    if (!artifact->path || artifact->error || bytes.len == 0)
        return;
    uint64_t room = artifact->max - artifact->size;
    if (bytes.len > room) {
        artifact->cut += bytes.len - room;
        bytes.len = (size_t)room;
    }
    if (bytes.len == 0 || (artifact->fd < 0 && !open_file(artifact)))
        return;
    artifact->size += write_all(artifact, bytes);
}

/* note_cut writes the last line of a file that has not everything. */
static void note_cut(struct artifact *artifact)
{
    char line[120];
    int len = snprintf(line, sizeof line,
                       "\n[%" PRIu64 " bytes more are not here: the limit is %" PRIu64 " bytes]\n",
                       artifact->cut, artifact->max);
    write_all(artifact, (struct slice){line, (size_t)len});
}

void artifact_close(struct artifact *artifact)
{
    if (artifact->fd < 0)
        return;
    if (artifact->cut > 0 && !artifact->error)
        note_cut(artifact);
    if (close(artifact->fd) != 0 && !artifact->error && errno != EINTR)
        artifact->error = errno;
    artifact->fd = -1;
}

void artifact_release(struct artifact *artifact)
{
    artifact_close(artifact);
    mem_free(artifact->path);
    *artifact = (struct artifact){.fd = -1};
}
