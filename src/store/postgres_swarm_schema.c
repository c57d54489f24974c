/* postgres_swarm_schema: the relations of the swarm.  A part of migration 1 (postgres_schema.c).
 *
 *     programs --INSERT, UPDATE--> swarm_dlq --trigger--> lazaret.inbox --> the engine
 *     programs <----- SELECT ------ swarm_dlq <--lazaret.swarm_put-- letters of a turn
 *
 * swarm_dlq is a real table, so that every statement of the swarm's programs works on it.  It shows
 * each letter in the swarm's columns, and `state` besides.  A table of that name that was there
 * before is adopted as it is: what it lacks is added, its types stay, its rows are taken in.
 *
 * The table is not ours alone, so nothing that is wrong with it may stop a turn: a row that cannot
 * be written (somebody holds its lock, a constraint of the owner's) is put off in
 * lazaret.swarm_late. */
#include "store/postgres_letter.h"

/* SQL is laid out by hand: it is read as a program, not as C. */
/* clang-format off */

/* -- one thing in the form of another ---------------------------------------------------------- */

#define SWARM_FUNCTIONS                                                                            \
    /* Microseconds as a time, within the years that can be written; 0 is none. */                 \
    "CREATE FUNCTION lazaret.time_of(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$"  \
    " SELECT CASE WHEN us <> 0 THEN to_timestamp(greatest(least(us, 253402300799000000),"          \
    " -62135596800000000) / 1000000.0::float8) END $$;"                                            \
                                                                                                   \
    /* The swarm's key of a letter: its id, or a UUID that is made from it. */                     \
    "CREATE FUNCTION lazaret.swarm_id(dlq_id text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$"      \
    " SELECT CASE WHEN dlq_id LIKE '________-____-____-____-____________'"                         \
    " AND translate(dlq_id, '0123456789abcdefABCDEF', '') = '----'"                                \
    " THEN dlq_id::uuid ELSE md5(dlq_id)::uuid END $$;"                                            \
    "CREATE INDEX letter_swarm_id ON lazaret.letter(lazaret.swarm_id(dlq_id))"                     \
    " WHERE dlq_id <> lazaret.swarm_id(dlq_id)::text;"                                             \
                                                                                                   \
    /* A payload as jsonb: JSON as it is, else a string, else an object that has it in base64. */  \
    "CREATE FUNCTION lazaret.swarm_payload(body bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE"   \
    " AS $$ BEGIN"                                                                                 \
    " BEGIN RETURN convert_from(body, 'UTF8')::jsonb; EXCEPTION WHEN OTHERS THEN NULL; END;"       \
    " BEGIN RETURN to_jsonb(convert_from(body, 'UTF8')); EXCEPTION WHEN OTHERS THEN NULL; END;"    \
    " RETURN jsonb_build_object('base64', translate(encode(body, 'base64'), E'\\n', ''));"         \
    " END $$;"

/* -- what others write ------------------------------------------------------------------------- */

