/* test_sqlite_file: the embedded store and the file that it is in: files of others, of earlier and
 * later versions, damaged ones, and a disk that is full, broken or read-only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/seams.h"
#include "core/letter.h"
#include "store/faulty.h"
#include "store/store.h"
#include "store/version1.h"

#define NOBODY 65534
#define NOON INT64_C(1790000000000000)

/* -- the place --------------------------------------------------------------------------------- */

static char directory[64], path[128], wal[160], journal[160];
static struct seams seams;
static struct store *store;
static struct arena arena;
static struct err err;

static int setup(void **state)
{
    (void)state;
    memcpy(directory, "/tmp/lazaret-file-XXXXXX", sizeof("/tmp/lazaret-file-XXXXXX"));
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof(path), "%s/store.db", directory);
    snprintf(wal, sizeof(wal), "%s-wal", path);
    snprintf(journal, sizeof(journal), "%s-journal", path);
    seams = *seams_real();
    seams.vfs = FAULTY_VFS;
    faulty = (struct faulty){0};
    err = (struct err){0};
    return 0;
}

static void close_store(void)
{
    if (store)
        store->close(store);
    store = NULL;
}

static int teardown(void **state)
{
    (void)state;
    faulty = (struct faulty){0};
    close_store();
    arena_release(&arena);
    unlink(path);
    unlink(wal);
    unlink(journal);
    return rmdir(directory);
}

static enum status open_store(void)
{
    return store_sqlite_open(&(struct store_config){path, &seams}, &store, &err);
}

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != STATUS_OK) {                                                                 \
            print_error("%s: %s\n", #call, err.text);                                              \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

/* -- files ------------------------------------------------------------------------------------- */

static struct slice read_file(const char *name)
{
    struct stat facts;
    int fd = open(name, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &facts) == 0);
    char *bytes = arena_alloc(&arena, (size_t)facts.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, (size_t)facts.st_size), facts.st_size);
    close(fd);
    return (struct slice){bytes, (size_t)facts.st_size};
}

static void write_file(const char *name, struct slice bytes)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.ptr, bytes.len), bytes.len);
    close(fd);
}

static void patch_file(const char *name, off_t offset, struct slice bytes)
{
    int fd = open(name, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes.ptr, bytes.len, offset), bytes.len);
    close(fd);
}

static size_t files_in_directory(void)
{
    DIR *files = opendir(directory);
    struct dirent *entry;
    size_t count = 0;
    assert_non_null(files);
    while ((entry = readdir(files)))
        count += entry->d_name[0] != '.';
    closedir(files);
    return count;
}

/* sqlite runs statements on the file with plain SQLite. */
static void sqlite(const char *text)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        print_error("%s\n", why);
    assert_null(why);
    sqlite3_close(db);
}

static int64_t sqlite_number(const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return number;
}

/* -- using the store --------------------------------------------------------------------------- */

static enum status try_push(const char *id)
{
    struct job job = {.id_hash = hash64(slice_of(id)), .pushed_at = {NOON}, .due_at = {NOON}};
    enum status status = store->begin(store, &err);
    if (status == STATUS_OK)
        status = store->queue_number(store, SLICE("q"), &job.queue, &err);
    if (status == STATUS_OK)
        status = store->job_insert(store, &job, slice_of(id), SLICE("{\"action\":\"x\"}"), &err);
    return status == STATUS_OK ? store->commit(store, &err) : status;
}

static bool has(const char *id)
{
    struct job_row row;
    enum status status = store->job_find(store, slice_of(id), &arena, &row, &err);
    assert_true(status == STATUS_OK || status == STATUS_NOT_FOUND);
    return status == STATUS_OK;
}

/* make_store makes a file with one job in it, and closes it. */
static void make_store(void)
{
    assert_ok(open_store());
    assert_ok(try_push("kept"));
    close_store();
}

