/* test_postgres: what only a shared store can suffer: connections that are killed, servers that say
 * nothing, starts at once, databases that are not for us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/seams.h"
#include "store/cut.h"
#include "store/pgserver.h"
#include "store/store.h"

#define NOON INT64_C(1790000000000000)
#define WAIT_MS_MAX 60000

/* struct scene: a database and what is open to it. */
struct scene {
    char url[PGSERVER_URL_MAX];
    struct store *store;
    struct arena arena;
    struct err err;
};

#define assert_ok(scene, call) assert_ok_at((scene), (call), #call, __LINE__)
static void assert_ok_at(const struct scene *scene, enum status status, const char *call, int line)
{
    if (status == STATUS_OK)
        return;
    print_error("line %d: %s: %s: %s\n", line, call, status_name(status), scene->err.text);
    fail();
}

static enum status open_at(const char *url, const struct seams *seams, struct store **out,
                           struct err *err)
{
    const struct postgres_config config = {.url = url, .seams = seams};
    return store_postgres_open(&config, out, err);
}

static int scene_setup(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    pgserver_database(scene->url, NULL);
    assert_ok(scene, open_at(scene->url, seams_real(), &scene->store, &scene->err));
    *state = scene;
    return 0;
}

static int scene_teardown(void **state)
{
    struct scene *scene = *state;
    if (scene->store)
        scene->store->close(scene->store);
    pgserver_drop(scene->url);
    arena_release(&scene->arena);
    free(scene);
    return 0;
}

/* through is the URL of a scene's database by way of a wire that can be cut. */
static void through(const struct cut *cut, const struct scene *scene, char url[PGSERVER_URL_MAX])
{
    const char *name = strrchr(scene->url, '/') + 1;
    snprintf(url, PGSERVER_URL_MAX, "postgres://postgres@127.0.0.1:%u/%.60s", cut_port(cut), name);
}

/* reopen_through opens the scene's store anew by way of such a wire. */
static struct cut *reopen_through(struct scene *scene, const struct seams *seams)
{
    char url[PGSERVER_URL_MAX];
    struct cut *cut = cut_start(pgserver_port());
    through(cut, scene, url);
    scene->store->close(scene->store);
    scene->store = NULL;
    assert_ok(scene, open_at(url, seams, &scene->store, &scene->err));
    return cut;
}

static bool waited(int *ms)
{
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    return (*ms += 5) < WAIT_MS_MAX;
}

/* -- jobs -------------------------------------------------------------------------------------- */

static struct job insert(struct scene *scene, struct store *store, const char *id)
{
    struct job job = {.id_hash = hash64(slice_of(id)),
                      .pushed_at = {NOON},
                      .due_at = {NOON},
                      .deadline_at = INSTANT_NEVER};
    struct event event = {.at = {NOON}, .actor = SLICE("a"), .what = SLICE("pushed")};
    assert_ok(scene, store->queue_number(store, SLICE("q"), &job.queue, &scene->err));
    assert_ok(scene, store->event_append(store, &event, &scene->err));
    job.event_seq = event.seq;
    assert_ok(scene, store->job_insert(store, &job, slice_of(id), SLICE("{}"), &scene->err));
    return job;
}

static struct job push(struct scene *scene, struct store *store, const char *id)
{
    assert_ok(scene, store->begin(store, &scene->err));
    struct job job = insert(scene, store, id);
    assert_ok(scene, store->commit(store, &scene->err));
    return job;
}

/* push_until pushes when the database is there again. */
static void push_until(struct scene *scene, struct store *store, const char *id)
{
    int ms = 0;
    while (store->begin(store, &scene->err) != STATUS_OK)
        assert_true(waited(&ms));
    insert(scene, store, id);
    assert_ok(scene, store->commit(store, &scene->err));
}

/* stored counts the live jobs that the database has, apart from any store's memory. */
static int stored(const struct scene *scene)
{
    char *text = pgserver_sql(scene->url, "SELECT count(*) FROM lazaret.job");
    int count = (int)strtol(text, NULL, 10);
    free(text);
    return count;
}

