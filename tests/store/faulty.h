/* faulty: the real file system, which fails when it is told to: an SQLite VFS over the default one.
 *
 * Its files have no shared memory and no memory mapping: a store that works on it needs neither. */
#ifndef LAZARET_TESTS_STORE_FAULTY_H
#define LAZARET_TESTS_STORE_FAULTY_H

#include <stdbool.h>

#define FAULTY_VFS "faulty"

/* struct faulty: what fails from now on; 0 is health. */
struct faulty {
    int write; /* the result code of writing and truncating */
    int sync;
    int read;
    int after;      /* this many operations of those kinds still succeed */
    bool read_only; /* files open for reading only */
};

extern struct faulty faulty;

void faulty_register(void);

#endif
