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
    assert_non_null(
        strstr(text, "\"failed_at\": \"2024-01-15T10:30:45Z\",\n    \"attempts\": 3\n"));
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
        {"[{\"receipt\":" RECEIPT("one") "},7]", "entry 2"},
        {"[{\"receipt\":[]}]", "entry 1"},
        {"[{\"receipt\":" RECEIPT("one") ",\"failed_at\":\"soon\"}]", "failed_at:"},
        {"[{\"receipt\":" RECEIPT("one") ",\"failed_at\":5}]", "failed_at:"},
        {"[{\"receipt\":" RECEIPT("one") ",\"attempts\":-1}]", "attempts:"},
        {"[{\"receipt\":" RECEIPT("one") "},{\"receipt\":{\"lease_id\":\"l\"}}]", "task_id:"},
    };
    struct scene *scene = *state;
    dies(scene, RECEIPT("own"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put(scene, cases[i].text);
        assert_refused(scene, STATUS_INVALID, cases[i].why);
        assert_int_equal(letters(scene, "open"), 1);
    }
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
        TEST(an_empty_file_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
