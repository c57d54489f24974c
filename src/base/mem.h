/* mem: every allocation of the program goes through here, so that a test can fail the n-th.
 *
 * All functions return NULL when memory is exhausted; callers answer STATUS_NO_MEMORY. */
#ifndef LAZARET_BASE_MEM_H
#define LAZARET_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size);               /* uninitialised */
void *mem_zalloc(size_t size);              /* zeroed */
void *mem_realloc(void *ptr, size_t size);  /* on failure `ptr` is untouched */
void *mem_array(size_t count, size_t size); /* zeroed; NULL when count * size overflows */
char *mem_strdup(const char *text);
void mem_free(void *ptr); /* NULL is fine */

/* mem_fail_after makes the n-th allocation from here on (1 is the next) of any thread fail, once.
 * 0 turns it off.  For tests. */
void mem_fail_after(unsigned long n);

#endif
