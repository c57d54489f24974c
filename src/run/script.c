/* script: putting values into a shell script without the shell reading them as code.
 *
 * A place becomes a reference to a variable, never the value itself: a shell does not read what a
 * variable expands to as code again.  So whatever the quoting around it is taken for, nothing of a
 * value is run.  Where the script has no quotes, the reference is put in double quotes, so that the
 * value is one word and not a pattern.  For that the script is followed with a stack of what is
 * open:
 *
 *     CODE     the script itself, $( ... ), ` ... `    a reference gets quotes
 *     DOUBLE   " ... "                                 a reference gets none
 *     SINGLE   ' ... '                                 a place is an error: it would stay as it is
 *     MATH     $(( ... ))                              likewise none; the item is an error, as some
 *                                                      shells run what stands in a value there
 *     BODY     a here-document                         none
 *     QUOTED   one whose end was quoted                an error
 *
 * What is not followed (a `)` of a case inside of $( ), quotes inside of ${a:-"b"}) can only make a
 * value more than one word, or an error of the shell. */
#include "base/buf.h"
#include "run/place.h"
#include "run/template.h"

#define OPEN_MAX 64        /* contexts inside each other */
#define BODIES_MAX 8       /* here-documents that begin on one line */
#define PLACES_MAX 256     /* different places */
#define TEXT_MAX (1 << 20) /* bytes of a script, and of what it becomes */

enum kind { CODE, PARENS, BACKTICK, DOUBLE, SINGLE, MATH, BODY, QUOTED };

/* struct context: what is open. */
struct context {
    enum kind kind;
    unsigned parens; /* of PARENS, MATH: those that were opened inside */
};

/* struct body: a here-document. */
struct body {
    struct slice end; /* the line that ends it */
    bool tabs;        /* written <<-: tabs before it do not count */
    bool quoted;      /* no places in it */
};

struct scanner {
    struct slice text;
    size_t at;
    const char *const *roots;
    struct context open[OPEN_MAX];
    size_t depth; /* of `open`; the script itself is always there */
    bool comment;
    struct body bodies[BODIES_MAX]; /* those that begin with the next line, or are being read */
    size_t body_count;
    struct buf out;
    struct script_place places[PLACES_MAX];
    size_t place_count;
    struct arena *arena;
    struct err *err;
    enum status status;
};

/* ---- small steps ------------------------------------------------------------------------------
 */

static char char_at(const struct scanner *s, size_t at)
{
    return at < s->text.len ? s->text.ptr[at] : '\0';
}

static bool starts(const struct scanner *s, const char *sign)
{
    return slice_starts((struct slice){s->text.ptr + s->at, s->text.len - s->at}, slice_of(sign));
}

/* wrong keeps the first error, with its column, and its line when it is not the first. */
static void wrong(struct scanner *s, size_t at, const char *what)
{
    size_t line = 1, column = 1;

    if (s->status != STATUS_OK)
        return;
    for (size_t i = 0; i < at; i++) {
        column += ((unsigned char)s->text.ptr[i] & 0xC0) != 0x80;
        if (s->text.ptr[i] == '\n') {
            line++;
            column = 1;
        }
    }
    if (line > 1)
        s->status = err_set(s->err, STATUS_INVALID, "line %zu, column %zu: %s", line, column, what);
    else
        s->status = err_set(s->err, STATUS_INVALID, "column %zu: %s", column, what);
}

/* copy hands characters of the script on as they are. */
static void copy(struct scanner *s, size_t count)
{
    size_t left = s->text.len - s->at;

    count = count < left ? count : left;
    buf_add(&s->out, s->text.ptr + s->at, count);
    s->at += count;
}

static struct context *top(struct scanner *s)
{
    return &s->open[s->depth - 1];
}

static void push(struct scanner *s, enum kind kind)
{
    if (s->depth == OPEN_MAX)
        wrong(s, s->at, "quotes and parentheses are nested too deep");
    else
        s->open[s->depth++] = (struct context){.kind = kind};
}

