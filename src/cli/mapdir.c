/* mapdir: see mapdir.h. */
#include "cli/mapdir.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/seams.h"
#include "cli/file.h"
#include "cli/say.h"
#include "cli/sink.h"
#include "cli/view.h"

#define MAPDIR_PATH_MAX 8192
#define MAPDIR_IDS_MAX ((size_t)1 << 30)
#define MAPDIR_ITEM_MAX ((size_t)64 << 20)

/* under is DIR/name in the command's arena; NULL when memory is exhausted. */
static const char *under(struct cli *cli, const char *dir, const char *name)
{
    return arena_printf(&cli->arena, "%s/%s", dir, name).ptr;
}

static bool ends_with(const char *name, const char *ending)
{
    size_t len = strlen(name), end = strlen(ending);
    return len > end && strcmp(name + len - end, ending) == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int cannot(const char *what, const char *path)
{
    return say_error(CLI_STORE, "cannot %s %s: %s", what, path, strerror(errno));
}

/* is_empty says whether a directory holds nothing. */
static bool is_empty(const char *path)
{
    DIR *stream = opendir(path);
    const struct dirent *entry;
    bool empty = stream != NULL;

    while (stream && (entry = readdir(stream)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            empty = false;
    if (stream)
        closedir(stream);
    return empty;
}

/* remove_items removes what an earlier export left: its index first, so that what is half removed
 * is never taken for whole. */
static int remove_export(struct cli *cli, const char *path)
{
    const char *index = under(cli, path, "index.json"), *items = under(cli, path, "items");
    const struct dirent *entry;
    int code = 0;

    if (!index || !items)
        return say_no_memory();
    if (unlink(index) != 0)
        return cannot("replace", index);
    DIR *stream = opendir(items);
    while (stream && code == 0 && (entry = readdir(stream)) != NULL) {
        if (ends_with(entry->d_name, ".json") && unlinkat(dirfd(stream), entry->d_name, 0) != 0)
            code = cannot("replace", items);
    }
    if (stream)
        closedir(stream);
    return code;
}

int mapdir_create(struct mapdir *dir, struct cli *cli, const char *path)
{
    const char *index = under(cli, path, "index.json"), *items = under(cli, path, "items");
    struct stat info;
    int code = 0;

    *dir = (struct mapdir){.cli = cli, .path = path};
    buf_init(&dir->ids, MAPDIR_IDS_MAX);
    jsonw_init(&dir->id_writer, &dir->ids);
    jsonw_array(&dir->id_writer);
    if (!index || !items)
        return say_no_memory();
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return cannot("make", path);
    if (!is_empty(path)) {
        bool export = lstat(index, &info) == 0 && S_ISREG(info.st_mode);
        if (!args_has(&cli->args, "force"))
            return say_error(CLI_REFUSED, "%s is not empty: --force replaces an export in it",
                             path);
        if (!export)
            return say_error(CLI_REFUSED,
                             "%s is not empty and holds no export: give another "
                             "directory",
                             path);
        code = remove_export(cli, path);
    }
    if (code == 0 && mkdir(items, 0700) != 0 && errno != EEXIST)
        code = cannot("make", items);
    return code;
}

/* write_file writes one file whole.  STATUS_CONFLICT, without a word, when it exists. */
static enum status write_file(const char *path, struct slice bytes, struct err *err)
{
    struct file_output file;
    enum status status = file_create(&file, path, false, err);
    if (status == STATUS_OK)
        status = file_add(&file, bytes, err);
    if (status == STATUS_OK)
        status = file_add(&file, SLICE("\n"), err);
    if (status == STATUS_OK)
        status = file_commit(&file, err);
    file_release(&file);
    return status;
}

/* item_path appends DIR/items/{name}.json; `twin` tells letters with equal item ids apart. */
static void item_path(const struct mapdir *dir, struct slice name, struct slice twin,
                      struct buf *out)
{
    buf_clear(out);
    buf_addf(out, "%s/items/", dir->path);
    file_name(name, out);
    if (twin.len > 0) {
        buf_add_char(out, '-');
        file_name(twin, out);
    }
    buf_add_str(out, ".json");
}

int mapdir_add(struct mapdir *dir, struct json letter)
{
    struct arena arena = {0};
    struct slice id = view_text(letter, "item_id", &arena);
    struct slice dlq_id = view_text(letter, "dlq_id", &arena);
    struct err err = {0};
    struct buf path;

    if (id.len == 0)
        id = view_text(letter, "job_id", &arena);
    buf_init(&path, MAPDIR_PATH_MAX);
    item_path(dir, id, (struct slice){0}, &path);
    enum status status = buf_status(&path, &err);
    if (status == STATUS_OK)
        status = write_file(buf_str(&path), letter.raw, &err);
    if (status == STATUS_CONFLICT) {
        item_path(dir, id, dlq_id, &path);
        status = write_file(buf_str(&path), letter.raw, &err);
    }
    jsonw_string(&dir->id_writer, id);
    dir->count++;
    buf_release(&path);
    arena_release(&arena);
    return status == STATUS_OK ? 0 : sink_failed(status, &err);
}

int mapdir_commit(struct mapdir *dir, const char *job_id)
{
    const char *path = under(dir->cli, dir->path, "index.json");
    const struct seams *world = seams_real();
    struct err err = {0};
    struct buf text;
    struct jsonw w;

    jsonw_array_end(&dir->id_writer);
    buf_init(&text, MAPDIR_IDS_MAX);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    jsonw_key(&w, "job_id");
    if (job_id)
        jsonw_string(&w, slice_of(job_id));
    else
        jsonw_null(&w);
    jsonw_put_int(&w, "item_count", dir->count);
    jsonw_put_raw(&w, "item_ids", buf_slice(&dir->ids));
    jsonw_put_instant(&w, "updated_at", world->wall(world->ctx));
    jsonw_object_end(&w);
    enum status status = path ? buf_status(&dir->ids, &err) : err_no_memory(&err);
    if (status == STATUS_OK)
        status = buf_status(&text, &err);
    if (status == STATUS_OK)
        status = write_file(path, buf_slice(&text), &err);
    buf_release(&text);
    return status == STATUS_OK ? 0 : sink_failed(status, &err);
}

void mapdir_release(struct mapdir *dir)
{
    buf_release(&dir->ids);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* read_object reads a file that must hold one JSON object. */
static int read_object(const char *path, struct buf *text, struct json *out)
{
    struct err err = {0};

    buf_clear(text);
    if (file_read(path, text, &err) != STATUS_OK)
        return say_error(CLI_USAGE, "%s", err.text);
    if (json_parse(buf_slice(text), out, &err) != STATUS_OK)
        return say_error(CLI_USAGE, "%s: %s", path, err.text);
    if (out->type != JSON_OBJECT)
        return say_error(CLI_USAGE, "%s: must hold a JSON object", path);
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_item(const struct dirent *entry)
{
    return ends_with(entry->d_name, ".json");
}

static int read_items(struct cli *cli, const char *items, struct dirent **names, int count,
                      int (*visit)(void *ctx, struct json item), void *ctx)
{
    struct buf text;
    struct json item = {0};
    int code = 0;

    buf_init(&text, MAPDIR_ITEM_MAX);
    for (int i = 0; i < count && code == 0; i++) {
        const char *path = under(cli, items, names[i]->d_name);
        code = path ? read_object(path, &text, &item) : say_no_memory();
        if (code == 0)
            code = visit(ctx, item);
    }
    buf_release(&text);
    return code;
}

int mapdir_read(struct cli *cli, const char *path, struct slice *job_id,
                int (*visit)(void *ctx, struct json item), void *ctx)
{
    const char *index = under(cli, path, "index.json"), *items = under(cli, path, "items");
    struct dirent **names = NULL;
    struct buf text;
    struct json object = {0};
    int count = 0;

    if (!index || !items)
        return say_no_memory();
    buf_init(&text, MAPDIR_IDS_MAX);
    int code = read_object(index, &text, &object);
    if (code == 0) {
        *job_id = arena_dup(&cli->arena, view_text(object, "job_id", &cli->arena));
        count = scandir(items, &names, is_item, by_name);
        if (count < 0)
            code = say_error(CLI_USAGE, "cannot read %s: %s", items, strerror(errno));
        else if (view_int(object, "item_count") > count)
            code = say_error(CLI_USAGE, "%s names %lld items, but %s has %d", index,
                             (long long)view_int(object, "item_count"), items, count);
    }
    buf_release(&text);
    if (code == 0)
        code = read_items(cli, items, names, count, visit, ctx);
    /* scandir allocates by itself, so what it made is freed as it was allocated. */
    for (int i = 0; i < count; i++)
        (free)(names[i]);
    (free)(names);
    return code;
}
