/* Masking: what rules name and what they leave alone, byte for byte; what is gathered of it; and
 * texts that repeat it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "core/redact.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RULES_MAX 4

static const struct redaction *rules_of(const char *const *pointers, struct arena *arena)
{
    const struct redaction *redaction = NULL;
    struct slice slices[RULES_MAX];
    struct err err = {0};
    size_t count = 0;

    while (count < RULES_MAX && pointers[count]) {
        slices[count] = slice_of(pointers[count]);
        count++;
    }
    if (redaction_parse(slices, count, arena, &redaction, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return redaction;
}

static void assert_masked(const struct redaction *redaction, const char *document,
                          const char *expected)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    redact(redaction, slice_of(document), &out);
    assert_int_equal(buf_status(&out, NULL), STATUS_OK);
    assert_string_equal(buf_str(&out), expected);
    assert_int_equal(redact_touches(redaction, slice_of(document)),
                     strcmp(document, expected) != 0);
    buf_release(&out);
}

static void what_a_rule_names_is_masked_and_nothing_else(void **state)
{
    static const struct {
        const char *rules[RULES_MAX];
        const char *document, *expected;
    } cases[] = {
        /* Members, nested ones, and values of every type. */
        {{"/a"}, "{\"a\":1,\"b\":2}", "{\"a\":\"[redacted]\",\"b\":2}"},
        {{"/a"}, "{\"a\":null}", "{\"a\":\"[redacted]\"}"},
        {{"/a"}, "{\"a\":[1,{\"x\":2}] , \"b\":[]}", "{\"a\":\"[redacted]\" , \"b\":[]}"},
        {{"/inputs/card"},
         "{\"action\":\"pay\",\"inputs\":{\"card\":\"4111\",\"sum\":7}}",
         "{\"action\":\"pay\",\"inputs\":{\"card\":\"[redacted]\",\"sum\":7}}"},
        {{"/a/b"}, "{\"b\":1,\"a\":{\"a\":{\"b\":2}}}", "{\"b\":1,\"a\":{\"a\":{\"b\":2}}}"},
        {{"/a/b"}, "{\"a\":\"b\"}", "{\"a\":\"b\"}"},
        /* Arrays: an index, none past the end, no other spelling of one. */
        {{"/1"}, "[ 1 , 2 , 3 ]", "[ 1 , \"[redacted]\" , 3 ]"},
        {{"/a/0/b"}, "{\"a\":[{\"b\":1},{\"b\":2}]}", "{\"a\":[{\"b\":\"[redacted]\"},{\"b\":2}]}"},
        {{"/9", "/01", "/-"}, "[1,2]", "[1,2]"},
        {{"/0"}, "{\"0\":1,\"00\":2}", "{\"0\":\"[redacted]\",\"00\":2}"},
        {{"/x"}, "[1]", "[1]"},
        /* A star: every member, every element, anywhere on the way. */
        {{"/*"}, "{\"a\":1,\"b\":{}}", "{\"a\":\"[redacted]\",\"b\":\"[redacted]\"}"},
        {{"/*"}, "[1,[2]]", "[\"[redacted]\",\"[redacted]\"]"},
        {{"/a/*/c"},
         "{\"a\":[{\"c\":1,\"d\":2},{\"c\":3},4]}",
         "{\"a\":[{\"c\":\"[redacted]\",\"d\":2},{\"c\":\"[redacted]\"},4]}"},
        {{"/a*"}, "{\"ab\":1,\"a*\":2}", "{\"ab\":1,\"a*\":\"[redacted]\"}"},
        /* Escapes of pointers, and of names. */
        {{"/a~1b"}, "{\"a/b\":1,\"a\":{\"b\":2}}", "{\"a/b\":\"[redacted]\",\"a\":{\"b\":2}}"},
        {{"/m~0n"}, "{\"m~n\":1,\"m~0n\":2}", "{\"m~n\":\"[redacted]\",\"m~0n\":2}"},
        {{"/~01"}, "{\"~1\":1,\"/\":2}", "{\"~1\":\"[redacted]\",\"/\":2}"},
        {{"/card"}, "{\"c\\u0061rd\":1}", "{\"c\\u0061rd\":\"[redacted]\"}"},
        {{"/ca"}, "{\"c\\u0061rd\":1}", "{\"c\\u0061rd\":1}"},
        {{"/\xc3\xa9"}, "{\"\\u00e9\":1}", "{\"\\u00e9\":\"[redacted]\"}"},
        {{"/"}, "{\"\":1,\"a\":{\"\":2}}", "{\"\":\"[redacted]\",\"a\":{\"\":2}}"},
        {{"/a/"}, "{\"\":1,\"a\":{\"\":2}}", "{\"\":1,\"a\":{\"\":\"[redacted]\"}}"},
        /* Each of members with one name: whichever a reader takes. */
        {{"/a"},
         "{\"a\":1,\"b\":2,\"a\":3,\"\\u0061\":4}",
         "{\"a\":\"[redacted]\",\"b\":2,\"a\":\"[redacted]\",\"\\u0061\":\"[redacted]\"}"},
        {{"/a/b"},
         "{\"a\":{\"b\":1},\"a\":{\"b\":2}}",
         "{\"a\":{\"b\":\"[redacted]\"},\"a\":{\"b\":\"[redacted]\"}}"},
        /* The whole document, with what stands around it. */
        {{""}, " {\"a\":1} ", " \"[redacted]\" "},
        {{""}, "5", "\"[redacted]\""},
        /* Rules that overlap: the shorter one hides the longer one's. */
        {{"/a/b", "/a"}, "{\"a\":{\"b\":1}}", "{\"a\":\"[redacted]\"}"},
        {{"/a", "/a"}, "{\"a\":1}", "{\"a\":\"[redacted]\"}"},
        {{"/*/x", "/a/y"},
         "{\"a\":{\"x\":1,\"y\":2},\"b\":{\"x\":3,\"y\":4}}",
         "{\"a\":{\"x\":\"[redacted]\",\"y\":\"[redacted]\"},\"b\":{\"x\":\"[redacted]\",\"y\":4}"
         "}"},
        {{"/a", ""}, "{\"a\":1}", "\"[redacted]\""},
        /* What is no JSON cannot be looked into. */
        {{"/a"}, "{\"a\":1", "\"[redacted]\""},
        {{"/a"}, "plain", "\"[redacted]\""},
        {{"/a"}, "", "\"[redacted]\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena arena = {0};
        assert_masked(rules_of(cases[i].rules, &arena), cases[i].document, cases[i].expected);
        arena_release(&arena);
    }
}