/* ---- places -----------------------------------------------------------------------------------
 */

/* variable_for is the variable of a place; the same name has the same one. */
static const char *variable_for(struct scanner *s, struct slice name)
{
    struct script_place *place = &s->places[s->place_count];

    for (size_t i = 0; i < s->place_count; i++)
        if (slice_eq(s->places[i].name, name))
            return s->places[i].variable;
    if (s->place_count == PLACES_MAX) {
        wrong(s, s->at, "too many different places");
        return NULL;
    }
    place->name = arena_dup(s->arena, name);
    place->variable = arena_printf(s->arena, "LAZARET_P%zu", s->place_count + 1).ptr;
    if (!place->name.ptr || !place->variable) {
        if (s->status == STATUS_OK)
            s->status = err_no_memory(s->err);
        return NULL;
    }
    s->place_count++;
    return place->variable;
}

/* root_len is the length of the root that a text begins with; 0 when it is none of those known. */
static size_t root_len(const struct scanner *s, struct slice text)
{
    size_t len = 0;

    while (len < text.len && text.ptr[len] != '-' && place_is_name(text.ptr[len]))
        len++;
    for (const char *const *root = s->roots; *root; root++)
        if (slice_is((struct slice){text.ptr, len}, *root))
            return len;
    return 0;
}

/* refused says what is wrong with a place where it stands; NULL when nothing is. */
static const char *refused(struct scanner *s, struct slice root)
{
    switch (s->comment ? CODE : top(s)->kind) {
    case SINGLE:
        return "a shell puts nothing in inside of single quotes: use double quotes";
    case QUOTED:
        return "a shell puts nothing in inside of this here-document: write its end without quotes";
    case MATH:
        return slice_is(root, "item") ? "a shell may run what is in an item inside of $(( )): "
                                        "check it and calculate in another way"
                                      : NULL;
    default:
        return NULL;
    }
}

/* take_place replaces a place by a reference.  False when none stands here. */
static bool take_place(struct scanner *s)
{
    struct slice rest = {s->text.ptr + s->at + 2, s->text.len - s->at - 2};
    size_t root = starts(s, "${") ? root_len(s, rest) : 0;
    size_t len = root ? place_path(rest) : 0;

    if (root == 0)
        return false;
    const char *why = refused(s, (struct slice){rest.ptr, root});
    if (!why && (char_at(s, s->at + 2 + len) != '}' || (len > root && rest.ptr[root] != '.')))
        why = "only ${name} and ${name.path} can be put in: put it in a variable of the script "
              "first";
    if (why && s->comment)
        return false;
    const char *variable = why ? NULL : variable_for(s, (struct slice){rest.ptr, len});
    if (why)
        wrong(s, s->at, why);
    if (variable) {
        enum kind kind = s->comment ? CODE : top(s)->kind;
        bool quotes = kind == CODE || kind == PARENS || kind == BACKTICK;
        buf_addf(&s->out, quotes ? "\"${%s}\"" : "${%s}", variable);
    }
    s->at += len + 3;
    return true;
}

/* ---- here-documents ----------------------------------------------------------------------------
 */

/* word_end is where the word at `at` ends, as the shell sees it. */
static size_t word_end(const struct scanner *s, size_t at)
{
    char quote = '\0';

    for (; at < s->text.len && s->text.ptr[at] != '\n'; at++) {
        char c = s->text.ptr[at];
        if (!quote && strchr(" \t;&|<>()", c))
            break;
        if (c == '\\' && quote != '\'')
            at++;
        else if (c == quote)
            quote = '\0';
        else if (!quote && (c == '\'' || c == '"'))
            quote = c;
    }
    return at < s->text.len ? at : s->text.len;
}

