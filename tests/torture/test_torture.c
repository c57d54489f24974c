/* torture: the same history again and again, each time with one more allocation, or one more
 * operation of the disk, that fails.
 *
 * The history is one of the simulator's, so all its checks hold here: every command is answered, a
 * batch that fails changes nothing, what was acknowledged is on disk after a crash, and the engine
 * goes on afterwards.  Run under AddressSanitizer, leaks and stray accesses show too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/mem.h"
#include "sim/history.h"

#define SEEDS 2       /* histories that are tortured */
#define SEED_FIRST 11 /* the seed of the first */
#define STEPS_AFTER 2 /* steps that must work after the one that was disturbed */

/* struct trouble: where the disturbance is, and whether it came to that. */
struct trouble {
    uint64_t n;
    bool happened;
};

/* script_begin begins the history that is tortured: every kind of command, and no other troubles.
 */
static void script_begin(struct history *history, uint64_t seed)
{
    static const unsigned weights[COMMAND_COUNT] = {
        [COMMAND_PUSH] = 4,      [COMMAND_LEASE] = 4,   [COMMAND_HEARTBEAT] = 1,
        [COMMAND_RESOLVE] = 5,   [COMMAND_RELEASE] = 1, [COMMAND_CANCEL] = 1,
        [COMMAND_REVIEW] = 3,    [COMMAND_IMPORT] = 1,  [COMMAND_PURGE] = 1,
        [COMMAND_QUEUE] = 1,     [COMMAND_POLICY] = 1,  [COMMAND_GROUP] = 1,
        [COMMAND_INTERRUPT] = 1,
    };

    history_begin(history, seed, false, DISK_HONEST);
    memcpy(history->plan.weights, weights, sizeof(weights));
    history->plan.queues = 2;
    history->plan.keys = 2;
    history->plan.batch_max = 4;
    history->plan.failure_percent = 70;
    history->plan.crash_percent = history->plan.fault_percent = history->plan.jump_percent = 0;
    history->plan.engine = (struct engine_config){0};
}

static void script_run(struct history *history, unsigned steps)
{
    for (unsigned i = 0; i < steps && !history->model.violated; i++)
        history_step(history);
}

/* script_end takes the power away, compares what is left with the model, and works on. */
static void script_end(struct history *history, const char *what, uint64_t n)
{
    if (!history->model.violated)
        history_crash(history);
    script_run(history, 1);
    if (history->model.violated)
        fail_msg("%s %llu, step %u: %s", what, (unsigned long long)n, history->step,
                 history->model.violation);
    history_release(history);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void arm_memory(struct history *history)
{
    const struct trouble *trouble = history->ctx;

    mem_fail_after(trouble->n);
}

/* disarm_memory finds out whether the allocation has failed: if it has not, one of the next will.
 */
static void disarm_memory(struct history *history)
{
    struct trouble *trouble = history->ctx;

    trouble->happened = true;
    for (uint64_t i = 0; i < trouble->n && trouble->happened; i++) {
        void *ptr = mem_alloc(1);

        trouble->happened = ptr != NULL;
        mem_free(ptr);
    }
    mem_fail_after(0);
}

static void torture_step(uint64_t seed, unsigned step, void (*arm)(struct history *),
                         void (*disarm)(struct history *), const char *what, uint64_t stride)
{
    struct trouble trouble = {.n = 1, .happened = true};

    for (; trouble.happened; trouble.n += stride) {
        struct history history;

        script_begin(&history, seed);
        script_run(&history, step);
        history.before_step = arm;
        history.after_step = disarm;
        history.ctx = &trouble;
        script_run(&history, 1);
        history.before_step = history.after_step = NULL;
        script_run(&history, STEPS_AFTER);
        script_end(&history, what, trouble.n);
    }
}

static void every_allocation_of_a_command_may_fail(void **state)
{
    (void)state;
    for (uint64_t seed = SEED_FIRST; seed < SEED_FIRST + SEEDS; seed++)
        for (unsigned step = 1; step <= 25; step += 3)
            torture_step(seed, step, arm_memory, disarm_memory, "allocation", 1);
}

/* torture_open opens a store that has something in it, with a disturbance. */
static void torture_open(void (*arm)(struct history *), void (*disarm)(struct history *),
                         const char *what)
{
    struct trouble trouble = {.n = 1, .happened = true};

    for (; trouble.happened; trouble.n++) {
        struct history history;
        struct err err = {0};

        script_begin(&history, SEED_FIRST);
        script_run(&history, 8);
        history.ctx = &trouble;
        history_close(&history);
        arm(&history);
        enum status status = history_open(&history, &err);
        disarm(&history);
        if (status && err.text[0] == '\0')
            fail_msg("%s %llu: an error without a sentence", what, (unsigned long long)trouble.n);
        if (status && history_open(&history, &err))
            fail_msg("%s %llu: does not open again: %s", what, (unsigned long long)trouble.n,
                     err.text);
        script_end(&history, what, trouble.n);
    }
}

static void every_allocation_of_opening_may_fail(void **state)
{
    (void)state;
    torture_open(arm_memory, disarm_memory, "allocation");
}

/* ---- SQLite's memory ------------------------------------------------------------------------- */

static sqlite3_mem_methods sqlite_memory;
static uint64_t sqlite_fail_in;

static bool sqlite_fails(void)
{
    return sqlite_fail_in && --sqlite_fail_in == 0;
}

static void *sqlite_alloc(int size)
{
    return sqlite_fails() ? NULL : sqlite_memory.xMalloc(size);
}

static void *sqlite_realloc(void *ptr, int size)
{
    return sqlite_fails() ? NULL : sqlite_memory.xRealloc(ptr, size);
}

static void arm_sqlite(struct history *history)
{
    const struct trouble *trouble = history->ctx;

    sqlite_fail_in = trouble->n;
}

static void disarm_sqlite(struct history *history)
{
    struct trouble *trouble = history->ctx;

    trouble->happened = sqlite_fail_in == 0;
    sqlite_fail_in = 0;
}

static void every_allocation_of_sqlite_may_fail(void **state)
{
    (void)state;
    for (uint64_t seed = SEED_FIRST; seed < SEED_FIRST + SEEDS; seed++)
        for (unsigned step = 2; step <= 26; step += 8)
            torture_step(seed, step, arm_sqlite, disarm_sqlite, "allocation of SQLite", 5);
}

/* sqlite_memory_setup puts the failing allocator under SQLite, before anything uses it. */
static int sqlite_memory_setup(void **state)
{
    sqlite3_mem_methods failing;

    (void)state;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory) != SQLITE_OK)
        return -1;
    failing = sqlite_memory;
    failing.xMalloc = sqlite_alloc;
    failing.xRealloc = sqlite_realloc;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) == SQLITE_OK ? 0 : -1;
}

