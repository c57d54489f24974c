/* redact: see redact.h.
 *
 * One walk over the document follows all rules at once.  At each level it knows which rules have
 * matched so far (a bit each); a child narrows them by its name or index, and
 *
 *     no rule is left            the child is passed over
 *     a rule ends here           the child is handed to `found`, and not looked into
 *     otherwise                  the walk goes into the child
 *
 * The recursion is as deep as the document, which json_parse has bounded.  Of members with one name
 * each is matched: whichever a reader takes, it is masked.  Printing copies what lies between the
 * values that were found, so nothing else can change. */
#include "core/redact.h"

#include "base/json.h"
#include "base/jsonw.h"
#include "core/field.h"

#define MASK "[redacted]"
#define QUOTED_MAX 80 /* bytes of a pointer that an error repeats */
#define WORD_BITS 64

/* struct token: one step of a rule. */
struct token {
    struct slice name; /* decoded */
    int64_t index;     /* of an array's element; -1: it is none */
    bool any;          /* `*` */
};

struct rule {
    const struct token *tokens;
    size_t count;
};

struct redaction {
    const struct rule *rules;
    size_t count;
    const struct redaction *failures;
};

/* struct active: a bit for each rule that has matched so far. */
struct active {
    uint64_t bits[REDACTION_RULES_MAX / WORD_BITS];
};

/* ---- reading rules ----------------------------------------------------------------------------
 */

/* token_decode replaces ~1 by / and ~0 by ~. */
static enum status token_decode(struct slice text, struct arena *arena, struct slice *out,
                                struct err *err)
{
    char *decoded = arena_alloc(arena, text.len + 1);
    size_t len = 0;

    if (!decoded)
        return err_no_memory(err);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '~') {
            char code = ++i < text.len ? text.ptr[i] : '\0';
            if (code != '0' && code != '1')
                return err_set(err, STATUS_INVALID, "a ~ may stand only in ~0 and ~1");
            c = code == '0' ? '~' : '/';
        }
        decoded[len++] = c;
    }
    *out = (struct slice){decoded, len};
    return STATUS_OK;
}

/* token_index reads an array's index: digits without a leading zero; else -1. */
static int64_t token_index(struct slice text)
{
    int64_t index = 0;

    if (text.len == 0 || text.len > 18 || (text.len > 1 && text.ptr[0] == '0'))
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return -1;
        index = index * 10 + (text.ptr[i] - '0');
    }
    return index;
}

static size_t count_tokens(struct slice pointer)
{
    size_t count = 0;
    for (size_t i = 0; i < pointer.len; i++)
        count += pointer.ptr[i] == '/';
    return count;
}

static enum status read_rule(struct slice pointer, struct arena *arena, struct rule *out,
                             struct err *err)
{
    size_t count = count_tokens(pointer);
    struct token *tokens = arena_array(arena, count + 1, sizeof(*tokens));
    struct slice rest = pointer;
    enum status status = STATUS_OK;

    if (!tokens)
        return err_no_memory(err);
    if (pointer.len > 0 && pointer.ptr[0] != '/')
        return err_set(err, STATUS_INVALID, "must be empty or begin with /");
    if (!json_utf8_valid(pointer))
        return err_set(err, STATUS_INVALID, "must be UTF-8");
    if (count > JSON_DEPTH_MAX)
        return err_set(err, STATUS_INVALID, "has more than %d steps", JSON_DEPTH_MAX);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        const char *begin = rest.ptr + 1, *end = rest.ptr + rest.len;
        const char *slash = memchr(begin, '/', (size_t)(end - begin));
        struct slice text = {begin, (size_t)((slash ? slash : end) - begin)};
        rest = (struct slice){begin + text.len, (size_t)(end - begin) - text.len};
        tokens[i].any = slice_is(text, "*");
        tokens[i].index = token_index(text);
        status = token_decode(text, arena, &tokens[i].name, err);
    }
    *out = (struct rule){tokens, count};
    return status;
}

/* recorded_message is the rule for what a record calls "error_message". */
static const struct token message_token = {.name = {"error_message", 13}, .index = -1};
static const struct rule recorded_message = {&message_token, 1};

/* failures_of makes the rules for records of failures. */
static enum status failures_of(struct redaction *redaction, struct arena *arena, struct err *err)
{
    struct redaction *failures = arena_alloc(arena, sizeof(*failures));
    struct rule *rules = arena_array(arena, redaction->count, sizeof(*rules));

