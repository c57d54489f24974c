/* receipts.json and the letters: what comes, what goes and what is known. */
#include "bridge/receipt_scene.h"

/* ---- from the letters to the file ------------------------------------------------------------ */

static void without_dead_receipts_no_file_is_made(void **state)
{
    struct scene *scene = *state;
    api_dead(scene->desk, "\"inputs\":{\"body\":" RECEIPT("other") "}", TIMEOUT);
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.entries, 0);
    assert_false(counts.written);
    assert_false(is_there(api_path(scene->desk, "%s/dlq", scene->desk->directory)));
}

static void dead_receipts_are_written_oldest_first_byte_for_byte(void **state)
{
    struct scene *scene = *state;
    struct stat info;
    const char *one = dies(scene, RECEIPT("one")), *two = dies(scene, RECEIPT("two"));
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.entries, 2);
    assert_true(counts.written);
    struct slice expected =
        arena_printf(&scene->arena,
                     "[\n  {\n    \"receipt\": %s,\n    \"failed_at\": \"%s\",\n"
                     "    \"attempts\": 1\n  },\n"
                     "  {\n    \"receipt\": %s,\n    \"failed_at\": \"%s\",\n"
                     "    \"attempts\": 1\n  }\n]\n",
                     RECEIPT("one"), failed_at(scene, one), RECEIPT("two"), failed_at(scene, two));
    assert_string_equal(text_of(scene), expected.ptr);
    assert_int_equal(stat(scene->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_false(is_there(beside(scene, ".tmp")));
}

static void a_file_that_is_right_is_not_written_again(void **state)
{
    struct scene *scene = *state;
    struct stat before, after;
    dies(scene, RECEIPT("one"));
    sync_ok(scene);
    stat(scene->path, &before);
    struct receiptfile_counts counts = sync_ok(scene);
    stat(scene->path, &after);
    assert_false(counts.written);
    assert_int_equal(counts.entries, 1);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(letters(scene, "open"), 1);
}

static void an_entry_leaves_with_its_letter_and_no_other_does(void **state)
{
    struct scene *scene = *state;
    const char *one = dies(scene, RECEIPT("one")), *two = dies(scene, RECEIPT("two"));
    dies(scene, RECEIPT("three"));
    sync_ok(scene);
    act(scene, one, "discard", "");
    act(scene, two, "retry", "{\"hold\":true}");
    /* One that is being replayed may fail again: it stays. */
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.left, 1);
    assert_int_equal(entries_of(scene), 2);
    api_result(scene->desk, api_lease(scene->desk), "\"status\":\"complete\"");
    counts = sync_ok(scene);
    assert_int_equal(counts.left, 1);
    assert_int_equal(counts.taken, 0);
    assert_non_null(strstr(text_of(scene), "\"three\""));
    assert_int_equal(entries_of(scene), 1);
    act(scene, one, "restore", "");
    assert_int_equal(sync_ok(scene).entries, 2);
}

static void what_is_no_whole_receipt_is_not_shown(void **state)
{
    struct scene *scene = *state;
    dies(scene, "{\"lease_id\":\"half\"}");
    dies(scene, "\"a text\"");
    assert_int_equal(sync_ok(scene).entries, 0);
    assert_false(is_there(scene->path));
}

static void all_pages_are_shown_also_of_one_moment(void **state)
{
    struct scene *scene = *state;
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_add_char(&text, '[');
    for (int i = 0; i < 1101; i++)
        buf_addf(&text,
                 "%s{\"receipt\":{\"lease_id\":\"l-%d\",\"task_id\":\"t\",\"worker_id\":\"w\","
                 "\"status\":\"complete\"},\"failed_at\":\"2024-01-15T10:30:45Z\"}",
                 i ? "," : "", i);
    buf_add_char(&text, ']');
    api_ok(scene->desk, "POST", "/api/v1/dlq/import", buf_str(&text));
    assert_int_equal(sync_ok(scene).entries, 1101);
    assert_int_equal(entries_of(scene), 1101);
    /* And taken in again by an engine that knows nothing of them. */
    struct receiptfile_counts counts = sync_ok(scene);
    assert_false(counts.written);
    assert_int_equal(counts.taken, 0);
    buf_release(&text);
}

