/* Items from files and streams: formats, errors with their place, ids, and the shaping on the way.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "run/items.h"
#include "run/lines.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char directory[] = "/tmp/lazaret-items-XXXXXX"; /* the working directory of every test */
static struct arena arena;                             /* of filters; emptied after each test */
static struct buf got;                                 /* what was read last */

static int enter_directory(void **state)
{
    (void)state;
    buf_init(&got, 64 << 20);
    return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int leave_directory(void **state)
{
    (void)state;
    buf_release(&got);
    return chdir("/") == 0 && rmdir(directory) == 0 ? 0 : -1;
}

static int clean_up(void **state)
{
    static const char *const names[] = {"in",     "in.json", "in.ndjson",   "in.jsonl", "IN.JSON",
                                        "in.txt", "pipe",    "in.json.txt", ".ndjson"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        unlink(names[i]);
    arena_release(&arena);
    return 0;
}

static void write_file(const char *name, struct slice bytes)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.ptr, bytes.len), (ssize_t)bytes.len);
    close(fd);
}

/* drain reads all items: "number:bytes|" for each.  Whatever is there must be what was promised. */
static enum status drain(struct items *items, struct err *err)
{
    struct items_entry entry;
    int64_t count = 0, total = items_total(items);
    enum status status;
    bool more;

    while ((status = items_next(items, &entry, &more, err)) == STATUS_OK && more) {
        buf_addf(&got, "%lld:", (long long)entry.number);
        buf_add_slice(&got, entry.item.bytes);
        buf_add_char(&got, '|');
        count++;
    }
    if (status == STATUS_OK && total >= 0)
        assert_int_equal(count, total);
    return status;
}

/* opened is what a configuration yields; an error is its sentence. */
static const char *opened(struct items_config config)
{
    struct items *items = NULL;
    struct err err = {0};
    enum status status = items_open(&config, &items, &err);

    buf_clear(&got);
    if (status == STATUS_OK) {
        assert_true(items_total(items) >= 0);
        status = drain(items, &err);
        assert_int_equal(status, STATUS_OK);
    } else {
        assert_null(items);
        buf_add_str(&got, err.text);
    }
    items_close(items);
    return buf_str(&got);
}

/* piped is what the same bytes yield as a stream. */
static const char *piped(struct items_config config, struct slice bytes)
{
    struct items *items = NULL;
    struct err err = {0};

    assert_int_equal(mkfifo("pipe", 0600), 0);
    config.path = "pipe";
    buf_clear(&got);
    if (items_open(&config, &items, &err) == STATUS_OK) {
        int fd = open("pipe", O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes.ptr, bytes.len), (ssize_t)bytes.len);
        close(fd);
        assert_int_equal(items_total(items), -1);
        if (drain(items, &err) != STATUS_OK)
            buf_add_str(&got, err.text);
    }
    items_close(items);
    unlink("pipe");
    return buf_str(&got);
}

/* ---- formats ----------------------------------------------------------------------------------
 */

