/* mask: views as an asker below reviewer sees them, and what such an asker may not ask.
 *
 * Rules (core/redact.h) are pointers into the envelope; those that begin with /failure/ are
 * pointers into the records of failed attempts.  A job's result and its status document are
 * documents of their own, to which the rules apply as they are.  What a rule masks in any envelope
 * that the job had is masked as well wherever a failure, the result, the document, the reason's
 * detail, the signature or the item's id repeats it.
 *
 * A masked view is printed like any other.  `mask` NULL leaves a view as it is. */
#ifndef LAZARET_API_MASK_H
#define LAZARET_API_MASK_H

#include "api/view.h"

/* mask_letter and mask_job put masked texts, in `arena`, into the view. */
enum status mask_letter(const struct redaction *mask, struct letter_view *view, struct arena *arena,
                        struct err *err);
enum status mask_job(const struct redaction *mask, struct job_view *view, struct arena *arena,
                     struct err *err);

/* mask_signature masks a signature by what is masked in a letter's payload. */
enum status mask_signature(const struct redaction *mask, struct slice body, struct arena *arena,
                           struct slice *signature, struct err *err);

/* mask_groups masks the signatures of groups by the payloads of their sample letters.  For the
 * engine's thread. */
enum status mask_groups(const struct redaction *mask, struct store *store,
                        struct letter_group *groups, size_t count, struct arena *arena,
                        struct err *err);

/* mask_refuse refuses a question whose answer would tell what is masked: `what` begins the
 * sentence. It does nothing for an asker who sees everything. */
void mask_refuse(struct call *call, const char *what);

/* mask_check_patch refuses a JSON patch that would copy or test what is masked. */
void mask_check_patch(struct call *call, struct slice patch);

#endif
