/* test_postgres_swarm: the relations swarm_dlq and swarm_events as the swarm's programs use them:
 * through plain connections, with the statements that their library sends. */
#include "store/suite.h"

#include <libpq-fe.h>
#include <string.h>

#include "base/json.h"
#include "base/seams.h"
#include "store/pgserver.h"
#include "store/postgres.h"

static char url[PGSERVER_URL_MAX];
static PGconn *program; /* a program of the swarm */
static struct place place;

/* ---- words ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    memset(&place, 0, sizeof(place));
    pgserver_database(url, NULL);
    program = PQconnectdb(url);
    return PQstatus(program) == CONNECTION_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    if (place.store)
        place.store->close(place.store);
    arena_release(&place.arena);
    PQfinish(program);
    pgserver_drop(url);
    return 0;
}

static void open_store(void)
{
    const struct postgres_config config = {.url = url, .seams = seams_real()};
    assert_ok(&place, store_postgres_open(&config, &place.store, &place.err));
}

/* run carries out a statement of the program, with texts for its parameters. */
static PGresult *run(const char *sql, const char *const *values, int count)
{
    PGresult *result = PQexecParams(program, sql, count, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(program));
    return result;
}

/* does runs statements without an answer. */
static void does(const char *sql)
{
    PGresult *result = PQexec(program, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(program));
    PQclear(result);
}

/* rows is the answer to a query: columns by '|', rows by a line's end; in the arena. */
static const char *rows(const char *sql)
{
    PGresult *result = run(sql, NULL, 0);
    struct slice text = SLICE("");
    for (int i = 0; i < PQntuples(result); i++)
        for (int k = 0; k < PQnfields(result); k++)
            text = arena_printf(&place.arena, "%.*s%s%s", SLICE_ARG(text),
                                k       ? "|"
                                : i > 0 ? "\n"
                                        : "",
                                PQgetisnull(result, i, k) ? "-" : PQgetvalue(result, i, k));
    PQclear(result);
    return text.len ? text.ptr : "";
}

#define assert_rows(sql, expected) assert_string_equal(rows(sql), (expected))

#define ONE "0192aaaa-0000-7000-8000-000000000001"
#define TWO "0192aaaa-0000-7000-8000-000000000002"
#define THREE "0192aaaa-0000-7000-8000-000000000003"

#define FIELDS                                                                                     \
    "dlq_id, original_subject, original_payload, reason, reason_detail, failed_at, retry_count, "  \
    "max_retries, retry_history, source, recoverable, recovered, recovered_at, recovered_by"