static void the_format_is_found_by_name_path_and_beginning(void **state)
{
    static const struct {
        const char *name, *bytes, *json_path, *wanted;
    } cases[] = {
        {"in.json", "[1, \"a\", {\"b\": 2}]", NULL, "1:1|2:a|3:{\"b\":2}|"},
        {"IN.JSON", " [ ] ", NULL, ""},
        {"in.ndjson", "1\n\"a\"\n[2]\n", NULL, "1:1|2:a|3:[2]|"},
        {"in.jsonl", "{\"a\":1}\n\n \t\r\n{\"a\":2}", NULL, "1:{\"a\":1}|4:{\"a\":2}|"},
        {".ndjson", "1\n", NULL, "1:1|"},
        {"in", "{\"x\":[1,2]}", "$.x[*]", "1:1|2:2|"},
        {"in", "5", "$", "1:5|"},
        {"in.json", "{\"x\":[1,2]}", "$.x[::-1]", "1:2|2:1|"},
        {"in.json", "{\"x\":{\"file\":\"a\"},\"file\":\"b\"}", "$..file", "1:b|2:a|"},
        {"in.json", "{}", "$.x[*]", ""},
        {"in.json.txt", "1\n2\n", NULL, "1:1|2:2|"},
        {"in", "{\"a\":1}\n{\"a\":2}\n", NULL, "1:{\"a\":1}|2:{\"a\":2}|"},
        {"in", "\n \n{\"a\":1}\n", NULL, "3:{\"a\":1}|"},
        {"in", "[1,2]", NULL, "1:1|2:2|"},
        {"in", "[1,2]\n\n \n", NULL, "1:1|2:2|"},
        {"in", "\n[\n1,\n2\n]\n", NULL, "1:1|2:2|"},
        {"in", "[\n\n]", NULL, ""},
        {"in", "[1,2]\n[3]\n", NULL, "1:[1,2]|2:[3]|"},
        {"in", "[1] one\nx\n", NULL, "1:[1] one|2:x|"},
        {"in", "[draft].txt\n[\n", NULL, "1:[draft].txt|2:[|"},
        {"in", "[\"a.txt\nb\n", NULL, "1:[\"a.txt|2:b|"},
        {"in", "a\nb\n", NULL, "1:a|2:b|"},
        {"in", "\"a\"\n5\n", NULL, "1:\"a\"|2:5|"},
        {"in", "", NULL, ""},
        {"in", "\n\n", NULL, ""},
        {"in.txt", " a \n  \n", NULL, "1: a |2:  |"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct items_config config = {.path = cases[i].name, .json_path = cases[i].json_path};
        write_file(cases[i].name, slice_of(cases[i].bytes));
        assert_string_equal(opened(config), cases[i].wanted);
        unlink(cases[i].name);
        /* A stream has no name to tell by. */
        if (strncmp(cases[i].name, "in.j", 4) == 0)
            config.format = ITEMS_JSON;
        if (strstr(cases[i].name, "nd") || strstr(cases[i].name, "jsonl"))
            config.format = ITEMS_NDJSON;
        if (strstr(cases[i].name, "txt"))
            config.format = ITEMS_LINES;
        assert_string_equal(piped(config, slice_of(cases[i].bytes)), cases[i].wanted);
    }
}

static void a_format_that_is_given_is_believed(void **state)
{
    (void)state;
    write_file("in.json", SLICE("[1]\n{\n"));
    assert_string_equal(opened((struct items_config){.path = "in.json", .format = ITEMS_LINES}),
                        "1:[1]|2:{|");
    write_file("in", SLICE("[1]\n2\n"));
    assert_string_equal(opened((struct items_config){.path = "in", .format = ITEMS_NDJSON}),
                        "1:[1]|2:2|");
    write_file("in.txt", SLICE("\n[1,\n2]"));
    assert_string_equal(opened((struct items_config){.path = "in.txt", .format = ITEMS_JSON}),
                        "1:1|2:2|");
}

static void lines_end_in_lf_or_cr_lf_and_hold_any_other_byte(void **state)
{
    static const struct {
        struct slice bytes, wanted;
    } cases[] = {
        {SLICE("a\r\nb\r\n"), SLICE("1:a|2:b|")},
        {SLICE("a\r\n\r\n\nb"), SLICE("1:a|4:b|")},
        {SLICE("a\rb\nc\r"), SLICE("1:a\rb|2:c\r|")},
        {SLICE("a\0b\n\0\n"), SLICE("1:a\0b|2:\0|")},
        {SLICE("\xFF\xFE\nx\n"), SLICE("1:\xFF\xFE|2:x|")},
        {SLICE("\xEF\xBB\xBF"
               "a\n\xEF\xBB\xBF"
               "b\n"),
         SLICE("1:a|2:\xEF\xBB\xBF"
               "b|")},
        {SLICE("\xEF\xBB\xBF"), SLICE("")},
        {SLICE("\xEF\xBB"), SLICE("1:\xEF\xBB|")},
        {SLICE("\xEF\xBB\xBF\n[1]\n"), SLICE("1:1|")},
        {SLICE("\xEF\xBB\xBF{\"a\":1}\n"), SLICE("1:{\"a\":1}|")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct items_config config = {.path = "in"};
        write_file("in", cases[i].bytes);
        opened(config);
        assert_int_equal(got.len, cases[i].wanted.len);
        assert_memory_equal(buf_str(&got), cases[i].wanted.ptr, got.len);
        piped(config, cases[i].bytes);
        assert_int_equal(got.len, cases[i].wanted.len);
        assert_memory_equal(buf_str(&got), cases[i].wanted.ptr, got.len);
    }
}

static void a_line_item_has_its_exact_bytes_and_a_readable_value(void **state)
{
    struct items_config config = {.path = "in"};
    struct items *items;
    struct items_entry entry;
    bool more;

    (void)state;
    write_file("in", SLICE("a\xFF\"b\n"));
    assert_int_equal(items_open(&config, &items, NULL), STATUS_OK);
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_true(more && slice_is(entry.item.bytes, "a\xFF\"b"));
    assert_int_equal(entry.item.value.type, JSON_STRING);
    assert_true(slice_is(entry.item.value.raw, "\"a\xEF\xBF\xBD\\\"b\""));
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_false(more);
    items_close(items);
    items_close(NULL);
}

/* ---- errors -----------------------------------------------------------------------------------
 */

static void an_error_names_the_file_the_line_and_the_column(void **state)
{
    static const struct {
        const char *name, *bytes, *json_path, *wanted;
    } cases[] = {
        {"in.ndjson", "1\n\n{\"a\":}\n", NULL, "in.ndjson: line 3, column 6: expected a value"},
        {"in.ndjson", "1\n2 3\n", NULL,
         "in.ndjson: line 2, column 3: expected the end of the text"},
        {"in.ndjson", "1\n{\"\xC3\xA9\": x}\n", NULL,
         "in.ndjson: line 2, column 7: expected a value"},
        {"in", "{a}\n", NULL, "in: line 1, column 2: expected a member's name in quotes"},
        {"in.json", "[1,\n 2,\n x]", NULL, "in.json: line 3, column 2: expected a value"},
        {"in.json", "[\"\xC3\xA9\" x]", NULL, "in.json: line 1, column 6: expected ',' or ']'"},
        {"in.json", "", NULL, "in.json: there is no JSON in it"},
        {"in.json", " \n", NULL, "in.json: there is no JSON in it"},
        {"in.json", "{\"a\":1}\n{\"a\":2}\n", NULL,
         "in.json: more follows the first value, and a JSON document is one: one value a line is "
         "NDJSON, and its file's name ends in .ndjson"},
        {"in.json", "{\"n\":1,\"files\":[1]}", NULL,
         "in.json: is an object, not an array: give --json-path to say which values are the items, "
         "such as --json-path '$.files[*]'"},
        {"in.json", "{\"a b\":[]}", NULL,
         "in.json: is an object, not an array: give --json-path to say which values are the items, "
         "such as --json-path '$.items[*]'"},
        {"in", "{\n\"items\": [1]\n}\n", NULL,
         "in: is an object, not an array: give --json-path to say which values are the items, such "
         "as --json-path '$.items[*]'"},
        {"in.json", "5", NULL, "in.json: is not an array but one value: 5"},
        {"in", "[\n1,\n2,\n", NULL, "in: line 4, column 1: expected a value"},
        {"in", "[1,\n2}\n", NULL, "in: line 2, column 2: expected ',' or ']'"},
        {"in.json", "[]", "items", "the path items: column 1: expected '$', found 'items'"},
        {"in.ndjson", "1\n", "$[*]",
         "the path $[*] selects from a JSON document, and in.ndjson is NDJSON: leave the path out"},
        {"no/such", NULL, NULL, "cannot read no/such: No such file or directory"},
        {".", NULL, NULL, ". is a directory: give a file of items, or - for standard input"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].bytes)
            write_file(cases[i].name, slice_of(cases[i].bytes));
        assert_string_equal(
            opened((struct items_config){.path = cases[i].name, .json_path = cases[i].json_path}),
            cases[i].wanted);
    }
    assert_string_equal(
        opened((struct items_config){.path = "-", .format = ITEMS_LINES, .json_path = "$[*]"}),
        "the path $[*] selects from a JSON document, and standard input is a list "
        "of lines: leave the path out");
}

static void a_stream_yields_what_comes_before_an_error(void **state)
{
    (void)state;
    assert_string_equal(piped((struct items_config){.format = ITEMS_NDJSON}, SLICE("1\n2\n{\n3\n")),
                        "1:1|2:2|pipe: line 3, column 2: expected a member's name in quotes");
    assert_string_equal(piped((struct items_config){.id_field = "id"},
                              SLICE("{\"id\":7}\n{\"x\":1}\n{\"id\":8}\n")),
                        "1:{\"id\":7}|pipe: line 2: the item has no field \"id\"");
}

static void a_missing_id_is_told_before_anything_is_yielded(void **state)
{
    struct items_config config = {.path = "in.ndjson", .id_field = "id"};

    (void)state;
    write_file("in.ndjson", SLICE("{\"id\":1}\n{\"id\":\"\"}\n"));
    assert_string_equal(opened(config),
                        "in.ndjson: line 2: the field \"id\", the item's id, is empty");
    config.sort_by = "id";
    assert_string_equal(opened(config),
                        "in.ndjson: line 2: the field \"id\", the item's id, is empty");
    write_file("in.json", SLICE("[{\"id\":1},5]"));
    assert_string_equal(opened((struct items_config){.path = "in.json", .id_field = "id"}),
                        "in.json: element 2: the item has no field \"id\": it is a number");
    write_file("in", SLICE("a\n"));
    assert_string_equal(opened((struct items_config){.path = "in", .id_field = "id"}),
                        "in: line 1: the item has no field \"id\": it is a string");
}

static void what_is_read_ends_with_the_error(void **state)
{
    struct items_config config = {.path = "pipe", .format = ITEMS_NDJSON};
    struct items *items;
    struct items_entry entry;
    bool more;

    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(items_open(&config, &items, NULL), STATUS_OK);
    int fd = open("pipe", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "x\n1\n", 4), 4);
    close(fd);
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_INVALID);
    assert_false(more);
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_false(more);
    items_close(items);
}

