/* token_file: the token file as it is read and printed, for what checks tokens (tokens.c) and what
 * edits them (tokens_edit.c). */
#ifndef LAZARET_API_TOKEN_FILE_H
#define LAZARET_API_TOKEN_FILE_H

#include <sys/stat.h>

#include "api/tokens.h"
#include "base/buf.h"
#include "base/hash.h"

#define TOKEN_ID_SIZE 8      /* random bytes of an id */
#define TOKEN_SALT_SIZE 16   /* random bytes of a salt */
#define TOKEN_SECRET_SIZE 32 /* random bytes of a secret */
#define TOKEN_ENTRIES_MAX 4096
#define TOKEN_FILE_MAX (4 << 20)
#define TOKEN_BEGIN "lzt_"

/* struct token_secret: a token as the file has it. */
struct token_secret {
    struct token_entry about;
    uint8_t salt[TOKEN_SALT_SIZE];
    struct hash hash; /* of the salt and the secret's text */
};

/* struct token_set: the entries of a file, in its order.  `{0}` is that of a file without any. */
struct token_set {
    struct arena arena; /* holds everything in it */
    struct token_secret *entries;
    size_t count;
};

void token_set_release(struct token_set *set);

/* token_set_read reads a file and what it is.  STATUS_NOT_FOUND when there is none; every error
 * names the file.  `out` is untouched on error; `info` is filled when the file could be opened. */
enum status token_set_read(const char *path, struct token_set *out, struct stat *info,
                           struct err *err);

/* token_set_print prints a file, one token a line. */
void token_set_print(const struct token_set *set, struct buf *out);

/* token_name_check says what is wrong with a name. */
enum status token_name_check(struct slice name, struct err *err);

/* token_split takes a token apart; false when it does not have the shape of one. */
bool token_split(struct slice token, struct slice *id, struct slice *secret);

struct hash token_hash(const uint8_t salt[TOKEN_SALT_SIZE], struct slice secret);

#endif