/* insert_entry is the library's Insert; it says how many rows that made. */
static int insert_entry(const char *dlq_id, const char *payload, const char *reason,
                        const char *source, const char *failed_at)
{
    const char *values[] = {dlq_id,
                            "swarm.task.request",
                            payload,
                            reason,
                            "detail",
                            failed_at,
                            "2",
                            "3",
                            "[{\"attempt\":1,\"agent\":\"a7\",\"mood\":\"sad\"}]",
                            source,
                            "true"};
    PGresult *result = run("INSERT INTO swarm_dlq (dlq_id, original_subject, original_payload, "
                           "reason, reason_detail, failed_at, retry_count, max_retries, "
                           "retry_history, source, recoverable) VALUES ($1, $2, $3, $4, $5, $6, "
                           "$7, $8, $9, $10, $11) ON CONFLICT (dlq_id) DO NOTHING",
                           values, 11);
    int count = (int)strtol(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return count;
}

/* mark_recovered is the library's MarkRecovered. */
static int mark_recovered(const char *dlq_id, const char *by)
{
    const char *values[] = {dlq_id, by};
    PGresult *result = run("UPDATE swarm_dlq SET recovered = true, recovered_at = now(), "
                           "recovered_by = $2 WHERE dlq_id = $1 AND recovered = false",
                           values, 2);
    int count = (int)strtol(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return count;
}

static size_t inbox(struct inbox_item **items)
{
    size_t count;
    assert_ok(&place,
              place.store->inbox_list(place.store, 99, &place.arena, items, &count, &place.err));
    return count;
}

static void assert_member(struct slice body, const char *name, const char *raw)
{
    struct json object, value;
    assert_int_equal(json_parse(body, &object, NULL), STATUS_OK);
    assert_true(json_get(object, name, &value));
    assert_slice(value.raw, raw);
}

/* die makes a letter with an envelope. */
static struct letter die(const char *dlq_id, struct slice body, enum letter_state state)
{
    struct slice job_id = arena_printf(&place.arena, "job-%s", dlq_id);
    struct store *store = place.store;
    begin(&place);
    struct job job = job_on(&place, "q", job_id.ptr);
    assert_ok(&place, store->job_insert(store, &job, job_id, body, &place.err));
    assert_ok(&place, store->attempt_add(store, job.seq, 1,
                                         SLICE("{\"timestamp\":\"2026-02-13T06:22:00Z\","
                                               "\"agent_id\":\"w1\",\"error_message\":\"no\"}"),
                                         &place.err));
    struct letter letter = letter_of(&place, &job, dlq_id, NOON);
    letter.state = state;
    if (state != LETTER_DEAD) {
        letter.recovered_by = SLICE("ada");
        letter.recovered_at = at(NOON + HOUR);
    }
    bury(&place, &job, &letter, "text");
    commit(&place);
    return letter;
}

static void change(struct letter *letter, enum letter_state state)
{
    begin(&place);
    letter->state = state;
    put(&place, letter, NULL, false);
    commit(&place);
}

/* ---- the library ---------------------------------------------------------------------------- */

static void the_statements_of_the_library_do_what_they_did(void **state)
{
    (void)state;
    open_store();
    does("SET timezone = 'UTC'");
    assert_int_equal(insert_entry(ONE, "{\"b\": 1}", "r1", "dispatch", "2026-02-13T06:22:00Z"), 1);
    assert_int_equal(insert_entry(ONE, "{\"b\": 2}", "r2", "warren", "2026-02-13T06:22:00Z"), 0);
    assert_int_equal(insert_entry(TWO, "[]", "r2", "warren", "now"), 1);
    assert_int_equal(insert_entry(THREE, "[]", "r2", "warren", "now"), 1);
    /* Get */
    assert_rows("SELECT " FIELDS " FROM swarm_dlq WHERE dlq_id = '" ONE "'",
                ONE "|swarm.task.request|{\"b\": 1}|r1|detail|2026-02-13 06:22:00+00|2|3|"
                    "[{\"mood\": \"sad\", \"agent\": \"a7\", \"attempt\": 1}]|dispatch|t|f|-|-");
    /* List */
    assert_rows("SELECT dlq_id FROM swarm_dlq WHERE 1=1 AND recovered = false AND reason = 'r1' "
                "AND source = 'dispatch' ORDER BY failed_at DESC LIMIT 50",
                ONE);
    /* ListRecoverable: the first is older than a day */
    assert_rows("SELECT dlq_id FROM swarm_dlq WHERE recoverable = true AND recovered = false "
                "AND failed_at > now() - interval '24 hours' ORDER BY failed_at ASC",
                TWO "\n" THREE);
    /* MarkRecovered */
    assert_int_equal(mark_recovered(TWO, "auto-scanner"), 1);
    assert_int_equal(mark_recovered(TWO, "api-retry"), 0);
    /* Stats */
    assert_rows("SELECT count(*) FROM swarm_dlq", "3");
    assert_rows("SELECT count(*) FROM swarm_dlq WHERE recovered = false", "2");
    assert_rows("SELECT count(*) FROM swarm_dlq WHERE recoverable = true AND recovered = false",
                "2");
    assert_rows("SELECT reason, count(*) FROM swarm_dlq WHERE recovered = false GROUP BY reason "
                "ORDER BY 1",
                "r1|1\nr2|1");
    assert_rows("SELECT source, count(*) FROM swarm_dlq WHERE recovered = false GROUP BY source "
                "ORDER BY 1",
                "dispatch|1\nwarren|1");
}

static void the_columns_have_the_types_of_the_swarm(void **state)
{
    (void)state;
    open_store();
    assert_rows("SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' "
                "ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'swarm_dlq'::regclass "
                "AND attnum > 0",
                "dlq_id uuid, original_subject text, original_payload jsonb, reason text, "
                "reason_detail text, failed_at timestamp with time zone, retry_count integer, "
                "max_retries integer, retry_history jsonb, source text, recoverable boolean, "
                "recovered boolean, recovered_at timestamp with time zone, recovered_by text, "
                "state text");
}

/* ---- the inbox ------------------------------------------------------------------------------ */

static void what_a_program_inserts_waits_in_the_inbox(void **state)
{
    struct inbox_item *items;
    (void)state;
    open_store();
    assert_int_equal(inbox(&items), 0);
    does("SET timezone = 'Asia/Kolkata'");
    insert_entry(ONE, "{\"b\": [1, 2.50]}", "r1", "dispatch", "2026-02-13T06:22:00.5Z");
    insert_entry(ONE, "{}", "r1", "dispatch", "2026-02-13T06:22:00Z");
    does("INSERT INTO swarm_dlq(original_subject, failed_at, recoverable)"
         " VALUES('s', '0001-01-01 00:00:00+00', NULL)");
    assert_int_equal(inbox(&items), 2);
    assert_true(items[0].is_new && items[1].is_new && items[0].seq < items[1].seq);
    assert_member(items[0].body, "dlq_id", "\"" ONE "\"");
    assert_member(items[0].body, "original_payload", "{\"b\": [1, 2.50]}");
    assert_member(items[0].body, "failed_at", "\"2026-02-13T06:22:00.500000Z\"");
    assert_member(items[0].body, "retry_count", "2");
    assert_member(items[0].body, "recoverable", "true");
    assert_member(items[0].body, "recovered", "false");
    assert_member(items[0].body, "retry_history",
                  "[{\"mood\": \"sad\", \"agent\": \"a7\", \"attempt\": 1}]");
    struct json object, value;
    assert_int_equal(json_parse(items[0].body, &object, NULL), STATUS_OK);
    assert_false(json_get(object, "recovered_at", &value) || json_get(object, "state", &value));
    /* What was left out was filled in, in the table too. */
    assert_member(items[1].body, "recoverable", "true");
    assert_rows("SELECT count(*) FROM swarm_dlq WHERE dlq_id IS NOT NULL"
                " AND failed_at > now() - interval '1 hour' AND recoverable",
                "1");
    /* Only what was done goes. */
    begin(&place);
    assert_ok(&place, place.store->inbox_done(place.store, &items[0].seq, 1, &place.err));
    rollback(&place);
    assert_int_equal(inbox(&items), 2);
    begin(&place);
    assert_ok(&place, place.store->inbox_done(place.store, &items[0].seq, 1, &place.err));
    commit(&place);
    struct inbox_item *left;
    assert_int_equal(inbox(&left), 1);
    assert_true(left[0].seq == items[1].seq);
}

static void a_row_that_becomes_recovered_waits_in_the_inbox(void **state)
{
    struct inbox_item *items;
    (void)state;
    open_store();
    die(ONE, SLICE("{}"), LETTER_DEAD);
    die("not a uuid", SLICE("{}"), LETTER_DEAD);
    assert_int_equal(inbox(&items), 0); /* the letters are the store's own doing */
    does("UPDATE swarm_dlq SET reason_detail = 'looked at'");
    assert_int_equal(inbox(&items), 0);
    assert_int_equal(mark_recovered(ONE, "ada"), 1);
    does("UPDATE swarm_dlq SET recovered_by = 'bob' WHERE recovered");
    assert_int_equal(inbox(&items), 1);
    assert_false(items[0].is_new);
    assert_member(items[0].body, "dlq_id", "\"" ONE "\"");
    assert_member(items[0].body, "recovered", "true");
    assert_member(items[0].body, "recovered_by", "\"ada\"");
    does("UPDATE swarm_dlq SET recovered = true WHERE NOT recovered");
    assert_int_equal(inbox(&items), 2);
    assert_member(items[1].body, "dlq_id", "\"not a uuid\""); /* the letter's own id */
}

static void a_row_that_may_not_be_recovered_any_more_waits_in_the_inbox(void **state)
{
    struct inbox_item *items;
    (void)state;
    open_store();
    die(ONE, SLICE("{}"), LETTER_DEAD);
    does("UPDATE swarm_dlq SET recoverable = true");
    assert_int_equal(inbox(&items), 0);
    does("UPDATE swarm_dlq SET recoverable = false");
    assert_int_equal(inbox(&items), 1);
    assert_false(items[0].is_new);
    assert_member(items[0].body, "dlq_id", "\"" ONE "\"");
    assert_member(items[0].body, "recoverable", "false");
    assert_member(items[0].body, "recovered", "false");
    does("UPDATE swarm_dlq SET recoverable = true");
    assert_int_equal(inbox(&items), 2);
    assert_member(items[1].body, "recoverable", "true");
}

static void a_program_of_another_role_needs_no_rights_to_the_store(void **state)
{
    struct inbox_item *items;
    (void)state;
    open_store();
    does("DROP ROLE IF EXISTS swarm_program");
    does("CREATE ROLE swarm_program; GRANT SELECT, INSERT, UPDATE ON swarm_dlq TO swarm_program;"
         "GRANT SELECT ON swarm_events TO swarm_program; SET ROLE swarm_program");
    insert_entry(ONE, "{}", "r1", "dispatch", "now");
    assert_int_equal(mark_recovered(ONE, "ada"), 1);
    assert_rows("SELECT count(*) FROM swarm_events", "0");
    does("RESET ROLE; DROP OWNED BY swarm_program; DROP ROLE swarm_program");
    assert_int_equal(inbox(&items), 2);
}

/* ---- letters -------------------------------------------------------------------------------- */

static void a_letter_is_shown_in_every_state(void **state)
{
    static const struct {
        enum letter_state state;
        const char *row;
    } table[] = {
        {LETTER_DEAD, "dead|t|f|-|-"},
        {LETTER_RECOVERING, "recovering|f|f|-|-"},
        {LETTER_RECOVERED, "recovered|t|t|2026-09-21 15:13:20+00|ada"},
        {LETTER_DISCARDED, "discarded|t|t|2026-09-21 15:13:20+00|ada"},
        {LETTER_ROLLED_BACK, "rolled_back|t|t|2026-09-21 15:13:20+00|ada"},
        {LETTER_DEAD, "dead|t|f|-|-"},
    };
    (void)state;
    open_store();
    does("SET timezone = 'UTC'");
    struct letter letter = die(ONE, SLICE("{\"action\":\"ship\"}"), LETTER_DEAD);
    letter.recovered_by = SLICE("ada");
    letter.recovered_at = at(NOON + HOUR);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        change(&letter, table[i].state);
        assert_rows("SELECT state, recoverable, recovered, recovered_at, recovered_by "
                    "FROM swarm_dlq",
                    table[i].row);
    }
    assert_rows("SELECT dlq_id, original_subject, original_payload, reason, reason_detail, "
                "failed_at, retry_count, max_retries, retry_history, source FROM swarm_dlq",
                ONE "|jobs.q|{\"action\": \"ship\"}|retries_exhausted|5 of 5 attempts|"
                    "2026-09-21 14:13:20+00|5|5|[{\"agent\": \"w1\", \"attempt\": 1, "
                    "\"attempted_at\": \"2026-02-13T06:22:00Z\", \"failure_reason\": \"no\"}]|"
                    "lazaret");
    assert_rows("SELECT count(*) FROM lazaret.swarm_late", "0");
}

static void a_letter_that_dies_again_shows_its_last_death(void **state)
{
    (void)state;
    open_store();
    struct letter letter = die(ONE, SLICE("{}"), LETTER_DEAD);
    begin(&place);
    letter.failed_at = at(NOON + SECOND);
    letter.failure_count = UINT32_MAX;
    letter.reason = SLICE("other");
    put(&place, &letter, NULL, true);
    letter.reason = SLICE("another"); /* twice in one turn */
    put(&place, &letter, NULL, false);
    commit(&place);
    assert_rows("SELECT extract(epoch FROM failed_at)::bigint, retry_count, reason FROM swarm_dlq",
                "1790000001|2147483647|another");
}

static void a_letter_that_is_undone_is_not_shown(void **state)
{
    (void)state;
    open_store();
    begin(&place);
    struct job job = insert(&place, job_on(&place, "q", "a"), "a");
    struct letter letter = letter_of(&place, &job, ONE, NOON);
    bury(&place, &job, &letter, "text");
    rollback(&place);
    die(TWO, SLICE("{}"), LETTER_DEAD);
    assert_rows("SELECT dlq_id FROM swarm_dlq", TWO);
}

static void a_purged_letter_is_shown_no_longer(void **state)
{
    struct inbox_item *items;
    (void)state;
    open_store();
    struct letter letter = die(ONE, SLICE("{}"), LETTER_DEAD);
    struct letter other = die("no uuid", SLICE("{}"), LETTER_DEAD);
    die(TWO, SLICE("{}"), LETTER_DEAD);
    begin(&place);
    assert_ok(&place, place.store->letter_purge(place.store, &letter, at(NOON), &place.err));
    assert_ok(&place, place.store->letter_purge(place.store, &other, at(NOON), &place.err));
    commit(&place);
    assert_rows("SELECT dlq_id FROM swarm_dlq", TWO);
    assert_int_equal(inbox(&items), 0);
}

static void any_bytes_are_shown_as_json(void **state)
{
    static const struct {
        struct slice body;
        const char *shown;
    } table[] = {
        {SLICE("{\"a\":1,\"a\":2}"), "{\"a\": 2}"},
        {SLICE("12"), "12"},
        {SLICE("plain \"words\""), "\"plain \\\"words\\\"\""},
        {SLICE("{\"a\":\"\\u0000\"}"), "\"{\\\"a\\\":\\\"\\\\u0000\\\"}\""},
        {SLICE("{\"a\":1e999999}"), "\"{\\\"a\\\":1e999999}\""},
        {SLICE("a\0b"), "{\"base64\": \"YQBi\"}"},
        {SLICE("\xff\xfe"), "{\"base64\": \"//4=\"}"},
        {SLICE(""), "\"\""},
    };
    (void)state;
    open_store();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const char *id = arena_printf(&place.arena, "d%zu", i).ptr;
        die(id, table[i].body, LETTER_DEAD);
        assert_rows(arena_printf(&place.arena,
                                 "SELECT original_payload FROM swarm_dlq WHERE dlq_id = md5('%s')::"
                                 "uuid",
                                 id)
                        .ptr,
                    table[i].shown);
    }
    assert_rows("SELECT count(*) FROM lazaret.swarm_late", "0");
}

