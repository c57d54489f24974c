/* receipts.json when something goes wrong, files of somebody's own, and the keeper. */
#include "bridge/lockedfile.h"
#include "bridge/receipt_scene.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>

#include "base/log.h"

/* ---- trouble --------------------------------------------------------------------------------- */

static void a_link_that_answers_nothing_changes_nothing(void **state)
{
    struct scene *scene = *state;
    put(scene, "[{\"receipt\":" RECEIPT("one") "}]");
    scene->unreachable = true;
    assert_refused(scene, STATUS_UNAVAILABLE, "nobody answers");
}

static void a_directory_that_cannot_be_written_is_said(void **state)
{
    struct scene *scene = *state;
    char directory[128];
    put(scene, "[]\n");
    dies(scene, RECEIPT("one"));
    snprintf(directory, sizeof(directory), "%s/dlq", scene->desk->directory);
    assert_int_equal(chmod(scene->desk->directory, 0755), 0);
    assert_int_equal(chmod(scene->path, 0644), 0);
    assert_int_equal(chmod(directory, 0555), 0);
    /* What root may, this thread gives up for a moment; the engine has its own. */
    setfsuid(geteuid() == 0 ? 65534 : geteuid());
    assert_refused(scene, STATUS_IO, "Permission denied");
    setfsuid(geteuid());
    assert_int_equal(chmod(directory, 0700), 0);
    assert_int_equal(sync_ok(scene).entries, 1);
}

/* fill makes writing fail, as on a full disk; false: it cannot. */
static bool fill(const char *directory, bool *mounted)
{
    struct rlimit limit = {8192, RLIM_INFINITY};
    *mounted = mount("tmpfs", directory, "tmpfs", 0, "size=16k,mode=0700") == 0;
    return *mounted || setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

static void a_full_disk_leaves_the_file_as_it_was(void **state)
{
    struct scene *scene = *state;
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    char directory[128], large[20000];
    bool mounted;
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    dies(scene,
         arena_printf(&scene->arena, "{\"summary\":\"%s\",%s", large, RECEIPT("one") + 1).ptr);
    /* Known already, so that the engine has nothing to write. */
    const char *text = "[{\"receipt\":" RECEIPT("old") ",\"failed_at\":\"2024-01-15T10:30:45Z\"}]";
    api_ok(scene->desk, "POST", "/api/v1/dlq/import", text);
    signal(SIGXFSZ, SIG_IGN);
    snprintf(directory, sizeof(directory), "%s/dlq", scene->desk->directory);
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_true(fill(directory, &mounted));
    put(scene, text);
    struct err err = {0};
    const char *before = text_of(scene);
    enum status status = receiptfile_sync(&scene->link, scene->path, NULL, NULL, &err);
    bool kept = strcmp(before, text_of(scene)) == 0 && !is_there(beside(scene, ".tmp"));
    setrlimit(RLIMIT_FSIZE, &all);
    if (mounted)
        assert_int_equal(umount(directory), 0);
    assert_true(kept);
    assert_int_equal(status, STATUS_FULL);
    assert_non_null(strstr(err.text, "cannot write"));
}

static void what_a_kill_left_behind_does_no_harm(void **state)
{
    struct scene *scene = *state;
    put(scene, "[{\"receipt\":" RECEIPT("one") ",\"failed_at\":\"2024-01-15T10:30:45Z\"}]");
    write_at(beside(scene, ".tmp"), "[{\"receipt\":{\"lease_i");
    write_at(beside(scene, ".lock"), "");
    assert_int_equal(sync_ok(scene).entries, 1);
    assert_false(is_there(beside(scene, ".tmp")));
    assert_non_null(strstr(text_of(scene), RECEIPT("one")));
}

static void edit(struct scene *scene)
{
    put(scene, "[{\"receipt\":" RECEIPT("early") "},{\"receipt\":" RECEIPT("late") "}]");
}

static void what_somebody_writes_during_a_sync_is_not_lost(void **state)
{
    struct scene *scene = *state;
    dies(scene, RECEIPT("own"));
    put(scene, "[{\"receipt\":" RECEIPT("early") "}]");
    scene->before = edit;
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.entries, 3);
    assert_int_equal(letters(scene, "open"), 3);
    assert_non_null(strstr(text_of(scene), RECEIPT("late")));
}