    if (!failures || !rules)
        return err_no_memory(err);
    failures->rules = rules;
    for (size_t i = 0; i < redaction->count; i++) {
        const struct rule *rule = &redaction->rules[i];
        if (!rule->count || !slice_is(rule->tokens[0].name, "failure"))
            continue;
        /* A worker reports a "message"; the record calls it "error_message". */
        bool message = rule->count == 2 && slice_is(rule->tokens[1].name, "message");
        rules[failures->count++] =
            message ? recorded_message : (struct rule){rule->tokens + 1, rule->count - 1};
    }
    redaction->failures = failures->count ? failures : NULL;
    return STATUS_OK;
}

enum status redaction_parse(const struct slice *pointers, size_t count, struct arena *arena,
                            const struct redaction **out, struct err *err)
{
    if (count == 0) {
        *out = NULL;
        return STATUS_OK;
    }
    if (count > REDACTION_RULES_MAX)
        return err_set(err, STATUS_INVALID, "there are %zu rules: at most %d can be followed",
                       count, REDACTION_RULES_MAX);
    struct redaction *redaction = arena_alloc(arena, sizeof(*redaction));
    struct rule *rules = arena_array(arena, count, sizeof(*rules));
    if (!redaction || !rules)
        return err_no_memory(err);
    *redaction = (struct redaction){.rules = rules, .count = count};
    for (size_t i = 0; i < count; i++) {
        enum status status = read_rule(pointers[i], arena, &rules[i], err);
        if (status != STATUS_OK) {
            struct slice head = field_head(pointers[i], QUOTED_MAX);
            err_prefix(err, "the pointer \"%.*s%s\"", SLICE_ARG(head),
                       head.len < pointers[i].len ? "..." : "");
            return status;
        }
    }
    enum status status = failures_of(redaction, arena, err);
    if (status == STATUS_OK)
        *out = redaction;
    return status;
}

const struct redaction *redaction_failures(const struct redaction *redaction)
{
    return redaction ? redaction->failures : NULL;
}

/* ---- the walk ---------------------------------------------------------------------------------
 */

/* struct walk: the rules, and what is done with the values that they name. */
struct walk {
    const struct redaction *redaction;
    void (*found)(struct walk *walk, struct json value);
    struct buf *out;     /* of printing */
    const char *from;    /* what was not printed yet begins here */
    bool touched;        /* something was found */
    struct arena *arena; /* of gathering */
    struct redact_words *words;
    bool no_memory;
};

/* name_is compares a member's name, escapes decoded, with a token. */
static bool name_is(struct json key, struct slice name)
{
    struct slice in = {key.raw.ptr + 1, key.raw.len - 2};
    char part[4] = {0};

    if (!memchr(in.ptr, '\\', in.len))
        return slice_eq(in, name);
    for (const char *at = in.ptr, *end = in.ptr + in.len; at < end;) {
        struct slice decoded = {part, json_decode(&at, part)};
        if (!slice_starts(name, decoded))
            return false;
        name.ptr += decoded.len;
        name.len -= decoded.len;
    }
    return name.len == 0;
}

/* narrow keeps the active rules whose step at `depth` is this child; `ends` says that one of them
 * ends there. */
static bool narrow(const struct redaction *redaction, const struct active *active, size_t depth,
                   const struct json *key, int64_t index, struct active *out, bool *ends)
{
    bool left = false;

    *out = (struct active){0};
    *ends = false;
    for (size_t i = 0; i < redaction->count; i++) {
        const struct rule *rule = &redaction->rules[i];
        uint64_t bit = UINT64_C(1) << (i % WORD_BITS);
        if (!(active->bits[i / WORD_BITS] & bit) || rule->count <= depth)
            continue;
        const struct token *token = &rule->tokens[depth];
        if (!token->any && !(key ? name_is(*key, token->name) : token->index == index))
            continue;
        out->bits[i / WORD_BITS] |= bit;
        *ends = *ends || rule->count == depth + 1;
        left = true;
    }
    return left;
}

static void walk_into(struct walk *walk, struct json container, const struct active *active,
                      size_t depth)
{
    bool object = container.type == JSON_OBJECT;
    struct json_iter iter;
    struct json key, value;
    struct active left;
    bool ends;

    json_iter_init(&iter, container);
    for (int64_t index = 0; json_next(&iter, &key, &value); index++) {
        if (!narrow(walk->redaction, active, depth, object ? &key : NULL, index, &left, &ends))
            continue;
        if (ends)
            walk->found(walk, value);
        else
            walk_into(walk, value, &left, depth + 1);
    }
}

/* walk_document walks from the root; false when the document is no JSON. */
static bool walk_document(struct walk *walk, struct slice document)
{
    struct active all = {0};
    struct json root;

    if (json_parse(document, &root, NULL) != STATUS_OK)
        return false;
    for (size_t i = 0; i < walk->redaction->count; i++) {
        all.bits[i / WORD_BITS] |= UINT64_C(1) << (i % WORD_BITS);
        if (walk->redaction->rules[i].count == 0) {
            walk->found(walk, root);
            return true;
        }
    }
    walk_into(walk, root, &all, 0);
    return true;
}