/* ---- from the file to the letters ------------------------------------------------------------ */

static void an_entry_put_there_by_hand_becomes_one_letter(void **state)
{
    struct scene *scene = *state;
    dies(scene, RECEIPT("own"));
    put(scene,
        "\xef\xbb\xbf [ {\"receipt\" : " RECEIPT(
            "bare") "},\n"
                    "{\"attempts\":3,\"failed_at\":\"2024-01-15T10:30:45Z\",\"receipt\":" RECEIPT(
                        "old") ",\"note\":\"mine\"}]");
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.taken, 2);
    assert_int_equal(counts.entries, 3);
    assert_int_equal(counts.left, 0);
    assert_int_equal(letters(scene, "open"), 3);
    const char *text = text_of(scene);
    assert_true(strstr(text, "\"old\"") < strstr(text, "\"own\""));
    assert_non_null(strstr(text, "\"failed_at\": \"2024-01-15T10:30:45Z\",\n    \"attempts\": 3,\n "
                                 "   \"note\": \"mine\"\n"));
    assert_non_null(strstr(text, RECEIPT("bare")));
    counts = sync_ok(scene);
    assert_false(counts.written);
    assert_int_equal(counts.taken, 0);
    assert_int_equal(letters(scene, "open"), 3);
}

static void an_import_that_was_cut_off_is_not_repeated(void **state)
{
    struct scene *scene = *state;
    const char *text = "[{\"receipt\":" RECEIPT("bare") "}]";
    put(scene, text);
    sync_ok(scene);
    put(scene, text); /* as if the file had not been written */
    assert_int_equal(sync_ok(scene).taken, 0);
    assert_int_equal(entries_of(scene), 1);
    assert_int_equal(letters(scene, "open"), 1);
}

static void an_entry_in_another_order_is_the_same(void **state)
{
    struct scene *scene = *state;
    const char *id = dies(scene, RECEIPT("one"));
    put(scene, arena_printf(&scene->arena,
                            "[{\"failed_at\":\"%s\",\"receipt\":{\"n\":1.5e0,\"status\": "
                            "\"complete\",\"worker_id\":\"\\u0077\",\"task_id\":\"t\","
                            "\"lease_id\":\"one\"}}]",
                            failed_at(scene, id))
                   .ptr);
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.taken, 0);
    assert_int_equal(letters(scene, "open"), 1);
    assert_non_null(strstr(text_of(scene), RECEIPT("one")));
}

static void entries_of_one_lease_come_and_go_each_by_itself(void **state)
{
    struct scene *scene = *state;
    put(scene, "[{\"receipt\":" RECEIPT(
                   "one") ",\"failed_at\":\"2024-01-15T10:30:45Z\"},"
                          "{\"receipt\":" RECEIPT(
                              "one") ",\"failed_at\":\"2024-01-15T10:30:46Z\"},"
                                     "{\"receipt\":" RECEIPT(
                                         "one") ",\"failed_at\":\"2024-01-15T10:30:46Z\"}]");
    assert_int_equal(sync_ok(scene).taken, 2);
    assert_int_equal(entries_of(scene), 2);
    assert_int_equal(letters(scene, "open"), 2);
    const char *newest = api_text(scene->desk, "0.dlq_id");
    assert_string_equal(failed_at(scene, newest), "2024-01-15T10:30:46Z");
    act(scene, newest, "discard", "");
    assert_int_equal(sync_ok(scene).entries, 1);
    assert_non_null(strstr(text_of(scene), "10:30:45Z"));
    assert_null(strstr(text_of(scene), "10:30:46Z"));
}

