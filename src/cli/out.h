/* out: standard output, and what it is connected to.
 *
 * Failure is sticky and asked for once, at the end (out_finish): a reader that went away is quiet,
 * a disk that is full is not. */
#ifndef LAZARET_CLI_OUT_H
#define LAZARET_CLI_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/json.h"
#include "base/slice.h"
#include "base/time.h"

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW };

struct out {
    FILE *file;
    bool terminal;      /* a person reads it: tables, notes */
    bool color;         /* and wants colour */
    bool unicode;       /* and the locale can show more than ASCII */
    size_t columns;     /* its width; 80 when it is no terminal */
    struct instant now; /* what ages are counted from */
};

/* out_init looks at what `file` is. */
void out_init(struct out *out, FILE *file, bool no_color);

void out_str(struct out *out, const char *text); /* our own words, as they are */
void out_format(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void out_style(struct out *out, enum style style); /* STYLE_PLAIN ends a style */
void out_styled(struct out *out, enum style style, const char *text);

/* out_code is what begins a style, for who puts a line together first; "" without colour. */
const char *out_code(const struct out *out, enum style style);

/* out_columns asks the terminal how wide it is at this moment; 80 when it does not say. */
size_t out_columns(const struct out *out);

/* out_clean prints a job's text on one line, made safe. */
void out_clean(struct out *out, struct slice text);

/* out_word prints a word so that it can be copied into a shell, whatever it holds. */
void out_word(struct out *out, struct slice word);

/* out_block prints a job's text line by line, made safe, each line after `indent` spaces. */
void out_block(struct out *out, struct slice text, unsigned indent);

/* out_wrap prints words of our own in lines no longer than the terminal is wide (at most 80),
 * each after `indent` spaces; an empty line stays one. */
void out_wrap(struct out *out, const char *text, unsigned indent);

/* out_raw prints JSON as it is; on a terminal, what would act on it is escaped. */
void out_raw(struct out *out, struct slice json);

/* out_json prints an answer by out_raw, and one newline. */
void out_json(struct out *out, struct slice json);

/* out_pretty prints a JSON value over several lines for a person, made safe. */
void out_pretty(struct out *out, struct json value, unsigned indent);

/* out_ok is false when writing has failed: there is no use in going on. */
bool out_ok(const struct out *out);

/* out_finish writes what is left.  0, or an exit code after it has said what is wrong. */
int out_finish(struct out *out);

#endif
