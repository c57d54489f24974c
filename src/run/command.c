/* command: quoting for people who copy a command into a shell, and splitting a plain line of
 * theirs.
 *
 * What is printed is read back by any POSIX shell as the same arguments.  Nothing here is on the
 * way to a process: arguments get there as they are. */
#include "run/command.h"

#include "run/template.h"

/* ---- printing ---------------------------------------------------------------------------------
 */

/* is_reserved is true for words that begin something else than a simple command. */
static bool is_reserved(struct slice word)
{
    static const char *const words[] = {"case",   "coproc", "do",   "done",     "elif", "else",
                                        "esac",   "fi",     "for",  "function", "if",   "in",
                                        "select", "then",   "time", "until",    "while"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (slice_is(word, words[i]))
            return true;
    return false;
}

bool command_is_plain(struct slice word, bool first)
{
    if (word.len == 0 || (first && is_reserved(word)))
        return false;
    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_-+:,./@%", c)) || (c == '=' && i > 0 && !first);
        if (!plain)
            return false;
    }
    return true;
}

/* has says whether a word has one of some characters in it. */
static bool has(struct slice word, const char *characters)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] && strchr(characters, word.ptr[i]))
            return true;
    return false;
}

void command_quote(struct slice word, bool first, struct buf *out)
{
    if (command_is_plain(word, first)) {
        buf_add_slice(out, word);
        return;
    }
    /* "it's" reads better than 'it'\''s', where nothing in it means anything in double quotes. */
    if (has(word, "'") && !has(word, "\"$`\\!\n")) {
        buf_add_char(out, '"');
        buf_add_slice(out, word);
        buf_add_char(out, '"');
        return;
    }
    buf_add_char(out, '\'');
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] == '\'')
            buf_add_str(out, "'\\''");
        else
            buf_add_char(out, word.ptr[i]);
    }
    buf_add_char(out, '\'');
}

void command_print(char *const *argv, struct buf *out)
{
    for (size_t i = 0; argv[i]; i++) {
        if (i > 0)
            buf_add_char(out, ' ');
        command_quote(slice_of(argv[i]), i == 0, out);
    }
}

/* ---- splitting --------------------------------------------------------------------------------
 */

/* struct splitter: how far a line has been read.  Words are written one behind the other, each with
 * its NUL: that is never longer than the line and one NUL more. */
struct splitter {
    struct slice line;
    size_t at;
    char *words;
    size_t len;   /* bytes of `words` */
    size_t count; /* words that were begun */
    struct err *err;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static enum status wrong(const struct splitter *s, size_t at, const char *what)
{
    size_t column = 1;

    for (size_t i = 0; i < at; i++)
        column += ((unsigned char)s->line.ptr[i] & 0xC0) != 0x80;
    return err_set(s->err, STATUS_INVALID, "column %zu: %s", column, what);
}

static char char_at(const struct splitter *s, size_t at)
{
    return at < s->line.len ? s->line.ptr[at] : '\0';
}

/* check_plain refuses what only a shell can do, inside of double quotes or outside. */
static enum status check_plain(const struct splitter *s, bool quoted)
{
    char c = char_at(s, s->at);

    if (c == '`' || (c == '$' && char_at(s, s->at + 1) == '(') || (!quoted && strchr("|&;<>", c)))
        return wrong(s, s->at,
                     "only a shell can do this: write it as `shell:`, or put it in single quotes");
    return STATUS_OK;
}

/* take_single and take_double read a quoted part, from behind its quote to behind the other. */
static enum status take_single(struct splitter *s)
{
    size_t open = s->at - 1;
    const char *from = s->line.ptr + s->at;
    const char *close = memchr(from, '\'', s->line.len - s->at);

    if (!close)
        return wrong(s, open, "this quote does not end");
    memcpy(s->words + s->len, from, (size_t)(close - from));
    s->len += (size_t)(close - from);
    s->at += (size_t)(close - from) + 1;
    return STATUS_OK;
}

static enum status take_double(struct splitter *s)
{
    size_t open = s->at - 1;
    enum status status = STATUS_OK;

    for (; s->at < s->line.len && status == STATUS_OK; s->at++) {
        char c = s->line.ptr[s->at], next = char_at(s, s->at + 1);
        if (c == '"') {
            s->at++;
            return STATUS_OK;
        }
        if (c == '\\' && next && strchr("\"\\$`", next))
            c = s->line.ptr[++s->at];
        else
            status = check_plain(s, true);
        s->words[s->len++] = c;
    }
    return status == STATUS_OK ? wrong(s, open, "this quote does not end") : status;
}

/* take_word reads one argument. */
static enum status take_word(struct splitter *s)
{
    enum status status = STATUS_OK;

    s->count++;
    while (s->at < s->line.len && !is_space(s->line.ptr[s->at]) && status == STATUS_OK) {
        char c = s->line.ptr[s->at];
        status = check_plain(s, false);
        if (status != STATUS_OK)
            break;
        s->at++;
        if (c == '\'') {
            status = take_single(s);
        } else if (c == '"') {
            status = take_double(s);
        } else if (c != '\\') {
            s->words[s->len++] = c;
        } else if (s->at < s->line.len) {
            s->words[s->len++] = s->line.ptr[s->at++];
        } else {
            status = wrong(s, s->at - 1, "nothing follows this backslash");
        }
    }
    s->words[s->len++] = '\0';
    return status;
}

enum status command_split(struct slice line, struct arena *arena, const char ***args, size_t *count,
                          struct err *err)
{
    struct splitter s = {.line = line, .err = err};
    const char *nul = line.len ? memchr(line.ptr, '\0', line.len) : NULL;
    enum status status = STATUS_OK;

    if (nul)
        return wrong(&s, (size_t)(nul - line.ptr), "a NUL byte may not stand in a command");
    s.words = arena_alloc(arena, line.len + 2);
    if (!s.words)
        return err_no_memory(err);
    for (;;) {
        while (s.at < line.len && is_space(line.ptr[s.at]))
            s.at++;
        if (s.at == line.len || status != STATUS_OK)
            break;
        status = take_word(&s);
    }
    const char **words =
        status == STATUS_OK ? arena_array(arena, s.count + 1, sizeof(*words)) : NULL;
    if (!words)
        return status == STATUS_OK ? err_no_memory(err) : status;
    const char *word = s.words;
    for (size_t i = 0; i < s.count; i++, word += strlen(word) + 1)
        words[i] = word;
    *args = words;
    *count = s.count;
    return STATUS_OK;
}
