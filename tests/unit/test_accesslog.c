/* test_accesslog: lines of JSON, secrets masked, and each request in a line or in a count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "api/accesslog.h"
#include "base/log.h"
#include "base/mem.h"

struct place {
    char directory[40];
    char path[60];
};

static int make_place(void **state)
{
    struct place *place = mem_zalloc(sizeof *place);
    snprintf(place->directory, sizeof place->directory, "/tmp/lazaret-accesslog-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    snprintf(place->path, sizeof place->path, "%s/access.log", place->directory);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    char moved[80];
    snprintf(moved, sizeof moved, "%s.1", place->path);
    unlink(place->path);
    unlink(moved);
    rmdir(place->directory);
    mem_free(place);
    return 0;
}

static struct accesslog *open_log(const char *path)
{
    struct accesslog *log = NULL;
    struct err err = {0};
    assert_int_equal(accesslog_open(path, seams_real(), &log, &err), STATUS_OK);
    return log;
}

static const struct access usual = {
    .id = {"r1", 2},
    .peer = {"127.0.0.1", 9},
    .actor = {"ada", 3},
    .role = "operator",
    .method = "POST",
    .path = {"/api/v1/dlq", 11},
    .route = "/api/v1/dlq",
    .status = 200,
    .bytes_in = 3,
    .bytes_out = 812,
    .took = {1234},
};

static void add(struct accesslog *log, const char *path, const char *query)
{
    struct access access = usual;
    access.path = slice_of(path);
    access.query = slice_of(query);
    accesslog_add(log, &access);
}

/* struct lines: what a file has, line by line, as jansson reads it. */
struct lines {
    json_t *all; /* an array */
};

static void add_line(struct lines *lines, const char *line, size_t len)
{
    json_error_t error;
    json_t *value = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    assert_non_null(value);
    assert_int_equal(json_array_append_new(lines->all, value), 0);
}

static struct lines lines_of(const struct buf *text)
{
    struct lines lines = {json_array()};
    for (size_t at = 0; at < text->len;) {
        const char *end = memchr(text->ptr + at, '\n', text->len - at);
        assert_non_null(end);
        add_line(&lines, text->ptr + at, (size_t)(end - text->ptr) - at);
        at = (size_t)(end - text->ptr) + 1;
    }
    return lines;
}

static struct lines read_lines(const char *path)
{
    struct buf text;
    char chunk[4096];
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    buf_init(&text, 64 << 20);
    while ((got = read(fd, chunk, sizeof chunk)) > 0)
        buf_add(&text, chunk, (size_t)got);
    close(fd);
    struct lines lines = lines_of(&text);
    buf_release(&text);
    return lines;
}

static const char *text_at(struct lines lines, size_t line, const char *key)
{
    return json_string_value(json_object_get(json_array_get(lines.all, line), key));
}

static json_int_t dropped_in(struct lines lines)
{
    json_int_t dropped = 0;
    for (size_t i = 0; i < json_array_size(lines.all); i++)
        dropped += json_integer_value(json_object_get(json_array_get(lines.all, i), "dropped"));
    return dropped;
}

/* requests_in counts the lines that are requests: all but one that only says what was dropped. */
static json_int_t requests_in(struct lines lines)
{
    json_int_t requests = 0;
    for (size_t i = 0; i < json_array_size(lines.all); i++)
        requests += json_object_get(json_array_get(lines.all, i), "id") != NULL;
    return requests;
}

static void a_line_says_who_asked_for_what(void **state)
{
    struct place *place = *state;
    struct accesslog *log = open_log(place->path);
    add(log, "/api/v1/dlq", "reason=timeout");
    accesslog_close(log);
    struct lines lines = read_lines(place->path);
    assert_int_equal(json_array_size(lines.all), 1);
    json_t *line = json_array_get(lines.all, 0);
    assert_int_equal(json_object_size(line), 12);
    assert_non_null(strchr(text_at(lines, 0, "at"), 'T'));
    assert_string_equal(text_at(lines, 0, "id"), "r1");
    assert_string_equal(text_at(lines, 0, "peer"), "127.0.0.1");
    assert_string_equal(text_at(lines, 0, "actor"), "ada");
    assert_string_equal(text_at(lines, 0, "role"), "operator");
    assert_string_equal(text_at(lines, 0, "method"), "POST");
    assert_string_equal(text_at(lines, 0, "path"), "/api/v1/dlq?reason=timeout");
    assert_string_equal(text_at(lines, 0, "route"), "/api/v1/dlq");
    assert_int_equal(json_integer_value(json_object_get(line, "status")), 200);
    assert_int_equal(json_integer_value(json_object_get(line, "bytes_in")), 3);
    assert_int_equal(json_integer_value(json_object_get(line, "bytes_out")), 812);
    assert_true(json_real_value(json_object_get(line, "ms")) == 1.234);
    json_decref(lines.all);
}

