/* The chain of evidence: the formula by independent vectors, and that any change breaks the link.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "core/event.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void hex_of(struct hash hash, char out[2 * HASH_SIZE + 1])
{
    for (size_t i = 0; i < HASH_SIZE; i++)
        snprintf(out + 2 * i, 3, "%02x", hash.bytes[i]);
}

static struct event event_of(int64_t seq, int64_t at_us, int64_t job, int64_t previous,
                             const char *actor, const char *what, const char *why)
{
    return (struct event){.seq = seq,
                          .at = {at_us},
                          .job_seq = job,
                          .previous_seq = previous,
                          .actor = slice_of(actor),
                          .what = slice_of(what),
                          .why = slice_of(why)};
}

/* The hashes were computed with Python's hashlib and struct.pack(">q", n) by the formula of
 * event.h.
 */
static void hashes_follow_the_formula(void **state)
{
    const struct {
        struct event event;
        const char *hash;
    } chain[] = {
        {event_of(1, 1770963720000000, 7, 0, "human:ada", EVENT_PUSHED, "{\"queue\":\"default\"}"),
         "d70a12999e53ca5fd64f89029e7482ca9e40c5361194aac3cc4d0e4e6cfae4c5"},
        {event_of(2, 1770963721500000, 7, 1, "worker:w1", EVENT_LEASED, "{\"attempt\":1}"),
         "3c13dca5d8327d143b46d373f68bb89c51d062f5d4b3de5b2be631be1bca2db3"},
        {event_of(3, -1, 0, 0, "", "", ""),
         "3a3df1ee1535d30f66362d1ccfa4b6f0fae6312e2664551501e4060cf7e10c12"},
    };
    struct hash previous = {{0}};
    char text[2 * HASH_SIZE + 1];

    (void)state;
    for (size_t i = 0; i < COUNT(chain); i++) {
        previous = event_hash(&chain[i].event, previous);
        hex_of(previous, text);
        assert_string_equal(text, chain[i].hash);
    }
}

static void every_part_of_an_event_is_in_its_hash(void **state)
{
    const struct event base = event_of(5, 1000, 7, 4, "engine", "requeued", "{}");
    struct event changed[7];
    struct hash zero = {{0}}, other = {{1}}, hash = event_hash(&base, zero), again;

    (void)state;
    for (size_t i = 0; i < COUNT(changed); i++)
        changed[i] = base;
    changed[0].seq = 6;
    changed[1].at.us = 1001;
    changed[2].job_seq = 8;
    changed[3].previous_seq = 3;
    changed[4].actor = SLICE("enginE");
    changed[5].what = SLICE("requeue");
    changed[6].why = SLICE("{ }");
    for (size_t i = 0; i < COUNT(changed); i++) {
        again = event_hash(&changed[i], zero);
        assert_memory_not_equal(again.bytes, hash.bytes, HASH_SIZE);
    }
    again = event_hash(&base, other);
    assert_memory_not_equal(again.bytes, hash.bytes, HASH_SIZE);
}

static void moving_a_byte_from_one_text_to_the_next_changes_the_hash(void **state)
{
    const struct event a = event_of(1, 1, 1, 0, "ab", "c", ""),
                       b = event_of(1, 1, 1, 0, "a", "bc", "");
    struct hash zero = {{0}}, x = event_hash(&a, zero), y = event_hash(&b, zero);

    (void)state;
    assert_memory_not_equal(x.bytes, y.bytes, HASH_SIZE);
}

static void the_stored_hash_is_not_read(void **state)
{
    struct event event = event_of(1, 1, 1, 0, "a", "b", "{}");
    struct hash zero = {{0}}, before = event_hash(&event, zero), after;

    (void)state;
    memset(&event.hash, 0xAB, sizeof(event.hash));
    after = event_hash(&event, zero);
    assert_memory_equal(before.bytes, after.bytes, HASH_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_follow_the_formula),
        cmocka_unit_test(every_part_of_an_event_is_in_its_hash),
        cmocka_unit_test(moving_a_byte_from_one_text_to_the_next_changes_the_hash),
        cmocka_unit_test(the_stored_hash_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