#define SWARM_TRIGGERS                                                                             \
    /* A time as the API has it; what is no time stays as it is. */                                \
    "CREATE FUNCTION lazaret.swarm_time(at text) RETURNS text LANGUAGE plpgsql STABLE"             \
    " SET timezone = 'UTC' AS $$ BEGIN"                                                            \
    " RETURN to_char(at::timestamptz, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"');"                       \
    " EXCEPTION WHEN OTHERS THEN RETURN at; END $$;"                                               \
                                                                                                   \
    /* A row as the engine takes it in: the swarm's fields, without those that are NULL. */        \
    "CREATE FUNCTION lazaret.swarm_form(given jsonb) RETURNS text LANGUAGE plpgsql STABLE"         \
    " SET timezone = 'UTC' AS $$ DECLARE form jsonb := '{}'; name text; value jsonb; BEGIN"        \
    " FOREACH name IN ARRAY ARRAY['dlq_id', 'original_subject', 'original_payload', 'reason',"     \
    " 'reason_detail', 'failed_at', 'retry_count', 'max_retries', 'retry_history', 'source',"      \
    " 'recoverable', 'recovered', 'recovered_at', 'recovered_by'] LOOP"                            \
    " value := given->name;"                                                                       \
    " IF name IN ('failed_at', 'recovered_at') THEN"                                               \
    "  value := to_jsonb(lazaret.swarm_time(given->>name));"                                       \
    /* A column of type text may hold JSON. */                                                     \
    " ELSIF name IN ('original_payload', 'retry_history', 'retry_count', 'max_retries',"           \
    "  'recoverable', 'recovered') AND jsonb_typeof(value) = 'string' AND given ? '~text' THEN"    \
    "  value := lazaret.swarm_payload(convert_to(given->>name, 'UTF8'));"                          \
    " END IF;"                                                                                     \
    " IF value <> 'null' OR name = 'original_payload' THEN"                                        \
    "  form := form || jsonb_build_object(name, coalesce(value, 'null'));"                         \
    " END IF; END LOOP; RETURN form::text; END $$;"                                                \
                                                                                                   \
    /* What a program left out. */                                                                 \
    "CREATE FUNCTION lazaret.swarm_fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"            \
    " IF NEW.dlq_id IS NULL THEN"                                                                  \
    "  NEW.dlq_id := md5(random()::text || clock_timestamp()::text)::uuid; END IF;"                \
    " IF NEW.failed_at IS NULL OR NEW.failed_at < '0002-01-01' THEN"                               \
    "  NEW.failed_at := now(); END IF;"                                                            \
    " IF NEW.recoverable IS NULL THEN NEW.recoverable := true; END IF;"                            \
    " IF NEW.recovered IS NULL THEN NEW.recovered := false; END IF;"                               \
    " RETURN NEW; END $$;"                                                                         \
                                                                                                   \
    /* A row was written by another program.  Its argument says whether columns are texts. */      \
    "CREATE FUNCTION lazaret.swarm_heard() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER"      \
    " SET search_path = pg_catalog, pg_temp AS $$"                                                 \
    " DECLARE given jsonb := to_jsonb(NEW); known text; BEGIN"                                     \
    " SELECT dlq_id INTO known FROM lazaret.letter WHERE dlq_id <> lazaret.swarm_id(dlq_id)::text" \
    " AND lazaret.swarm_id(dlq_id) = lazaret.swarm_id(given->>'dlq_id') LIMIT 1;"                  \
    " IF known IS NOT NULL THEN given := given || jsonb_build_object('dlq_id', known); END IF;"    \
    " IF TG_ARGV[0] = 'text' THEN given := given || '{\"~text\": true}'; END IF;"                  \
    " INSERT INTO lazaret.inbox(is_new, body)"                                                     \
    " VALUES(TG_OP = 'INSERT', lazaret.swarm_form(given));"                                        \
    " RETURN NULL; END $$;"

/* -- what others see --------------------------------------------------------------------------- */

