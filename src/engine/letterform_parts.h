/* letterform_parts: what the files of letterform share.  Nobody else includes this. */
#ifndef LAZARET_ENGINE_LETTERFORM_PARTS_H
#define LAZARET_ENGINE_LETTERFORM_PARTS_H

#include "core/members.h"
#include "engine/letterform.h"

#define FORM_COUNT_MAX                                                                             \
    60000 /* attempts: what fits a job's counters, with room for more of them                      \
           */

/* struct form: one letter while it is read. */
struct form {
    struct members members;     /* what reads it; its arena is everybody's */
    struct members_index index; /* of `object` */
    const struct letterform_origin *origin;
    struct json object;
    struct import_item *item;
    struct letter *letter;   /* the item's */
    struct failure last;     /* the last failure, or what stands for it */
    bool has_key, human_ack; /* of the envelope */
};

/* Readers of the letter's own members; form_instant and form_count of any object's. */
void form_no_memory(struct form *form);
bool form_has(const struct form *form, const char *name); /* it is there, and no null */
struct slice form_text(struct form *form, const char *name, size_t max);
bool form_bool(struct form *form, const char *name, bool fallback);
struct instant form_instant(struct form *form, struct json object, const char *name);
uint32_t form_count(struct form *form, struct json object, const char *name, uint32_t fallback);

/* form_judge fills what follows from what was read: judgement, times and signature. */
void form_judge(struct form *form);

#endif