/* assert_refused opens the store and expects a refusal that leaves the file as it is. */
static void assert_refused(enum status expected, const char *words)
{
    struct slice before = read_file(path);
    size_t files = files_in_directory();
    enum status status = open_store();
    if (status != expected || !strstr(err.text, words) || !strstr(err.text, path))
        print_error("%s: %s\n", status_name(status), err.text);
    assert_int_equal(status, expected);
    assert_null(store);
    assert_non_null(strstr(err.text, words));
    assert_non_null(strstr(err.text, path));
    assert_true(slice_eq(before, read_file(path)));
    if (expected == STATUS_FOREIGN)
        assert_int_equal(files_in_directory(), files);
}

/* -- whose file -------------------------------------------------------------------------------- */

static void a_store_is_made_where_there_is_none_and_tidied_when_it_closes(void **state)
{
    (void)state;
    make_store();
    assert_int_equal(files_in_directory(), 1);
    assert_int_equal(sqlite_number("PRAGMA application_id"), 0x4c5a5254);
    assert_int_equal(sqlite_number("PRAGMA page_size"), 8192);
    assert_ok(open_store());
    assert_true(has("kept"));
}

static void an_empty_file_becomes_a_store(void **state)
{
    (void)state;
    write_file(path, SLICE(""));
    make_store();
    assert_int_equal(sqlite_number("SELECT count(*) FROM job"), 1);
}

static void a_file_of_somebody_else_is_refused_and_left_as_it_is(void **state)
{
    (void)state;
    static const char zeros[8192];
    static const struct slice contents[] = {
        SLICE("hi"),
        SLICE("a text, and not a short one: it goes on beyond the hundred bytes that a database "
              "begins with, so that all of them are there"),
        {zeros, sizeof(zeros)},
        SLICE("SQLite format 3"),
    };
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        write_file(path, contents[i]);
        assert_refused(STATUS_FOREIGN, "not a Lazaret store");
    }
}

static void a_database_of_somebody_else_is_refused_and_left_as_it_is(void **state)
{
    (void)state;
    sqlite("CREATE TABLE mine(x)");
    assert_refused(STATUS_FOREIGN, "not a Lazaret store");
    sqlite("PRAGMA application_id = 17; PRAGMA journal_mode = WAL");
    assert_refused(STATUS_FOREIGN, "not a Lazaret store");
}

static void a_log_beside_the_database_of_somebody_else_stays_there(void **state)
{
    (void)state;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA journal_mode = WAL; CREATE TABLE mine(x);"
                                  "INSERT INTO mine VALUES(1)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    struct slice file = read_file(path), log = read_file(wal);
    sqlite3_close(db);
    write_file(path, file); /* as it is after a crash */
    write_file(wal, log);
    assert_refused(STATUS_FOREIGN, "not a Lazaret store");
    assert_true(slice_eq(log, read_file(wal)));
}

static void a_store_of_a_later_version_is_refused_and_left_as_it_is(void **state)
{
    (void)state;
    make_store();
    sqlite("PRAGMA user_version = 99");
    assert_refused(STATUS_FOREIGN, "later version");
}

static void a_later_version_that_only_the_log_knows_is_refused_too(void **state)
{
    (void)state;
    sqlite3 *db;
    make_store();
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    struct slice file = read_file(path), log = read_file(wal);
    sqlite3_close(db);
    write_file(path, file);
    write_file(wal, log);
    assert_refused(STATUS_FOREIGN, "later version");
    assert_true(slice_eq(log, read_file(wal)));
}

/* -- a making or a checkpoint that was cut short ------------------------------------------------
 */

/* journal_of is a rollback journal of a database of `pages` pages that holds `page` as its first
 * page 1. */
static struct slice journal_of(uint32_t pages, struct slice page)
{
    static const unsigned char head[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7,
                                         0,    0,    0,    1,    0,    0,    0,    7};
    char *bytes = arena_alloc(&arena, 512 + 4 + 8192 + 4);
    assert_non_null(bytes);
    memcpy(bytes, head, sizeof(head));
    bytes[19] = (char)pages;
    bytes[22] = 2;         /* sectors of 512 bytes */
    bytes[26] = 8192 >> 8; /* pages of 8192 bytes */
    bytes[512 + 3] = 1;    /* page 1 */
    if (pages == 0) {
        bytes[11] = 0; /* no pages were kept: there was none */
        return (struct slice){bytes, 512};
    }
    memcpy(bytes + 516, page.ptr, 8192);
    uint32_t sum = 7;
    for (int at = 8192 - 200; at > 0; at -= 200)
        sum += (unsigned char)page.ptr[at];
    for (int i = 0; i < 4; i++)
        bytes[516 + 8192 + i] = (char)(sum >> (24 - 8 * i));
    return (struct slice){bytes, 512 + 4 + 8192 + 4};
}