/* whole checks that the chain of events has no gap, from the first on, and how many there are. */
static void whole(struct scene *scene, size_t expected)
{
    struct event *events;
    struct hash hash = {{0}}, head;
    size_t count;
    int64_t last;
    struct store *store = scene->store;
    assert_ok(scene, store->refresh(store, &scene->err));
    assert_ok(scene,
              store->event_list(store, 0, 1000, &scene->arena, &events, &count, &scene->err));
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        assert_true(events[i].seq == (int64_t)i + 1);
        hash = event_hash(&events[i], hash);
        assert_memory_equal(&hash, &events[i].hash, sizeof(hash));
    }
    store->event_head(store, &last, &head);
    assert_true(last == (int64_t)expected);
    assert_memory_equal(&head, &hash, sizeof(hash));
}

/* -- connections that end ---------------------------------------------------------------------- */

static void a_connection_killed_in_the_turn_loses_nothing(void **state)
{
    struct scene *scene = *state;
    struct store *store = scene->store;
    struct job kept = push(scene, store, "kept"), found;
    assert_ok(scene, store->begin(store, &scene->err));
    insert(scene, store, "lost");
    kept.state = JOB_RUNNING;
    assert_ok(scene, store->job_update(store, &kept, SLICE("w"), &scene->err));
    assert_true(pgserver_disconnect(scene->url) >= 1);
    assert_int_equal(store->commit(store, &scene->err), STATUS_IO);
    assert_ok(scene, store->rollback(store, &scene->err));
    assert_int_equal(store->live_count(store), 1);
    assert_true(store->job_by_seq(store, kept.seq, &found));
    assert_int_equal(found.state, JOB_PENDING);
    push_until(scene, store, "after");
    assert_int_equal(store->live_count(store), 2);
    assert_int_equal(stored(scene), 2);
    whole(scene, 2);
}

static void an_idle_connection_that_was_killed_is_not_noticed(void **state)
{
    struct scene *scene = *state;
    push(scene, scene->store, "a");
    assert_true(pgserver_disconnect(scene->url) >= 1);
    push(scene, scene->store, "b");
    assert_true(pgserver_disconnect(scene->url) >= 1);
    assert_ok(scene, scene->store->refresh(scene->store, &scene->err));
    assert_true(pgserver_disconnect(scene->url) >= 1);
    whole(scene, 2);
    assert_int_equal(stored(scene), 2);
}

static void a_commit_that_came_through_without_an_answer_has_succeeded(void **state)
{
    struct scene *scene = *state;
    struct cut *cut = reopen_through(scene, seams_real());
    struct store *store = scene->store;
    assert_ok(scene, store->begin(store, &scene->err));
    insert(scene, store, "a");
    cut_set(cut, CUT_ANSWERS);
    assert_ok(scene, store->commit(store, &scene->err));
    assert_int_equal(cut_mode(cut), CUT_NOTHING);
    assert_int_equal(store->live_count(store), 1);
    push(scene, store, "b");
    assert_int_equal(stored(scene), 2);
    whole(scene, 2);
    store->close(store);
    scene->store = NULL;
    cut_stop(cut);
}

static void a_commit_that_did_not_come_through_has_failed(void **state)
{
    struct scene *scene = *state;
    struct cut *cut = reopen_through(scene, seams_real());
    struct store *store = scene->store;
    push(scene, store, "a");
    assert_ok(scene, store->begin(store, &scene->err));
    insert(scene, store, "lost");
    cut_set(cut, CUT_WORDS);
    assert_int_equal(store->commit(store, &scene->err), STATUS_IO);
    assert_int_equal(cut_mode(cut), CUT_NOTHING);
    assert_ok(scene, store->rollback(store, &scene->err));
    assert_int_equal(store->live_count(store), 1);
    push(scene, store, "b");
    assert_int_equal(stored(scene), 2);
    whole(scene, 2);
    store->close(store);
    scene->store = NULL;
    cut_stop(cut);
}

/* Time that runs a hundred times as fast, so that nobody has to wait. */
static struct span hasty(void *ctx)
{
    return (struct span){seams_real()->steady(ctx).us * 100};
}