static void an_entry_from_before_a_replay_is_no_entry_of_somebody(void **state)
{
    struct scene *scene = *state;
    const char *own = dies(scene, RECEIPT("own"));
    put(scene, "[{\"receipt\":" RECEIPT("bare") "},{\"receipt\":" RECEIPT(
                   "old") ",\"failed_at\":\"2024-01-15T10:30:45Z\"}]");
    sync_ok(scene);
    letters(scene, "open");
    const char *bare = api_text(scene->desk, "0.dlq_id"), *old = api_text(scene->desk, "2.dlq_id");
    const char *ids[] = {own, bare, old};
    for (size_t i = 0; i < 3; i++)
        dies_again(scene, ids[i]);
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.taken, 0);
    assert_int_equal(counts.entries, 3);
    assert_int_equal(letters(scene, "open"), 3);
    /* Nor when it came to an end before anybody looked. */
    for (size_t i = 0; i < 3; i++) {
        dies_again(scene, ids[i]);
        act(scene, ids[i], "discard", "");
    }
    counts = sync_ok(scene);
    assert_int_equal(counts.taken, 0);
    assert_int_equal(counts.left, 3);
    assert_string_equal(text_of(scene), "[]\n");
}

static void an_entry_is_known_whatever_its_lease_is_called(void **state)
{
    static const char *const leases[] = {"---", "a \\\"b\\\" c", "\\u00e9\\n", "*", "l-1"};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof(leases) / sizeof(leases[0]); i++) {
        const char *id = dies(scene, arena_printf(&scene->arena,
                                                  "{\"lease_id\":\"%s\",\"task_id\":\"t\","
                                                  "\"worker_id\":\"w\",\"status\":\"failed\"}",
                                                  leases[i])
                                         .ptr);
        assert_int_equal(sync_ok(scene).entries, 1);
        act(scene, id, "discard", "");
        struct receiptfile_counts counts = sync_ok(scene);
        assert_int_equal(counts.left, 1);
        assert_int_equal(counts.taken, 0);
    }
}

static void an_entry_that_a_person_edited_on_replay_is_known(void **state)
{
    struct scene *scene = *state;
    const char *id = dies(scene, RECEIPT("one"));
    sync_ok(scene);
    act(scene, id, "retry",
        "{\"hold\":true,\"merge\":{\"inputs\":{\"body\":{\"task_id\":\"fixed\"}}}}");
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.taken, 0);
    assert_int_equal(counts.entries, 1);
    assert_non_null(strstr(text_of(scene), "\"fixed\""));
}

static void an_entry_that_somebody_edited_in_the_file_is_another(void **state)
{
    struct scene *scene = *state;
    const char *id = dies(scene, RECEIPT("one"));
    put(scene, arena_printf(&scene->arena, "[{\"receipt\":%s,\"failed_at\":\"%s\"}]",
                            "{\"lease_id\":\"one\",\"task_id\":\"other\",\"worker_id\":\"w\","
                            "\"status\":\"complete\"}",
                            failed_at(scene, id))
                   .ptr);
    assert_int_equal(sync_ok(scene).taken, 1);
    assert_int_equal(entries_of(scene), 2);
}

static void a_file_is_taken_in_by_an_engine_that_knows_none_of_it(void **state)
{
    struct scene *scene = *state;
    void *other;
    dies(scene, RECEIPT("one")), dies(scene, RECEIPT("two"));
    sync_ok(scene);
    const char *before = text_of(scene);
    struct desk *mine = scene->desk;
    api_setup(&other);
    scene->desk = other;
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.taken, 2);
    assert_false(counts.written);
    assert_string_equal(text_of(scene), before);
    scene->desk = mine;
    api_teardown(&other);
}

static void what_cannot_be_read_is_left_as_it_is(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"[{\"receipt\":", "no array of receipts"},
        {"{}", "no array of receipts"},
        {"null", "no array of receipts"},
        {"[] x", "no array of receipts"},
    };
    struct scene *scene = *state;
    dies(scene, RECEIPT("own"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put(scene, cases[i].text);
        assert_refused(scene, STATUS_INVALID, cases[i].why);
        assert_int_equal(letters(scene, "open"), 1);
    }
}