static void no_rules_mask_nothing(void **state)
{
    const struct redaction *redaction;

    (void)state;

    assert_int_equal(redaction_parse(NULL, 0, NULL, &redaction, NULL), STATUS_OK);
    assert_null(redaction);
    assert_masked(NULL, "no JSON", "no JSON");
    assert_null(redaction_failures(NULL));
}

static void a_rule_that_is_wrong_is_named(void **state)
{
    static const struct {
        const char *pointer, *error;
    } cases[] = {
        {"a", "the pointer \"a\": must be empty or begin with /"},
        {"/a~", "the pointer \"/a~\": a ~ may stand only in ~0 and ~1"},
        {"/~2/b", "the pointer \"/~2/b\": a ~ may stand only in ~0 and ~1"},
        {"/\xff", "the pointer \"/\xff\": must be UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena arena = {0};
        struct slice pointers[] = {SLICE("/fine"), slice_of(cases[i].pointer)};
        const struct redaction *redaction = NULL;
        struct err err = {0};
        assert_int_equal(redaction_parse(pointers, 2, &arena, &redaction, &err), STATUS_INVALID);
        assert_string_equal(err.text, cases[i].error);
        assert_null(redaction);
        arena_release(&arena);
    }
}

static void there_is_a_limit_on_rules_and_on_steps(void **state)
{
    struct slice pointers[REDACTION_RULES_MAX + 1];
    char steps[2 * (JSON_DEPTH_MAX + 1)];
    const struct redaction *redaction = NULL;
    struct arena arena = {0};
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(pointers); i++)
        pointers[i] = arena_printf(&arena, "/m%zu", i);
    assert_int_equal(redaction_parse(pointers, REDACTION_RULES_MAX + 1, &arena, &redaction, &err),
                     STATUS_INVALID);
    assert_int_equal(redaction_parse(pointers, REDACTION_RULES_MAX, &arena, &redaction, &err),
                     STATUS_OK);
    assert_masked(redaction, "{\"m0\":1,\"m255\":2,\"m256\":3,\"m64\":4}",
                  "{\"m0\":\"[redacted]\",\"m255\":\"[redacted]\",\"m256\":3,"
                  "\"m64\":\"[redacted]\"}");
    for (size_t i = 0; i < sizeof(steps); i++)
        steps[i] = i % 2 ? '0' : '/';
    pointers[0] = (struct slice){steps, sizeof(steps)};
    assert_int_equal(redaction_parse(pointers, 1, &arena, &redaction, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "has more than 128 steps"));
    arena_release(&arena);
}

