/* test_hash: SHA-256 by its published values, and the real clocks and random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/seams.h"

static void assert_digest(struct hash hash, const char *hex)
{
    struct buf text;
    buf_init(&text, 64);
    buf_add_hex(&text, hash.bytes, HASH_SIZE);
    assert_string_equal(buf_str(&text), hex);
    buf_release(&text);
}

static const char abc_hex[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static void published_digests_come_out(void **state)
{
    struct slice abc = SLICE("abc");
    struct slice long_one = SLICE("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");
    (void)state;
    assert_digest(hash_sha256(NULL, 0),
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest(hash_sha256(&abc, 1), abc_hex);
    assert_digest(hash_sha256(&long_one, 1),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void parts_count_as_one_text(void **state)
{
    struct slice parts[] = {SLICE("a"), {0}, SLICE("b"), SLICE("c")};
    (void)state;
    assert_digest(hash_sha256(parts, 4), abc_hex);
}

static void the_short_digest_is_the_first_eight_bytes(void **state)
{
    (void)state;
    assert_true(hash64(SLICE("abc")) == UINT64_C(0xba7816bf8f01cfea));
    assert_true(hash64((struct slice){0}) == UINT64_C(0xe3b0c44298fc1c14));
}

static void *digest_often(void *arg)
{
    bool *right = arg;
    struct slice abc = SLICE("abc");
    *right = true;
    for (int i = 0; i < 2000; i++)
        *right &= hash64(abc) == UINT64_C(0xba7816bf8f01cfea);
    return NULL;
}

static void threads_digest_without_disturbing_each_other(void **state)
{
    pthread_t threads[4];
    bool right[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, digest_often, &right[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(right[i]);
    }
}

static void clocks_are_set_and_do_not_go_back(void **state)
{
    const struct seams *seams = seams_real();
    (void)state;
    struct span first = seams->steady(seams->ctx);
    struct span second = seams->steady(seams->ctx);
    assert_true(first.us > 0 && second.us >= first.us);
    /* After 2020 and before 2200. */
    int64_t wall = seams->wall(seams->ctx).us / 1000000;
    assert_true(wall > INT64_C(1577836800) && wall < INT64_C(7258118400));
}

static void random_bytes_fill_every_length_and_do_not_repeat(void **state)
{
    const struct seams *seams = seams_real();
    uint8_t bytes[600];
    (void)state;
    for (size_t len = 1; len < sizeof(bytes) - 1; len += 37) {
        uint8_t touched[sizeof(bytes)] = {0};
        for (int round = 0; round < 200; round++) {
            memset(bytes, 0, sizeof(bytes));
            seams->random(seams->ctx, bytes, len);
            assert_int_equal(bytes[len], 0);
            for (size_t i = 0; i < len; i++)
                touched[i] |= bytes[i];
        }
        assert_null(memchr(touched, 0, len));
    }
    assert_true(seams_random_u64(seams) != seams_random_u64(seams));
}

static void a_fork_does_not_repeat_its_parents_bytes(void **state)
{
    const struct seams *seams = seams_real();
    int ends[2];
    uint64_t from_child = 0;
    (void)state;
    seams_random_u64(seams); /* the pool has bytes left at the fork */
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t number = seams_random_u64(seams);
        _exit(write(ends[1], &number, sizeof(number)) != sizeof(number));
    }
    uint64_t from_parent = seams_random_u64(seams);
    assert_int_equal(read(ends[0], &from_child, sizeof(from_child)), sizeof(from_child));
    assert_true(from_parent != from_child);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_digests_come_out),
        cmocka_unit_test(parts_count_as_one_text),
        cmocka_unit_test(the_short_digest_is_the_first_eight_bytes),
        cmocka_unit_test(threads_digest_without_disturbing_each_other),
        cmocka_unit_test(clocks_are_set_and_do_not_go_back),
        cmocka_unit_test(random_bytes_fill_every_length_and_do_not_repeat),
        cmocka_unit_test(a_fork_does_not_repeat_its_parents_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
