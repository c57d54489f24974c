/* test_arena: memory that is freed at once, and the allocator below it that can be made to fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/mem.h"

static bool all_zero(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i])
            return false;
    return true;
}

static void allocations_are_zeroed_aligned_and_apart(void **state)
{
    static const size_t sizes[] = {0, 1, 7, 16, 17, 100, 4000, 5000, 70000, 300000, 3};
    struct arena arena = {0};
    unsigned char *ptrs[sizeof(sizes) / sizeof(sizes[0])];
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            ptrs[i] = arena_alloc(&arena, sizes[i]);
            assert_non_null(ptrs[i]);
            assert_int_equal((uintptr_t)ptrs[i] % _Alignof(max_align_t), 0);
            assert_true(all_zero(ptrs[i], sizes[i]));
            memset(ptrs[i], (int)i + 1, sizes[i]);
        }
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(ptrs[i][j], i + 1);
        arena_reset(&arena);
        assert_int_equal(arena.used, 0);
    }
    arena_release(&arena);
}

static void a_reset_arena_needs_no_memory_for_as_much_again(void **state)
{
    struct arena arena = {0};
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_non_null(arena_alloc(&arena, 100));
    arena_reset(&arena);
    mem_fail_after(1);
    for (int i = 0; i < 50; i++)
        assert_non_null(arena_alloc(&arena, 100));
    mem_fail_after(0);
    arena_release(&arena);
    arena_release(&arena);
}

static void a_large_allocation_does_not_end_the_block_in_use(void **state)
{
    struct arena arena = {0};
    (void)state;
    char *before = arena_alloc(&arena, 16);
    assert_non_null(arena_alloc(&arena, 1 << 20));
    char *after = arena_alloc(&arena, 16);
    assert_ptr_equal(after, before + 16);
    arena_release(&arena);
}

static void sizes_that_overflow_are_refused(void **state)
{
    struct arena arena = {0};
    (void)state;
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_array(&arena, SIZE_MAX / 2, 3));
    assert_null(arena_array(&arena, (size_t)1 << 33, (size_t)1 << 33));
    assert_null(arena_dup(&arena, (struct slice){"", SIZE_MAX}).ptr);
    assert_null(mem_array(SIZE_MAX / 2, 3));
    assert_non_null(arena_array(&arena, 0, 8));
    arena_release(&arena);
}

static void copies_end_with_a_nul_and_keep_those_inside(void **state)
{
    struct arena arena = {0};
    (void)state;
    struct slice copy = arena_dup(&arena, (struct slice){"a\0b", 3});
    assert_int_equal(copy.len, 3);
    assert_memory_equal(copy.ptr, "a\0b", 4);
    copy = arena_dup(&arena, (struct slice){0});
    assert_non_null(copy.ptr);
    assert_int_equal(copy.len, 0);
    copy = arena_printf(&arena, "%s-%05d", "x", 42);
    assert_string_equal(copy.ptr, "x-00042");
    assert_int_equal(copy.len, 7);
    arena_release(&arena);
}

static void exhausted_memory_is_said_and_the_arena_stays_usable(void **state)
{
    struct arena arena = {0};
    (void)state;
    mem_fail_after(1);
    assert_null(arena_alloc(&arena, 10));
    mem_fail_after(1);
    assert_null(arena_dup(&arena, SLICE("text")).ptr);
    mem_fail_after(1);
    assert_null(arena_printf(&arena, "%d", 1).ptr);
    assert_non_null(arena_alloc(&arena, 10));
    mem_fail_after(0);
    arena_release(&arena);
}

static void exactly_the_nth_allocation_fails_and_only_once(void **state)
{
    (void)state;
    mem_fail_after(3);
    void *first = mem_alloc(1), *second = mem_zalloc(1);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(mem_realloc(first, 10));
    char *text = mem_strdup("text");
    assert_string_equal(text, "text");
    mem_free(first);
    mem_free(second);
    mem_free(text);
}

static void nothing_is_allocated_as_something(void **state)
{
    (void)state;
    void *ptrs[] = {mem_alloc(0), mem_zalloc(0), mem_array(0, 8), mem_array(8, 0),
                    mem_realloc(mem_alloc(4), 0)};
    for (size_t i = 0; i < sizeof(ptrs) / sizeof(ptrs[0]); i++) {
        assert_non_null(ptrs[i]);
        mem_free(ptrs[i]);
    }
    mem_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_zeroed_aligned_and_apart),
        cmocka_unit_test(a_reset_arena_needs_no_memory_for_as_much_again),
        cmocka_unit_test(a_large_allocation_does_not_end_the_block_in_use),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(copies_end_with_a_nul_and_keep_those_inside),
        cmocka_unit_test(exhausted_memory_is_said_and_the_arena_stays_usable),
        cmocka_unit_test(exactly_the_nth_allocation_fails_and_only_once),
        cmocka_unit_test(nothing_is_allocated_as_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
