/* Signatures and fingerprints: the map system's own example, what is volatile word by word, and
 * which failures are one group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "base/mem.h"
#include "core/signature.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct failure failure_with(const char *type, const char *message)
{
    struct failure failure;

    failure_init(&failure);
    failure.error_type = slice_of(type);
    failure.message = slice_of(message);
    return failure;
}

static void assert_signature(const char *type, const char *message, const char *expected)
{
    struct failure failure = failure_with(type, message);
    struct buf buf;

    buf_init(&buf, 4096);
    signature_print(&failure, &buf);
    assert_string_equal(buf_str(&buf), expected);
    buf_release(&buf);
}

/* The item of the map system's document. */
static struct failure map_example(void)
{
    struct failure failure = failure_with("CommandFailed", "cargo test failed with exit code 101");

    failure.has_exit_code = true;
    failure.exit_code = 101;
    failure.stack_trace = SLICE("thread 'main' panicked at src/main.rs:42...");
    failure.agent_id = SLICE("agent-1");
    failure.step_failed = SLICE("shell: cargo test");
    failure.duration_ms = 45000;
    return failure;
}

static void the_map_example_has_its_signature(void **state)
{
    struct failure failure = map_example();
    struct buf buf;

    (void)state;
    buf_init(&buf, 4096);
    signature_print(&failure, &buf);
    assert_string_equal(buf_str(&buf), "CommandFailed::cargo test failed with exit");
    buf_release(&buf);
}

static void a_signature_has_five_stable_words(void **state)
{
    (void)state;
    assert_signature("Timeout", "gave up after 30s", "Timeout::gave up after");
    assert_signature("", "one two three four five six", "Unknown::one two three four five");
    assert_signature("Timeout", "", "Timeout::");
    assert_signature("Timeout", "  12 0xdeadbeef /tmp/x  ", "Timeout::");
    assert_signature("Unknown", "12 drummers /var/log drumming 'loud' in the long hall",
                     "Unknown::drummers drumming in the long");
}

static void normalizing_drops_what_varies(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        /* numbers, with units, signs and punctuation */
        {"took 30s of 1.5GB at 50% (-3)", "took of at"},
        {"#123 $5 1,000 3rd v1.2.3 1e-9", ""},
        {"exit code 101.", "exit code"},
        /* times */
        {"at 2026-02-13T06:22:00Z or 10:30:00.123 on 2026-02-13", "at or on"},
        /* paths, addresses, mail */
        {"open /etc/passwd failed", "open failed"},
        {"open C:\\Users\\x and src/main.rs:42 and ../up", "open and and"},
        {"GET https://example.com/a?b=c returned", "GET returned"},
        {"connect to 10.0.0.1:8080 and [::1]:80 and fe80::1 or [fe80::2]:80",
         "connect to and and or"},
        {"mail to ada@example.com bounced", "mail to bounced"},
        /* hex and ids */
        {"commit 9a71ce and 0x1F and deadbeef0", "commit and and"},
        {"job 0192f0c1-2345-7abc-8def-0123456789ab lost", "job lost"},
        {"job JOB-2026-000211 TR-9a71ce item-123 req12345", "job"},
        /* quoted values */
        {"no file 'my file.txt' or \"b c\" or `d` here", "no file or or here"},
        {"see `info' and \xE2\x80\x98x y\xE2\x80\x99 and \xE2\x80\x9Cz\xE2\x80\x9D ok",
         "see and and ok"},
        {"name=\"a b\" kind='c'", "name kind"},
        {"thread 'main' panicked", "thread panicked"},
        {"can't open 'it's here' now", "can't open now"},
        {"a 'quote that does not end", "a quote that does not end"},
        /* the name in front of a volatile value stays */
        {"code=101 errno: 2 port:8080 main.rs:42:7", "code errno port main.rs"},
        {"main.run(0xc000123, 0x1) path=/tmp/x", "main.run path"},
        {"std::io::Error std::rt::lang_start::h0123456789abcdef",
         "std::io::Error std::rt::lang_start"},
        /* words with a digit behind are words */
        {"utf8 sha256 E0308 log4j", "utf8 sha256 E0308 log4j"},
        {"error[E0308]: mismatched types", "error[E0308] mismatched types"},
        {"main() failed", "main() failed"},
        /* punctuation and white space */
        {"  [ERROR]   (fatal):\t\n--- \"\" done!", "ERROR fatal done"},
        {"\x1b[1;31merror\x1b[0m: bad\x7f \x01thing", "error bad thing"},
        {"\x1b[", ""},
        /* text beyond ASCII is words */
        {"Datei nicht gefunden: \xC3\xBC"
         "ber 3 St\xC3\xBC"
         "ck",
         "Datei nicht gefunden \xC3\xBC"
         "ber St\xC3\xBC"
         "ck"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf buf;
        buf_init(&buf, 4096);
        signature_normalize(slice_of(cases[i].text), &buf);
        assert_string_equal(buf_str(&buf), cases[i].expected);
        buf_release(&buf);
    }
}