static void impossible_shapes_are_refused(void **state)
{
    static const struct {
        struct items_config config;
        const char *wanted;
    } cases[] = {
        {{.sort_by = ""}, "sort_by: column 1: expected a path such as item.priority"},
        {{.sort_by = "a,"}, "sort_by: column 3: expected a path such as item.priority"},
        {{.sort_by = "a,,b"}, "sort_by: column 3: expected a path such as item.priority"},
        {{.sort_by = "a..b"}, "sort_by: column 1: expected a path such as item.priority"},
        {{.sort_by = "a, item."}, "sort_by: column 4: expected a path such as item.priority"},
        {{.sort_by = "a down"}, "sort_by: column 3: expected ASC, DESC, a comma or the end"},
        {{.sort_by = "\xC3\xA9 desc b"}, "sort_by: column 8: expected a comma or the end"},
        {{.sort_by = "a,b,c,d,e,f,g,h,i"}, "sort_by: at most 8 paths can be sorted by"},
        {{.distinct = ""}, "distinct: \"\" is no path such as item.name"},
        {{.distinct = "item.a."}, "distinct: \"item.a.\" is no path such as item.name"},
        {{.offset = -1}, "neither the offset nor the number of items can be less than 0"},
        {{.items_max = -1}, "neither the offset nor the number of items can be less than 0"},
    };

    (void)state;
    write_file("in", SLICE("a\n"));
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct items_config config = cases[i].config;
        config.path = "in";
        assert_string_equal(opened(config), cases[i].wanted);
    }
}