static void a_making_that_was_cut_short_begins_again(void **state)
{
    (void)state;
    char *garbage = arena_alloc(&arena, 8192);
    memset(garbage, 0x5a, 8192);
    write_file(path, (struct slice){garbage, 8192});
    assert_refused(STATUS_FOREIGN, "not a Lazaret store");
    write_file(journal, journal_of(0, (struct slice){0}));
    make_store();
    assert_ok(open_store());
    assert_true(has("kept"));
}

static void a_first_page_that_was_being_written_is_taken_from_the_journal(void **state)
{
    (void)state;
    make_store();
    struct slice file = read_file(path);
    char *garbage = arena_alloc(&arena, 512);
    memset(garbage, 0x5a, 512);
    write_file(journal, journal_of((uint32_t)(file.len / 8192), file));
    patch_file(path, 0, (struct slice){garbage, 512});
    assert_ok(open_store());
    assert_true(has("kept"));
}

static void a_first_page_that_was_being_written_is_taken_from_the_log(void **state)
{
    (void)state;
    char *garbage = arena_alloc(&arena, 512);
    memset(garbage, 0x5a, 512);
    assert_ok(open_store());
    assert_ok(try_push("kept"));
    struct slice file = read_file(path), log = read_file(wal);
    close_store();
    write_file(path, file);
    write_file(wal, log);
    patch_file(path, 0, (struct slice){garbage, 512});
    assert_ok(open_store());
    assert_true(has("kept"));
}

/* -- earlier versions -------------------------------------------------------------------------- */

static void make_version_1(void)
{
    sqlite(version1);
}

static const char *found(struct letter_filter filter)
{
    struct letter *letters;
    struct buf ids;
    size_t count;
    filter.limit = 9;
    assert_ok(store->letter_list(store, &filter, &arena, &letters, &count, &err));
    buf_init(&ids, 4096);
    for (size_t i = 0; i < count; i++)
        buf_addf(&ids, "%s%.*s", i ? " " : "", SLICE_ARG(letters[i].dlq_id));
    struct slice copy = arena_dup(&arena, buf_slice(&ids));
    buf_release(&ids);
    return copy.ptr;
}

static void assert_migrated(void)
{
    struct letter_group group;
    struct letter_count *counts;
    struct hour_count *hours;
    size_t count;
    assert_true(has("live") && has("over") && has("dead") && has("back"));
    assert_int_equal(store->live_count(store), 1);
    assert_string_equal(found((struct letter_filter){0}), "d-back d-dead");
    assert_string_equal(found((struct letter_filter){.open = YES}), "d-dead");
    assert_string_equal(found((struct letter_filter){.reason = SLICE("not_retryable")}), "d-back");
    assert_string_equal(found((struct letter_filter){.job_id = SLICE("run")}), "d-back");
    assert_string_equal(found((struct letter_filter){.q = SLICE("violet")}), "d-dead");
    assert_string_equal(found((struct letter_filter){.q = SLICE("\"paper jam\"")}), "d-dead");
    assert_ok(store->letter_counts(store, &arena, &counts, &count, &err));
    assert_int_equal(count, 2);
    assert_ok(store->group_get(store, SLICE("00000000000000aa"), (struct instant){NOON}, &arena,
                               &group, &err));
    assert_true(group.count == 1 && group.total == 2);
    assert_true(group.first_seen.us == NOON + 10);
    assert_ok(store->letter_hours(store, INSTANT_NONE, &arena, &hours, &count, &err));
    assert_int_equal(count, 2);
    assert_true(hours[0].count == 1 && hours[1].count == 1);
}

static void an_earlier_version_is_brought_up_to_date_with_all_it_holds(void **state)
{
    (void)state;
    make_version_1();
    for (int i = 0; i < 2; i++) {
        assert_ok(open_store());
        assert_migrated();
        close_store();
    }
    assert_int_equal(sqlite_number("PRAGMA user_version"), 3);
}

