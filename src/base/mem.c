/* mem: the C library's allocator, with a fault that a test can arm.
 *
 * `countdown` is 0 nearly always, and then costs one relaxed load an allocation.  Armed with n,
 * each allocation of any thread takes one from it, and the one that takes the last fails. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static atomic_ulong countdown;

/* must_fail takes one from the countdown and says whether this allocation is the one to fail. */
static bool must_fail(void)
{
    unsigned long left = atomic_load_explicit(&countdown, memory_order_relaxed);
    while (left > 0)
        if (atomic_compare_exchange_weak(&countdown, &left, left - 1))
            return left == 1;
    return false;
}

/* at_least_one keeps NULL for "exhausted": the standard lets an empty allocation be NULL too, and a
 * realloc to nothing free its argument. */
static size_t at_least_one(size_t size)
{
    return size ? size : 1;
}

void *mem_alloc(size_t size)
{
    return must_fail() ? NULL : malloc(at_least_one(size));
}

void *mem_zalloc(size_t size)
{
    return must_fail() ? NULL : calloc(1, at_least_one(size));
}

void *mem_realloc(void *ptr, size_t size)
{
    return must_fail() ? NULL : realloc(ptr, at_least_one(size));
}

void *mem_array(size_t count, size_t size)
{
    size_t total;
    return __builtin_mul_overflow(count, size, &total) ? NULL : mem_zalloc(total);
}

char *mem_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = mem_alloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void mem_free(void *ptr)
{
    free(ptr);
}

void mem_fail_after(unsigned long n)
{
    atomic_store(&countdown, n);
}
