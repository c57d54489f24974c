/* scratch: mkdtemp, and the way back. */
#include "run/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum status scratch_make(char path[SCRATCH_SIZE], struct err *err)
{
    const char *above = getenv("TMPDIR");
    if (!above || !*above || strlen(above) > SCRATCH_SIZE - 20)
        above = "/tmp";
    snprintf(path, SCRATCH_SIZE, "%s/lazaret-XXXXXX", above);
    if (mkdtemp(path))
        return STATUS_OK;
    int error = errno;
    path[0] = '\0';
    return err_set(err, STATUS_IO, "a temporary directory cannot be made in %s: %s", above,
                   strerror(error));
}

void scratch_remove(const char *path)
{
    DIR *directory = *path ? opendir(path) : NULL;
    const struct dirent *entry;
    if (!directory)
        return;
    while ((entry = readdir(directory)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(path);
}