/* ---- printing ---------------------------------------------------------------------------------
 */

static void found_mask(struct walk *walk, struct json value)
{
    buf_add(walk->out, walk->from, (size_t)(value.raw.ptr - walk->from));
    buf_add_str(walk->out, "\"" MASK "\"");
    walk->from = value.raw.ptr + value.raw.len;
}

void redact(const struct redaction *redaction, struct slice document, struct buf *out)
{
    struct walk walk = {
        .redaction = redaction, .found = found_mask, .out = out, .from = document.ptr};

    if (!redaction)
        buf_add_slice(out, document);
    else if (walk_document(&walk, document))
        buf_add(out, walk.from, document.len - (size_t)(walk.from - document.ptr));
    else
        buf_add_str(out, "\"" MASK "\"");
}

static void found_note(struct walk *walk, struct json value)
{
    (void)value;
    walk->touched = true;
}

bool redact_touches(const struct redaction *redaction, struct slice document)
{
    struct walk walk = {.redaction = redaction, .found = found_note};

    return redaction && (!walk_document(&walk, document) || walk.touched);
}

/* rule_meets says that one of two pointers is the beginning of the other. */
static bool rule_meets(const struct rule *rule, const struct rule *pointer)
{
    size_t count = rule->count < pointer->count ? rule->count : pointer->count;

    for (size_t i = 0; i < count; i++)
        if (!rule->tokens[i].any && !slice_eq(rule->tokens[i].name, pointer->tokens[i].name))
            return false;
    return true;
}

bool redact_reaches(const struct redaction *redaction, struct slice pointer, struct arena *arena)
{
    struct rule place = {0};

    if (!redaction || read_rule(pointer, arena, &place, NULL) != STATUS_OK)
        return redaction != NULL;
    for (size_t i = 0; i < redaction->count; i++)
        if (rule_meets(&redaction->rules[i], &place))
            return true;
    return false;
}

/* ---- gathering --------------------------------------------------------------------------------
 */

/* add_word keeps a word, unless it is too short to be told from any other. */
static void add_word(struct walk *walk, struct slice word)
{
    struct redact_words *words = walk->words;

    if (words->too_many || walk->no_memory)
        return;
    if (words->count == REDACT_WORDS_MAX) {
        words->too_many = true;
        return;
    }
    if (words->count == words->room) {
        size_t room = words->room ? words->room * 2 : 8;
        struct slice *more = arena_array(walk->arena, room, sizeof(*more));
        walk->no_memory = !more;
        if (!more)
            return;
        if (words->count)
            memcpy(more, words->words, words->count * sizeof(*more));
        words->words = more;
        words->room = room;
    }
    words->words[words->count++] = word;
}

static void add_number(struct walk *walk, struct slice number)
{
    size_t digits = 0;

    for (size_t i = 0; i < number.len; i++)
        digits += number.ptr[i] >= '0' && number.ptr[i] <= '9';
    if (number.ptr[0] == '-')
        number = (struct slice){number.ptr + 1, number.len - 1};
    if (digits >= REDACT_WORD_MIN)
        add_word(walk, number);
}

/* found_gather adds a value that is masked, or all that is in it. */
static void found_gather(struct walk *walk, struct json value)
{
    struct json_iter iter;
    struct json child;

    if (value.type == JSON_STRING) {
        struct slice text = json_text(value, walk->arena);
        walk->no_memory = walk->no_memory || !text.ptr;
        if (text.ptr && text.len >= REDACT_WORD_MIN)
            add_word(walk, text);
        /* A message may repeat the payload as it was written. */
        if (text.ptr && text.len >= REDACT_WORD_MIN && text.len + 2 != value.raw.len)
            add_word(walk, (struct slice){value.raw.ptr + 1, value.raw.len - 2});
    } else if (value.type == JSON_NUMBER) {
        add_number(walk, value.raw);
    }
    json_iter_init(&iter, value);
    while (!walk->no_memory && !walk->words->too_many && json_next(&iter, NULL, &child))
        found_gather(walk, child);
}

enum status redact_gather(const struct redaction *redaction, struct slice document,
                          struct arena *arena, struct redact_words *words, struct err *err)
{
    struct walk walk = {
        .redaction = redaction, .found = found_gather, .arena = arena, .words = words};

    if (redaction && !walk_document(&walk, document) && document.len >= REDACT_WORD_MIN)
        add_word(&walk, document);
    return walk.no_memory ? err_no_memory(err) : STATUS_OK;
}

/* ---- texts ------------------------------------------------------------------------------------
 */