static void times_that_cannot_be_shown_do_no_harm(void **state)
{
    static const int64_t times[] = {INT64_MIN, INT64_MAX, 0};
    (void)state;
    open_store();
    for (size_t i = 0; i < 3; i++)
        dead(&place, i == 0 ? "a" : i == 1 ? "b" : "c", times[i]);
    assert_rows("SELECT count(*) FROM swarm_dlq", "3");
    assert_rows("SELECT count(*) FROM lazaret.swarm_late", "0");
}

/* ---- both ----------------------------------------------------------------------------------- */

static void taking_a_row_in_leaves_what_the_program_wrote(void **state)
{
    (void)state;
    open_store();
    insert_entry(ONE, "{\"z\": 1}", "r1", "dispatch", "2026-02-13T06:22:00Z");
    const char *kept = "SELECT original_subject, original_payload, reason, reason_detail, "
                       "failed_at, retry_count, max_retries, retry_history, source FROM swarm_dlq";
    const char *before = rows(kept);
    begin(&place);
    struct job job = insert(&place, job_on(&place, "q", "a"), "a");
    struct letter letter = letter_of(&place, &job, ONE, NOON);
    letter.foreign = true;
    bury(&place, &job, &letter, "text");
    commit(&place);
    assert_string_equal(rows(kept), before);
    assert_rows("SELECT state, recoverable, recovered FROM swarm_dlq", "dead|t|f");
    letter.recovered_by = SLICE("scanner");
    change(&letter, LETTER_RECOVERED);
    assert_string_equal(rows(kept), before);
    assert_rows("SELECT state, recovered, recovered_by FROM swarm_dlq", "recovered|t|scanner");
}

