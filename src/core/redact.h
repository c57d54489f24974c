/* redact: masking what some people may not see.
 *
 * A rule is a JSON pointer (RFC 6901) into an envelope or another document; `*` as a whole
 * reference token stands for every member or element.  The value that it names, whatever it is, is
 * printed as
 * "[redacted]"; everything around it stays byte for byte.
 *
 * Masking a value is half of the work: messages and stack traces repeat what they failed on.  So
 * what a rule masks in a document can be gathered (redact_gather) and masked wherever a text
 * repeats it (redact_text, redact_strings). */
#ifndef LAZARET_CORE_REDACT_H
#define LAZARET_CORE_REDACT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "base/status.h"

#define REDACTION_RULES_MAX 256
#define REDACT_WORD_MIN                                                                            \
    6 /* bytes of a string, or digits of a number, that texts are searched for */
#define REDACT_WORDS_MAX 1024 /* more in one document: texts beside it are masked whole */

struct redaction; /* rules that were read once; never changed after that: any thread may use them */

/* redaction_parse reads rules into `arena`.  The error names the rule that is wrong.  No rules give
 * NULL, which masks nothing. */
enum status redaction_parse(const struct slice *pointers, size_t count, struct arena *arena,
                            const struct redaction **out, struct err *err);

/* redaction_failures are the rules for records of failed attempts: those that begin with /failure,
 * without it.  NULL when there are none. */
const struct redaction *redaction_failures(const struct redaction *redaction);

/* redact appends `document` to `out` with the values that the rules name masked.  A document that
 * is no JSON cannot be looked into: all of it is masked.  `redaction` NULL: as it is. */
void redact(const struct redaction *redaction, struct slice document, struct buf *out);

/* redact_touches says whether the rules name something in `document`. */
bool redact_touches(const struct redaction *redaction, struct slice document);

/* redact_reaches says whether the value at a pointer is masked, is in one that is, or has one in
 * it. A pointer that cannot be read reaches everything. */
bool redact_reaches(const struct redaction *redaction, struct slice pointer, struct arena *arena);

/* struct redact_words: what was masked, to find it where it is repeated.  `{0}` is nothing. */
struct redact_words {
    struct slice *words;
    size_t count, room;
    bool too_many; /* every text is masked whole */
};

/* redact_gather adds what the rules mask in `document`: strings of REDACT_WORD_MIN bytes or more
 * and numbers of as many digits, also those inside a container that is masked.  They borrow from
 * the document or stand in `arena`. */
enum status redact_gather(const struct redaction *redaction, struct slice document,
                          struct arena *arena, struct redact_words *words, struct err *err);

/* redact_text appends `text` with "[redacted]" for every occurrence of a word. */
void redact_text(const struct redact_words *words, struct slice text, struct buf *out);

/* redact_strings appends a JSON document with redact_text done to every string in it, names of
 * members included; a number that has a word in it is masked whole.  The rest stays byte for byte.
 * What is no JSON is masked whole. */
void redact_strings(const struct redact_words *words, struct slice document, struct buf *out);

#endif
