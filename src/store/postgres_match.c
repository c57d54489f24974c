/* postgres_match: words to be found by, and words to search for.
 *
 *     disk full       both words occur
 *     "disk full"     the words occur one after the other
 *     time*           a word begins so
 *
 * A word here is what it is in the embedded store: both have SQLite's tokenizer cut texts, so that
 * they find the same.  PostgreSQL's own parser would take addresses and numbers for what they are
 * not.  A text becomes a tsvector with the place of each word, for phrases; nothing that a person
 * types is an operator. */
#include "store/phrase.h"
#include "store/postgres_letter.h"

#include <sqlite3.h>

#include "base/mem.h"

/* PostgreSQL's limits are places below 16384, words below 2 kB and a tsvector below 1 MB. */
#define WORDS_MAX 16382
#define WORD_BYTES_MAX 1000
#define VECTOR_BYTES_MAX ((size_t)512 * 1024)
#define QUERY_WORDS_MAX 1000 /* PostgreSQL walks a query recursively */

/* -- the tokenizer ----------------------------------------------------------------------------- */

struct pg_words {
    sqlite3 *db; /* in memory, empty: where the tokenizer lives */
    fts5_tokenizer module;
    Fts5Tokenizer *tokenizer;
};

void pg_words_free(struct pg_words *words)
{
    if (!words)
        return;
    if (words->tokenizer)
        words->module.xDelete(words->tokenizer);
    sqlite3_close(words->db);
    mem_free(words);
}

/* full_text_of asks a database for the interface of its full-text search; NULL: it has none. */
static fts5_api *full_text_of(sqlite3 *db)
{
    fts5_api *api = NULL;
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_bind_pointer(stmt, 1, (void *)&api, "fts5_api_ptr", NULL) == SQLITE_OK)
        sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    return api;
}

static struct pg_words *words_new(void)
{
    void *context = NULL;
    struct pg_words *words = mem_zalloc(sizeof(*words));
    if (!words)
        return NULL;
    fts5_api *api = NULL;
    if (sqlite3_open_v2(":memory:", &words->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY,
                        NULL) == SQLITE_OK)
        api = full_text_of(words->db);
    if (!api || api->xFindTokenizer(api, "unicode61", &context, &words->module) != SQLITE_OK ||
        words->module.xCreate(context, NULL, 0, &words->tokenizer) != SQLITE_OK) {
        words->tokenizer = NULL;
        pg_words_free(words);
        return NULL;
    }
    return words;
}

/* cut gives the words of a text, one after the other, until `found` returns other than 0. */
static enum status cut(struct pg_counts *counts, struct slice text,
                       int (*found)(void *ctx, int flags, const char *word, int len, int from,
                                    int to),
                       void *ctx, struct err *err)
{
    if (!counts->words)
        counts->words = words_new();
    if (!counts->words)
        return err_no_memory(err);
    int len = text.len > INT_MAX ? INT_MAX : (int)text.len;
    int rc = counts->words->module.xTokenize(counts->words->tokenizer, ctx, FTS5_TOKENIZE_DOCUMENT,
                                             len ? text.ptr : "", len, found);
    return rc == SQLITE_OK || rc == SQLITE_DONE ? STATUS_OK : err_no_memory(err);
}

/* word_add appends a word between quotes; a long one is cut short between two characters. */
static void word_add(struct buf *out, const char *word, int len)
{
    size_t end = (size_t)len;
    if (end > WORD_BYTES_MAX)
        for (end = WORD_BYTES_MAX; end > 0 && ((unsigned char)word[end] & 0xc0) == 0x80;)
            end--;
    buf_add_char(out, '\'');
    for (size_t i = 0; i < end; i++) {
        if (word[i] == '\'' || word[i] == '\\')
            buf_add_char(out, word[i]);
        buf_add_char(out, word[i]);
    }
    buf_add_char(out, '\'');
}

/* -- to be found by ---------------------------------------------------------------------------- */

struct vector {
    struct buf *out;
    size_t begin;
    int count;
};

static int vector_add(void *ctx, int flags, const char *word, int len, int from, int to)
{
    struct vector *vector = ctx;
    (void)flags, (void)from, (void)to;
    if (vector->count == WORDS_MAX || vector->out->len - vector->begin > VECTOR_BYTES_MAX)
        return SQLITE_DONE;
    word_add(vector->out, word, len);
    buf_addf(vector->out, ":%d ", ++vector->count);
    return SQLITE_OK;
}

enum status pg_words_add(struct pg_counts *counts, struct slice text, struct buf *out,
                         struct err *err)
{
    struct vector vector = {out, out->len, 0};
    enum status status = cut(counts, text, vector_add, &vector, err);
    return status == STATUS_OK ? buf_status(out, err) : status;
}

/* -- to search for ----------------------------------------------------------------------------- */

struct query {
    struct buf *out;
    int count;    /* words in all */
    bool begun;   /* this phrase has a word */
    bool another; /* there is a phrase before this one */
};

static int query_add(void *ctx, int flags, const char *word, int len, int from, int to)
{
    struct query *query = ctx;
    (void)flags, (void)from, (void)to;
    if (query->count++ == QUERY_WORDS_MAX)
        return SQLITE_DONE;
    buf_add_str(query->out, query->begun ? " <-> " : query->another ? " & (" : "(");
    word_add(query->out, word, len);
    query->begun = query->another = true;
    return SQLITE_OK;
}

enum status pg_match(struct pg_counts *counts, struct slice q, struct buf *out, struct err *err)
{
    struct query query = {.out = out};
    struct slice phrase;
    bool prefix;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && query.count <= QUERY_WORDS_MAX &&
           phrase_next(&q, &phrase, &prefix)) {
        query.begun = false;
        status = cut(counts, phrase, query_add, &query, err);
        if (query.begun)
            buf_add_str(out, prefix ? ":*)" : ")");
    }
    if (query.count > QUERY_WORDS_MAX)
        return err_set(err, STATUS_TOO_LARGE, "q: at most %d words", QUERY_WORDS_MAX);
    return status == STATUS_OK ? buf_status(out, err) : status;
}