static void a_row_that_somebody_holds_does_not_stop_the_store(void **state)
{
    (void)state;
    open_store();
    struct letter letter = die(ONE, SLICE("{}"), LETTER_DEAD);
    does("BEGIN; SELECT 1 FROM swarm_dlq FOR UPDATE");
    change(&letter, LETTER_DISCARDED);
    does("COMMIT");
    assert_rows("SELECT s.state, l.dlq_id FROM swarm_dlq AS s, lazaret.swarm_late AS l",
                "dead|" ONE);
    /* When its time has come, the next letter takes it along. */
    die(TWO, SLICE("{}"), LETTER_DEAD);
    assert_rows("SELECT state FROM swarm_dlq WHERE dlq_id = '" ONE "'", "dead");
    does("UPDATE lazaret.swarm_late SET again = now() - interval '1 second'");
    die(THREE, SLICE("{}"), LETTER_DEAD);
    assert_rows("SELECT state FROM swarm_dlq ORDER BY dlq_id", "discarded\ndead\ndead");
    assert_rows("SELECT count(*) FROM lazaret.swarm_late", "0");
}

static void a_rule_of_the_tables_owner_does_not_stop_the_store(void **state)
{
    (void)state;
    open_store();
    does("ALTER TABLE swarm_dlq ADD CHECK (dlq_id <> '" TWO "')");
    begin(&place);
    for (int i = 0; i < 3; i++) {
        const char *id = i == 0 ? ONE : i == 1 ? TWO : THREE;
        struct job job = insert(&place, job_on(&place, "q", id), id);
        struct letter letter = letter_of(&place, &job, id, NOON);
        bury(&place, &job, &letter, "text");
    }
    commit(&place);
    assert_rows("SELECT dlq_id FROM swarm_dlq ORDER BY 1", ONE "\n" THREE);
    assert_rows("SELECT dlq_id, error LIKE '%check constraint%' FROM lazaret.swarm_late", TWO "|t");
}

