/* cut: a wire between a program and a server on 127.0.0.1, which can be cut.
 *
 * A thread passes on what either says, on any number of connections. */
#ifndef LAZARET_TESTS_STORE_CUT_H
#define LAZARET_TESTS_STORE_CUT_H

#include <stdint.h>

enum cut_mode {
    CUT_NOTHING,
    CUT_ALL,     /* nothing gets through any more, and nobody is told */
    CUT_ANSWERS, /* what is said gets through; the answer does not, and the connection ends.  Once
                  */
    CUT_WORDS    /* what is said next does not get through, and the connection ends.  Once */
};

struct cut *cut_start(uint16_t to_port);
uint16_t cut_port(const struct cut *cut); /* where to connect instead */
void cut_set(struct cut *cut, enum cut_mode mode);
enum cut_mode cut_mode(const struct cut *cut); /* CUT_NOTHING again after something was cut once */
void cut_stop(struct cut *cut);

#endif