/* ---- long and large ---------------------------------------------------------------------------
 */

static void a_line_has_a_greatest_length(void **state)
{
    struct items_config config = {.path = "in"};
    struct items *items;
    struct items_entry entry;
    struct err err = {0};
    bool more;
    char *text = mem_alloc(LINES_LINE_MAX + 4);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', LINES_LINE_MAX + 4);
    memcpy(text, "a\n", 2);
    memcpy(text + 2 + LINES_LINE_MAX, "\r\n", 2);
    write_file("in", (struct slice){text, LINES_LINE_MAX + 4});
    assert_int_equal(items_open(&config, &items, &err), STATUS_OK);
    assert_int_equal(items_next(items, &entry, &more, &err), STATUS_OK);
    assert_int_equal(items_next(items, &entry, &more, &err), STATUS_OK);
    assert_int_equal(entry.item.bytes.len, LINES_LINE_MAX);
    items_close(items);

    text[2 + LINES_LINE_MAX] = 'x';
    write_file("in", (struct slice){text, LINES_LINE_MAX + 4});
    assert_int_equal(items_open(&config, &items, &err), STATUS_TOO_LARGE);
    assert_string_equal(err.text, "in: line 2 has more than 67108864 bytes");
    mem_free(text);
}

/* Lines of every length, over the edges of what is read at once. */
static void no_line_is_torn_where_the_buffer_ends(void **state)
{
    struct items_config config = {.path = "in"};
    struct items_entry entry;
    struct items *items;
    struct buf text;
    bool more;

    (void)state;
    buf_init(&text, 64 << 20);
    for (int i = 1; i <= 3000; i++)
        buf_addf(&text, "%0*d\n", i, i);
    write_file("in", buf_slice(&text));
    assert_int_equal(items_open(&config, &items, NULL), STATUS_OK);
    assert_int_equal(items_total(items), 3000);
    for (int i = 1; i <= 3000; i++) {
        assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
        assert_true(more);
        assert_int_equal(entry.number, i);
        assert_int_equal(entry.item.bytes.len, i);
        char last[8];
        int digits = i > 4 ? 4 : i;
        snprintf(last, sizeof(last), "%.*s", digits, entry.item.bytes.ptr + i - digits);
        assert_int_equal(strtol(last, NULL, 10), i);
    }
    items_close(items);
    buf_release(&text);
}