/* ---- imports -------------------------------------------------------------------------------- */

static enum status get(const char *dlq_id)
{
    struct letter found;
    return place.store->letter_get(place.store, slice_of(dlq_id), &place.arena, &found, &place.err);
}

static enum status by_origin(uint64_t origin)
{
    struct letter found;
    return place.store->letter_by_origin(place.store, origin, &place.arena, &found, &place.err);
}

/* import writes a letter from elsewhere; within a transaction. */
static struct letter import(const char *dlq_id, uint64_t origin)
{
    struct job job = job_on(&place, "q", dlq_id);
    job.seq = place.store->seq_next(place.store);
    assert_ok(&place, place.store->envelope_add(place.store, job.seq, slice_of(dlq_id), SLICE("{}"),
                                                &job.envelope_seq, &place.err));
    struct letter letter = letter_of(&place, &job, dlq_id, NOON);
    letter.foreign = true;
    letter.job.idempotency_hash = origin;
    put(&place, &letter, "text", true);
    return letter;
}

static void what_is_expected_is_found_if_and_only_if_it_is_there(void **state)
{
    const struct letter_wanted wanted[] = {
        {SLICE(ONE), 1}, {SLICE(TWO), 2}, {SLICE(TWO), 0}, {{0}, 4}, {SLICE("x\xff"), 5}};
    (void)state;
    open_store();
    begin(&place);
    import(ONE, 1);
    commit(&place);
    for (int round = 0; round < 2; round++) {
        begin(&place);
        if (round == 0)
            assert_ok(&place, postgres_letter_expect(place.store, wanted, 5, &place.err));
        assert_int_equal(get(ONE), STATUS_OK);
        assert_int_equal(by_origin(1), STATUS_OK);
        assert_int_equal(get(TWO), STATUS_NOT_FOUND);
        assert_int_equal(by_origin(2), STATUS_NOT_FOUND);
        assert_int_equal(by_origin(4), STATUS_NOT_FOUND);
        assert_int_equal(get("x\xff"), STATUS_NOT_FOUND);
        struct letter two = import(TWO, 4);
        import("x\xff", 5);
        assert_int_equal(get(TWO), STATUS_OK);
        assert_int_equal(by_origin(4), STATUS_OK);
        assert_int_equal(by_origin(2), STATUS_NOT_FOUND);
        assert_int_equal(get("x\xfe"), STATUS_OK); /* the same text, as PostgreSQL has it */
        assert_ok(&place, place.store->letter_purge(place.store, &two, at(NOON), &place.err));
        assert_int_equal(get(TWO), STATUS_NOT_FOUND);
        assert_int_equal(by_origin(4), STATUS_NOT_FOUND);
        rollback(&place);
    }
}

