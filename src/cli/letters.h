/* letters: selecting dead letters: by the filter flags, and by ids that people shorten. */
#ifndef LAZARET_CLI_LETTERS_H
#define LAZARET_CLI_LETTERS_H

#include "base/buf.h"
#include "base/json.h"
#include "cli/cli.h"

#define LETTERS_PREFIX_MIN 8 /* characters that an id may be shortened to */
#define LETTERS_SHORT_ID 18  /* of a UUIDv7: the millisecond, and twelve random bits */

/* letters_query appends the API's query for the filter flags that were given.  0, or an exit code
 * after it has said what is wrong. */
int letters_query(struct cli *cli, struct buf *query);

/* letters_filtered says whether any filter flag but --state was given. */
bool letters_filtered(const struct args *args);

/* letters_each hands the letters that `query` selects to `visit`, in pages, `limit` at most (0: all
 * of them).  A letter is gone when `visit` returns; an exit code from it ends the walk.  `*more`
 * (may be NULL) says that there are others past the limit. */
int letters_each(struct cli *cli, struct slice query, int64_t limit,
                 int (*visit)(void *ctx, struct json letter), void *ctx, bool *more);

/* letters_find finds the whole id that `word` is, or is the unique beginning of.  CLI_MISSING when
 * there is none, after it has said so and what may have been meant. */
int letters_find(struct cli *cli, const char *word, struct slice *dlq_id);

/* letters_find_quiet is letters_find that says nothing when there is none: `*dlq_id` is then empty,
 * and the answer 0. */
int letters_find_quiet(struct cli *cli, const char *word, struct slice *dlq_id);

#endif