#define SWARM_PUT                                                                                  \
    /* Puts off what cannot be written. */                                                         \
    "CREATE FUNCTION lazaret.swarm_late(ids text[], again timestamptz, error text) RETURNS void"   \
    " LANGUAGE sql AS $$ INSERT INTO lazaret.swarm_late(dlq_id, again, error)"                     \
    " SELECT DISTINCT id, $2, $3 FROM unnest($1) AS id ON CONFLICT (lazaret.key(dlq_id))"          \
    " DO UPDATE SET again = EXCLUDED.again, error = EXCLUDED.error $$;"                            \
                                                                                                   \
    /* A lock is waited for only briefly, as the turn waits too.  Plans are made once, when the */ \
    /* tables may be empty, and must be right when they are large: rows are found by their keys. */\
    "CREATE FUNCTION lazaret.swarm_put(ids text[]) RETURNS void LANGUAGE plpgsql"                  \
    " SET lock_timeout = '200ms' SET plan_cache_mode = force_generic_plan"                         \
    " SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off"               \
    " SET jit = off AS $$ DECLARE late text[]; one text; BEGIN"                                    \
    " SELECT array_agg(dlq_id) INTO late FROM (SELECT dlq_id FROM lazaret.swarm_late"              \
    " WHERE again < now() LIMIT 100) AS l;"                                                        \
    " BEGIN PERFORM lazaret.swarm_write(ids || late);"                                             \
    "  IF late IS NOT NULL THEN"                                                                   \
    "   DELETE FROM lazaret.swarm_late WHERE lazaret.key(dlq_id) = ANY(ARRAY(SELECT"               \
    "    lazaret.key(i) FROM unnest(ids || late) AS i)); END IF; RETURN;"                          \
    " EXCEPTION WHEN lock_not_available OR deadlock_detected THEN"                                 \
    "  PERFORM lazaret.swarm_late(ids || late, now() + interval '5 seconds', SQLERRM); RETURN;"    \
    " WHEN OTHERS THEN NULL; END;"                                                                 \
    " FOREACH one IN ARRAY ids || late LOOP"                                                       \
    "  BEGIN PERFORM lazaret.swarm_write(ARRAY[one]);"                                             \
    "   DELETE FROM lazaret.swarm_late WHERE lazaret.key(dlq_id) = lazaret.key(one);"              \
    "  EXCEPTION WHEN OTHERS THEN"                                                                 \
    "   PERFORM lazaret.swarm_late(ARRAY[one], now() + interval '1 hour', SQLERRM); END;"          \
    " END LOOP; END $$;"

/* -- the table --------------------------------------------------------------------------------- */

/* Each column: its type, its default, and what it shows of letter l; o is the envelope that the job
 * was pushed with, e the one in force.  `kept` is what an update leaves as it is in a row that a
 * program wrote, and in that of a letter from elsewhere. */
#define SWARM_COLUMNS                                                                              \
    "(1, 'dlq_id', 'uuid', NULL, 'lazaret.swarm_id(l.dlq_id)', true),"                             \
    "(2, 'original_subject', 'text', '''''', 'coalesce(l.original_subject, '''')', true),"         \
    "(3, 'original_payload', 'jsonb', '''null''',"                                                 \
    " 'coalesce(lazaret.swarm_payload(coalesce(o.body, e.body)), ''null'')', true),"               \
    "(4, 'reason', 'text', '''''', 'coalesce(l.reason, '''')', true),"                             \
    "(5, 'reason_detail', 'text', NULL, 'l.reason_detail', true),"                                 \
    "(6, 'failed_at', 'timestamptz', 'now()',"                                                     \
    " 'coalesce(lazaret.time_of(l.failed_at), to_timestamp(0))', true),"                           \
    "(7, 'retry_count', 'int', '0', 'least(l.failure_count, 2147483647)', true),"                  \
    "(8, 'max_retries', 'int', '0', 'least(l.max_attempts, 2147483647)', true),"                   \
    "(9, 'retry_history', 'jsonb', '''[]''', '(SELECT coalesce(jsonb_agg(jsonb_build_object("      \
    " ''attempt'', a.attempt, ''attempted_at'', f->''timestamp'',"                                 \
    " ''agent'', coalesce(f->>''agent_id'', ''''),"                                                \
    " ''failure_reason'', coalesce(f->>''error_message'', '''')) ORDER BY a.seq), ''[]'')"         \
    " FROM lazaret.attempt AS a, lazaret.swarm_payload(a.failure) AS f"                            \
    " WHERE a.job = l.job_seq)', true),"                                                           \
    "(10, 'source', 'text', '''''', 'coalesce(l.source, '''')', true),"                            \
    "(11, 'recoverable', 'boolean', 'true', '(l.recoverable = 1 AND l.state <> 1)', false),"       \
    "(12, 'recovered', 'boolean', 'false', '(l.state >= 2)', false),"                              \
    "(13, 'recovered_at', 'timestamptz', NULL,"                                                    \
    " 'CASE WHEN l.state >= 2 THEN lazaret.time_of(l.recovered_at) END', false),"                  \
    "(14, 'recovered_by', 'text', NULL, 'CASE WHEN l.state >= 2 THEN l.recovered_by END', false)," \
    "(15, 'state', 'text', NULL, '(ARRAY[''dead'', ''recovering'', ''recovered'', ''discarded'',"  \
    " ''rolled_back''])[l.state + 1]', false)"

