/* The simulated disk by itself, under bare SQLite: what was synced survives, what was not may not,
 * and a disk that lies is found out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "sim/rng.h"
#include "sim/vfs.h"

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static sqlite3 *open_database(const char *journal_mode)
{
    sqlite3 *db = NULL;
    char sql[128];

    snprintf(sql, sizeof(sql),
             "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=%s; PRAGMA synchronous=EXTRA",
             journal_mode);
    if (sqlite3_open_v2("disk.db", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, DISK_VFS) !=
            SQLITE_OK ||
        run(db, sql) != SQLITE_OK ||
        run(db, "CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, body TEXT)") != SQLITE_OK) {
        sqlite3_close(db);
        return NULL;
    }
    return db;
}

/* count_rows is the number of rows, which must be 1 to that number; -1 when the file is damaged. */
static int64_t count_rows(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    int64_t count = -1;

    if (sqlite3_prepare_v2(db, "SELECT count(*), coalesce(max(n), 0) FROM t", -1, &statement,
                           NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW &&
        sqlite3_column_int64(statement, 0) == sqlite3_column_int64(statement, 1))
        count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return count;
}

/* add_until_crash commits one row after the other until the power fails; `n` is the last one that
 * was acknowledged. */
static void add_until_crash(sqlite3 *db, struct disk *disk, int64_t *n)
{
    char sql[160];

    while (!disk_is_down(disk)) {
        snprintf(sql, sizeof(sql), "INSERT INTO t VALUES (%lld, hex(randomblob(600)))",
                 (long long)*n + 1);
        if (run(db, sql) == SQLITE_OK)
            ++*n;
    }
}

/* survive runs commits and crashes; it says whether every commit was still there afterwards. */
static bool survive(uint64_t seed, const char *journal_mode, enum disk_lie lie)
{
    struct rng rng = rng_fork(seed, 9);
    struct disk *disk = disk_new(seed);
    int64_t acknowledged = 0;
    bool good = true;

    disk_lie(disk, lie);
    for (int crash = 0; crash < 6 && good; crash++) {
        sqlite3 *db = open_database(journal_mode);
        int64_t rows = db ? count_rows(db) : -1;

        good = rows == acknowledged || rows == acknowledged + 1;
        acknowledged = rows;
        disk_crash_after(disk, 1 + rng_below(&rng, 60));
        if (good)
            add_until_crash(db, disk, &acknowledged);
        disk_crash(disk);
        sqlite3_close(db);
        disk_restart(disk);
    }
    disk_free(disk);
    return good;
}

static void acknowledged_commits_survive_every_crash(void **state)
{
    static const char *const modes[] = {"WAL", "DELETE", "TRUNCATE", "PERSIST"};

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++)
        assert_true(survive(seed, modes[seed % 4], DISK_HONEST));
}

static void disk_that_lies_is_found_out(void **state)
{
    (void)state;
    for (int lie = DISK_HONEST + 1; lie < DISK_LIE_COUNT; lie++) {
        bool found = false;

        for (uint64_t seed = 1; seed <= 100 && !found; seed++)
            found = !survive(seed, "WAL", (enum disk_lie)lie);
        /* A byte that rots may lie where nothing is stored: only the simulator, which reads
         * everything, must find it. */
        if (lie != DISK_LIES_ROT)
            assert_true(found);
    }
}

static void faulty_disk_fails_a_commit_and_keeps_the_earlier_ones(void **state)
{
    (void)state;
    for (int fault = DISK_FULL; fault < DISK_FAULT_COUNT; fault++) {
        struct disk *disk = disk_new(7);
        sqlite3 *db = open_database("WAL");

        assert_non_null(db);
        assert_int_equal(run(db, "INSERT INTO t VALUES (1, 'one')"), SQLITE_OK);
        disk_fault(disk, (enum disk_fault)fault);
        if (fault != DISK_READ_FAILS)
            assert_int_not_equal(run(db, "INSERT INTO t VALUES (2, zeroblob(100000))"), SQLITE_OK);
        disk_fault(disk, DISK_HEALTHY);
        assert_int_equal(run(db, "INSERT OR IGNORE INTO t VALUES (2, 'two')"), SQLITE_OK);
        assert_int_equal(count_rows(db), 2);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_int_equal(disk_files_open(disk), 0);
        disk_free(disk);
    }
}

static void observer_meets_no_fault(void **state)
{
    struct disk *disk = disk_new(8);
    sqlite3 *db = open_database("WAL");

    (void)state;
    disk_fault(disk, DISK_ALL_FAILS);
    assert_int_not_equal(run(db, "INSERT INTO t VALUES (1, 'one')"), SQLITE_OK);
    disk_observe(disk, true);
    assert_int_equal(count_rows(db), 0);
    disk_observe(disk, false);
    assert_int_equal(disk_condition(disk), DISK_ALL_FAILS);
    assert_true(disk_faults(disk) > 0);
    sqlite3_close(db);
    disk_free(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_commits_survive_every_crash),
        cmocka_unit_test(disk_that_lies_is_found_out),
        cmocka_unit_test(faulty_disk_fails_a_commit_and_keeps_the_earlier_ones),
        cmocka_unit_test(observer_meets_no_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