/* ---- adoption ------------------------------------------------------------------------------- */

static void a_table_that_is_there_is_adopted_with_its_rows(void **state)
{
    struct inbox_item *items;
    (void)state;
    does("CREATE TABLE swarm_dlq (dlq_id uuid PRIMARY KEY, original_subject text NOT NULL, "
         "original_payload jsonb NOT NULL, reason text NOT NULL, reason_detail text, "
         "failed_at timestamptz NOT NULL DEFAULT now(), retry_count int NOT NULL DEFAULT 0, "
         "max_retries int NOT NULL DEFAULT 3, retry_history jsonb DEFAULT '[]', "
         "source text NOT NULL, recoverable boolean DEFAULT true, recovered boolean DEFAULT false, "
         "recovered_at timestamptz, recovered_by text, created_at timestamptz DEFAULT now(), "
         "tenant text NOT NULL)");
    does("INSERT INTO swarm_dlq(dlq_id, original_subject, original_payload, reason, failed_at, "
         "source, tenant) VALUES('" TWO "', 's', '{\"n\": 2}', 'r', '2026-02-02', 'x', 't'), "
         "('" ONE "', 's', '{\"n\": 1}', 'r', '2026-02-01', 'x', 't')");
    open_store();
    assert_int_equal(inbox(&items), 2); /* the oldest first */
    assert_true(items[0].is_new);
    assert_member(items[0].body, "dlq_id", "\"" ONE "\"");
    assert_member(items[0].body, "original_payload", "{\"n\": 1}");
    assert_member(items[1].body, "dlq_id", "\"" TWO "\"");
    /* Nothing is taken in twice. */
    place.store->close(place.store);
    open_store();
    assert_int_equal(inbox(&items), 2);
    /* A letter of ours has no tenant, and programs go on. */
    die(THREE, SLICE("{}"), LETTER_DEAD);
    assert_rows("SELECT state, tenant FROM swarm_dlq ORDER BY dlq_id", "-|t\n-|t\ndead|-");
    assert_rows("SELECT count(*) FROM lazaret.swarm_late", "0");
    assert_int_equal(mark_recovered(ONE, "ada"), 1);
    assert_int_equal(inbox(&items), 3);
}