/* ---- entries that are no receipts ------------------------------------------------------------ */

static void an_entry_that_is_no_receipt_stays_and_holds_nothing_up(void **state)
{
    static const struct {
        const char *entry, *why;
    } cases[] = {
        {"7", "an object with a receipt"},
        {"null", "an object with a receipt"},
        {"{}", "an object with a receipt"},
        {"[ 1,2 ]", "an object with a receipt"},
        {"{\"receipt\" : []}", "an object with a receipt"},
        {"{\"receipt\":" RECEIPT("bad") ", \"failed_at\":\"soon\"}", "failed_at:"},
        {"{\"receipt\":" RECEIPT("bad") ",\"failed_at\":5}", "failed_at:"},
        {"{\"receipt\":" RECEIPT("bad") ",\"attempts\":-1}", "attempts:"},
        {"{\"receipt\":{\"lease_id\": \"bad\"}}", "task_id:"},
        {"{\"receipt\":{\"lease_id\":\"bad\"},\"failed_at\":\"2024-01-15T10:30:45Z\"}", "task_id:"},
        {"{\"receipt\":" RECEIPT(
             "bad") ",\"failed_at\":\"2024-01-15T10:30:45Z\",\"first_attempt\":\"soon\"}",
         "first_attempt"},
    };
    struct scene *scene = *state;
    struct receiptfile_counts counts;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char good[2][300];
        for (size_t k = 0; k < 2; k++)
            snprintf(good[k], sizeof(good[k]),
                     "{\"lease_id\":\"%zu.%zu\",\"task_id\":\"t\",\"worker_id\":\"w\","
                     "\"status\":\"complete\"}",
                     i, k);
        put(scene, arena_printf(&scene->arena,
                                "[{\"receipt\":%s,\"failed_at\":\"2024-01-15T10:30:45Z\"},%s,"
                                "{\"receipt\":%s,\"failed_at\":\"2024-01-15T10:30:46Z\"}]",
                                good[0], cases[i].entry, good[1])
                       .ptr);
        counts = sync_ok(scene);
        assert_int_equal(counts.taken, 2);
        assert_int_equal(counts.bad, 1);
        assert_int_equal(counts.entries, 2 * i + 3);
        assert_int_equal(letters(scene, "open"), 2 * i + 2);
        if (!strstr(counts.bad_err.text, cases[i].why))
            fail_msg("\"%s\" says nothing of \"%s\"", counts.bad_err.text, cases[i].why);
        assert_non_null(strstr(counts.bad_err.text, "left as it is"));
        const char *bad =
            strstr(text_of(scene), arena_printf(&scene->arena, "\n  %s,\n", cases[i].entry).ptr);
        assert_non_null(bad);
        assert_non_null(strstr(bad, good[1]));
        assert_null(strstr(bad, good[0]));
        counts = sync_ok(scene);
        assert_false(counts.written);
        assert_int_equal(counts.bad, 1);
    }
}