static void a_server_that_says_nothing_is_given_up(void **state)
{
    struct scene *scene = *state;
    struct seams seams = *seams_real();
    seams.steady = hasty;
    struct cut *cut = reopen_through(scene, &seams);
    struct store *store = scene->store;
    push(scene, store, "a");
    assert_ok(scene, store->begin(store, &scene->err));
    insert(scene, store, "lost");
    cut_set(cut, CUT_ALL);
    struct slice id;
    assert_int_equal(store->envelope_job_id(store, 99, &scene->arena, &id, &scene->err), STATUS_IO);
    assert_non_null(strstr(scene->err.text, "does not answer"));
    assert_int_equal(store->commit(store, &scene->err), STATUS_IO);
    assert_ok(scene, store->rollback(store, &scene->err));
    assert_int_equal(store->live_count(store), 1);
    cut_set(cut, CUT_NOTHING);
    push_until(scene, store, "b");
    assert_int_equal(stored(scene), 2);
    store->close(store);
    scene->store = NULL;
    cut_stop(cut);
}

static void while_the_database_is_away_calls_fail_at_once_and_then_it_goes_on(void **state)
{
    struct scene *scene = *state;
    struct store *store = scene->store;
    struct job job = push(scene, store, "a"), found;
    char where[64];
    snprintf(where, sizeof(where), "127.0.0.1:%u/", pgserver_port());
    for (int round = 0; round < 2; round++) {
        pgserver_down(round == 0);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(store->begin(store, &scene->err), STATUS_IO);
            assert_non_null(strstr(scene->err.text, where));
            assert_non_null(strstr(scene->err.text, "trying again"));
            assert_ok(scene, store->rollback(store, &scene->err));
        }
        assert_int_equal(store->refresh(store, &scene->err), STATUS_IO);
        assert_int_equal(store->reload(store, &scene->err), STATUS_IO);
        assert_true(store->job_by_seq(store, job.seq, &found)); /* memory is not lost */
        pgserver_up();
        push_until(scene, store, round == 0 ? "b" : "c");
    }
    assert_int_equal(store->live_count(store), 3);
    assert_int_equal(stored(scene), 3);
    whole(scene, 3);
}

/* -- many at once ------------------------------------------------------------------------------ */

struct opener {
    const char *url;
    struct store *store;
    enum status status;
    struct err err;
};

static void *open_one(void *arg)
{
    struct opener *opener = arg;
    opener->status = open_at(opener->url, seams_real(), &opener->store, &opener->err);
    return NULL;
}

