/* test_heap: the heap against a plain array that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/heap.h"
#include "base/mem.h"

#define HANDLES 300
#define STEPS 20000

struct model {
    bool in[HANDLES];
    int64_t key[HANDLES];
    uint32_t position[HANDLES]; /* as moved() told */
};

static void told(void *owner, uint32_t handle, uint32_t position)
{
    struct model *model = owner;
    model->position[handle] = position;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static void check(const struct heap *heap, const struct model *model)
{
    uint32_t count = 0;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < HANDLES; i++) {
        if (!model->in[i]) {
            assert_int_equal(model->position[i], HEAP_NONE);
            continue;
        }
        count++;
        assert_true(model->position[i] < heap->count);
        assert_int_equal(heap->entries[model->position[i]].handle, i);
        assert_true(heap->entries[model->position[i]].key == model->key[i]);
        if (model->key[i] < least)
            least = model->key[i];
    }
    assert_int_equal(heap->count, count);
    if (count)
        assert_true(heap_min(heap)->key == least);
    else
        assert_null(heap_min(heap));
}

static void any_history_keeps_the_least_first_and_the_positions_known(void **state)
{
    struct heap heap;
    struct model model = {0};
    uint64_t seed = 7;
    (void)state;
    for (int i = 0; i < HANDLES; i++)
        model.position[i] = HEAP_NONE;
    heap_init(&heap, told, &model);
    for (int step = 0; step < STEPS; step++) {
        uint32_t handle = (uint32_t)(next_random(&seed) % HANDLES);
        int64_t key = (int64_t)(next_random(&seed) % 100) - 50;
        if (!model.in[handle]) {
            assert_true(heap_add(&heap, key, handle));
            model.in[handle] = true;
            model.key[handle] = key;
        } else if (next_random(&seed) % 2) {
            heap_update(&heap, model.position[handle], key);
            model.key[handle] = key;
        } else {
            heap_remove(&heap, model.position[handle]);
            model.in[handle] = false;
        }
        if (step % 16 == 0)
            check(&heap, &model);
    }
    check(&heap, &model);
    heap_release(&heap);
}

static void taking_the_least_each_time_sorts(void **state)
{
    struct heap heap;
    struct model model = {0};
    uint64_t seed = 11;
    int64_t last = INT64_MIN;
    (void)state;
    heap_init(&heap, told, &model);
    for (uint32_t i = 0; i < HANDLES; i++)
        assert_true(heap_add(&heap, (int64_t)next_random(&seed), i));
    assert_true(heap_min(&heap)->key < 0);
    for (uint32_t i = 0; i < HANDLES; i++) {
        assert_true(heap_min(&heap)->key >= last);
        last = heap_min(&heap)->key;
        heap_remove(&heap, 0);
    }
    assert_null(heap_min(&heap));
    heap_release(&heap);
}

static void extreme_keys_are_ordered(void **state)
{
    struct heap heap;
    struct model model = {0};
    (void)state;
    heap_init(&heap, told, &model);
    assert_true(heap_add(&heap, INT64_MAX, 0));
    assert_true(heap_add(&heap, 0, 1));
    assert_true(heap_add(&heap, INT64_MIN, 2));
    assert_int_equal(heap_min(&heap)->handle, 2);
    heap_update(&heap, 0, INT64_MAX);
    assert_int_equal(heap_min(&heap)->handle, 1);
    heap_release(&heap);
}

static void exhausted_memory_leaves_the_heap_as_it_was(void **state)
{
    struct heap heap;
    struct model model = {0};
    (void)state;
    heap_init(&heap, told, &model);
    while (heap.count < heap.cap || heap.count == 0)
        assert_true(heap_add(&heap, heap.count, heap.count));
    uint32_t count = heap.count;
    mem_fail_after(1);
    assert_false(heap_add(&heap, -1, count));
    mem_fail_after(0);
    assert_int_equal(heap.count, count);
    assert_int_equal(heap_min(&heap)->handle, 0);
    assert_true(heap_add(&heap, -1, count));
    assert_int_equal(heap_min(&heap)->handle, count);
    heap_clear(&heap);
    assert_null(heap_min(&heap));
    heap_release(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_history_keeps_the_least_first_and_the_positions_known),
        cmocka_unit_test(taking_the_least_each_time_sorts),
        cmocka_unit_test(extreme_keys_are_ordered),
        cmocka_unit_test(exhausted_memory_leaves_the_heap_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