static void entries_that_are_no_receipts_keep_their_place_among_the_others(void **state)
{
    struct scene *scene = *state;
    put(scene, "[1,{\"receipt\":" RECEIPT("new") "},2,{\"receipt\":" RECEIPT(
                   "old") ",\"failed_at\":\"2024-01-15T10:30:45Z\"},{\"x\" : "
                          "3},[4],{\"receipt\":" RECEIPT("new") "},5]");
    struct receiptfile_counts counts = sync_ok(scene);
    assert_int_equal(counts.bad, 5);
    assert_int_equal(counts.entries, 7);
    assert_non_null(strstr(counts.bad_err.text, "entry 1 of "));
    const char *text = text_of(scene);
    struct slice before = arena_printf(&scene->arena,
                                       "[\n  1,\n  {\n    \"receipt\": %s,\n    \"failed_at\": "
                                       "\"2024-01-15T10:30:45Z\",\n    \"attempts\": 0\n  },\n"
                                       "  {\"x\" : 3},\n  [4],\n  5,\n  {\n    \"receipt\": %s,",
                                       RECEIPT("old"), RECEIPT("new"));
    assert_memory_equal(text, before.ptr, before.len);
    assert_string_equal(text + strlen(text) - 11, "  },\n  2\n]\n");
    /* What leaves takes nothing along. */
    letters(scene, "open");
    act(scene, api_text(scene->desk, "1.dlq_id"), "discard", "");
    counts = sync_ok(scene);
    assert_int_equal(counts.left, 1);
    assert_int_equal(counts.bad, 5);
    const char *rest = "[\n  1,\n  {\"x\" : 3},\n  [4],\n  5,\n  {\n";
    assert_memory_equal(text_of(scene), rest, strlen(rest));
    letters(scene, "open");
    act(scene, api_text(scene->desk, "0.dlq_id"), "discard", "");
    sync_ok(scene);
    assert_string_equal(text_of(scene), "[\n  1,\n  {\"x\" : 3},\n  [4],\n  5,\n  2\n]\n");
}

static void the_number_of_a_bad_entry_is_that_in_the_file_afterwards(void **state)
{
    struct scene *scene = *state;
    dies(scene, RECEIPT("own"));
    put(scene, "[{\"receipt\":" RECEIPT("late") "},7]");
    assert_non_null(strstr(sync_ok(scene).bad_err.text, "entry 3 of "));
}

/* put_large puts a large entry into the file, before another. */
static size_t put_large(struct scene *scene)
{
    struct buf text;
    buf_init(&text, 4 << 20);
    buf_add_str(&text, "[{\"receipt\":{\"summary\":\"");
    for (size_t i = 0; i < (2 << 20) / 16; i++)
        buf_add_str(&text, "0123456789abcdef");
    buf_add_str(&text, "\",\"lease_id\":\"large\",\"task_id\":\"t\",\"worker_id\":\"w\","
                       "\"status\":\"complete\"}},{\"receipt\":" RECEIPT("small") "}]");
    put(scene, buf_str(&text));
    size_t size = text.len;
    buf_release(&text);
    return size;
}

static void an_entry_that_is_too_large_for_the_engine_holds_nothing_up(void **state)
{
    static const struct {
        size_t body_max;
        const char *why;
    } cases[] = {{0, "bytes"}, {(size_t)1 << 20, "the body is too large"}};
    struct scene *scene = *state;
    for (size_t i = 0; i < 2; i++) {
        size_t size = put_large(scene);
        scene->body_max = cases[i].body_max;
        struct receiptfile_counts counts = sync_ok(scene);
        assert_int_equal(counts.bad, 1);
        assert_int_equal(counts.taken, i == 0);
        assert_non_null(strstr(counts.bad_err.text, cases[i].why));
        assert_int_equal(entries_of(scene), 2);
        assert_true(strlen(text_of(scene)) > size);
    }
}

static void a_time_that_nothing_follows_holds_nothing_up(void **state)
{
    struct scene *scene = *state;
    put(scene,
        "[{\"receipt\":" RECEIPT("last") ",\"failed_at\":\"9999-12-31T23:59:59Z\"},"
                                         "{\"receipt\":" RECEIPT(
                                             "first") ",\"failed_at\":\"0001-01-01T00:00:00Z\"},"
                                                      "{\"receipt\":" RECEIPT("one") "}]");
    sync_ok(scene);
    assert_int_equal(sync_ok(scene).entries, 3);
    assert_non_null(strstr(text_of(scene), "9999-12-31T23:59:59Z"));
    assert_non_null(strstr(text_of(scene), "0001-01-01T00:00:00Z"));
}