static void servers_that_start_at_once_make_the_tables_once(void **state)
{
    struct scene *scene = *state;
    struct opener openers[4];
    pthread_t threads[4];
    char url[PGSERVER_URL_MAX];
    pgserver_database(url, NULL);
    for (int i = 0; i < 4; i++) {
        openers[i] = (struct opener){.url = url};
        assert_int_equal(pthread_create(&threads[i], NULL, open_one, &openers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        if (openers[i].status != STATUS_OK)
            print_error("%s\n", openers[i].err.text);
        assert_int_equal(openers[i].status, STATUS_OK);
    }
    for (int i = 0; i < 4; i++) {
        char id[] = {(char)('a' + i), 0};
        push(scene, openers[i].store, id);
    }
    for (int i = 0; i < 4; i++) {
        assert_ok(scene, openers[i].store->refresh(openers[i].store, &scene->err));
        assert_int_equal(openers[i].store->live_count(openers[i].store), 4);
        openers[i].store->close(openers[i].store);
    }
    pgserver_drop(url);
}

struct taker {
    struct store *store;
    atomic_int *taken;
    enum status status;
    struct err err;
};

/* take_all leases what is ready, one job in each turn, until there is nothing more. */
static void *take_all(void *arg)
{
    struct taker *taker = arg;
    struct store *store = taker->store;
    const struct ready_query any = {0};
    for (bool found = true; found && taker->status == STATUS_OK;) {
        struct job job;
        taker->status = store->begin(store, &taker->err);
        if (taker->status != STATUS_OK)
            break;
        found = store->ready(store, &any, &job, 1) == 1;
        if (found) {
            job.state = JOB_RUNNING;
            job.due_at.us = NOON * 2;
            taker->status = store->job_update(store, &job, SLICE("w"), &taker->err);
            atomic_fetch_add(&taker->taken[job.seq], 1);
        }
        if (taker->status == STATUS_OK)
            taker->status = store->commit(store, &taker->err);
    }
    return NULL;
}

static void a_job_is_leased_by_one_of_two_servers(void **state)
{
    struct scene *scene = *state;
    static atomic_int taken[64];
    struct taker takers[2] = {{.store = scene->store, .taken = taken}, {.taken = taken}};
    pthread_t threads[2];
    assert_ok(scene, open_at(scene->url, seams_real(), &takers[1].store, &scene->err));
    assert_ok(scene, scene->store->begin(scene->store, &scene->err));
    int64_t last = 0;
    for (int i = 0; i < 40; i++) {
        char id[16];
        snprintf(id, sizeof(id), "j%d", i);
        last = insert(scene, scene->store, id).seq;
    }
    assert_ok(scene, scene->store->commit(scene->store, &scene->err));
    assert_true(last == 40);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_all, &takers[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(takers[i].status, STATUS_OK);
    }
    for (int i = 1; i <= 40; i++)
        assert_int_equal(taken[i], 1);
    takers[1].store->close(takers[1].store);
}

static void woken(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* woken_by_a_push pushes until the one who listens is woken: it may not be listening yet. */
static void woken_by_a_push(struct scene *scene, struct store *other, atomic_int *calls)
{
    int ms = 0;
    int before = atomic_load(calls);
    push_until(scene, other, "x");
    while (atomic_load(calls) == before)
        assert_true(waited(&ms));
}

static void who_listens_goes_on_listening_after_its_connection_was_killed(void **state)
{
    struct scene *scene = *state;
    struct store *other;
    static atomic_int calls;
    assert_ok(scene, open_at(scene->url, seams_real(), &other, &scene->err));
    scene->store->listen(scene->store, woken, &calls);
    woken_by_a_push(scene, other, &calls);
    assert_true(pgserver_disconnect(scene->url) >= 2);
    woken_by_a_push(scene, other, &calls); /* by the push, or as it could not know */
    int ms = 0, settled = -1;
    while (settled != atomic_load(&calls)) { /* until all wakings of before are over */
        settled = atomic_load(&calls);
        for (int i = 0; i < 60; i++)
            assert_true(waited(&ms));
    }
    woken_by_a_push(scene, other, &calls);
    other->close(other);
}

/* -- following --------------------------------------------------------------------------------- */

static void a_server_that_is_too_far_behind_reads_everything(void **state)
{
    struct scene *scene = *state;
    struct store *other;
    struct job job;
    assert_ok(scene, open_at(scene->url, seams_real(), &other, &scene->err));
    struct job gone = push(scene, scene->store, "a");
    assert_ok(scene, other->refresh(other, &scene->err));
    push(scene, scene->store, "b");
    assert_ok(scene, scene->store->begin(scene->store, &scene->err));
    gone.state = JOB_DONE;
    assert_ok(scene, scene->store->job_finish(scene->store, &gone, SLICE("a"),
                                              (struct instant){NOON}, SLICE(""), &scene->err));
    assert_ok(scene, scene->store->commit(scene->store, &scene->err));
    free(pgserver_sql(scene->url,
                      "DELETE FROM lazaret.turn WHERE number < (SELECT turn FROM lazaret.head)"));
    assert_ok(scene, other->begin(other, &scene->err));
    assert_int_equal(other->live_count(other), 1);
    assert_false(other->job_by_seq(other, gone.seq, &job));
    assert_ok(scene, other->rollback(other, &scene->err));
    other->close(other);
}

static void a_database_that_was_restored_is_read_again(void **state)
{
    struct scene *scene = *state;
    push(scene, scene->store, "a");
    push(scene, scene->store, "b");
    /* As a standby does that took over without the last turn, and went on. */
    free(pgserver_sql(scene->url, "DELETE FROM lazaret.job WHERE seq = 2;"
                                  "UPDATE lazaret.turn SET nonce = 7 WHERE number = 2;"
                                  "UPDATE lazaret.head SET nonce = 7"));
    assert_ok(scene, scene->store->refresh(scene->store, &scene->err));
    assert_int_equal(scene->store->live_count(scene->store), 1);
    push(scene, scene->store, "c");
    assert_int_equal(scene->store->live_count(scene->store), 2);
}

static void a_turn_without_a_write_leaves_no_trace(void **state)
{
    struct scene *scene = *state;
    push(scene, scene->store, "a");
    for (int i = 0; i < 3; i++) {
        assert_ok(scene, scene->store->begin(scene->store, &scene->err));
        assert_ok(scene, scene->store->commit(scene->store, &scene->err));
    }
    char *turn = pgserver_sql(scene->url, "SELECT max(number) FROM lazaret.turn");
    assert_string_equal(turn, "1");
    free(turn);
}

static void changed_rows_are_changed_in_place(void **state)
{
    struct scene *scene = *state;
    struct job job = push(scene, scene->store, "a");
    for (int i = 0; i < 200; i++) {
        assert_ok(scene, scene->store->begin(scene->store, &scene->err));
        job.state = JOB_RUNNING;
        job.due_at.us = NOON + i;
        assert_ok(scene, scene->store->job_update(scene->store, &job, SLICE("w"), &scene->err));
        assert_ok(scene, scene->store->commit(scene->store, &scene->err));
    }
    scene->store->close(scene->store); /* its counts are told at the end */
    scene->store = NULL;
    static const char sql[] =
        "SELECT string_agg(relname || ' ' || (n_tup_upd >= 200) || ' ' || (n_tup_hot_upd ="
        " n_tup_upd), ', ' ORDER BY relname) FROM pg_stat_user_tables"
        " WHERE schemaname = 'lazaret' AND relname IN ('job', 'head')";
    int ms = 0;
    for (bool told = false; !told;) {
        char *text = pgserver_sql(scene->url, sql);
        told = strcmp(text, "head true true, job true true") == 0;
        if (!told && !waited(&ms))
            print_error("%s\n", text);
        free(text);
        assert_true(ms < WAIT_MS_MAX);
    }
}

/* -- databases that are not for us ------------------------------------------------------------- */

static void assert_refused(const char *url, enum status expected, const char *says)
{
    struct store *store = NULL;
    struct err err = {0};
    enum status status = open_at(url, seams_real(), &store, &err);
    if (status != expected || !strstr(err.text, says))
        print_error("%s: %s\n", status_name(status), err.text);
    assert_int_equal(status, expected);
    assert_non_null(strstr(err.text, says));
    assert_null(strstr(err.text, "s3cret"));
    assert_null(store);
}

static void a_password_is_in_no_sentence(void **state)
{
    char url[PGSERVER_URL_MAX];
    (void)state;
    snprintf(url, sizeof(url), "postgres://ada:s3cret@127.0.0.1:%u/nowhere", free_port());
    assert_refused(url, STATUS_UNAVAILABLE, "/nowhere");
    snprintf(url, sizeof(url), "postgres://ada:s3cret@127.0.0.1:%u/nowhere", pgserver_port());
    assert_refused(url, STATUS_UNAVAILABLE, "ada");
    assert_refused("postgres://ada:s3cret@[127.0.0.1/x", STATUS_INVALID, "not understood");
    assert_refused("host=x password=s3cret s3cret", STATUS_INVALID, "not understood");
    assert_refused("host=127.0.0.1 port=1 user=ada password=s3cret dbname=x", STATUS_UNAVAILABLE,
                   "127.0.0.1:1/x");
}

static void tables_of_a_later_version_are_left_alone(void **state)
{
    struct scene *scene = *state;
    free(pgserver_sql(scene->url, "UPDATE lazaret.meta SET value = 99 WHERE name = 'version'"));
    assert_refused(scene->url, STATUS_FOREIGN, "version 99");
}

static void a_schema_of_somebody_else_is_left_alone(void **state)
{
    char url[PGSERVER_URL_MAX];
    (void)state;
    pgserver_database(url, NULL);
    free(pgserver_sql(url, "CREATE SCHEMA lazaret; CREATE TABLE lazaret.beds(n int)"));
    assert_refused(url, STATUS_FOREIGN, "somebody else's");
    pgserver_drop(url);
}

static void a_role_that_may_not_write_is_told_what_to_do(void **state)
{
    struct scene *scene = *state;
    char url[PGSERVER_URL_MAX], empty[PGSERVER_URL_MAX];
    free(pgserver_sql(scene->url, "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN"));
    pgserver_database(empty, NULL);
    snprintf(url, sizeof(url), "postgres://guest@127.0.0.1:%u/%.60s", pgserver_port(),
             strrchr(empty, '/') + 1);
    assert_refused(url, STATUS_READ_ONLY, "must own");
    snprintf(url, sizeof(url), "postgres://guest@127.0.0.1:%u/%.60s", pgserver_port(),
             strrchr(scene->url, '/') + 1);
    assert_refused(url, STATUS_READ_ONLY, "must own");
    pgserver_drop(empty);
}

static void a_database_with_another_encoding_is_refused(void **state)
{
    struct scene *scene = *state;
    char url[PGSERVER_URL_MAX];
    free(pgserver_sql(scene->url, "CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0"
                                  " LC_COLLATE 'C' LC_CTYPE 'C'"));
    snprintf(url, sizeof(url), "postgres://postgres@127.0.0.1:%u/plain", pgserver_port());
    assert_refused(url, STATUS_FOREIGN, "ENCODING 'UTF8'");
    pgserver_drop(url);
}

static void a_writer_that_was_told_to_be_careless_is_not(void **state)
{
    struct scene *scene = *state;
    struct store *store = scene->store;
    /* A commit that nobody waited for would be reported as done before it is on disk. */
    free(pgserver_sql(scene->url,
                      "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off',"
                      " current_database()); END $$;"
                      "CREATE TABLE seen(how text);"
                      "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                      " INSERT INTO public.seen VALUES(current_setting('synchronous_commit'));"
                      " RETURN NULL; END $$;"
                      "CREATE TRIGGER see AFTER INSERT ON lazaret.turn FOR EACH ROW"
                      " EXECUTE FUNCTION see()"));
    store->close(store);
    scene->store = NULL;
    assert_ok(scene, open_at(scene->url, seams_real(), &scene->store, &scene->err));
    push(scene, scene->store, "a");
    char *how = pgserver_sql(scene->url, "SELECT string_agg(how, ' ') FROM seen");
    assert_string_equal(how, "on");
    free(how);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, scene_setup, scene_teardown)

static void nothing_logged(enum log_level level, const char *line, void *ctx)
{
    (void)level, (void)line, (void)ctx;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_connection_killed_in_the_turn_loses_nothing),
        CASE(an_idle_connection_that_was_killed_is_not_noticed),
        CASE(a_commit_that_came_through_without_an_answer_has_succeeded),
        CASE(a_commit_that_did_not_come_through_has_failed),
        CASE(a_server_that_says_nothing_is_given_up),
        CASE(while_the_database_is_away_calls_fail_at_once_and_then_it_goes_on),
        CASE(servers_that_start_at_once_make_the_tables_once),
        CASE(a_job_is_leased_by_one_of_two_servers),
        CASE(who_listens_goes_on_listening_after_its_connection_was_killed),
        CASE(a_server_that_is_too_far_behind_reads_everything),
        CASE(a_database_that_was_restored_is_read_again),
        CASE(a_turn_without_a_write_leaves_no_trace),
        CASE(changed_rows_are_changed_in_place),
        CASE(a_password_is_in_no_sentence),
        CASE(tables_of_a_later_version_are_left_alone),
        CASE(a_schema_of_somebody_else_is_left_alone),
        CASE(a_role_that_may_not_write_is_told_what_to_do),
        CASE(a_database_with_another_encoding_is_refused),
        CASE(a_writer_that_was_told_to_be_careless_is_not),
    };
    log_set(LOG_ERROR, nothing_logged, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
