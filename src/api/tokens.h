/* tokens: who may ask, and as what.
 *
 * A token is shown once, when it is made; the file keeps a salted hash of it:
 *
 *     {"tokens": [{"name": "ada", "role": "operator", "id": "k3v9...", "salt": "...", "hash":
 * "...", "created_at": "...", "expires_at": "..."}]}
 *
 * A token reads `lzt_<id>_<secret>`: the id finds the entry, the hash of salt and secret is
 * compared in constant time.  The file is replaced atomically and is its owner's alone (0600).
 * Whoever checks tokens looks at the file at most once a second and reads it again when it has
 * changed, so that tokens are made and revoked without a restart.  A file that can no longer be
 * read leaves the tokens that were read last in force; one that is gone, or empty, leaves none:
 * nobody gets in. */
#ifndef LAZARET_API_TOKENS_H
#define LAZARET_API_TOKENS_H

#include "api/role.h"
#include "base/arena.h"
#include "base/seams.h"
#include "base/status.h"

#define TOKEN_NAME_MAX 100 /* bytes of a name */
#define TOKEN_SIZE 96      /* room for a token and its NUL */

struct tokens;

struct token_identity {
    enum role role;
    char name[TOKEN_NAME_MAX + 1]; /* the actor of everything that is done with the token */
};

/* tokens_open reads the file; a missing one is no error: see tokens_required. */
enum status tokens_open(const char *path, const struct seams *seams, struct tokens **out,
                        struct err *err);
void tokens_close(struct tokens *tokens); /* NULL is fine */

/* tokens_required says whether askers must show a token: there is a file, or there was one since
 * tokens_open.  Any thread. */
bool tokens_required(struct tokens *tokens);

/* tokens_check finds whose token it is; false for an unknown, revoked or expired one, in a time
 * that does not tell which.  Any thread. */
bool tokens_check(struct tokens *tokens, struct slice token, struct token_identity *out);

/* ---- editing the file: for the command line ---------------------------------------------------
 */

struct token_entry {
    struct slice name, id;
    enum role role;
    struct instant created_at;
    struct instant expires_at; /* not set: never */
};

bool token_expired(const struct token_entry *entry, struct instant at);

/* tokens_create adds a token and writes it, for the only time, to `token`.  STATUS_CONFLICT when
 * the name is taken by one that has not expired. */
enum status tokens_create(const char *path, struct slice name, enum role role,
                          struct instant expires_at, const struct seams *seams,
                          char token[TOKEN_SIZE], struct err *err);

/* tokens_revoke removes the token of this name.  STATUS_NOT_FOUND when there is none. */
enum status tokens_revoke(const char *path, struct slice name, struct err *err);

/* tokens_list lists the entries in the order of their making; a missing file has none. */
enum status tokens_list(const char *path, struct arena *arena, struct token_entry **out,
                        size_t *count, struct err *err);

#endif