static void *sync_often(void *ctx)
{
    struct scene *scene = ctx;
    struct err err;
    for (int i = 0; i < 20; i++)
        if (receiptfile_sync(&scene->link, scene->path, NULL, NULL, &err) != STATUS_OK)
            return mem_strdup(err.text);
    return NULL;
}

static void syncs_at_the_same_time_lose_and_double_nothing(void **state)
{
    struct scene *scene = *state;
    pthread_t threads[3];
    put(scene, "[{\"receipt\":" RECEIPT("a") "},{\"receipt\":" RECEIPT(
                   "b") ",\"failed_at\":\"2024-01-15T10:30:45Z\"}]");
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sync_often, scene), 0);
    for (int i = 0; i < 10; i++)
        dies(scene, RECEIPT("own"));
    for (size_t i = 0; i < 3; i++) {
        void *trouble;
        pthread_join(threads[i], &trouble);
        if (trouble)
            fail_msg("%s", (char *)trouble);
    }
    assert_int_equal(sync_ok(scene).entries, 12);
    assert_int_equal(letters(scene, "open"), 12);
    assert_int_equal(entries_of(scene), 12);
}

static void a_sync_waits_for_whoever_has_the_lock(void **state)
{
    struct scene *scene = *state;
    pthread_t thread;
    void *trouble;
    put(scene, "[{\"receipt\":" RECEIPT("one") "}]");
    int fd = open(beside(scene, ".lock"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(pthread_create(&thread, NULL, sync_often, scene), 0);
    put(scene, "[{\"receipt\":" RECEIPT("two") "}]");
    assert_int_equal(letters(scene, "open"), 0);
    close(fd);
    pthread_join(thread, &trouble);
    assert_null(trouble);
    assert_int_equal(entries_of(scene), 1);
    assert_non_null(strstr(text_of(scene), RECEIPT("two")));
}

static void a_file_behind_a_symbolic_link_is_replaced_there(void **state)
{
    struct scene *scene = *state;
    struct stat info;
    const char *real = beside(scene, ".real");
    put(scene, "[]");
    assert_int_equal(rename(scene->path, real), 0);
    assert_int_equal(symlink(real, scene->path), 0);
    dies(scene, RECEIPT("one"));
    assert_int_equal(sync_ok(scene).entries, 1);
    assert_int_equal(lstat(scene->path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(entries_of(scene), 1);
}

/* struct walk: receipts that come and go at random. */
struct walk {
    struct scene *scene;
    uint32_t random;
    size_t count, open_count;
    const char *ids[64]; /* of letters; NULL: it is only in the file yet */
    bool open[64];
};

static uint32_t any(struct walk *walk, uint32_t max)
{
    walk->random = walk->random * 1664525u + 1013904223u;
    return (walk->random >> 16) % max;
}

/* add_by_hand puts one more entry into the file. */
static void add_by_hand(struct walk *walk)
{
    struct scene *scene = walk->scene;
    struct buf text;
    buf_init(&text, 1 << 20);
    if (is_there(scene->path))
        buf_add_str(&text, text_of(scene));
    else
        buf_add_str(&text, "[]\n");
    size_t end = text.len - 2; /* the bracket and the line end */
    struct slice rest = {text.ptr, end};
    const char *entry =
        arena_printf(&scene->arena,
                     "%s{\"receipt\":{\"lease_id\":\"L%zu.\",\"task_id\":\"t\",\"worker_id\":"
                     "\"w\",\"status\":\"complete\"}%s}]\n",
                     end > 1 ? "," : "", walk->count,
                     any(walk, 2) ? ",\"failed_at\":\"2024-01-15T10:30:45Z\"" : "")
            .ptr;
    put(scene, arena_printf(&scene->arena, "%.*s%s", SLICE_ARG(rest), entry).ptr);
    buf_release(&text);
    walk->open[walk->count++] = true;
    walk->open_count++;
}

static void new_letter(struct walk *walk)
{
    walk->ids[walk->count] = dies(
        walk->scene, arena_printf(&walk->scene->arena,
                                  "{\"lease_id\":\"L%zu.\",\"task_id\":\"t\",\"worker_id\":\"w\","
                                  "\"status\":\"complete\"}",
                                  walk->count)
                         .ptr);
    walk->open[walk->count++] = true;
    walk->open_count++;
}

static void step(struct walk *walk)
{
    size_t which = walk->count ? any(walk, (uint32_t)walk->count) : 0;
    bool can = walk->count && walk->ids[which] && walk->open[which];
    switch (any(walk, 4)) {
    case 0:
        new_letter(walk);
        break;
    case 1:
        add_by_hand(walk);
        break;
    case 2:
        if (can)
            dies_again(walk->scene, walk->ids[which]);
        break;
    default:
        if (can) {
            act(walk->scene, walk->ids[which], "discard", "");
            walk->open[which] = false;
            walk->open_count--;
        }
    }
}

/* assert_in_step syncs: the file and the open letters are what the walk knows of. */
static void assert_in_step(struct walk *walk)
{
    struct scene *scene = walk->scene;
    char lease[32];
    assert_int_equal(sync_ok(scene).entries, walk->open_count);
    if (!is_there(scene->path))
        return;
    assert_int_equal(entries_of(scene), walk->open_count);
    const char *text = text_of(scene);
    for (size_t i = 0; i < walk->count; i++) {
        snprintf(lease, sizeof(lease), "\"L%zu.\"", i);
        assert_int_equal(strstr(text, lease) != NULL, walk->open[i]);
    }
    assert_int_equal(letters(scene, "open"), walk->open_count);
    for (size_t i = 0; i < walk->open_count; i++) {
        char path[64];
        snprintf(path, sizeof(path), "%zu.envelope.inputs.body.lease_id", i);
        size_t which = strtoul(api_text(scene->desk, path) + 1, NULL, 10);
        snprintf(path, sizeof(path), "%zu.dlq_id", i);
        walk->ids[which] = api_text(scene->desk, path);
    }
}

static void whatever_happens_nothing_is_lost_or_doubled(void **state)
{
    struct walk walk = {.scene = *state, .random = 20240115};
    while (walk.count < 40) {
        step(&walk);
        if (any(&walk, 4) == 0)
            assert_in_step(&walk);
    }
    assert_in_step(&walk);
}

/* ---- a file of its own ----------------------------------------------------------------------- */

static void a_file_of_its_own_lists_its_entries_alone(void **state)
{
    struct scene *scene = *state;
    struct receipt_entry *list;
    struct err err = {0};
    size_t count;
    dies(scene, RECEIPT("own"));
    const char *text = "[{\"receipt\":" RECEIPT("two") "},\n{\"receipt\":" RECEIPT(
        "one") ",\"failed_at\":\"2024-01-15T10:30:45Z\"}, {\"receipt\":" RECEIPT("two") "}]";
    put(scene, text);
    assert_int_equal(receiptfile_open(&scene->link, scene->path, false, &scene->arena, &list,
                                      &count, NULL, &err),
                     STATUS_OK);
    assert_int_equal(count, 2);
    assert_true(slice_is(list[0].label, "two:complete"));
    assert_true(slice_is(list[1].label, "one:complete"));
    assert_false(list[0].recovering);
    assert_string_equal(text_of(scene), text);
    assert_int_equal(letters(scene, "open"), 3);
    api_ok(scene->desk, "GET", api_path(scene->desk, "/api/v1/dlq/%s", list[1].dlq_id.ptr), "");
    assert_answer(scene->desk, "job_id", list[1].job_id.ptr);
}

static void what_came_to_an_end_is_taken_out_of_a_file_of_its_own(void **state)
{
    struct scene *scene = *state;
    struct receipt_entry *list;
    struct err err = {0};
    size_t count, left;
    put(scene, "[{\"receipt\":" RECEIPT("one") "},\n{\"receipt\" : " RECEIPT("two") "} ]");
    receiptfile_open(&scene->link, scene->path, false, &scene->arena, &list, &count, NULL, &err);
    assert_int_equal(receiptfile_settle(&scene->link, scene->path, &left, &err), STATUS_OK);
    assert_int_equal(left, 2);
    assert_string_equal(text_of(scene),
                        "[{\"receipt\":" RECEIPT("one") "},\n{\"receipt\" : " RECEIPT("two") "} ]");
    act(scene, list[0].dlq_id.ptr, "discard", "");
    dies_again(scene, list[1].dlq_id.ptr);
    assert_int_equal(receiptfile_settle(&scene->link, scene->path, &left, &err), STATUS_OK);
    assert_int_equal(left, 1);
    assert_string_equal(text_of(scene), "[\n  {\"receipt\" : " RECEIPT("two") "}\n]\n");
    act(scene, list[1].dlq_id.ptr, "discard", "");
    assert_int_equal(receiptfile_settle(&scene->link, scene->path, &left, &err), STATUS_OK);
    assert_int_equal(left, 0);
    assert_string_equal(text_of(scene), "[]\n");
    assert_int_equal(letters(scene, "open"), 0);
}

static void a_file_of_its_own_has_to_be_there_and_a_mirror_has_not(void **state)
{
    struct scene *scene = *state;
    struct receipt_entry *list;
    struct err err = {0};
    size_t count, left;
    assert_int_equal(receiptfile_open(&scene->link, scene->path, false, &scene->arena, &list,
                                      &count, NULL, &err),
                     STATUS_NOT_FOUND);
    assert_int_equal(receiptfile_settle(&scene->link, scene->path, &left, &err), STATUS_NOT_FOUND);
    assert_int_equal(
        receiptfile_open(&scene->link, scene->path, true, &scene->arena, &list, &count, NULL, &err),
        STATUS_OK);
    assert_int_equal(count, 0);
    const char *one = dies(scene, RECEIPT("one"));
    dies(scene, RECEIPT("two"));
    act(scene, one, "retry", "{\"hold\":true}");
    assert_int_equal(
        receiptfile_open(&scene->link, scene->path, true, &scene->arena, &list, &count, NULL, &err),
        STATUS_OK);
    assert_int_equal(count, 2);
    assert_true(slice_is(list[0].dlq_id, one));
    assert_true(list[0].recovering);
    assert_int_equal(entries_of(scene), 2);
}

static void what_is_no_receipt_stays_in_a_file_of_its_own(void **state)
{
    struct scene *scene = *state;
    struct receiptfile_counts counts;
    struct receipt_entry *list;
    struct err err = {0};
    size_t count, left;
    const char *text = "[7, {\"receipt\":" RECEIPT(
        "one") "},{\"receipt\" : {}},{\"receipt\":" RECEIPT("two") ",\"note\":1}]";
    put(scene, text);
    assert_int_equal(receiptfile_open(&scene->link, scene->path, false, &scene->arena, &list,
                                      &count, &counts, &err),
                     STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(counts.bad, 2);
    assert_int_equal(counts.entries, 4);
    assert_int_equal(counts.taken, 2);
    assert_non_null(strstr(counts.bad_err.text, "entry 1 of "));
    assert_string_equal(text_of(scene), text);
    act(scene, list[0].dlq_id.ptr, "discard", "");
    assert_int_equal(receiptfile_settle(&scene->link, scene->path, &left, &err), STATUS_OK);
    assert_int_equal(left, 3);
    assert_string_equal(text_of(scene), "[\n  7,\n  {\"receipt\" : {}},\n  {\"receipt\":" RECEIPT(
                                            "two") ",\"note\":1}\n]\n");
    assert_int_equal(receiptfile_open(&scene->link, scene->path, true, &scene->arena, &list, &count,
                                      &counts, &err),
                     STATUS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(counts.bad, 2);
}

/* ---- the keeper ------------------------------------------------------------------------------ */

static atomic_int errors_logged, amends_logged;

static void count_lines(enum log_level level, const char *line, void *ctx)
{
    (void)ctx;
    errors_logged += level == LOG_ERROR;
    amends_logged += strstr(line, "in step") || strstr(line, "are receipts again");
}

/* wait_until waits until a count is reached. */
static void wait_until(atomic_int *count, int wanted)
{
    for (int i = 0; i < 3000 && *count < wanted; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_int_equal(*count, wanted);
}

/* wait_for waits until the file has a text, or until there are so many open letters. */
static void wait_for(struct scene *scene, const char *text, size_t open)
{
    for (int i = 0; i < 3000; i++) {
        if (text ? is_there(scene->path) && strstr(text_of(scene), text) != NULL
                 : letters(scene, "open") == open)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("\"%s\" did not come", text ? text : "a letter");
}

/* put_in_turn writes the file while its keeper does not: an editor who does not wait for the lock
 * may lose what it wrote, in the moment before the keeper's file takes its place. */
static void put_in_turn(struct scene *scene, const char *text)
{
    struct lockedfile file = {0};
    struct err err;
    assert_int_equal(lockedfile_open(&file, scene->path, false, &err), STATUS_OK);
    put(scene, text);
    lockedfile_close(&file);
}

static void a_keeper_keeps_the_file_and_the_letters_in_step(void **state)
{
    struct scene *scene = *state;
    struct receiptfile_keeper *keeper;
    struct err err;
    put(scene, "[{\"receipt\":" RECEIPT("early") "}]");
    assert_int_equal(receiptfile_keep(&scene->link, scene->path, &keeper, &err), STATUS_OK);
    assert_int_equal(letters(scene, "open"), 1);
    dies(scene, RECEIPT("own"));
    wait_for(scene, RECEIPT("own"), 0);
    put_in_turn(scene, "[{\"receipt\":" RECEIPT("late") "}]");
    wait_for(scene, NULL, 3);
    dies(scene, RECEIPT("last"));
    receiptfile_release(keeper);
    assert_int_equal(entries_of(scene), 4);
    receiptfile_release(NULL);
}

static void a_keeper_says_once_what_is_wrong_and_goes_on(void **state)
{
    struct scene *scene = *state;
    struct receiptfile_keeper *keeper;
    struct err err;
    errors_logged = amends_logged = 0;
    log_set(LOG_INFO, count_lines, NULL);
    put(scene, "[{");
    assert_int_equal(receiptfile_keep(&scene->link, scene->path, &keeper, &err), STATUS_OK);
    assert_int_equal(errors_logged, 1);
    put(scene, "[{\"receipt\":" RECEIPT("one") "}]");
    wait_until(&amends_logged, 1);
    assert_int_equal(letters(scene, "open"), 1);
    put(scene, "[{");
    wait_until(&errors_logged, 2);
    receiptfile_release(keeper); /* it syncs once more, in vain, and says nothing */
    log_set(LOG_INFO, NULL, NULL);
    assert_int_equal(errors_logged, 2);
    assert_string_equal(text_of(scene), "[{");
}

static void a_keeper_says_once_which_entry_is_no_receipt_and_goes_on(void **state)
{
    struct scene *scene = *state;
    struct receiptfile_keeper *keeper;
    struct err err;
    errors_logged = amends_logged = 0;
    log_set(LOG_INFO, count_lines, NULL);
    put(scene, "[{\"receipt\":" RECEIPT("one") ",\"failed_at\":\"2024-01-15T10:30:45Z\"},7]");
    assert_int_equal(receiptfile_keep(&scene->link, scene->path, &keeper, &err), STATUS_OK);
    assert_int_equal(errors_logged, 1);
    assert_int_equal(letters(scene, "open"), 1);
    /* It is another entry by number when the other leaves: that is no news. */
    act(scene, api_text(scene->desk, "0.dlq_id"), "discard", "");
    dies(scene, RECEIPT("own"));
    wait_for(scene, RECEIPT("own"), 0);
    assert_int_equal(errors_logged, 1);
    put(scene, "[{\"receipt\":" RECEIPT("two") "},{\"receipt\":7}]");
    wait_until(&errors_logged, 2);
    assert_int_equal(letters(scene, "open"), 2);
    put(scene, "[]");
    wait_until(&amends_logged, 1);
    receiptfile_release(keeper);
    log_set(LOG_INFO, NULL, NULL);
    assert_int_equal(errors_logged, 2);
    assert_int_equal(entries_of(scene), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_link_that_answers_nothing_changes_nothing),
        TEST(a_directory_that_cannot_be_written_is_said),
        TEST(a_full_disk_leaves_the_file_as_it_was),
        TEST(what_a_kill_left_behind_does_no_harm),
        TEST(what_somebody_writes_during_a_sync_is_not_lost),
        TEST(syncs_at_the_same_time_lose_and_double_nothing),
        TEST(a_sync_waits_for_whoever_has_the_lock),
        TEST(a_file_behind_a_symbolic_link_is_replaced_there),
        TEST(whatever_happens_nothing_is_lost_or_doubled),
        TEST(a_file_of_its_own_lists_its_entries_alone),
        TEST(what_came_to_an_end_is_taken_out_of_a_file_of_its_own),
        TEST(a_file_of_its_own_has_to_be_there_and_a_mirror_has_not),
        TEST(what_is_no_receipt_stays_in_a_file_of_its_own),
        TEST(a_keeper_keeps_the_file_and_the_letters_in_step),
        TEST(a_keeper_says_once_what_is_wrong_and_goes_on),
        TEST(a_keeper_says_once_which_entry_is_no_receipt_and_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