/* unquote takes quotes and backslashes out of a word, and says whether there were any. */
static size_t unquote(struct slice word, char *out, bool *quoted)
{
    char quote = '\0';
    size_t len = 0;

    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        bool opens = !quote && (c == '\'' || c == '"');
        bool escapes = c == '\\' && quote != '\'' && i + 1 < word.len;
        if (opens || c == quote)
            quote = opens ? c : '\0';
        else
            out[len++] = escapes ? word.ptr[++i] : c;
        *quoted |= opens || escapes;
    }
    return len;
}

/* take_redirection reads << and the word that will end the here-document. */
static void take_redirection(struct scanner *s)
{
    struct body body = {.tabs = char_at(s, s->at + 2) == '-'};
    size_t at = s->at + 2 + body.tabs;
    char *end;

    while (char_at(s, at) == ' ' || char_at(s, at) == '\t')
        at++;
    struct slice word = {s->text.ptr + at, word_end(s, at) - at};
    end = arena_alloc(s->arena, word.len + 1);
    if (!end) {
        s->status = err_no_memory(s->err);
    } else if (s->body_count == BODIES_MAX) {
        wrong(s, s->at, "too many here-documents on one line");
    } else {
        body.end = (struct slice){end, unquote(word, end, &body.quoted)};
        s->bodies[s->body_count++] = body;
        copy(s, at + word.len - s->at);
    }
}

/* begin_bodies is called behind a newline: the here-documents of that line follow, the first on
 * top. */
static void begin_bodies(struct scanner *s)
{
    if (s->body_count > 0)
        push(s, s->bodies[0].quoted ? QUOTED : BODY);
}

/* end_body ends a here-document when the line at hand is its last. */
static bool end_body(struct scanner *s)
{
    const struct body *body = &s->bodies[0];
    size_t begin = s->at;

    while (body->tabs && char_at(s, begin) == '\t')
        begin++;
    const char *newline = memchr(s->text.ptr + begin, '\n', s->text.len - begin);
    size_t end = newline ? (size_t)(newline - s->text.ptr) : s->text.len;
    if (!slice_eq((struct slice){s->text.ptr + begin, end - begin}, body->end))
        return false;
    s->depth--;
    s->body_count--;
    memmove(s->bodies, s->bodies + 1, s->body_count * sizeof(*body));
    copy(s, end - s->at + (newline != NULL));
    begin_bodies(s);
    return true;
}

/* ---- following the script
 * ------------------------------------------------------------------------ */

/* take_dollar reads what begins with a dollar sign, where it means something. */
static void take_dollar(struct scanner *s)
{
    if (take_place(s))
        return;
    if (starts(s, "$((")) {
        push(s, MATH);
        copy(s, 3);
    } else if (starts(s, "$(")) {
        push(s, PARENS);
        copy(s, 2);
    } else {
        copy(s, starts(s, "$$") ? 2 : 1); /* $${a} is the shell's number and "{a}" */
    }
}

/* take_backtick ends the command that it began, or begins one. */
static void take_backtick(struct scanner *s)
{
    if (top(s)->kind == BACKTICK)
        s->depth--;
    else
        push(s, BACKTICK);
    copy(s, 1);
}

/* take_paren counts parentheses, and ends what the last of them ends. */
static void take_paren(struct scanner *s)
{
    struct context *context = top(s);
    bool opens = char_at(s, s->at) == '(';

    if (context->kind == PARENS || context->kind == MATH) {
        if (opens) {
            context->parens++;
        } else if (context->parens > 0) {
            context->parens--;
        } else {
            s->depth--;
            if (context->kind == MATH && char_at(s, s->at + 1) == ')')
                copy(s, 1);
        }
    }
    copy(s, 1);
}

/* begins_word says whether a word, and so a comment, can begin here. */
static bool begins_word(const struct scanner *s)
{
    return s->at == 0 || strchr(" \t\n;&|()<>`", s->text.ptr[s->at - 1]);
}