static void the_deepest_value_can_be_named(void **state)
{
    struct arena arena = {0};
    struct buf pointer, document, expected, out;
    const struct redaction *redaction = NULL;

    (void)state;
    buf_init(&pointer, 4096);
    buf_init(&document, 4096);
    buf_init(&expected, 4096);
    buf_init(&out, 4096);
    for (int i = 0; i < JSON_DEPTH_MAX; i++) {
        buf_add_str(&pointer, i % 2 ? "/*" : "/0");
        buf_add_char(&document, '[');
    }
    buf_add_slice(&expected, buf_slice(&document));
    buf_add_str(&document, "7");
    buf_add_str(&expected, "\"[redacted]\"");
    for (int i = 0; i < JSON_DEPTH_MAX; i++) {
        buf_add_char(&document, ']');
        buf_add_char(&expected, ']');
    }
    struct slice rule = buf_slice(&pointer);
    assert_int_equal(redaction_parse(&rule, 1, &arena, &redaction, NULL), STATUS_OK);
    assert_masked(redaction, buf_str(&document), buf_str(&expected));

    /* One level more is no JSON to us: all of it is masked. */
    buf_add_char(&out, '[');
    buf_add_slice(&out, buf_slice(&document));
    buf_add_char(&out, ']');
    assert_masked(redaction, buf_str(&out), "\"[redacted]\"");
    buf_release(&pointer);
    buf_release(&document);
    buf_release(&expected);
    buf_release(&out);
    arena_release(&arena);
}

static void rules_for_failures_lose_their_prefix(void **state)
{
    static const char *const pointers[] = {"/inputs/card", "/failure/artifacts/*/key", "/failures",
                                           NULL};
    static const char *const whole[] = {"/failure", NULL};
    static const char *const none[] = {"/inputs/failure", NULL};
    struct arena arena = {0};

    (void)state;
    assert_masked(redaction_failures(rules_of(pointers, &arena)),
                  "{\"inputs\":{\"card\":1},\"artifacts\":{\"a\":{\"key\":2}}}",
                  "{\"inputs\":{\"card\":1},\"artifacts\":{\"a\":{\"key\":\"[redacted]\"}}}");
    assert_masked(redaction_failures(rules_of(whole, &arena)), "{\"a\":1}", "\"[redacted]\"");
    assert_null(redaction_failures(rules_of(none, &arena)));
    arena_release(&arena);
}

static void a_pointer_reaches_what_is_masked_from_above_and_from_below(void **state)
{
    static const char *const pointers[] = {"/inputs/card", "/list/*/pin", "/a~1b", NULL};
    static const struct {
        const char *pointer;
        bool reaches;
    } cases[] = {
        {"", true},
        {"/inputs", true},
        {"/inputs/card", true},
        {"/inputs/card/number", true},
        {"/inputs/sum", false},
        {"/input", false},
        {"/list/3", true},
        {"/list/3/pin", true},
        {"/list/3/name", false},
        {"/a~1b/c", true},
        {"/a/b", false},
        {"no pointer", true},
    };
    struct arena arena = {0};
    const struct redaction *redaction = rules_of(pointers, &arena);

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(redact_reaches(redaction, slice_of(cases[i].pointer), &arena),
                         cases[i].reaches);
    assert_false(redact_reaches(NULL, SLICE(""), &arena));
    arena_release(&arena);
}