static void members_that_somebody_added_are_kept_with_their_entry(void **state)
{
    struct scene *scene = *state;
    const char *id = dies(scene, RECEIPT("one"));
    dies(scene, RECEIPT("two"));
    sync_ok(scene);
    put(scene, arena_printf(&scene->arena,
                            "[{\"note\":\"extra\",\"failed_at\":\"%s\",\"receipt\":%s,"
                            "\"who\" : {\"a\":[1, 2]},\"attempts\":1},{\"receipt\":%s,\"x\":1.0}]",
                            failed_at(scene, id), RECEIPT("one"), RECEIPT("three"))
                   .ptr);
    assert_int_equal(sync_ok(scene).taken, 1);
    const char *extras =
        "\"attempts\": 1,\n    \"note\": \"extra\",\n    \"who\": {\"a\":[1, 2]}\n  }";
    assert_non_null(strstr(text_of(scene), extras));
    assert_non_null(strstr(text_of(scene), "\"attempts\": 0,\n    \"x\": 1.0\n  }"));
    assert_non_null(strstr(text_of(scene), "\"attempts\": 1\n  }"));
    assert_false(sync_ok(scene).written);
    /* Through a replay as well, and not longer than the letter is open. */
    dies_again(scene, id);
    sync_ok(scene);
    assert_non_null(strstr(text_of(scene), "\"note\": \"extra\",\n    \"who\""));
    act(scene, id, "discard", "");
    sync_ok(scene);
    assert_null(strstr(text_of(scene), "note"));
}

static void members_of_an_entry_that_stands_twice_are_kept_once(void **state)
{
    struct scene *scene = *state;
    const char *entry = "{\"receipt\":" RECEIPT("one") ",\"failed_at\":\"2024-01-15T10:30:45Z\"";
    put(scene, arena_printf(&scene->arena, "[%s},%s,\"a\":1,\"b\":2},%s,\"b\":2,\"a\":3}]", entry,
                            entry, entry)
                   .ptr);
    assert_int_equal(sync_ok(scene).entries, 1);
    assert_non_null(strstr(text_of(scene), "\"attempts\": 0,\n    \"a\": 1,\n    \"b\": 2,\n"
                                           "    \"a\": 3\n  }"));
    assert_false(sync_ok(scene).written);
}

/* ---- a look ---------------------------------------------------------------------------------- */

static void a_look_at_a_mirror_counts_open_letters_and_unknown_entries(void **state)
{
    struct scene *scene = *state;
    struct receiptfile_counts counts;
    assert_int_equal(peek_ok(scene, scene->path, true, NULL), 0);
    assert_int_equal(peek_ok(scene, NULL, true, NULL), 0);
    const char *one = dies(scene, RECEIPT("one"));
    dies(scene, RECEIPT("two"));
    dies(scene, "{\"lease_id\":\"half\"}");
    assert_int_equal(peek_ok(scene, scene->path, true, NULL), 2);
    assert_int_equal(peek_ok(scene, NULL, true, NULL), 2);
    sync_ok(scene);
    assert_int_equal(peek_ok(scene, scene->path, true, NULL), 2);
    act(scene, one, "discard", "");
    assert_int_equal(peek_ok(scene, scene->path, true, NULL), 1);
    put(scene, "[7,{\"receipt\":" RECEIPT("new") "},{\"receipt\":" RECEIPT(
                   "old") ",\"failed_at\":\"2024-01-15T10:30:45Z\"},{\"receipt\":{}}]");
    assert_int_equal(peek_ok(scene, scene->path, true, &counts), 3);
    assert_int_equal(counts.entries, 4);
    assert_int_equal(counts.bad, 2);
    assert_non_null(strstr(counts.bad_err.text, "entry 1 of "));
}

