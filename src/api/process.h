/* process: what the system says of this process. */
#ifndef LAZARET_API_PROCESS_H
#define LAZARET_API_PROCESS_H

#include <stdint.h>

/* struct process_numbers: below 0: not known. */
struct process_numbers {
    int64_t resident_bytes;
    int64_t open_fds;
    double start_seconds; /* since 1970; the same at every look */
};

void process_read(struct process_numbers *out);

#endif