/* Makes the table, or what a table that is there lacks. */
#define ADOPT_TABLE                                                                                \
    " place := coalesce(current_schema(), 'public');"                                              \
    " IF to_regprocedure('gen_random_uuid()') IS NULL THEN"                                        \
    "  new_id := 'md5(random()::text || clock_timestamp()::text)::uuid'; END IF;"                  \
    " relation := to_regclass('swarm_dlq');"                                                       \
    " IF relation IS NULL THEN"                                                                    \
    "  EXECUTE format('CREATE TABLE %I.swarm_dlq(dlq_id uuid PRIMARY KEY DEFAULT %s)', place,"     \
    "   new_id);"                                                                                  \
    "  relation := to_regclass(format('%I.swarm_dlq', place));"                                    \
    " END IF;"                                                                                     \
    " IF (SELECT relkind NOT IN ('r', 'p') FROM pg_class WHERE oid = relation) THEN"               \
    "  RAISE EXCEPTION 'swarm_dlq is not a table: rename it, so that Lazaret can make one'"        \
    "  USING ERRCODE = 'wrong_object_type'; END IF;"                                               \
    " SELECT format('%I.%I', nspname, relname) INTO name FROM pg_class AS c"                       \
    " JOIN pg_namespace AS n ON n.oid = relnamespace WHERE c.oid = relation;"                      \
    " FOR c IN SELECT * FROM swarm_columns ORDER BY number LOOP"                                   \
    "  EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS %I %s', name, c.column_name,"       \
    "   c.type || coalesce(' DEFAULT ' || CASE WHEN c.column_name = 'dlq_id' THEN new_id"          \
    "   ELSE c.initial END, ''));"                                                                 \
    " END LOOP;"

/* Every row gets a key, and none that another has; the columns that only the owner knows must not
 * be demanded of ours. */
#define ADOPT_ROWS                                                                                 \
    " FOR c IN SELECT attname, atttypid, attnotnull, atthasdef OR attidentity <> '' AS has_default"\
    "  FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped LOOP"       \
    "  IF c.attname IN ('dlq_id', 'failed_at') AND NOT c.has_default THEN"                         \
    "   EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', name, c.attname,"          \
    "    CASE c.attname WHEN 'dlq_id' THEN new_id ELSE 'now()' END);"                              \
    "  ELSIF c.attnotnull AND NOT c.has_default AND NOT EXISTS (SELECT 1 FROM swarm_columns AS w"  \
    "   WHERE w.column_name = c.attname) THEN"                                                     \
    "   BEGIN EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', name, c.attname);"    \
    "   EXCEPTION WHEN invalid_table_definition THEN NULL; END;"                                   \
    "  END IF; END LOOP;"                                                                          \
    " EXECUTE format('UPDATE %1$s SET dlq_id = DEFAULT WHERE dlq_id IS NULL', name);"              \
    " EXECUTE format('UPDATE %1$s SET failed_at = DEFAULT WHERE failed_at IS NULL', name);"        \
    " IF NOT EXISTS (SELECT 1 FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = relation"  \
    "  AND a.attnum = i.indkey[0] WHERE i.indrelid = relation AND a.attname = 'dlq_id'"            \
    "  AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indnkeyatts = 1"                \
    "  AND i.indpred IS NULL) THEN"                                                                \
    "  EXECUTE format('UPDATE %1$s AS t SET dlq_id = DEFAULT WHERE EXISTS (SELECT 1 FROM %1$s AS o"\
    "   WHERE o.dlq_id = t.dlq_id AND o.ctid < t.ctid)', name);"                                   \
    "  EXECUTE format('CREATE UNIQUE INDEX ON %s(dlq_id)', name);"                                 \
    " END IF;"                                                                                     \
    " EXECUTE format('CREATE INDEX ON %s(failed_at)', name);"

