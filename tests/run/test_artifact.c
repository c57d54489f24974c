/* test_artifact: names that stay in their directory, and files that have what was written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "run/artifact.h"

/* struct place: a directory that the test removes. */
struct place {
    char root[40];
    char directory[60]; /* of the artifacts; not made */
};

static int make_place(void **state)
{
    struct place *place = mem_zalloc(sizeof *place);
    snprintf(place->root, sizeof place->root, "/tmp/lazaret-artifact-XXXXXX");
    assert_non_null(mkdtemp(place->root));
    snprintf(place->directory, sizeof place->directory, "%s/artifacts", place->root);
    *state = place;
    return 0;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static int remove_place(void **state)
{
    struct place *place = *state;
    nftw(place->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    mem_free(place);
    return 0;
}

static struct buf name_of(struct slice text)
{
    struct buf name;
    buf_init(&name, 1000);
    artifact_name(text, &name);
    return name;
}

static void assert_name(struct slice text, const char *expected)
{
    struct buf name = name_of(text);
    assert_string_equal(buf_str(&name), expected);
    buf_release(&name);
}

static void a_name_has_nothing_that_means_something_to_a_file_system(void **state)
{
    (void)state;
    assert_name(SLICE("invoice-17_B.txt"), "invoice-17_B.txt");
    assert_name(SLICE(""), "%");
    assert_name(SLICE("%"), "%25");
    assert_name(SLICE("."), "%2E");
    assert_name(SLICE(".."), "%2E.");
    assert_name(SLICE("../../etc"), "%2E.%2F..%2Fetc");
    assert_name(SLICE("a/b"), "a%2Fb");
    assert_name(SLICE("/"), "%2F");
    assert_name(SLICE("two\nlines"), "two%0Alines");
    assert_name(SLICE("-rf"), "-rf");
    assert_name(SLICE("$(reboot) 'x' ~"), "%24%28reboot%29%20%27x%27%20%7E");
    assert_name(SLICE("\xff\xc3\x28\x00z"), "%FF%C3%28%00z");
    assert_name(SLICE("\xc3\xa9"), "%C3%A9");
}

static bool fits_a_name(const struct buf *name)
{
    static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.%~";
    return name->len > 0 && name->len <= ARTIFACT_NAME_MAX && name->ptr[0] != '.' &&
           strspn(buf_str(name), may) == name->len;
}

static void a_name_is_never_too_long_and_keeps_its_beginning(void **state)
{
    size_t size = 1u << 20;
    char *text = mem_alloc(size);
    (void)state;

    assert_non_null(text);
    memset(text, 'x', size);
    for (size_t len = 1; len <= size; len = len < 400 ? len + 1 : len * 2) {
        struct buf name = name_of((struct slice){text, len});
        assert_true(fits_a_name(&name));
        assert_int_equal(name.len, len < ARTIFACT_NAME_MAX ? len : ARTIFACT_NAME_MAX);
        assert_memory_equal(name.ptr, text, len < 80 ? len : 80);
        buf_release(&name);
    }
    /* What is escaped is not cut in the middle. */
    memset(text, '/', size);
    struct buf name = name_of((struct slice){text, size});
    assert_true(fits_a_name(&name));
    assert_memory_equal(name.ptr + 84, "%2F~", 4);
    buf_release(&name);
    mem_free(text);
}

static void different_texts_have_different_names(void **state)
{
    static const char alphabet[] = "a./%2F~\n\xff";
    enum { LETTERS = sizeof alphabet - 1, SHORT = 1 + LETTERS * (1 + LETTERS * (1 + LETTERS)) };
    struct buf names[SHORT + 6];
    size_t count = 0;
    (void)state;

    for (int number = 0; count < SHORT; number++) { /* all texts of up to three letters */
        char text[4];
        size_t len = 0;
        for (int n = number; n > 0; n = (n - 1) / LETTERS)
            text[len++] = alphabet[(n - 1) % LETTERS];
        names[count++] = name_of((struct slice){text, len});
    }
    /* Long ones that differ at their ends, and the name of a long one as a text of its own. */
    char text[301];
    memset(text, 'x', sizeof text);
    for (size_t len = 299; len <= 301; len++)
        names[count++] = name_of((struct slice){text, len});
    text[300] = 'y';
    names[count++] = name_of((struct slice){text, 301});
    names[count] = name_of(buf_slice(&names[count - 1]));
    count++;
    names[count++] = name_of((struct slice){text, ARTIFACT_NAME_MAX});

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(slice_eq(buf_slice(&names[i]), buf_slice(&names[j])));
    for (size_t i = 0; i < count; i++)
        buf_release(&names[i]);
}

/* open_one is an artifact of run "r1". */
static struct artifact open_one(const struct place *place, const char *item, uint32_t attempt,
                                uint64_t max)
{
    struct artifact artifact;
    struct err err = {0};
    assert_int_equal(
        artifact_init(&artifact, place->directory, SLICE("r1"), slice_of(item), attempt, max, &err),
        STATUS_OK);
    return artifact;
}

static void assert_file(const char *path, const char *expected)
{
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(n >= 0);
    text[n] = '\0';
    assert_string_equal(text, expected);
}

static void a_file_is_made_with_the_first_byte_and_has_all_of_them(void **state)
{
    struct place *place = *state;
    struct artifact artifact = open_one(place, "item 7", 2, ARTIFACT_MAX_DEFAULT);
    char expected[120];
    struct stat info;

    /* The first byte of the SHA-256 of "item 7" is 86. */
    snprintf(expected, sizeof expected, "%s/r1/86/item%%207-2.log", place->directory);
    assert_string_equal(artifact.path, expected);
    artifact_add(&artifact, SLICE(""));
    artifact_close(&artifact);
    assert_int_equal(access(place->directory, F_OK), -1);

    artifact_add(&artifact, SLICE("first\n"));
    artifact_add(&artifact, (struct slice){"a\0b", 3});
    assert_int_equal(artifact.size, 9);
    assert_int_equal(artifact.error, 0);
    assert_int_equal(stat(expected, &info), 0);
    assert_int_equal(info.st_size, 9);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(stat(place->directory, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    artifact_release(&artifact);
    assert_null(artifact.path);
    assert_file(expected, "first\na");
}

static void a_file_that_a_run_that_was_cut_off_left_is_written_anew(void **state)
{
    struct place *place = *state;
    struct artifact artifact = open_one(place, "x", 1, ARTIFACT_MAX_DEFAULT);
    artifact_add(&artifact, SLICE("of the run that was cut off"));
    artifact_release(&artifact);

    artifact = open_one(place, "x", 1, ARTIFACT_MAX_DEFAULT);
    artifact_add(&artifact, SLICE("second"));
    artifact_close(&artifact);
    assert_file(artifact.path, "second");
    artifact_release(&artifact);
}

static void a_link_in_its_place_is_not_followed(void **state)
{
    struct place *place = *state;
    struct artifact artifact = open_one(place, "x", 1, ARTIFACT_MAX_DEFAULT);
    char target[60];

    artifact_add(&artifact, SLICE("made"));
    artifact_close(&artifact);
    snprintf(target, sizeof target, "%s/target", place->root);
    assert_int_equal(rename(artifact.path, target), 0);
    assert_int_equal(symlink(target, artifact.path), 0);
    artifact_add(&artifact, SLICE("through the link"));
    assert_int_equal(artifact.error, ELOOP);
    assert_file(target, "made");
    artifact_release(&artifact);
}

static void what_is_over_the_limit_is_counted_and_the_file_says_so(void **state)
{
    struct place *place = *state;
    struct artifact artifact = open_one(place, "x", 1, 10);

    artifact_add(&artifact, SLICE("1234567"));
    artifact_add(&artifact, SLICE("89abcdef"));
    artifact_add(&artifact, SLICE("more"));
    assert_int_equal(artifact.size, 10);
    assert_int_equal(artifact.cut, 9);
    artifact_close(&artifact);
    assert_file(artifact.path, "123456789a\n[9 bytes more are not here: the limit is 10 bytes]\n");
    assert_int_equal(artifact.size, 10);
    artifact_release(&artifact);
}

static void nothing_is_written_after_an_error(void **state)
{
    struct place *place = *state;
    struct artifact artifact = open_one(place, "x", 1, ARTIFACT_MAX_DEFAULT);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    artifact_add(&artifact, SLICE("kept"));
    assert_true(full >= 0);
    int file = dup(artifact.fd);
    assert_true(dup2(full, artifact.fd) >= 0);
    artifact_add(&artifact, SLICE("no room"));
    assert_int_equal(artifact.error, ENOSPC);
    assert_true(dup2(file, artifact.fd) >= 0);
    artifact_add(&artifact, SLICE("later"));
    assert_int_equal(artifact.size, 4);
    artifact_close(&artifact);
    assert_file(artifact.path, "kept");
    artifact_release(&artifact);
    close(full);
    close(file);
}

static void a_directory_that_cannot_be_made_is_an_error(void **state)
{
    struct place *place = *state;
    int fd = open(place->directory, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    struct artifact artifact = open_one(place, "x", 1, ARTIFACT_MAX_DEFAULT);

    assert_true(fd >= 0);
    close(fd);
    artifact_add(&artifact, SLICE("x"));
    assert_int_equal(artifact.error, ENOTDIR);
    artifact_release(&artifact);
}

static void no_artifact_takes_everything_and_keeps_nothing(void **state)
{
    struct artifact none = {.fd = -1};
    (void)state;
    artifact_add(&none, SLICE("x"));
    assert_int_equal(none.size + none.cut, 0);
    artifact_close(&none);
    artifact_release(&none);
}

static void items_with_any_bytes_stay_in_the_directory(void **state)
{
    static const char *const items[] = {"../../../../etc/x", "",   ".", "..", "/",
                                        "a/../..",           "\n", "~", "-",  "\xff\xfe"};
    struct place *place = *state;
    struct err err = {0};

    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        struct artifact artifact;
        struct slice item = slice_of(items[i]);
        assert_int_equal(artifact_init(&artifact, place->directory, item, item, 1, 100, &err),
                         STATUS_OK);
        artifact_add(&artifact, SLICE("x"));
        assert_int_equal(artifact.error, 0);
        char *real = realpath(artifact.path, NULL);
        assert_non_null(real);
        /* DIR/RUN/xx/NAME, and no more levels than these. */
        assert_memory_equal(real, place->directory, strlen(place->directory));
        int slashes = 0;
        for (const char *c = real + strlen(place->directory); *c; c++)
            slashes += *c == '/';
        assert_int_equal(slashes, 3);
        free(real);
        artifact_release(&artifact);
    }
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    char directory[4097];
    struct artifact artifact = {.fd = 77};
    struct err err = {0};
    (void)state;

    memset(directory, 'd', sizeof directory - 1);
    directory[sizeof directory - 1] = '\0';
    assert_int_equal(artifact_init(&artifact, directory, SLICE("r"), SLICE("i"), 1, 100, &err),
                     STATUS_TOO_LARGE);
    assert_int_equal(artifact.fd, 77);
    mem_fail_after(1);
    assert_int_equal(artifact_init(&artifact, "d", SLICE("r"), SLICE("i"), 1, 100, &err),
                     STATUS_NO_MEMORY);
    mem_fail_after(0);
}

#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_nothing_that_means_something_to_a_file_system),
        cmocka_unit_test(a_name_is_never_too_long_and_keeps_its_beginning),
        cmocka_unit_test(different_texts_have_different_names),
        PLACE_TEST(a_file_is_made_with_the_first_byte_and_has_all_of_them),
        PLACE_TEST(a_file_that_a_run_that_was_cut_off_left_is_written_anew),
        PLACE_TEST(a_link_in_its_place_is_not_followed),
        PLACE_TEST(what_is_over_the_limit_is_counted_and_the_file_says_so),
        PLACE_TEST(nothing_is_written_after_an_error),
        PLACE_TEST(a_directory_that_cannot_be_made_is_an_error),
        cmocka_unit_test(no_artifact_takes_everything_and_keeps_nothing),
        PLACE_TEST(items_with_any_bytes_stay_in_the_directory),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