static void values_that_may_be_secret_are_masked(void **state)
{
    static const struct {
        const char *path, *query, *logged;
    } table[] = {
        {"/a", "token=abc", "/a?token=[masked]"},
        {"/a", "limit=5&token=abc&reason=x", "/a?limit=5&token=[masked]&reason=x"},
        {"/a", "access_token=abc", "/a?access_token=[masked]"},
        {"/a", "TOKEN=abc", "/a?TOKEN=[masked]"},
        {"/a", "%74oken=abc", "/a?%74oken=[masked]"},
        {"/a", "%74%6F%6b%65%6e=abc", "/a?%74%6F%6b%65%6e=[masked]"},
        {"/a", "api_key=abc&X-Api-Key=d", "/a?api_key=[masked]&X-Api-Key=[masked]"},
        {"/a", "secret=a=b=c", "/a?secret=[masked]"},
        {"/a", "password=", "/a?password=[masked]"},
        {"/a", "passwd=p;pwd=q", "/a?passwd=[masked];pwd=[masked]"},
        {"/a", "authorization=Bearer%20x", "/a?authorization=[masked]"},
        {"/a", "q=ada%40example.org", "/a?q=[masked]"},
        {"/a", "filter=item.card%3D%3D4111", "/a?filter=[masked]"},
        {"/a", "a=1?token=abc", "/a?a=1?token=[masked]"},
        {"/a", "queue=q&state=dead", "/a?queue=q&state=dead"},
        {"/a", "token", "/a?token"},
        {"/a", "&&=&x", "/a?&&=&x"},
        {"/a", "%7=1&%zz=2&%", "/a?%7=1&%zz=2&%"},
        {"/a", "lzt_id_secret-9", "/a?[masked]"},
        {"/a", "actor=lzt_id_secret&b=2", "/a?actor=[masked]&b=2"},
        {"/lzt_id_secret/b", "", "/[masked]/b"},
        {"/a", "a_name_that_is_longer_than_any_parameter_of_the_api_could_ever_be_xx=1",
         "/a?a_name_that_is_longer_than_any_parameter_of_the_api_could_ever_be_xx=[masked]"},
    };
    const size_t count = sizeof table / sizeof *table;
    struct place *place = *state;
    struct accesslog *log = open_log(place->path);
    for (size_t i = 0; i < count; i++)
        add(log, table[i].path, table[i].query);
    accesslog_close(log);
    struct lines lines = read_lines(place->path);
    assert_int_equal(json_array_size(lines.all), count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(text_at(lines, i, "path"), table[i].logged);
    json_decref(lines.all);
}

static void any_bytes_come_out_as_valid_json(void **state)
{
    struct place *place = *state;
    struct accesslog *log = open_log(place->path);
    struct access access = usual;
    char every[256];
    for (int i = 0; i < 256; i++)
        every[i] = (char)i;
    access.path = (struct slice){every, sizeof every};
    access.query = access.actor = access.id = access.peer = access.path;
    access.role = access.method = access.route = NULL;
    accesslog_add(log, &access);
    add(log, "/a\r\n{\"b\":1}\x7f\xff\xc3\x28\xe2\x82", "x=\x1b[31m\xc2\x9b");
    accesslog_close(log);
    struct lines lines = read_lines(place->path);
    assert_int_equal(json_array_size(lines.all), 2);
    assert_string_equal(text_at(lines, 0, "role"), "");
    assert_string_equal(text_at(lines, 1, "path"),
                        "/a%0D%0A{\"b\":1}%7F%FF%C3(%E2%82?x=%1B[31m%C2%9B");
    json_decref(lines.all);
}

static void lines_are_appended_to_what_is_there(void **state)
{
    struct place *place = *state;
    for (int i = 0; i < 3; i++) {
        struct accesslog *log = open_log(place->path);
        add(log, "/a", "");
        accesslog_close(log);
    }
    struct lines lines = read_lines(place->path);
    assert_int_equal(json_array_size(lines.all), 3);
    json_decref(lines.all);
    struct stat stat_of;
    assert_int_equal(stat(place->path, &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 07, 0);
}

static void a_line_is_written_without_waiting_for_another(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkfifo(place->path, 0600), 0);
    int reader = open(place->path, O_RDWR | O_CLOEXEC);
    struct accesslog *log = open_log(place->path);
    struct pollfd readable = {.fd = reader, .events = POLLIN};
    for (int i = 0; i < 2; i++) {
        char chunk[2000];
        add(log, "/a", "");
        assert_int_equal(poll(&readable, 1, 60000), 1);
        assert_true(read(reader, chunk, sizeof chunk) > 0);
    }
    accesslog_close(log);
    close(reader);
}

static void after_a_reopen_lines_are_in_the_file_of_that_name(void **state)
{
    struct place *place = *state;
    struct accesslog *log = open_log(place->path);
    char moved[80];
    snprintf(moved, sizeof moved, "%s.1", place->path);
    add(log, "/before", "");
    assert_int_equal(rename(place->path, moved), 0);
    add(log, "/before", "");
    accesslog_reopen(log);
    add(log, "/after", "");
    accesslog_reopen(log);
    add(log, "/after", "");
    accesslog_close(log);
    struct lines before = read_lines(moved), after = read_lines(place->path);
    assert_true(json_array_size(before.all) >= 2);
    assert_int_equal(json_array_size(before.all) + json_array_size(after.all), 4);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(text_at(before, i, "path"), "/before");
    assert_string_equal(text_at(after, json_array_size(after.all) - 1, "path"), "/after");
    json_decref(before.all);
    json_decref(after.all);
}

static void a_reopen_that_fails_goes_on_with_the_file_as_it_was(void **state)
{
    struct place *place = *state;
    struct accesslog *log = open_log(place->path);
    char moved[80];
    snprintf(moved, sizeof moved, "%s.1", place->path);
    assert_int_equal(rename(place->path, moved), 0);
    assert_int_equal(mkdir(place->path, 0700), 0);
    log_set(LOG_ERROR, NULL, NULL);
    accesslog_reopen(log);
    add(log, "/a", "");
    accesslog_close(log);
    log_set(LOG_INFO, NULL, NULL);
    assert_int_equal(rmdir(place->path), 0);
    struct lines lines = read_lines(moved);
    assert_int_equal(json_array_size(lines.all), 1);
    json_decref(lines.all);
}

static void *close_main(void *arg)
{
    accesslog_close(arg);
    return NULL;
}

static void lines_that_nobody_takes_are_dropped_and_counted(void **state)
{
    struct place *place = *state;
    const int count = 20000;
    pthread_t closer;
    struct buf text;
    char chunk[65536];
    ssize_t got;
    assert_int_equal(mkfifo(place->path, 0600), 0);
    int reader = open(place->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct accesslog *log = open_log(place->path);
    for (int i = 0; i < count; i++)
        add(log, "/a", "");
    /* Everything was added though nothing was read.  At the end of the log the pipe has an end. */
    assert_int_equal(fcntl(reader, F_SETFL, 0), 0);
    assert_int_equal(pthread_create(&closer, NULL, close_main, log), 0);
    buf_init(&text, 64 << 20);
    while ((got = read(reader, chunk, sizeof chunk)) > 0)
        buf_add(&text, chunk, (size_t)got);
    pthread_join(closer, NULL);
    close(reader);
    struct lines lines = lines_of(&text);
    assert_true(dropped_in(lines) > 0);
    assert_int_equal(requests_in(lines) + dropped_in(lines), count);
    json_decref(lines.all);
    buf_release(&text);
}

static atomic_int warnings;

static void count_warnings(enum log_level level, const char *line, void *ctx)
{
    (void)level;
    (void)ctx;
    if (strstr(line, "access log"))
        atomic_fetch_add(&warnings, 1);
}

static void lines_that_a_full_disk_refused_are_counted_and_it_is_said_once(void **state)
{
    struct place *place = *state;
    assert_int_equal(symlink("/dev/full", place->path), 0);
    log_set(LOG_WARN, count_warnings, NULL);
    atomic_store(&warnings, 0);
    struct accesslog *log = open_log(place->path);
    for (int i = 0; i < 3; i++)
        add(log, "/lost", "");
    while (atomic_load(&warnings) == 0)
        sched_yield();
    add(log, "/lost", "");
    assert_int_equal(unlink(place->path), 0);
    accesslog_reopen(log);
    add(log, "/kept", "");
    accesslog_close(log);
    log_set(LOG_INFO, NULL, NULL);
    assert_int_equal(atomic_load(&warnings), 1);
    struct lines lines = read_lines(place->path);
    assert_int_equal(requests_in(lines), 1);
    assert_string_equal(text_at(lines, 0, "path"), "/kept");
    assert_int_equal(dropped_in(lines), 4);
    json_decref(lines.all);
}

struct writer {
    struct accesslog *log;
    int number;
};

#define WRITERS 6
#define LINES_EACH 500

static void *writer_main(void *arg)
{
    struct writer *writer = arg;
    for (int i = 0; i < LINES_EACH; i++) {
        struct access access = usual;
        access.status = writer->number;
        access.bytes_in = (size_t)i;
        accesslog_add(writer->log, &access);
        if (i % 100 == 0)
            accesslog_reopen(writer->log);
    }
    return NULL;
}

static void lines_of_many_threads_are_whole_and_in_order(void **state)
{
    struct place *place = *state;
    struct accesslog *log = open_log(place->path);
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    int next[WRITERS] = {0};
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){log, i};
        assert_int_equal(pthread_create(&threads[i], NULL, writer_main, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    accesslog_close(log);
    struct lines lines = read_lines(place->path);
    assert_int_equal(json_array_size(lines.all), WRITERS * LINES_EACH);
    for (size_t i = 0; i < json_array_size(lines.all); i++) {
        json_t *line = json_array_get(lines.all, i);
        json_int_t writer = json_integer_value(json_object_get(line, "status"));
        assert_int_equal(json_integer_value(json_object_get(line, "bytes_in")), next[writer]++);
    }
    json_decref(lines.all);
}

static void a_file_that_cannot_be_opened_is_an_error_that_names_it(void **state)
{
    struct accesslog *log = NULL;
    struct err err = {0};
    (void)state;
    assert_int_equal(accesslog_open("/nonesuch/access.log", seams_real(), &log, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/nonesuch/access.log"));
    for (unsigned long n = 1; n <= 2; n++) {
        mem_fail_after(n);
        assert_int_equal(accesslog_open("-", seams_real(), &log, &err), STATUS_NO_MEMORY);
    }
    mem_fail_after(0);
    assert_null(log);
    accesslog_add(NULL, &usual);
    accesslog_reopen(NULL);
    accesslog_close(NULL);
}

static void a_line_for_which_there_is_no_memory_is_counted(void **state)
{
    struct place *place = *state;
    int added = 0;
    struct accesslog *log = open_log(place->path);
    for (unsigned long n = 1; n <= 6; n++, added += 2) {
        mem_fail_after(n);
        add(log, "/a", "token=x");
        mem_fail_after(0);
        add(log, "/a", "");
    }
    accesslog_close(log);
    struct lines lines = read_lines(place->path);
    assert_true(dropped_in(lines) > 0);
    assert_int_equal(requests_in(lines) + dropped_in(lines), added);
    json_decref(lines.all);
}

int main(void)
{
#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)
    const struct CMUnitTest tests[] = {
        IN_A_PLACE(a_line_says_who_asked_for_what),
        IN_A_PLACE(values_that_may_be_secret_are_masked),
        IN_A_PLACE(any_bytes_come_out_as_valid_json),
        IN_A_PLACE(lines_are_appended_to_what_is_there),
        IN_A_PLACE(a_line_is_written_without_waiting_for_another),
        IN_A_PLACE(after_a_reopen_lines_are_in_the_file_of_that_name),
        IN_A_PLACE(a_reopen_that_fails_goes_on_with_the_file_as_it_was),
        IN_A_PLACE(lines_that_nobody_takes_are_dropped_and_counted),
        IN_A_PLACE(lines_that_a_full_disk_refused_are_counted_and_it_is_said_once),
        IN_A_PLACE(lines_of_many_threads_are_whole_and_in_order),
        cmocka_unit_test(a_file_that_cannot_be_opened_is_an_error_that_names_it),
        IN_A_PLACE(a_line_for_which_there_is_no_memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