static void step_code(struct scanner *s)
{
    char c = s->text.ptr[s->at];

    if (c == '\\') {
        copy(s, 2);
    } else if (c == '$') {
        take_dollar(s);
    } else if (c == '`') {
        take_backtick(s);
    } else if (c == '(' || c == ')') {
        take_paren(s);
    } else if (c == '\'' || c == '"') {
        push(s, c == '"' ? DOUBLE : SINGLE);
        copy(s, 1);
    } else if (starts(s, "<<") && !starts(s, "<<<")) {
        take_redirection(s);
    } else {
        s->comment = c == '#' && begins_word(s);
        copy(s, starts(s, "<<<") ? 3 : 1);
        if (c == '\n')
            begin_bodies(s);
    }
}

/* step_text is a step where only $, ` and a backslash mean something, and what ends it. */
static void step_text(struct scanner *s, enum kind kind)
{
    char c = s->text.ptr[s->at];
    bool line = s->text.ptr[s->at - 1] == '\n';

    if (kind == BODY && line && end_body(s))
        return;
    if (c == '\\') {
        copy(s, 2);
    } else if (c == '$') {
        take_dollar(s);
    } else if (c == '`') {
        take_backtick(s);
    } else if (kind == MATH && (c == '(' || c == ')')) {
        take_paren(s);
    } else {
        s->depth -= kind == DOUBLE && c == '"';
        copy(s, 1);
    }
}

/* step_literal is a step where nothing means anything but what ends it. */
static void step_literal(struct scanner *s, enum kind kind)
{
    if (kind == QUOTED && s->text.ptr[s->at - 1] == '\n' && end_body(s))
        return;
    if (take_place(s))
        return;
    s->depth -= kind == SINGLE && s->text.ptr[s->at] == '\'';
    copy(s, 1);
}

/* step_comment goes on to the end of a comment.  Places are replaced there too: should it be none
 * after all, they are right. */
static void step_comment(struct scanner *s)
{
    if (s->text.ptr[s->at] == '\n')
        s->comment = false;
    else if (!take_place(s))
        copy(s, 1);
}

static void step(struct scanner *s)
{
    enum kind kind = top(s)->kind;

    if (s->comment)
        step_comment(s);
    else if (kind == SINGLE || kind == QUOTED)
        step_literal(s, kind);
    else if (kind == DOUBLE || kind == MATH || kind == BODY)
        step_text(s, kind);
    else
        step_code(s);
}

/* finish copies what was made into the arena. */
static enum status finish(struct scanner *s, struct script *out)
{
    struct slice text = arena_dup(s->arena, buf_slice(&s->out));
    struct script_place *places =
        arena_array(s->arena, s->place_count + 1, sizeof(struct script_place));

    if (!text.ptr || !places)
        return err_no_memory(s->err);
    memcpy(places, s->places, s->place_count * sizeof(*places));
    *out = (struct script){.text = text.ptr, .places = places, .place_count = s->place_count};
    return STATUS_OK;
}

enum status script_parse(struct slice text, const char *const *roots, struct arena *arena,
                         struct script *out, struct err *err)
{
    struct scanner s = {.text = text, .roots = roots, .depth = 1, .arena = arena, .err = err};
    const char *nul = text.len ? memchr(text.ptr, '\0', text.len) : NULL;

    if (text.len > TEXT_MAX)
        return err_set(err, STATUS_INVALID, "a script may have %d bytes: this one has %zu",
                       TEXT_MAX, text.len);
    buf_init(&s.out, (size_t)4 * TEXT_MAX);
    if (nul)
        wrong(&s, (size_t)(nul - text.ptr), "a NUL byte may not stand in a script");
    while (s.status == STATUS_OK && s.at < text.len)
        step(&s);
    if (s.status == STATUS_OK)
        s.status = buf_status(&s.out, err);
    if (s.status == STATUS_OK)
        s.status = finish(&s, out);
    buf_release(&s.out);
    return s.status;
}