static void a_table_without_keys_gets_them(void **state)
{
    struct inbox_item *items;
    (void)state;
    does("CREATE TABLE swarm_dlq (dlq_id uuid, original_payload jsonb, failed_at timestamptz)");
    does("INSERT INTO swarm_dlq VALUES(NULL, '1', NULL), ('" ONE "', '2', now()), "
         "('" ONE "', '3', now())");
    open_store();
    assert_int_equal(inbox(&items), 3);
    assert_rows("SELECT count(DISTINCT dlq_id), count(failed_at), count(*) FILTER (WHERE dlq_id = "
                "'" ONE "') FROM swarm_dlq",
                "3|3|1");
    assert_int_equal(insert_entry(ONE, "{}", "r", "s", "now"), 0);
    assert_int_equal(insert_entry(TWO, "{}", "r", "s", "now"), 1);
    die(THREE, SLICE("{}"), LETTER_DEAD);
    assert_rows("SELECT state FROM swarm_dlq WHERE dlq_id = '" THREE "'", "dead");
}

static void a_table_with_other_types_keeps_them(void **state)
{
    struct inbox_item *items;
    (void)state;
    does("CREATE TABLE swarm_dlq (dlq_id text PRIMARY KEY, original_payload text, "
         "reason varchar(8), failed_at timestamp, retry_history json, recovered boolean)");
    does("INSERT INTO swarm_dlq VALUES('x1', '{\"n\": 1}', 'r', '2026-02-01 10:00', '[]', false)");
    open_store();
    assert_int_equal(inbox(&items), 1);
    assert_member(items[0].body, "dlq_id", "\"x1\"");
    assert_member(items[0].body, "original_payload", "{\"n\": 1}");
    assert_member(items[0].body, "failed_at", "\"2026-02-01T10:00:00.000000Z\"");
    die("d-1", SLICE("{\"n\":2}"), LETTER_DEAD);
    assert_rows("SELECT dlq_id, original_payload, reason, failed_at, json_array_length("
                "retry_history), state FROM swarm_dlq WHERE state = 'dead'",
                "d-1|{\"n\": 2}|retries_|2026-09-21 14:13:20|1|dead");
    does("UPDATE swarm_dlq SET recovered = true WHERE dlq_id = 'd-1'");
    assert_int_equal(inbox(&items), 2);
    assert_member(items[1].body, "dlq_id", "\"d-1\"");
}

static void what_is_no_table_is_refused_with_a_sentence(void **state)
{
    struct store *store;
    const struct postgres_config config = {.url = url, .seams = seams_real()};
    (void)state;
    does("CREATE VIEW swarm_dlq AS SELECT 1 AS dlq_id");
    assert_int_not_equal(store_postgres_open(&config, &store, &place.err), STATUS_OK);
    assert_non_null(strstr(place.err.text, "swarm_dlq is not a table"));
    does("DROP VIEW swarm_dlq");
    open_store();
}