/* A file that is larger than what is read ahead is written to after it was opened. */
static void a_file_that_changes_is_noticed_or_does_not_matter(void **state)
{
    struct items_config config = {.path = "in"};
    struct items *items;
    struct err err = {0};
    struct buf text;

    (void)state;
    buf_init(&text, 64 << 20);
    for (int i = 0; i < 100000; i++)
        buf_addf(&text, "line %d\n", i);
    write_file("in", buf_slice(&text));
    assert_int_equal(items_open(&config, &items, &err), STATUS_OK);
    int fd = open("in", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "more\n", 5), 5);
    close(fd);
    buf_clear(&got);
    assert_int_equal(drain(items, &err), STATUS_OK); /* as many as were promised */
    items_close(items);

    assert_int_equal(items_open(&config, &items, &err), STATUS_OK);
    assert_int_equal(items_total(items), 100001);
    assert_int_equal(truncate("in", (off_t)text.len - 11), 0);
    buf_clear(&got);
    assert_int_equal(drain(items, &err), STATUS_CONFLICT);
    assert_string_equal(err.text, "in was changed while it was read: 2 of its items are gone");
    items_close(items);
    buf_release(&text);
}

/* ---- streams ----------------------------------------------------------------------------------
 */

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void a_stream_yields_each_line_when_it_is_there(void **state)
{
    struct items_config config = {.path = "pipe"};
    struct items_entry entry;
    struct items *items;
    bool more;

    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(items_open(&config, &items, NULL), STATUS_OK); /* nobody writes yet */
    int fd = open("pipe", O_WRONLY | O_CLOEXEC);
    put(fd, "a\nb");
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_true(more && slice_is(entry.item.bytes, "a"));
    put(fd, "c\n{");
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_true(more && slice_is(entry.item.bytes, "bc"));
    close(fd);
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_true(more && slice_is(entry.item.bytes, "{"));
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_false(more);
    items_close(items);
}

static void ndjson_is_detected_with_the_first_line(void **state)
{
    struct items_config config = {.path = "pipe"};
    struct items_entry entry;
    struct items *items;
    bool more;

    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(items_open(&config, &items, NULL), STATUS_OK);
    int fd = open("pipe", O_WRONLY | O_CLOEXEC);
    put(fd, "{\"a\":1}\n");
    assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_int_equal(entry.item.value.type, JSON_OBJECT);
    close(fd);
    items_close(items);
}

static void standard_input_is_a_dash(void **state)
{
    struct items_config config = {.path = "-"};
    struct items *items;
    int saved = dup(STDIN_FILENO), fds[2];

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
    put(fds[1], "[1,\n2]");
    close(fds[1]);
    close(fds[0]);
    assert_int_equal(items_open(&config, &items, NULL), STATUS_OK);
    buf_clear(&got);
    assert_int_equal(drain(items, NULL), STATUS_OK);
    assert_string_equal(buf_str(&got), "1:1|2:2|");
    items_close(items);

    /* A file that is standard input is checked and counted like any other. */
    write_file("in", SLICE("a\nb\n"));
    int file = open("in", O_RDONLY | O_CLOEXEC);
    assert_int_equal(dup2(file, STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(lseek(STDIN_FILENO, 2, SEEK_SET), 2);
    close(file);
    assert_string_equal(opened(config), "1:b|");
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), 0); /* it is left open */

    write_file("in", SLICE("{\n"));
    assert_string_equal(opened((struct items_config){.path = "-", .format = ITEMS_NDJSON}), "");
    assert_int_equal(lseek(STDIN_FILENO, 0, SEEK_SET), 0);
    assert_string_equal(opened((struct items_config){.path = "-", .format = ITEMS_NDJSON}),
                        "standard input: line 1, column 2: expected a member's name in quotes");
    dup2(saved, STDIN_FILENO);
    close(saved);
}

struct waiter {
    struct items *items;
    enum status status;
    bool more;
};

static void *wait_for_item(void *ctx)
{
    struct waiter *waiter = ctx;
    struct items_entry entry;

    do
        waiter->status = items_next(waiter->items, &entry, &waiter->more, NULL);
    while (waiter->status == STATUS_OK && waiter->more);
    return NULL;
}

static void a_stop_by_another_thread_ends_the_wait(void **state)
{
    static const struct items_config configs[] = {
        {.path = "pipe"},
        {.path = "pipe", .format = ITEMS_LINES},
        {.path = "pipe", .format = ITEMS_JSON},
        {.path = "pipe", .format = ITEMS_NDJSON, .sort_by = "a"},
    };
    static const char *const texts[] = {"", "a\nb", "[1,", "{\n"};

    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    for (size_t i = 0; i < COUNT(configs); i++) {
        for (size_t k = 0; k < COUNT(texts); k++) {
            struct waiter waiter = {.more = true};
            pthread_t thread;
            assert_int_equal(items_open(&configs[i], &waiter.items, NULL), STATUS_OK);
            int fd = open("pipe", O_WRONLY | O_CLOEXEC);
            put(fd, texts[k]);
            assert_int_equal(pthread_create(&thread, NULL, wait_for_item, &waiter), 0);
            items_stop(waiter.items);
            pthread_join(thread, NULL);
            /* What was there may have been found invalid before the stop; nothing is cut short. */
            assert_true(!waiter.more);
            assert_true(waiter.status == STATUS_OK ||
                        (waiter.status == STATUS_INVALID && texts[k][0] == '{') ||
                        (waiter.status == STATUS_INVALID && configs[i].format == ITEMS_NDJSON));
            close(fd);
            items_close(waiter.items);
        }
    }
}

