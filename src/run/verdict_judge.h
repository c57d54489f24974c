/* verdict_judge: from the facts to the cause, and what is said of it.  A part of the verdict: see
 * verdict.h. */
#ifndef LAZARET_RUN_VERDICT_JUDGE_H
#define LAZARET_RUN_VERDICT_JUDGE_H

#include "base/buf.h"
#include "run/verdict.h"

#define JUDGE_MESSAGE_MAX (4u << 10) /* bytes of a message */

/* struct judgement: what is to be said of a failure. */
struct judgement {
    const char *type;     /* the error type's name */
    const char *class;    /* NULL: it is for the engine to derive */
    bool detailed;        /* the type has details: exit_code and, perhaps, signal */
    int exit_code;        /* as a shell has it: 128 + N for a signal */
    char signal[16];      /* the signal's name; empty: it was none */
    bool overheard;       /* the message is not the command's: `last_line` is evidence beside it */
    struct buf message;   /* one sentence, never empty */
    struct buf last_line; /* of standard error; may be empty */
};

/* verdict_judge fills `out`; judgement_release frees what is in it. */
void verdict_judge(const struct verdict_facts *facts, struct judgement *out);
void judgement_release(struct judgement *judgement);

/* verdict_exhausted says whether the last lines of a text tell that memory, disk, files or
 * processes ran out. */
bool verdict_exhausted(struct slice text);

#endif