/* Rows that are there are taken in, and those that are written later. */
#define ADOPT_TRIGGERS                                                                             \
    " SELECT CASE WHEN bool_or(format_type(atttypid, NULL) IN ('text', 'character varying'))"      \
    "  THEN 'text' ELSE 'typed' END INTO kind FROM pg_attribute WHERE attrelid = relation"         \
    "  AND attname IN ('original_payload', 'retry_history', 'retry_count', 'max_retries',"         \
    "  'recoverable', 'recovered');"                                                               \
    " EXECUTE format('INSERT INTO lazaret.inbox(is_new, body) SELECT true,"                        \
    "  lazaret.swarm_form(to_jsonb(t) || %L) FROM %s AS t ORDER BY failed_at',"                    \
    "  CASE kind WHEN 'text' THEN '{\"~text\": true}' ELSE '{}' END, name);"                       \
    " EXECUTE format('CREATE TRIGGER lazaret_fill BEFORE INSERT ON %s FOR EACH ROW"                \
    "  WHEN (current_setting(''lazaret.own'', true) IS DISTINCT FROM ''1'')"                       \
    "  EXECUTE FUNCTION lazaret.swarm_fill()', name);"                                             \
    " EXECUTE format('CREATE TRIGGER lazaret_insert AFTER INSERT ON %s FOR EACH ROW"               \
    "  WHEN (current_setting(''lazaret.own'', true) IS DISTINCT FROM ''1'')"                       \
    "  EXECUTE FUNCTION lazaret.swarm_heard(%L)', name, kind);"                                    \
    " EXECUTE format('CREATE TRIGGER lazaret_update AFTER UPDATE ON %s FOR EACH ROW"               \
    "  WHEN (current_setting(''lazaret.own'', true) IS DISTINCT FROM ''1''"                        \
    "  AND (OLD.recovered IS DISTINCT FROM NEW.recovered"                                          \
    "  AND NEW.recovered::text IN (''true'', ''t'', ''1'')"                                        \
    "  OR OLD.recoverable IS DISTINCT FROM NEW.recoverable))"                                      \
    "  EXECUTE FUNCTION lazaret.swarm_heard(%L)', name, kind);"

/* Writes swarm_write for the types that the columns have: each value is cast to that of its column;
 * a time without a zone is in UTC; an id that may be a text is not made a UUID. */
#define ADOPT_WRITE                                                                                \
    " UPDATE swarm_columns AS w SET type = format_type(a.atttypid, a.atttypmod),"                  \
    "  shown = CASE WHEN w.column_name = 'dlq_id' AND format_type(a.atttypid, NULL) <> 'uuid'"     \
    "  THEN 'l.dlq_id' WHEN format_type(a.atttypid, NULL) = 'timestamp without time zone'"         \
    "  THEN '(' || w.shown || ') AT TIME ZONE ''UTC''' ELSE w.shown END"                           \
    "  FROM pg_attribute AS a WHERE a.attrelid = relation AND a.attname = w.column_name;"          \
    " UPDATE swarm_columns SET shown = format('(%s)::%s', shown, type);"                           \
    " SELECT shown INTO key FROM swarm_columns WHERE number = 1;"                                  \
    " SELECT string_agg(quote_ident(column_name), ', ' ORDER BY number),"                          \
    "  string_agg(shown, ', ' ORDER BY number),"                                                   \
    "  string_agg(format(CASE WHEN kept THEN '%1$I = CASE WHEN t.state IS NULL"                    \
    "   OR l.foreign_body = 1 THEN t.%1$I ELSE %2$s END' ELSE '%1$I = %2$s' END, column_name,"     \
    "   shown), ', ' ORDER BY number) FILTER (WHERE number NOT IN (1, 3)),"                        \
    "  string_agg(format('%1$I = EXCLUDED.%1$I', column_name), ', ' ORDER BY number)"              \
    "   FILTER (WHERE NOT kept)"                                                                   \
    "  INTO names, shown, updates, settles FROM swarm_columns;"                                    \
    " EXECUTE format($f$CREATE FUNCTION lazaret.swarm_write(ids text[]) RETURNS void"              \
    "  LANGUAGE plpgsql AS $w$ DECLARE keys text[] :="                                             \
    "  ARRAY(SELECT lazaret.key(i) FROM unnest(ids) AS i); BEGIN"                                  \
    "  DELETE FROM %1$s AS t USING (SELECT i AS dlq_id FROM unnest(ids) AS i WHERE NOT EXISTS"     \
    "   (SELECT 1 FROM lazaret.letter AS x WHERE lazaret.key(x.dlq_id) = lazaret.key(i))) AS l"    \
    "   WHERE t.dlq_id = %2$s;"                                                                    \
    "  UPDATE %1$s AS t SET %5$s FROM lazaret.letter AS l"                                         \
    "   WHERE lazaret.key(l.dlq_id) = ANY(keys) AND t.dlq_id = %2$s;"                              \
    "  INSERT INTO %1$s(%3$s) SELECT %4$s FROM lazaret.letter AS l"                                \
    "   LEFT JOIN lazaret.envelope AS e ON e.seq = l.envelope_seq"                                 \
    "   LEFT JOIN lazaret.envelope AS o ON o.seq = l.job_seq AND o.job = l.job_seq"                \
    "   WHERE lazaret.key(l.dlq_id) = ANY(keys) AND NOT EXISTS"                                    \
    "   (SELECT 1 FROM %1$s AS t WHERE t.dlq_id = %2$s)"                                           \
    "   ON CONFLICT (dlq_id) DO UPDATE SET %6$s;"                                                  \
    "  END $w$$f$, name, key, names, shown, updates, settles);"