static void a_look_at_a_file_of_its_own_counts_its_receipts(void **state)
{
    struct scene *scene = *state;
    struct receiptfile_counts counts;
    struct err err = {0};
    size_t count;
    const char *one = dies(scene, RECEIPT("one"));
    assert_int_equal(receiptfile_peek(&scene->link, scene->path, false, &count, NULL, &err),
                     STATUS_NOT_FOUND);
    put(scene, "[]");
    assert_int_equal(peek_ok(scene, scene->path, false, NULL), 0);
    put(scene,
        arena_printf(&scene->arena, "[{\"receipt\":%s,\"failed_at\":\"%s\"},{\"receipt\":%s},{}]",
                     RECEIPT("one"), failed_at(scene, one), RECEIPT("new"))
            .ptr);
    assert_int_equal(peek_ok(scene, scene->path, false, &counts), 2);
    assert_int_equal(counts.bad, 1);
    /* One that came to an end has to leave the file. */
    act(scene, one, "discard", "");
    assert_int_equal(peek_ok(scene, scene->path, false, NULL), 2);
    put(scene, "{}");
    assert_int_equal(receiptfile_peek(&scene->link, scene->path, false, &count, NULL, &err),
                     STATUS_INVALID);
    assert_int_equal(receiptfile_peek(&scene->link, scene->path, true, &count, NULL, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "no array of receipts"));
}

static void what_was_purged_leaves_a_file_that_nobody_touched(void **state)
{
    struct scene *scene = *state;
    struct err err = {0};
    uint64_t memory = 0;
    dies(scene, RECEIPT("one")), dies(scene, RECEIPT("two"));
    assert_int_equal(receiptfile_sync(&scene->link, scene->path, &memory, NULL, &err), STATUS_OK);
    api_ok(scene->desk, "POST", "/api/v1/dlq/purge", "{\"older_than_days\":0,\"force\":true}");
    assert_int_equal(letters(scene, "open"), 0);
    assert_int_equal(receiptfile_sync(&scene->link, scene->path, &memory, NULL, &err), STATUS_OK);
    assert_string_equal(text_of(scene), "[]\n");
    assert_int_equal(letters(scene, "open"), 0);
}

static void an_empty_file_holds_nothing(void **state)
{
    struct scene *scene = *state;
    static const char *const texts[] = {"", " \n", "[]", "\xef\xbb\xbf"};
    dies(scene, RECEIPT("own"));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        put(scene, texts[i]);
        assert_int_equal(sync_ok(scene).entries, 1);
        assert_int_equal(entries_of(scene), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_dead_receipts_no_file_is_made),
        TEST(dead_receipts_are_written_oldest_first_byte_for_byte),
        TEST(a_file_that_is_right_is_not_written_again),
        TEST(an_entry_leaves_with_its_letter_and_no_other_does),
        TEST(what_is_no_whole_receipt_is_not_shown),
        TEST(all_pages_are_shown_also_of_one_moment),
        TEST(an_entry_put_there_by_hand_becomes_one_letter),
        TEST(an_import_that_was_cut_off_is_not_repeated),
        TEST(an_entry_in_another_order_is_the_same),
        TEST(entries_of_one_lease_come_and_go_each_by_itself),
        TEST(an_entry_from_before_a_replay_is_no_entry_of_somebody),
        TEST(an_entry_is_known_whatever_its_lease_is_called),
        TEST(an_entry_that_a_person_edited_on_replay_is_known),
        TEST(an_entry_that_somebody_edited_in_the_file_is_another),
        TEST(a_file_is_taken_in_by_an_engine_that_knows_none_of_it),
        TEST(what_cannot_be_read_is_left_as_it_is),
        TEST(what_was_purged_leaves_a_file_that_nobody_touched),
        TEST(an_empty_file_holds_nothing),
        TEST(an_entry_that_is_no_receipt_stays_and_holds_nothing_up),
        TEST(entries_that_are_no_receipts_keep_their_place_among_the_others),
        TEST(the_number_of_a_bad_entry_is_that_in_the_file_afterwards),
        TEST(an_entry_that_is_too_large_for_the_engine_holds_nothing_up),
        TEST(a_time_that_nothing_follows_holds_nothing_up),
        TEST(members_that_somebody_added_are_kept_with_their_entry),
        TEST(members_of_an_entry_that_stands_twice_are_kept_once),
        TEST(a_look_at_a_mirror_counts_open_letters_and_unknown_entries),
        TEST(a_look_at_a_file_of_its_own_counts_its_receipts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