static void a_stop_ends_a_file_too(void **state)
{
    struct items_config config = {.path = "in"};
    struct items_entry entry;
    struct items *items;
    bool more;

    (void)state;
    write_file("in", SLICE("a\nb\n"));
    for (int sorted = 0; sorted < 2; sorted++) {
        config.sort_by = sorted ? "item" : NULL;
        assert_int_equal(items_open(&config, &items, NULL), STATUS_OK);
        assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
        assert_true(more);
        items_stop(items);
        assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
        assert_false(more);
        items_close(items);
    }
}

/* ---- ids ---------------------------------------------------------------------------------------
 */

/* ids is the ids of a file, each with a ! when it is repeated. */
static const char *ids(struct items_config config, const char *bytes)
{
    struct items_entry entry;
    struct items *items;
    struct err err = {0};
    bool more;

    config.path = "in";
    write_file("in", slice_of(bytes));
    buf_clear(&got);
    if (items_open(&config, &items, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    while (items_next(items, &entry, &more, NULL) == STATUS_OK && more) {
        buf_add_slice(&got, entry.id);
        buf_add_str(&got, entry.repeated ? "! " : " ");
    }
    items_close(items);
    return buf_str(&got);
}

static void ids_are_distinct_within_the_input(void **state)
{
    static const struct items_config by_id = {.format = ITEMS_NDJSON, .id_field = "id"};

    (void)state;
    assert_string_equal(ids(by_id, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":7}\n"), "a b 7 ");
    assert_string_equal(
        ids(by_id, "{\"id\":\"a\"}\n{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"a\"}\n"),
        "a a#2! b a#3! ");
    /* Ids that look like ours do not meet them. */
    assert_string_equal(
        ids(by_id, "{\"id\":\"a\"}\n{\"id\":\"a#2\"}\n{\"id\":\"a\"}\n{\"id\":\"a\"}\n"),
        "a a#2 a#3! a#4! ");
    assert_string_equal(
        ids(by_id, "{\"id\":\"a\"}\n{\"id\":\"a\"}\n{\"id\":\"a#2\"}\n{\"id\":\"a#2\"}\n"),
        "a a#2! a#2#2! a#2#3! ");
    /* A number and its text are the same id. */
    assert_string_equal(ids(by_id, "{\"id\":5}\n{\"id\":\"5\"}\n"), "5 5#2! ");
}

static void ids_do_not_depend_on_the_order(void **state)
{
    (void)state;
    assert_string_equal(ids((struct items_config){.path = NULL}, "a\nb\na\n"),
                        "6cf6db08e9411c0a 29fc4e20be4a7188 6cf6db08e9411c0a#2! ");
    assert_string_equal(ids((struct items_config){.path = NULL}, "b\na\na\n"),
                        "29fc4e20be4a7188 6cf6db08e9411c0a 6cf6db08e9411c0a#2! ");
    /* Nor on how the value is written. */
    assert_string_equal(ids((struct items_config){.path = NULL}, "[ \"b\",\n\"\\u0061\", \"a\" ]"),
                        "29fc4e20be4a7188 6cf6db08e9411c0a 6cf6db08e9411c0a#2! ");
}

static void a_long_id_stays_short_when_it_is_repeated(void **state)
{
    char line[300];
    struct buf text;

    (void)state;
    buf_init(&text, 4096);
    for (int i = 0; i < 2; i++)
        buf_addf(&text, "{\"id\":\"%0*d\xC3\xA9\"}\n", ITEM_ID_MAX - 2, 7);
    ids((struct items_config){.id_field = "id"}, buf_str(&text));
    snprintf(line, sizeof(line), "%0*d\xC3\xA9 %0*d#2! ", ITEM_ID_MAX - 2, 7, ITEM_ID_MAX - 2, 7);
    assert_string_equal(buf_str(&got), line);
    buf_release(&text);
}

static void many_repeats_are_numbered_quickly(void **state)
{
    struct items_config config = {.path = "in"};
    struct items_entry entry;
    struct items *items;
    struct buf text;
    bool more;

    (void)state;
    buf_init(&text, 64 << 20);
    for (int i = 0; i < 200000; i++)
        buf_add_str(&text, "x\n");
    write_file("in", buf_slice(&text));
    assert_int_equal(items_open(&config, &items, NULL), STATUS_OK);
    for (int i = 0; i < 200000; i++)
        assert_int_equal(items_next(items, &entry, &more, NULL), STATUS_OK);
    assert_memory_equal(entry.id.ptr + 16, "#200000", 7);
    items_close(items);
    buf_release(&text);
}

/* ---- shaping -----------------------------------------------------------------------------------
 */

static const char people[] =
    "{\"n\":\"c\",\"p\":2}\n{\"n\":\"a\",\"p\":10}\n{\"n\":\"b\",\"p\":2.0}\n"
    "{\"n\":\"d\"}\n{\"n\":\"a\",\"p\":\"x\"}\n{\"n\":\"e\",\"p\":null}\n";

/* assert_shape compares the numbers of what is left, in order, as a file and as a stream. */
static void assert_shape(struct items_config config, struct slice bytes, const char *wanted)
{
    struct items_entry entry;
    struct items *items;
    struct err err = {0};
    bool more;

    for (int stream = 0; stream < 2; stream++) {
        config.path = stream ? "pipe" : "in";
        if (stream)
            assert_int_equal(mkfifo("pipe", 0600), 0);
        else
            write_file("in", bytes);
        if (items_open(&config, &items, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        if (stream) {
            int fd = open("pipe", O_WRONLY | O_CLOEXEC);
            assert_int_equal(write(fd, bytes.ptr, bytes.len), (ssize_t)bytes.len);
            close(fd);
        }
        int64_t total = items_total(items), count = 0;
        buf_clear(&got);
        while (items_next(items, &entry, &more, &err) == STATUS_OK && more) {
            buf_addf(&got, "%lld ", (long long)entry.number);
            count++;
        }
        assert_string_equal(err.text, "");
        assert_string_equal(buf_str(&got), wanted);
        assert_int_equal(total, stream ? -1 : count);
        items_close(items);
        unlink(config.path);
    }
}

static const struct filter *filter_of(const char *text)
{
    const struct filter *filter;

    assert_int_equal(filter_parse(slice_of(text), &arena, &filter, NULL), STATUS_OK);
    return filter;
}

static void items_are_sorted_by_their_fields(void **state)
{
    static const char *const cases[][2] = {
        {"item.n", "2 5 3 1 4 6 "},
        {"n", "2 5 3 1 4 6 "},
        {"n DESC", "6 4 1 3 2 5 "},
        {"p", "1 3 2 5 4 6 "},      /* numbers by value, then strings; what is missing is last */
        {"p desc", "5 2 1 3 4 6 "}, /* there too */
        {"p DESC, n", "5 2 3 1 4 6 "},
        {" item.p ASC ,item.n  asc ", "3 1 2 5 4 6 "},
        {"n, p DESC", "5 2 3 1 4 6 "},
        {"nope", "1 2 3 4 5 6 "},
        {"nope DESC", "1 2 3 4 5 6 "},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_shape((struct items_config){.sort_by = cases[i][0]}, slice_of(people), cases[i][1]);
    assert_shape((struct items_config){.sort_by = "item", .format = ITEMS_LINES},
                 SLICE("b\na\n\xC3\xA9\nab\nB\n"), "5 2 4 1 3 ");
    assert_shape((struct items_config){.sort_by = "item DESC"},
                 SLICE("[true, {}, 1, false, \"a\", [], null, 9007199254740993, 9007199254740992]"),
                 "2 6 1 4 5 8 9 3 7 ");
    assert_shape((struct items_config){.sort_by = "a.0.b"},
                 SLICE("{\"a\":[{\"b\":\"\\u0062\"}]}\n{\"a\":[{\"b\":\"a\"}]}\n"), "2 1 ");
}

static void items_are_filtered(void **state)
{
    struct items_config config = {.filter = filter_of("item.n == 'a' || item.p == 2")};

    (void)state;
    assert_shape(config, slice_of(people), "1 2 3 5 ");
    config.sort_by = "n";
    assert_shape(config, slice_of(people), "2 5 3 1 ");
    config = (struct items_config){.filter = filter_of("item contains '.c'")};
    assert_shape(config, SLICE("a.c\nb.h\n\xFF.c\n"), "1 3 ");
}

static void items_are_distinct_by_a_field(void **state)
{
    struct items_config config = {.distinct = "item.n"};

    (void)state;
    assert_shape(config, slice_of(people), "1 2 3 4 6 ");
    config.distinct = "p"; /* 2 and 2.0 are the same; those without one are not */
    assert_shape(config, slice_of(people), "1 2 4 5 6 ");
    config = (struct items_config){.distinct = "n", .sort_by = "p DESC"};
    assert_shape(config, slice_of(people), "5 1 3 4 6 ");
    config = (struct items_config){.distinct = "item"};
    assert_shape(config, SLICE("a\nb\na\n"), "1 2 ");
    assert_shape(config, SLICE("[1, \"1\", 1.0, [1 , 2], [1,2], \"\\u0031\", 1.5, 1.50]"),
                 "1 2 4 7 8 ");
}

static void items_are_left_out_at_both_ends(void **state)
{
    struct items_config config = {.offset = 1};

    (void)state;
    assert_shape(config, SLICE("a\nb\nc\nd\n"), "2 3 4 ");
    config.items_max = 2;
    assert_shape(config, SLICE("a\nb\nc\nd\n"), "2 3 ");
    config.sort_by = "item DESC";
    assert_shape(config, SLICE("a\nb\nc\nd\n"), "3 2 ");
    config.filter = filter_of("item != 'c'");
    assert_shape(config, SLICE("a\nb\nc\nd\n"), "2 1 ");
    config = (struct items_config){.offset = 4};
    assert_shape(config, SLICE("a\nb\nc\nd\n"), "");
    config = (struct items_config){.items_max = 9};
    assert_shape(config, SLICE("a\nb\n"), "1 2 ");
    config = (struct items_config){.distinct = "item", .offset = 1, .items_max = 1};
    assert_shape(config, SLICE("a\na\nb\nc\n"), "3 ");
}

/* Everything is configured; each allocation fails once. */
static void every_failed_allocation_is_reported(void **state)
{
    struct items_config config = {.path = "in.json",
                                  .json_path = "$.a[*]",
                                  .id_field = "id",
                                  .sort_by = "id DESC",
                                  .distinct = "id"};
    enum status status = STATUS_NO_MEMORY;
    unsigned long n = 0;

    (void)state;
    write_file("in.json", SLICE("{\"a\":[{\"id\": \"\\n\"},{\"id\":1},{\"id\":\"1\"}]}"));
    while (status != STATUS_OK) {
        struct items *items = NULL;
        struct err err = {0};
        buf_clear(&got);
        mem_fail_after(++n);
        status = items_open(&config, &items, &err);
        if (status == STATUS_OK)
            status = drain(items, &err);
        mem_fail_after(0);
        items_close(items);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
    }
    assert_string_equal(buf_str(&got), "3:{\"id\":\"1\"}|1:{\"id\":\"\\n\"}|2:{\"id\":1}|");
    assert_true(n > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_format_is_found_by_name_path_and_beginning, clean_up),
        cmocka_unit_test_teardown(a_format_that_is_given_is_believed, clean_up),
        cmocka_unit_test_teardown(lines_end_in_lf_or_cr_lf_and_hold_any_other_byte, clean_up),
        cmocka_unit_test_teardown(a_line_item_has_its_exact_bytes_and_a_readable_value, clean_up),
        cmocka_unit_test_teardown(an_error_names_the_file_the_line_and_the_column, clean_up),
        cmocka_unit_test_teardown(a_stream_yields_what_comes_before_an_error, clean_up),
        cmocka_unit_test_teardown(a_missing_id_is_told_before_anything_is_yielded, clean_up),
        cmocka_unit_test_teardown(what_is_read_ends_with_the_error, clean_up),
        cmocka_unit_test_teardown(impossible_shapes_are_refused, clean_up),
        cmocka_unit_test_teardown(a_line_has_a_greatest_length, clean_up),
        cmocka_unit_test_teardown(no_line_is_torn_where_the_buffer_ends, clean_up),
        cmocka_unit_test_teardown(a_file_that_changes_is_noticed_or_does_not_matter, clean_up),
        cmocka_unit_test_teardown(a_stream_yields_each_line_when_it_is_there, clean_up),
        cmocka_unit_test_teardown(ndjson_is_detected_with_the_first_line, clean_up),
        cmocka_unit_test_teardown(standard_input_is_a_dash, clean_up),
        cmocka_unit_test_teardown(a_stop_by_another_thread_ends_the_wait, clean_up),
        cmocka_unit_test_teardown(a_stop_ends_a_file_too, clean_up),
        cmocka_unit_test_teardown(ids_are_distinct_within_the_input, clean_up),
        cmocka_unit_test_teardown(ids_do_not_depend_on_the_order, clean_up),
        cmocka_unit_test_teardown(a_long_id_stays_short_when_it_is_repeated, clean_up),
        cmocka_unit_test_teardown(many_repeats_are_numbered_quickly, clean_up),
        cmocka_unit_test_teardown(items_are_sorted_by_their_fields, clean_up),
        cmocka_unit_test_teardown(items_are_filtered, clean_up),
        cmocka_unit_test_teardown(items_are_distinct_by_a_field, clean_up),
        cmocka_unit_test_teardown(items_are_left_out_at_both_ends, clean_up),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported, clean_up),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