/* gather is what the rules mask in a document. */
static struct redact_words gather(const char *const *pointers, const char *document,
                                  struct arena *arena)
{
    struct redact_words words = {0};
    struct err err = {0};

    assert_int_equal(
        redact_gather(rules_of(pointers, arena), slice_of(document), arena, &words, &err),
        STATUS_OK);
    return words;
}

static void what_is_long_enough_to_be_told_apart_is_gathered(void **state)
{
    static const char *const pointers[] = {"/a", "/b/*/c", NULL};
    static const struct {
        const char *document, *words;
    } cases[] = {
        {"{\"a\":\"secret\"}", "secret;"},
        {"{\"a\":\"short\"}", ""},
        {"{\"a\":123456}", "123456;"},
        {"{\"a\":12345}", ""},
        {"{\"a\":-123456.5}", "123456.5;"},
        {"{\"a\":true,\"x\":\"not masked\"}", ""},
        {"{\"a\":{\"k\":[\"inside it\",1,1234567]}}", "inside it;1234567;"},
        {"{\"b\":[{\"c\":\"number one\",\"d\":\"not this\"},{\"c\":\"number two\"}]}",
         "number one;number two;"},
        {"{\"a\":\"first one\",\"a\":\"second one\"}", "first one;second one;"},
        {"{\"a\":\"with \\\"quotes\\\"\"}", "with \"quotes\";with \\\"quotes\\\";"},
        {"no JSON at all", "no JSON at all;"},
        {"{bad}", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena arena = {0};
        struct redact_words words = gather(pointers, cases[i].document, &arena);
        struct buf all;
        buf_init(&all, 4096);
        for (size_t w = 0; w < words.count; w++)
            buf_addf(&all, "%.*s;", SLICE_ARG(words.words[w]));
        assert_string_equal(buf_str(&all), cases[i].words);
        buf_release(&all);
        arena_release(&arena);
    }
}

static void texts_that_repeat_a_masked_value_are_masked_there(void **state)
{
    static const char *const pointers[] = {"/a", NULL};
    static const struct {
        const char *document, *text, *expected;
    } cases[] = {
        {"{\"a\":\"4111111111111111\"}", "card 4111111111111111 refused",
         "card [redacted] refused"},
        {"{\"a\":4111111111111111}", "4111111111111111", "[redacted]"},
        {"{\"a\":\"secret\"}", "secret, secretsecret and sec", "[redacted], [redacted] and sec"},
        {"{\"a\":[\"secret\",\"secret word\"]}", "a secret word", "a [redacted]"},
        {"{\"a\":[\"secret word\",\"secret\"]}", "a secret word", "a [redacted]"},
        {"{\"a\":[\"abcdef\",\"defghi\"]}", "xabcdefghix", "x[redacted]x"},
        {"{\"a\":\"secret\"}", "nothing of it", "nothing of it"},
        {"{\"a\":\"secret\"}", "", ""},
        {"{}", "secret", "secret"},
        {"{\"a\":\"say \\\"it\\\"\"}", "got {\"a\":\"say \\\"it\\\"\"}",
         "got {\"a\":\"[redacted]\"}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena arena = {0};
        struct redact_words words = gather(pointers, cases[i].document, &arena);
        struct buf out;
        buf_init(&out, 4096);
        redact_text(&words, slice_of(cases[i].text), &out);
        assert_string_equal(buf_str(&out), cases[i].expected);
        buf_release(&out);
        arena_release(&arena);
    }
}

static void strings_of_a_document_are_masked_where_they_repeat_one(void **state)
{
    static const char *const pointers[] = {"/a", NULL};
    static const struct {
        const char *document, *expected;
    } cases[] = {
        {"{\"m\" : \"no secret\", \"n\":[1, \"se\\u0063ret!\"]}",
         "{\"m\" : \"no [redacted]\", \"n\":[1, \"[redacted]!\"]}"},
        {"{\"the secret\":{\"x\":5}}", "{\"the [redacted]\":{\"x\":5}}"},
        {"[1234567, 91234567, 1.5]", "[\"[redacted]\", \"[redacted]\", 1.5]"},
        {" { \"plain\" : null } ", " { \"plain\" : null } "},
        {"\"secret\\n\\\"quoted\\\"\"", "\"[redacted]\\n\\\"quoted\\\"\""},
        {"no JSON", "\"[redacted]\""},
    };
    struct arena arena = {0};
    struct redact_words words = gather(pointers, "{\"a\":[\"secret\",1234567]}", &arena);
    struct redact_words none = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf out;
        buf_init(&out, 4096);
        redact_strings(&words, slice_of(cases[i].document), &out);
        assert_string_equal(buf_str(&out), cases[i].expected);
        buf_clear(&out);
        redact_strings(&none, slice_of(cases[i].document), &out);
        assert_string_equal(buf_str(&out), cases[i].document);
        buf_release(&out);
    }
    arena_release(&arena);
}

static void too_much_to_look_for_masks_texts_whole(void **state)
{
    static const char *const pointers[] = {"/a", NULL};
    struct arena arena = {0};
    struct buf document, out;

    (void)state;
    buf_init(&document, 1 << 20);
    buf_init(&out, 4096);
    buf_add_str(&document, "{\"a\":[\"first of all\"");
    for (int i = 1; i < REDACT_WORDS_MAX; i++)
        buf_addf(&document, ",\"secret %d\"", i);
    struct slice most = buf_slice(&document);
    buf_add_str(&document, "]}");
    struct redact_words words = gather(pointers, buf_str(&document), &arena);
    assert_int_equal(words.count, REDACT_WORDS_MAX);
    redact_text(&words, SLICE("as it is, secret 7"), &out);
    assert_string_equal(buf_str(&out), "as it is, [redacted]");

    document.len = most.len;
    buf_add_str(&document, ",\"one more\"]}");
    words = gather(pointers, buf_str(&document), &arena);
    buf_clear(&out);
    redact_text(&words, SLICE("as it is"), &out);
    redact_strings(&words, SLICE("[1,\"as it is\"]"), &out);
    assert_string_equal(buf_str(&out), "[redacted][\"[redacted]\",\"[redacted]\"]");
    buf_release(&document);
    buf_release(&out);
    arena_release(&arena);
}

/* A failed allocation may mask too much, and never too little. */
static void a_failed_allocation_shows_nothing(void **state)
{
    static const char *const pointers[] = {"/a", NULL};
    static const char text[] = "a se\\u0063ret that is long enough to need memory of its own";
    struct arena arena = {0};
    struct redact_words words = gather(pointers, "{\"a\":\"secret\"}", &arena);
    struct buf document;
    size_t reported = 0;

    (void)state;
    buf_init(&document, 4096);
    buf_addf(&document, "[\"%s\"]", text);
    for (unsigned long n = 1; n < 20; n++) {
        struct buf out;
        buf_init(&out, 4096);
        mem_fail_after(n);
        redact_strings(&words, buf_slice(&document), &out);
        mem_fail_after(0);
        assert_null(strstr(buf_str(&out), "secret"));
        assert_null(strstr(buf_str(&out), "u0063"));
        reported += out.status != STATUS_OK || strcmp(buf_str(&out), "[\"[redacted]\"]") == 0;
        buf_release(&out);
    }
    assert_true(reported > 0);
    buf_release(&document);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rule_names_is_masked_and_nothing_else),
        cmocka_unit_test(no_rules_mask_nothing),
        cmocka_unit_test(a_rule_that_is_wrong_is_named),
        cmocka_unit_test(there_is_a_limit_on_rules_and_on_steps),
        cmocka_unit_test(the_deepest_value_can_be_named),
        cmocka_unit_test(rules_for_failures_lose_their_prefix),
        cmocka_unit_test(a_pointer_reaches_what_is_masked_from_above_and_from_below),
        cmocka_unit_test(what_is_long_enough_to_be_told_apart_is_gathered),
        cmocka_unit_test(texts_that_repeat_a_masked_value_are_masked_there),
        cmocka_unit_test(strings_of_a_document_are_masked_where_they_repeat_one),
        cmocka_unit_test(too_much_to_look_for_masks_texts_whole),
        cmocka_unit_test(a_failed_allocation_shows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