static void a_migration_that_fails_changes_nothing_and_can_be_tried_again(void **state)
{
    (void)state;
    make_version_1();
    int after = 0;
    for (;; after++) {
        faulty = (struct faulty){.write = SQLITE_FULL, .after = after};
        if (open_store() == STATUS_OK)
            break;
        faulty = (struct faulty){0};
        assert_non_null(strstr(err.text, "disk is full"));
        int64_t version = sqlite_number("PRAGMA user_version"); /* each step stands by itself */
        assert_true(version == 1 || version == 2);
        assert_int_equal(sqlite_number("SELECT count(*) FROM letter"), 2);
    }
    faulty = (struct faulty){0};
    assert_true(after > 3);
    assert_migrated();
}

/* -- damage ------------------------------------------------------------------------------------ */

static void damage_is_reported_and_nothing_is_repaired(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "UPDATE job SET state = 77",
        "UPDATE job SET priority = 10",
        "UPDATE job SET queue = 55",
        "UPDATE job SET capabilities = 3",
        "UPDATE job SET attempt = -1",
        "UPDATE job SET seq = -4",
        "DROP TABLE attempt",
        "DROP TABLE letter_text",
        "INSERT INTO event VALUES(1, 1, '', 0, 0, '', '', x'00')",
        "INSERT INTO capability_set VALUES(1, x'393a61')",
        "INSERT INTO queue VALUES(99999999, 'far', 0, 0, 0)",
    };
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        unlink(path);
        make_store();
        sqlite(damages[i]);
        assert_refused(STATUS_CORRUPT, "damaged");
    }
}

static void a_file_with_ruined_pages_is_reported_and_left_as_it_is(void **state)
{
    (void)state;
    char *garbage = arena_alloc(&arena, 8192);
    memset(garbage, 0x5a, 8192);
    make_store();
    struct slice good = read_file(path);
    char root[] = "SELECT rootpage FROM sqlite_schema WHERE name = 'job'";
    off_t job_page = (off_t)(sqlite_number(root) - 1) * 8192;
    const struct {
        off_t offset;
        size_t len;
    } ruins[] = {{0, 16}, {16, 8}, {100, 4000}, {job_page, 8192}};
    for (size_t i = 0; i < sizeof(ruins) / sizeof(ruins[0]); i++) {
        write_file(path, good);
        patch_file(path, ruins[i].offset, (struct slice){garbage, ruins[i].len});
        assert_refused(STATUS_CORRUPT, "damaged");
    }
    write_file(path, (struct slice){good.ptr, 8192 * 2});
    assert_refused(STATUS_CORRUPT, "damaged");
}

static void damage_that_is_found_later_is_reported_and_the_rest_goes_on(void **state)
{
    (void)state;
    struct stored_envelope envelope;
    make_store();
    sqlite("DELETE FROM envelope");
    assert_ok(open_store());
    struct job job;
    assert_false(store->job_by_id(store, SLICE("kept"), hash64(SLICE("kept")), &job, &err));
    assert_non_null(strstr(err.text, "damaged"));
    assert_int_equal(store->envelope_get(store, 1, &arena, &envelope, &err), STATUS_NOT_FOUND);
    assert_ok(try_push("other"));
    assert_true(has("other"));
}

/* -- a disk that fails ------------------------------------------------------------------------- */

static void a_file_that_cannot_be_written_is_refused(void **state)
{
    (void)state;
    make_store();
    faulty.read_only = true;
    assert_refused(STATUS_READ_ONLY, "cannot be opened for writing");
    faulty.read_only = false;
    assert_ok(open_store());
}

static void a_file_that_cannot_be_opened_is_refused(void **state)
{
    (void)state;
    assert_int_equal(store_sqlite_open(&(struct store_config){directory, &seams}, &store, &err),
                     STATUS_READ_ONLY);
    assert_non_null(strstr(err.text, directory));
    assert_int_equal(
        store_sqlite_open(&(struct store_config){"/nowhere/at/all", &seams}, &store, &err),
        STATUS_READ_ONLY);
    assert_null(store);
}