/* mark_words says for each byte of a text whether it belongs to an occurrence of a word; NULL when
 * none does.  `whole` is set when that cannot be found out: then all of it is to be masked.  Every
 * occurrence is marked before anything is replaced, so it does not matter which word is sought
 * first. */
static const char *mark_words(const struct redact_words *words, struct slice text,
                              struct arena *arena, bool *whole)
{
    char *marks = NULL;

    *whole = words->too_many;
    for (size_t i = 0; i < words->count && !*whole; i++) {
        struct slice word = words->words[i];
        for (size_t at = 0; text.len - at >= word.len; at += word.len) {
            const char *hit = memmem(text.ptr + at, text.len - at, word.ptr, word.len);
            if (!hit)
                break;
            if (!marks)
                marks = arena_alloc(arena, text.len + 1);
            *whole = !marks;
            if (!marks)
                break;
            at = (size_t)(hit - text.ptr);
            memset(marks + at, 1, word.len);
        }
    }
    return marks;
}

/* put_marked appends a text with each run of marked bytes masked. */
static void put_marked(struct slice text, const char *marks, struct buf *out)
{
    for (size_t at = 0, end; at < text.len; at = end) {
        for (end = at + 1; end < text.len && marks[end] == marks[at]; end++)
            ;
        if (marks[at])
            buf_add_str(out, MASK);
        else
            buf_add(out, text.ptr + at, end - at);
    }
}

void redact_text(const struct redact_words *words, struct slice text, struct buf *out)
{
    struct arena arena = {0};
    bool whole;
    const char *marks = text.len ? mark_words(words, text, &arena, &whole) : NULL;

    if (text.len && whole)
        buf_add_str(out, MASK);
    else if (marks)
        put_marked(text, marks, out);
    else
        buf_add_slice(out, text);
    arena_release(&arena);
}

/* struct rewrite: a JSON document whose strings are being replaced. */
struct rewrite {
    const struct redact_words *words;
    struct arena arena; /* of one string */
    struct buf text;    /* likewise */
    struct buf *out;
    const char *from; /* what was not printed yet begins here */
};

/* rewrite_put replaces a value by a string. */
static void rewrite_put(struct rewrite *rewrite, struct json value, struct slice text)
{
    struct jsonw w;

    buf_add(rewrite->out, rewrite->from, (size_t)(value.raw.ptr - rewrite->from));
    jsonw_init(&w, rewrite->out);
    jsonw_string(&w, text);
    rewrite->from = value.raw.ptr + value.raw.len;
}

static void rewrite_string(struct rewrite *rewrite, struct json string)
{
    struct slice text;
    const char *marks = NULL;
    bool whole;

    arena_reset(&rewrite->arena);
    buf_clear(&rewrite->text);
    text = json_text(string, &rewrite->arena);
    whole = !text.ptr;
    if (!whole)
        marks = mark_words(rewrite->words, text, &rewrite->arena, &whole);
    if (marks && !whole) {
        put_marked(text, marks, &rewrite->text);
        whole = rewrite->text.status != STATUS_OK;
    }
    if (whole)
        rewrite_put(rewrite, string, SLICE(MASK));
    else if (marks)
        rewrite_put(rewrite, string, buf_slice(&rewrite->text));
}

static void rewrite_number(struct rewrite *rewrite, struct json number)
{
    bool whole;
    const char *marks;

    arena_reset(&rewrite->arena);
    marks = mark_words(rewrite->words, number.raw, &rewrite->arena, &whole);
    if (whole || marks)
        rewrite_put(rewrite, number, SLICE(MASK));
}

static void rewrite_value(struct rewrite *rewrite, struct json value)
{
    struct json_iter iter;
    struct json key, child;

    if (value.type == JSON_STRING)
        rewrite_string(rewrite, value);
    else if (value.type == JSON_NUMBER)
        rewrite_number(rewrite, value);
    json_iter_init(&iter, value);
    while (json_next(&iter, &key, &child)) {
        if (value.type == JSON_OBJECT)
            rewrite_string(rewrite, key);
        rewrite_value(rewrite, child);
    }
}

void redact_strings(const struct redact_words *words, struct slice document, struct buf *out)
{
    struct rewrite rewrite = {.words = words, .out = out, .from = document.ptr};
    struct json root;

    if (words->count == 0 && !words->too_many) {
        buf_add_slice(out, document);
        return;
    }
    if (json_parse(document, &root, NULL) != STATUS_OK) {
        buf_add_str(out, "\"" MASK "\"");
        return;
    }
    buf_init(&rewrite.text, SIZE_MAX);
    rewrite_value(&rewrite, root);
    buf_add(out, rewrite.from, document.len - (size_t)(rewrite.from - document.ptr));
    buf_release(&rewrite.text);
    arena_release(&rewrite.arena);
}