/* ---- the disk -------------------------------------------------------------------------------- */

/* torture_disk fails the n-th operation that a fault concerns, for every n of a history from a
 * restart on, when nothing is in memory yet. */
static void torture_disk(uint64_t seed, enum disk_fault fault, uint64_t stride)
{
    uint64_t before = 0, after = 1;

    for (uint64_t n = 1; after > before; n += stride) {
        struct history history;
        struct err err = {0};

        script_begin(&history, seed);
        script_run(&history, 8);
        history_close(&history);
        assert_int_equal(history_open(&history, &err), STATUS_OK);
        before = disk_faults(history.world.disk);
        disk_fault_nth(history.world.disk, fault, n);
        script_run(&history, 12);
        after = disk_faults(history.world.disk);
        disk_fault_nth(history.world.disk, DISK_HEALTHY, 0);
        script_run(&history, STEPS_AFTER);
        script_end(&history, "operation of the disk", n);
    }
}

static void every_write_may_fail(void **state)
{
    (void)state;
    torture_disk(SEED_FIRST, DISK_WRITE_FAILS, 5);
}

static void every_write_may_meet_a_full_disk(void **state)
{
    (void)state;
    torture_disk(SEED_FIRST + 1, DISK_FULL, 5);
}

static void every_sync_may_fail(void **state)
{
    (void)state;
    torture_disk(SEED_FIRST + 1, DISK_SYNC_FAILS, 1);
}

static void every_read_may_fail(void **state)
{
    (void)state;
    torture_disk(SEED_FIRST, DISK_READ_FAILS, 1);
}

static void arm_disk(struct history *history)
{
    const struct trouble *trouble = history->ctx;

    history->faults_known = disk_faults(history->world.disk);
    disk_fault_nth(history->world.disk, DISK_ALL_FAILS, trouble->n);
}

static void disarm_disk(struct history *history)
{
    struct trouble *trouble = history->ctx;

    trouble->happened = disk_faults(history->world.disk) > history->faults_known;
    disk_fault_nth(history->world.disk, DISK_HEALTHY, 0);
}

static void every_operation_of_opening_may_fail(void **state)
{
    (void)state;
    torture_open(arm_disk, disarm_disk, "operation of the disk");
}

/* keep_worst notes the worst status of any command. */
static void keep_worst(struct history *history)
{
    enum status *worst = history->ctx;

    for (size_t i = 0; i < history->batch->count; i++)
        if (history->batch->ops[i].command->status > *worst)
            *worst = history->batch->ops[i].command->status;
}

static void store_that_becomes_read_only_refuses_and_recovers(void **state)
{
    struct history history;
    struct err err = {0};
    enum status worst = STATUS_OK;

    (void)state;
    script_begin(&history, SEED_FIRST);
    script_run(&history, 6);
    memset(history.plan.weights, 0, sizeof(history.plan.weights));
    history.plan.weights[COMMAND_PUSH] = 1;
    history.after_step = keep_worst;
    history.ctx = &worst;
    disk_fault(history.world.disk, DISK_READ_ONLY);
    script_run(&history, 4);
    assert_int_equal(worst, STATUS_READ_ONLY);
    disk_fault(history.world.disk, DISK_HEALTHY);
    worst = STATUS_OK;
    script_run(&history, 4);
    assert_int_equal(worst, STATUS_OK);
    history.after_step = NULL;

    history_close(&history);
    disk_fault(history.world.disk, DISK_READ_ONLY);
    assert_int_equal(history_open(&history, &err), STATUS_READ_ONLY);
    disk_fault(history.world.disk, DISK_HEALTHY);
    assert_int_equal(history_open(&history, &err), STATUS_OK);
    script_end(&history, "read-only", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_a_command_may_fail),
        cmocka_unit_test(every_allocation_of_opening_may_fail),
        cmocka_unit_test(every_allocation_of_sqlite_may_fail),
        cmocka_unit_test(every_write_may_fail),
        cmocka_unit_test(every_write_may_meet_a_full_disk),
        cmocka_unit_test(every_sync_may_fail),
        cmocka_unit_test(every_read_may_fail),
        cmocka_unit_test(every_operation_of_opening_may_fail),
        cmocka_unit_test(store_that_becomes_read_only_refuses_and_recovers),
    };

    return cmocka_run_group_tests(tests, sqlite_memory_setup, NULL);
}