static void a_nul_byte_is_white_space(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 64);
    signature_normalize(SLICE("a\0b"), &buf);
    assert_string_equal(buf_str(&buf), "a b");
    buf_release(&buf);
}

static void a_signature_is_cut_between_characters(void **state)
{
    struct buf message, out;
    struct failure failure;
    bool whole;

    (void)state;
    buf_init(&message, 4096);
    buf_init(&out, 4096);
    for (int i = 0; i < 300; i++)
        buf_add_str(&message, "\xC3\xA9");
    for (int shift = 0; shift < 2; shift++) {
        failure = failure_with(shift ? "Ab" : "A", buf_str(&message));
        buf_clear(&out);
        signature_print(&failure, &out);
        whole = json_utf8_valid(buf_slice(&out));
        assert_true(whole && out.len <= SIGNATURE_MAX && out.len >= SIGNATURE_MAX - 1);
    }
    failure = failure_with(buf_str(&message), "x");
    buf_clear(&out);
    signature_print(&failure, &out);
    assert_true(out.len <= SIGNATURE_MAX && json_utf8_valid(buf_slice(&out)));
    buf_release(&message);
    buf_release(&out);
}

/* ---- fingerprints ---------------------------------------------------------------------------- */

static bool same_group(const struct failure *a, const struct failure *b)
{
    char x[FINGERPRINT_LEN + 1], y[FINGERPRINT_LEN + 1];

    signature_fingerprint(a, x);
    signature_fingerprint(b, y);
    return strcmp(x, y) == 0;
}

static void a_fingerprint_is_lower_case_hex_and_stays_the_same(void **state)
{
    struct failure failure = map_example();
    char text[FINGERPRINT_LEN + 1];

    (void)state;
    signature_fingerprint(&failure, text);
    assert_int_equal(strspn(text, "0123456789abcdef"), FINGERPRINT_LEN);
    assert_int_equal(text[FINGERPRINT_LEN], '\0');
    /* SHA-256 of CommandFailed NUL 101 NUL "shell cargo test " NUL "cargo test failed with exit
     * code " NUL: letters that are stored by it must group with those of tomorrow. */
    assert_string_equal(text, "92efcd3a87c7d28c");
}

static void volatile_parts_do_not_split_a_group(void **state)
{
    struct failure a = map_example(), b = map_example();

    (void)state;
    a.message = SLICE("Item item-1 failed after 30s in /tmp/a: cannot read 'x y'");
    b.message = SLICE("item item-2  FAILED after 31s in /tmp/b/c: cannot read 'z'");
    b.agent_id = SLICE("agent-7");
    b.duration_ms = 1;
    b.step_failed = SLICE("shell: cargo test");
    assert_true(same_group(&a, &b));
}

static void each_part_splits_a_group(void **state)
{
    const struct failure base = map_example();
    struct failure other = base;

    (void)state;
    other.error_type = SLICE("Timeout");
    assert_false(same_group(&base, &other));
    other = base;
    other.exit_code = 102;
    assert_false(same_group(&base, &other));
    other = base;
    other.has_exit_code = false;
    assert_false(same_group(&base, &other));
    other = base;
    other.step_failed = SLICE("shell: cargo build");
    assert_false(same_group(&base, &other));
    other = base;
    other.message = SLICE("cargo test failed with exit code 101 of the linker");
    assert_false(same_group(&base, &other));
    other = base;
    other.stack_trace = SLICE("panicked\n  at run (app.js:1:2)");
    assert_false(same_group(&base, &other));
}

