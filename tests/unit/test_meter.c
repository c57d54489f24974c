/* test_meter: the numbers of a carrier, counted by one thread and by many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "api/api.h"
#include "api/meter.h"

#define THREADS 4
#define REQUESTS_EACH 20000

/* struct seen: what meter_walk showed. */
struct seen {
    int count;
    struct {
        int route, status;
        uint64_t count;
    } rows[16];
};

static void see(void *ctx, int route, int http_status, uint64_t count)
{
    struct seen *seen = ctx;
    assert_true(seen->count < 16);
    seen->rows[seen->count].route = route;
    seen->rows[seen->count].status = http_status;
    seen->rows[seen->count++].count = count;
}

static int setup(void **state)
{
    return (*state = meter_new()) ? 0 : -1;
}

static int teardown(void **state)
{
    meter_free(*state);
    return 0;
}

static void a_meter_begins_with_nothing(void **state)
{
    struct meter_numbers numbers;
    struct seen seen = {0};
    meter_read(*state, &numbers);
    meter_walk(*state, see, &seen);
    assert_int_equal(seen.count, 0);
    assert_int_equal(numbers.count, 0);
    assert_true(numbers.seconds_sum == 0);
    assert_int_equal(numbers.connections, 0);
    assert_int_equal(numbers.streams, 0);
}

static void requests_are_counted_by_route_and_status(void **state)
{
    struct seen seen = {0};
    meter_request(*state, 3, 200, span_ms(1));
    meter_request(*state, 3, 200, span_ms(1));
    meter_request(*state, 3, 404, span_ms(1));
    meter_request(*state, -1, 404, span_ms(1));
    meter_request(*state, 0, 100, span_ms(1));
    meter_request(*state, METER_ROUTES_MAX - 1, 599, span_ms(1));
    meter_walk(*state, see, &seen);
    assert_int_equal(seen.count, 5);
    assert_true(seen.rows[0].route == -1 && seen.rows[0].status == 404 && seen.rows[0].count == 1);
    assert_true(seen.rows[1].route == 0 && seen.rows[1].status == 100 && seen.rows[1].count == 1);
    assert_true(seen.rows[2].route == 3 && seen.rows[2].status == 200 && seen.rows[2].count == 2);
    assert_true(seen.rows[3].route == 3 && seen.rows[3].status == 404 && seen.rows[3].count == 1);
    assert_true(seen.rows[4].route == METER_ROUTES_MAX - 1 && seen.rows[4].status == 599 &&
                seen.rows[4].count == 1);
}

static void a_duration_is_in_the_bucket_of_the_first_bound_that_it_does_not_pass(void **state)
{
    struct meter_numbers numbers;
    meter_request(*state, 0, 200, (struct span){0});
    meter_request(*state, 0, 200, (struct span){1000});
    meter_request(*state, 0, 200, (struct span){1001});
    meter_request(*state, 0, 200, (struct span){2500});
    meter_request(*state, 0, 200, span_seconds(30));
    meter_request(*state, 0, 200, span_seconds(31));
    meter_request(*state, 0, 200, (struct span){-5}); /* a clock that is wrong is no time */
    meter_read(*state, &numbers);
    assert_int_equal(numbers.seconds_le[0], 3);
    assert_int_equal(numbers.seconds_le[1], 2);
    assert_int_equal(numbers.seconds_le[METER_BUCKETS - 1], 1);
    assert_int_equal(numbers.count, 7);
    assert_true(numbers.seconds_sum > 61.004 && numbers.seconds_sum < 61.005);
}

static void bounds_rise(void **state)
{
    (void)state;
    for (int i = 1; i < METER_BUCKETS; i++)
        assert_true(meter_bounds_seconds[i] > meter_bounds_seconds[i - 1]);
}

static void connections_and_streams_come_and_go(void **state)
{
    struct meter_numbers numbers;
    meter_connections(*state, 1);
    meter_connections(*state, 1);
    meter_connections(*state, -1);
    meter_streams(*state, 1);
    meter_streams(*state, -1);
    meter_read(*state, &numbers);
    assert_int_equal(numbers.connections, 1);
    assert_int_equal(numbers.streams, 0);
}

static void *ask(void *arg)
{
    for (int i = 0; i < REQUESTS_EACH; i++) {
        meter_connections(arg, 1);
        meter_request(arg, i % 2, 200, (struct span){i % 5000});
        meter_connections(arg, -1);
    }
    return NULL;
}

static void many_threads_lose_nothing(void **state)
{
    pthread_t threads[THREADS];
    struct meter_numbers numbers;
    struct seen seen = {0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, *state), 0);
    uint64_t before = 0;
    for (int i = 0; i < 100; i++) { /* what is read meanwhile never goes down */
        meter_read(*state, &numbers);
        assert_true(numbers.count >= before);
        before = numbers.count;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    meter_read(*state, &numbers);
    meter_walk(*state, see, &seen);
    assert_int_equal(numbers.count, THREADS * REQUESTS_EACH);
    assert_int_equal(numbers.connections, 0);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.rows[0].count, THREADS * REQUESTS_EACH / 2);
    assert_int_equal(seen.rows[1].count, THREADS * REQUESTS_EACH / 2);
}

static void every_route_has_its_place(void **state)
{
    (void)state;
    assert_non_null(api_route_pattern(0));
    assert_null(api_route_pattern(METER_ROUTES_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_meter_begins_with_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_are_counted_by_route_and_status, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_duration_is_in_the_bucket_of_the_first_bound_that_it_does_not_pass, setup, teardown),
        cmocka_unit_test(bounds_rise),
        cmocka_unit_test_setup_teardown(connections_and_streams_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(many_threads_lose_nothing, setup, teardown),
        cmocka_unit_test(every_route_has_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