/* One row an event.  A relation of that name that is not ours stays as it is. */
#define ADOPT_EVENTS                                                                               \
    " IF to_regclass('swarm_events') IS NULL THEN"                                                 \
    "  EXECUTE format($f$CREATE VIEW %1$I.swarm_events AS"                                         \
    "   SELECT v.seq AS event_id, v.what AS event_type,"                                           \
    "   coalesce(lazaret.time_of(v.at), to_timestamp(0)) AS occurred_at, v.actor,"                 \
    "   coalesce((SELECT x.job_id FROM lazaret.envelope AS x WHERE x.seq = v.job AND x.job = v.job"\
    "   ), (SELECT x.job_id FROM lazaret.letter AS x WHERE x.job_seq = v.job),"                    \
    "   (SELECT x.job_id FROM lazaret.tombstone AS x WHERE x.job = v.job ORDER BY x.seq DESC"      \
    "   LIMIT 1))::text AS job_id,"                                                                \
    "   coalesce((SELECT x.dlq_id FROM lazaret.letter AS x WHERE x.job_seq = v.job),"              \
    "   (SELECT x.dlq_id FROM lazaret.tombstone AS x WHERE x.job = v.job ORDER BY x.seq DESC"      \
    "   LIMIT 1))::text AS dlq_id,"                                                                \
    "   'lazaret'::text AS source, v.why::json AS payload FROM lazaret.event AS v;"                \
    "   COMMENT ON VIEW %1$I.swarm_events IS 'the events of Lazaret'$f$, place);"                  \
    " END IF;"

const char pg_swarm_relations[] =
    SWARM_FUNCTIONS SWARM_TRIGGERS SWARM_PUT
    "CREATE TEMP TABLE swarm_columns(number int, column_name text, type text, initial text,"
    " shown text, kept boolean) ON COMMIT DROP;"
    "INSERT INTO swarm_columns VALUES" SWARM_COLUMNS ";"
    "DO $adopt$\n#variable_conflict use_column\n"
    " DECLARE relation regclass; name text; place text; new_id text :="
    " 'gen_random_uuid()'; kind text; key text; names text; shown text; updates text;"
    " settles text; c record; BEGIN"
    ADOPT_TABLE ADOPT_ROWS ADOPT_TRIGGERS ADOPT_WRITE ADOPT_EVENTS
    "END $adopt$;";

/* clang-format on */
_Static_assert(LETTER_DEAD == 0 && LETTER_RECOVERING == 1 && LETTER_RECOVERED == 2 &&
                   LETTER_DISCARDED == 3 && LETTER_ROLLED_BACK == 4,
               "the numbers in SWARM_COLUMNS");