static void the_top_frames_count_and_their_lines_do_not(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        /* JavaScript: line numbers */
        {"Error: x\n    at run (/app/a.js:1:2)\n    at main (/app/b.js:3:4)",
         "Error: y\n    at run (/app/a.js:10:20)\n    at main (/srv/b.js:30:40)", true},
        {"at run (/app/a.js:1:2)", "at walk (/app/a.js:1:2)", false},
        /* Java */
        {"java.lang.X: m\n\tat com.foo.Bar.baz(Bar.java:42)",
         "java.lang.X: n\n\tat com.foo.Bar.baz(Bar.java:43)", true},
        {"\tat com.foo.Bar.baz(Bar.java:42)", "\tat com.foo.Bar.qux(Bar.java:42)", false},
        /* gdb and sanitizers: addresses */
        {"#0 0x7f01 in run a.c:3\n#1 0x7f02 in main a.c:9",
         "#0 0x5501 in run a.c:4\n#1 0x5502 in main a.c:10", true},
        /* Rust */
        {"   0: core::panicking::panic_fmt\n             at /rustc/9fc6b4312/library/core.rs:72:14",
         "   0: core::panicking::panic_fmt\n             at /rustc/aaaaaa999/library/core.rs:1:1",
         true},
        /* Go: arguments */
        {"goroutine 1 [running]:\nmain.run(0xc01, 0x2)\n\t/app/a.go:1 +0x1d",
         "goroutine 7 [running]:\nmain.run(0xc02, 0x3)\n\t/app/a.go:2 +0x2d", true},
        {"main.run(0xc01)", "main.walk(0xc01)", false},
        /* Only the first three count ... */
        {"at a\nat b\nat c\nat d", "at a\nat b\nat c\nat e", true},
        {"at a\nat b\nat c", "at a\nat b\nat e", false},
        /* ... but of a Python traceback the last. */
        {"Traceback (most recent call last):\n  File \"a.py\", line 1, in one\n"
         "  File \"a.py\", line 2, in b\n  File \"a.py\", line 3, in c\n  File \"a.py\", line 4, "
         "in d",
         "Traceback (most recent call last):\n  File \"a.py\", line 9, in two\n"
         "  File \"a.py\", line 8, in b\n  File \"a.py\", line 7, in c\n  File \"a.py\", line 6, "
         "in d",
         true},
        {"Traceback (most recent call last):\n  File \"a.py\", line 1, in a\n"
         "  File \"a.py\", line 4, in d",
         "Traceback (most recent call last):\n  File \"a.py\", line 1, in a\n"
         "  File \"a.py\", line 4, in e",
         false},
        /* Output that is no frame does not count. */
        {"   Compiling alpha v0.1.0\nwarning: unused", "   Compiling beta v0.2.0", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct failure a = map_example(), b = map_example();
        a.stack_trace = slice_of(cases[i].a);
        b.stack_trace = slice_of(cases[i].b);
        if (same_group(&a, &b) != cases[i].same)
            fail_msg("case %zu: %s", i, cases[i].a);
    }
}

static void only_the_beginning_of_a_long_message_counts(void **state)
{
    struct failure a = map_example(), b = map_example();
    struct buf x, y;

    (void)state;
    buf_init(&x, 1 << 20);
    buf_init(&y, 1 << 20);
    for (int i = 0; i < 4096; i++) {
        buf_add_str(&x, "same ");
        buf_add_str(&y, "same ");
    }
    buf_add_str(&x, "one");
    buf_add_str(&y, "another");
    a.message = buf_slice(&x);
    b.message = buf_slice(&y);
    assert_true(same_group(&a, &b));
    buf_release(&x);
    buf_release(&y);
}

/* Texts that are made to be slow: each must cost about what a harmless one of its size does. */
static void hostile_messages_take_linear_time(void **state)
{
    static const char *const units[] = {
        "'", "'a", "\"x ", "`'", "1:", "a:1=", "(((", "]])", "\x1b[", "9", "a'b", "\xE2\x80\x98"};
    const size_t size = 8 << 20;
    char *text = mem_alloc(size);
    char fingerprint[FINGERPRINT_LEN + 1];

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < COUNT(units); i++) {
        struct failure failure = map_example();
        clock_t begin = clock();
        for (size_t at = 0, len = strlen(units[i]); at < size; at++)
            text[at] = units[i][at % len];
        failure.message = failure.stack_trace = failure.step_failed = (struct slice){text, size};
        signature_fingerprint(&failure, fingerprint);
        if (clock() - begin > 5 * CLOCKS_PER_SEC)
            fail_msg("%s repeated takes too long", units[i]);
    }
    mem_free(text);
}

static void a_fingerprint_needs_no_memory(void **state)
{
    struct failure failure = map_example();
    char before[FINGERPRINT_LEN + 1], after[FINGERPRINT_LEN + 1];

    (void)state;
    signature_fingerprint(&failure, before);
    mem_fail_after(1);
    signature_fingerprint(&failure, after);
    mem_fail_after(0);
    assert_string_equal(before, after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_example_has_its_signature),
        cmocka_unit_test(a_signature_has_five_stable_words),
        cmocka_unit_test(normalizing_drops_what_varies),
        cmocka_unit_test(a_nul_byte_is_white_space),
        cmocka_unit_test(a_signature_is_cut_between_characters),
        cmocka_unit_test(a_fingerprint_is_lower_case_hex_and_stays_the_same),
        cmocka_unit_test(volatile_parts_do_not_split_a_group),
        cmocka_unit_test(each_part_splits_a_group),
        cmocka_unit_test(the_top_frames_count_and_their_lines_do_not),
        cmocka_unit_test(only_the_beginning_of_a_long_message_counts),
        cmocka_unit_test(hostile_messages_take_linear_time),
        cmocka_unit_test(a_fingerprint_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