static void a_file_without_permission_to_write_is_refused(void **state)
{
    (void)state;
    bool root = geteuid() == 0; /* who may write everything, and so acts as somebody else here */
    make_store();
    chmod(path, 0444);
    chmod(directory, 0755);
    if (root)
        assert_int_equal(seteuid(NOBODY), 0);
    enum status status = open_store();
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, STATUS_READ_ONLY);
    assert_non_null(strstr(err.text, "cannot be opened for writing"));
    assert_null(store);
}

static void a_second_owner_is_refused(void **state)
{
    (void)state;
    struct store *second = NULL;
    assert_ok(open_store());
    assert_ok(try_push("first"));
    assert_int_equal(store_sqlite_open(&(struct store_config){path, &seams}, &second, &err),
                     STATUS_BUSY);
    assert_non_null(strstr(err.text, "another process"));
    assert_ok(try_push("second"));
}

/* fail_and_go_on fails writes or syncs after each possible number of successes: what was
 * acknowledged stays, what was not is gone after the rollback, and work goes on. */
static void fail_and_go_on(struct faulty fault, enum status expected)
{
    assert_ok(open_store());
    assert_ok(try_push("acknowledged"));
    int after = 0;
    for (;; after++) {
        char id[32];
        snprintf(id, sizeof(id), "try-%d", after);
        fault.after = after;
        faulty = fault;
        enum status status = try_push(id);
        faulty = (struct faulty){0};
        if (status == STATUS_OK)
            break;
        assert_int_equal(status, expected);
        assert_non_null(strstr(err.text, path));
        assert_ok(store->rollback(store, &err));
        assert_false(has(id));
        assert_int_equal(store->live_count(store), 1 + (size_t)after);
        assert_ok(try_push(id)); /* the condition has passed */
    }
    assert_true(after > 0);
    close_store();
    assert_ok(open_store());
    assert_int_equal(store->live_count(store), 2 + (size_t)after);
    assert_true(has("acknowledged") && has("try-0"));
}

static void a_full_disk_fails_the_command_and_work_goes_on_when_there_is_room(void **state)
{
    (void)state;
    fail_and_go_on((struct faulty){.write = SQLITE_FULL}, STATUS_FULL);
}

static void a_write_that_fails_loses_nothing_that_was_acknowledged(void **state)
{
    (void)state;
    fail_and_go_on((struct faulty){.write = SQLITE_IOERR_WRITE}, STATUS_IO);
}

static void a_sync_that_fails_loses_nothing_that_was_acknowledged(void **state)
{
    (void)state;
    fail_and_go_on((struct faulty){.sync = SQLITE_IOERR_FSYNC}, STATUS_IO);
}

static void a_failed_transaction_can_only_be_rolled_back(void **state)
{
    (void)state;
    struct event event = {.what = SLICE("x"), .why = SLICE("{}")};
    static char large[1 << 20];
    int64_t seq;
    assert_ok(open_store());
    assert_ok(store->begin(store, &err));
    faulty.write = SQLITE_FULL;
    /* More than the cache holds must be written before the commit, and cannot be. */
    enum status status = STATUS_OK;
    for (int i = 0; i < 200 && status == STATUS_OK; i++)
        status = store->envelope_add(store, 1, SLICE("id"), (struct slice){large, sizeof(large)},
                                     &seq, &err);
    assert_int_equal(status, STATUS_FULL);
    faulty.write = 0;
    assert_int_equal(store->event_append(store, &event, &err), STATUS_IO);
    assert_int_equal(store->commit(store, &err), STATUS_IO);
    assert_ok(store->rollback(store, &err));
    assert_ok(try_push("after"));
}

/* put_letter writes a letter with a text for the search in a transaction that it leaves open. */
static enum status put_letter(const char *words)
{
    struct slice text = slice_of(words);
    struct letter letter = {.dlq_id = SLICE("l"), .job_id = SLICE("j"), .failed_at = {NOON}};
    letter.job.seq = 7;
    enum status status = store->begin(store, &err);
    return status ? status : store->letter_put(store, &letter, &text, false, &err);
}

