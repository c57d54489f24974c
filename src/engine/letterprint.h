/* letterprint: a letter as JSON, with the names and in the order of INTERFACES 4. */
#ifndef LAZARET_ENGINE_LETTERPRINT_H
#define LAZARET_ENGINE_LETTERPRINT_H

#include "base/jsonw.h"
#include "engine/letterview.h"

/* letter_print prints a whole letter, as the view has it. */
enum status letter_print(struct jsonw *out, const struct letter_view *view, struct arena *arena,
                         struct err *err);

/* attempts_print prints the member `key`: an array of the recorded attempts. */
void attempts_print(struct jsonw *out, const char *key, const struct attempt_record *attempts,
                    size_t count);

#endif