static void the_tables_are_in_the_schema_that_programs_look_in_first(void **state)
{
    (void)state;
    does("CREATE SCHEMA swarm; DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = "
         "swarm, public', current_database()); END $$");
    PQreset(program);
    open_store();
    die(ONE, SLICE("{}"), LETTER_DEAD);
    assert_rows("SELECT dlq_id FROM swarm.swarm_dlq", ONE);
    assert_rows("SELECT to_regclass('swarm.swarm_events') IS NOT NULL, "
                "to_regclass('public.swarm_dlq') IS NULL",
                "t|t");
}

/* ---- events --------------------------------------------------------------------------------- */

static void every_event_is_a_row_of_swarm_events(void **state)
{
    (void)state;
    open_store();
    does("SET timezone = 'UTC'");
    struct letter letter = die(ONE, SLICE("{}"), LETTER_DEAD);
    struct event events[] = {
        {.at = at(NOON),
         .actor = SLICE("human:ada"),
         .job_seq = letter.job.seq,
         .what = SLICE("discarded"),
         .why = SLICE("{\"note\":\"n\\u0000\"}")},
        {.at = at(NOON + SECOND),
         .actor = SLICE("engine"),
         .what = SLICE("queue-paused"),
         .why = SLICE("{}")},
    };
    begin(&place);
    for (int i = 0; i < 2; i++)
        assert_ok(&place, place.store->event_append(place.store, &events[i], &place.err));
    commit(&place);
    const char *all = "SELECT event_id, event_type, occurred_at, actor, job_id, dlq_id, source, "
                      "payload FROM swarm_events ORDER BY event_id";
    const char *shown = "1|discarded|2026-09-21 14:13:20+00|human:ada|job-" ONE "|" ONE
                        "|lazaret|{\"note\":\"n\\u0000\"}\n"
                        "2|queue-paused|2026-09-21 14:13:21+00|engine|-|-|lazaret|{}";
    assert_rows(all, shown);
    /* What was purged is named still. */
    begin(&place);
    assert_ok(&place, place.store->letter_purge(place.store, &letter, at(NOON), &place.err));
    commit(&place);
    assert_rows(all, shown);
}

static void a_relation_of_events_that_is_not_ours_stays(void **state)
{
    (void)state;
    does("CREATE TABLE swarm_events(a int); INSERT INTO swarm_events VALUES(7)");
    open_store();
    assert_rows("SELECT a FROM swarm_events", "7");
}

#define SWARM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        SWARM_TEST(the_statements_of_the_library_do_what_they_did),
        SWARM_TEST(the_columns_have_the_types_of_the_swarm),
        SWARM_TEST(what_a_program_inserts_waits_in_the_inbox),
        SWARM_TEST(a_row_that_becomes_recovered_waits_in_the_inbox),
        SWARM_TEST(a_row_that_may_not_be_recovered_any_more_waits_in_the_inbox),
        SWARM_TEST(a_program_of_another_role_needs_no_rights_to_the_store),
        SWARM_TEST(a_letter_is_shown_in_every_state),
        SWARM_TEST(a_letter_that_dies_again_shows_its_last_death),
        SWARM_TEST(a_letter_that_is_undone_is_not_shown),
        SWARM_TEST(a_purged_letter_is_shown_no_longer),
        SWARM_TEST(any_bytes_are_shown_as_json),
        SWARM_TEST(times_that_cannot_be_shown_do_no_harm),
        SWARM_TEST(taking_a_row_in_leaves_what_the_program_wrote),
        SWARM_TEST(a_row_that_somebody_holds_does_not_stop_the_store),
        SWARM_TEST(a_rule_of_the_tables_owner_does_not_stop_the_store),
        SWARM_TEST(what_is_expected_is_found_if_and_only_if_it_is_there),
        SWARM_TEST(a_table_that_is_there_is_adopted_with_its_rows),
        SWARM_TEST(a_table_without_keys_gets_them),
        SWARM_TEST(a_table_with_other_types_keeps_them),
        SWARM_TEST(what_is_no_table_is_refused_with_a_sentence),
        SWARM_TEST(the_tables_are_in_the_schema_that_programs_look_in_first),
        SWARM_TEST(every_event_is_a_row_of_swarm_events),
        SWARM_TEST(a_relation_of_events_that_is_not_ours_stays),
    };
    return cmocka_run_group_tests_name("postgres_swarm", tests, NULL, NULL);
}