static void a_read_that_fails_does_not_make_the_search_look_damaged(void **state)
{
    (void)state;
    bool failed = true;
    assert_ok(open_store());
    assert_ok(put_letter("these words are counted"));
    assert_ok(store->commit(store, &err));
    for (int after = 0; failed; after++) {
        /* What a commit could not write is not in the cache any more, and must be read again. */
        assert_ok(put_letter("others"));
        faulty = (struct faulty){.write = SQLITE_IOERR_WRITE};
        assert_int_equal(store->commit(store, &err), STATUS_IO);
        faulty = (struct faulty){0};
        assert_ok(store->rollback(store, &err));

        faulty = (struct faulty){.read = SQLITE_IOERR_READ, .after = after};
        failed = put_letter("others") != STATUS_OK;
        faulty = (struct faulty){0};
        assert_true(failed || after > 0);
        assert_ok(store->rollback(store, &err));
        assert_ok(put_letter("others"));
        assert_ok(store->rollback(store, &err));
    }
}

static void a_store_that_cannot_be_loaded_again_is_unusable_until_it_can(void **state)
{
    (void)state;
    struct job_row row;
    assert_ok(open_store());
    assert_ok(try_push("kept"));
    faulty.write = SQLITE_IOERR_WRITE;
    assert_int_equal(try_push("lost"), STATUS_IO);
    mem_fail_after(1);
    assert_int_equal(store->rollback(store, &err), STATUS_NO_MEMORY);
    assert_int_equal(store->live_count(store), 0);
    assert_int_equal(store->job_find(store, SLICE("kept"), &arena, &row, &err), STATUS_UNAVAILABLE);
    mem_fail_after(1);
    assert_int_equal(store->begin(store, &err), STATUS_NO_MEMORY);
    mem_fail_after(0);
    faulty = (struct faulty){0};
    assert_ok(try_push("after")); /* to begin is to try again */
    assert_true(has("kept") && has("after"));
    assert_false(has("lost"));
}

#define FILE_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_store_is_made_where_there_is_none_and_tidied_when_it_closes),
        FILE_TEST(an_empty_file_becomes_a_store),
        FILE_TEST(a_file_of_somebody_else_is_refused_and_left_as_it_is),
        FILE_TEST(a_database_of_somebody_else_is_refused_and_left_as_it_is),
        FILE_TEST(a_log_beside_the_database_of_somebody_else_stays_there),
        FILE_TEST(a_store_of_a_later_version_is_refused_and_left_as_it_is),
        FILE_TEST(a_later_version_that_only_the_log_knows_is_refused_too),
        FILE_TEST(a_making_that_was_cut_short_begins_again),
        FILE_TEST(a_first_page_that_was_being_written_is_taken_from_the_journal),
        FILE_TEST(a_first_page_that_was_being_written_is_taken_from_the_log),
        FILE_TEST(an_earlier_version_is_brought_up_to_date_with_all_it_holds),
        FILE_TEST(a_migration_that_fails_changes_nothing_and_can_be_tried_again),
        FILE_TEST(damage_is_reported_and_nothing_is_repaired),
        FILE_TEST(a_file_with_ruined_pages_is_reported_and_left_as_it_is),
        FILE_TEST(damage_that_is_found_later_is_reported_and_the_rest_goes_on),
        FILE_TEST(a_file_that_cannot_be_written_is_refused),
        FILE_TEST(a_file_that_cannot_be_opened_is_refused),
        FILE_TEST(a_file_without_permission_to_write_is_refused),
        FILE_TEST(a_second_owner_is_refused),
        FILE_TEST(a_full_disk_fails_the_command_and_work_goes_on_when_there_is_room),
        FILE_TEST(a_write_that_fails_loses_nothing_that_was_acknowledged),
        FILE_TEST(a_sync_that_fails_loses_nothing_that_was_acknowledged),
        FILE_TEST(a_failed_transaction_can_only_be_rolled_back),
        FILE_TEST(a_read_that_fails_does_not_make_the_search_look_damaged),
        FILE_TEST(a_store_that_cannot_be_loaded_again_is_unusable_until_it_can),
    };
    faulty_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
