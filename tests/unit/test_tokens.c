/* Tokens: the file and what it is refused for, who gets in, and what happens when the file changes
 * under a server or under another command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/tokens.h"
#include "base/log.h"
#include "base/mem.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HOUR_US INT64_C(3600000000)

/* struct world: a directory, and clocks that stand still until they are moved. */
struct world {
    char directory[64];
    char path[96];
    struct instant wall;
    struct span steady;
    struct seams seams;
    char logged[4096]; /* every line of the log */
};

static struct instant world_wall(void *ctx)
{
    return ((struct world *)ctx)->wall;
}

static struct span world_steady(void *ctx)
{
    return ((struct world *)ctx)->steady;
}

static void world_random(void *ctx, void *out, size_t len)
{
    (void)ctx;
    seams_real()->random(NULL, out, len);
}

static void world_log(enum log_level level, const char *line, void *ctx)
{
    struct world *world = ctx;
    size_t len = strlen(world->logged);
    (void)level;
    snprintf(world->logged + len, sizeof(world->logged) - len, "%s\n", line);
}

static int world_begin(void **state)
{
    struct world *world = mem_zalloc(sizeof(*world));
    snprintf(world->directory, sizeof(world->directory), "/tmp/lazaret-tokens-XXXXXX");
    if (!mkdtemp(world->directory))
        return -1;
    snprintf(world->path, sizeof(world->path), "%s/tokens.json", world->directory);
    /* A day later than the files are made: what was written looks settled. */
    world->wall = instant_add(seams_real()->wall(NULL), span_seconds(86400));
    world->seams = (struct seams){
        .wall = world_wall, .steady = world_steady, .random = world_random, .ctx = world};
    log_set(LOG_WARN, world_log, world);
    *state = world;
    return 0;
}

static int world_end(void **state)
{
    struct world *world = *state;
    char command[160];
    log_set(LOG_WARN, NULL, NULL);
    chmod(world->directory, 0700);
    snprintf(command, sizeof(command), "rm -rf '%s'", world->directory);
    int code = system(command);
    mem_free(world);
    return code;
}

static void world_write(struct world *world, const char *text)
{
    int fd = open(world->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void world_read(struct world *world, char *out, size_t size)
{
    int fd = open(world->path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t got = read(fd, out, size - 1);
    assert_true(got >= 0);
    out[got] = '\0';
    close(fd);
}

static void create(struct world *world, const char *name, enum role role, struct instant expires_at,
                   char token[TOKEN_SIZE])
{
    struct err err = {0};
    if (tokens_create(world->path, slice_of(name), role, expires_at, &world->seams, token, &err) !=
        STATUS_OK)
        fail_msg("%s", err.text);
}

static struct tokens *open_tokens(struct world *world)
{
    struct tokens *tokens = NULL;
    struct err err = {0};
    if (tokens_open(world->path, &world->seams, &tokens, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return tokens;
}

static bool gets_in(struct tokens *tokens, const char *token)
{
    struct token_identity identity;
    return tokens_check(tokens, slice_of(token), &identity);
}

/* look_again lets a second pass, so that the file is looked at. */
static void look_again(struct world *world)
{
    world->steady.us += 1000001;
}

/* ---- the file
 * ----------------------------------------------------------------------------------*/

static void what_is_created_is_listed_and_gets_in(void **state)
{
    struct world *world = *state;
    struct arena arena = {0};
    struct token_entry *entries = NULL;
    struct token_identity identity = {0};
    char ada[TOKEN_SIZE], ci[TOKEN_SIZE];
    size_t count = 0;
    struct instant end = {world->wall.us + HOUR_US};

    create(world, "human:ada \"l\xc3\xb6velace\"", ROLE_OPERATOR, end, ada);
    create(world, "ci", ROLE_WORKER, INSTANT_NONE, ci);
    assert_int_equal(tokens_list(world->path, &arena, &entries, &count, NULL), STATUS_OK);
    assert_int_equal(count, 2);
    assert_true(slice_is(entries[0].name, "human:ada \"l\xc3\xb6velace\""));
    assert_int_equal(entries[0].role, ROLE_OPERATOR);
    assert_int_equal(entries[0].created_at.us, world->wall.us);
    assert_int_equal(entries[0].expires_at.us, end.us);
    assert_memory_equal(ada, "lzt_", 4);
    assert_memory_equal(ada + 4, entries[0].id.ptr, entries[0].id.len);
    assert_true(slice_is(entries[1].name, "ci"));
    assert_false(instant_is_set(entries[1].expires_at));

    struct tokens *tokens = open_tokens(world);
    assert_true(tokens_required(tokens));
    assert_true(tokens_check(tokens, slice_of(ada), &identity));
    assert_string_equal(identity.name, "human:ada \"l\xc3\xb6velace\"");
    assert_int_equal(identity.role, ROLE_OPERATOR);
    assert_true(tokens_check(tokens, slice_of(ci), &identity));
    assert_string_equal(identity.name, "ci");
    assert_int_equal(identity.role, ROLE_WORKER);
    tokens_close(tokens);
    arena_release(&arena);
}

static void the_file_has_no_secret_and_is_its_owners_alone(void **state)
{
    struct world *world = *state;
    struct stat info;
    char token[TOKEN_SIZE], text[4096];
    mode_t mask = umask(0);

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    umask(mask);
    world_read(world, text, sizeof(text));
    assert_null(strstr(text, strrchr(token, '_') + 1));
    assert_int_equal(stat(world->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);

    /* Also when somebody opened it up in between. */
    assert_int_equal(chmod(world->path, 0666), 0);
    create(world, "eve", ROLE_VIEWER, INSTANT_NONE, token);
    assert_int_equal(stat(world->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void a_name_is_taken_until_its_token_is_revoked_or_has_expired(void **state)
{
    struct world *world = *state;
    struct err err = {0};
    char first[TOKEN_SIZE], second[TOKEN_SIZE], third[TOKEN_SIZE] = "untouched";

    create(world, "ci", ROLE_WORKER, (struct instant){world->wall.us + HOUR_US}, first);
    assert_int_equal(tokens_create(world->path, SLICE("ci"), ROLE_ADMIN, INSTANT_NONE,
                                   &world->seams, third, &err),
                     STATUS_CONFLICT);
    assert_string_equal(err.text, "there is a token with the name \"ci\" already");
    assert_string_equal(third, "untouched");
    world->wall.us += HOUR_US;
    create(world, "ci", ROLE_WORKER, INSTANT_NONE, second);
    struct tokens *tokens = open_tokens(world);
    assert_false(gets_in(tokens, first));
    assert_true(gets_in(tokens, second));
    tokens_close(tokens);
    assert_int_equal(tokens_revoke(world->path, SLICE("ci"), NULL), STATUS_OK);
    create(world, "ci", ROLE_WORKER, INSTANT_NONE, third);
}

static void what_cannot_be_created_is_refused(void **state)
{
    struct world *world = *state;
    char name[TOKEN_NAME_MAX + 2], token[TOKEN_SIZE];
    memset(name, 'x', sizeof(name));
    const struct {
        struct slice name;
        enum role role;
        struct instant expires_at;
    } cases[] = {
        {SLICE(""), ROLE_ADMIN, INSTANT_NONE},
        {SLICE("a\nb"), ROLE_ADMIN, INSTANT_NONE},
        {SLICE("\x7f"), ROLE_ADMIN, INSTANT_NONE},
        {SLICE(" a"), ROLE_ADMIN, INSTANT_NONE},
        {SLICE("\xff"), ROLE_ADMIN, INSTANT_NONE},
        {{name, TOKEN_NAME_MAX + 1}, ROLE_ADMIN, INSTANT_NONE},
        {SLICE("ada"), ROLE_NONE, INSTANT_NONE},
        {SLICE("ada"), ROLE_COUNT, INSTANT_NONE},
        {SLICE("ada"), ROLE_ADMIN, world->wall},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err err = {0};
        assert_int_equal(tokens_create(world->path, cases[i].name, cases[i].role,
                                       cases[i].expires_at, &world->seams, token, &err),
                         STATUS_INVALID);
        assert_true(err.text[0]);
    }
    assert_int_not_equal(access(world->path, F_OK), 0);
    name[TOKEN_NAME_MAX] = '\0';
    create(world, name, ROLE_VIEWER, INSTANT_NONE, token);
}

#define GOOD_ID "\"id\":\"0123456789abcdef\""
#define GOOD_SALT "\"salt\":\"00112233445566778899aabbccddeeff\""
#define GOOD_HASH "\"hash\":\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\""
#define GOOD_TIME "\"created_at\":\"2026-01-01T00:00:00Z\""
#define GOOD_REST GOOD_ID "," GOOD_SALT "," GOOD_HASH "," GOOD_TIME
#define ENTRY(members) "{\"tokens\":[{" members "}]}"

static void a_file_that_is_wrong_is_refused_by_name(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{", "byte 2"},
        {"[]", "must be an object with the member \"tokens\""},
        {"{}", "tokens: is required"},
        {"{\"tokens\":{}}", "tokens: must be an array"},
        {"{\"tokens\":[],\"tokens\":[]}", "tokens: stands twice"},
        {"{\"tokens\":[],\"extra\":1}", "\"extra\": unknown member"},
        {"{\"tokens\":[7]}", "tokens[0]: must be an object"},
        {ENTRY("\"name\":\"ada\"," GOOD_REST), "tokens[0]: role: is required"},
        {ENTRY("\"name\":\"ada\",\"role\":\"root\"," GOOD_REST),
         "tokens[0]: role: must be viewer, worker, operator, reviewer or admin, not \"root\""},
        {ENTRY("\"name\":\"ada\",\"role\":\"none\"," GOOD_REST), "tokens[0]: role: must be"},
        {ENTRY("\"name\":\"ada\",\"role\":7," GOOD_REST), "tokens[0]: role: must be a string"},
        {ENTRY("\"name\":\"\",\"role\":\"admin\"," GOOD_REST), "tokens[0]: name: must have 1 to"},
        {ENTRY("\"name\":\"ada\",\"name\":\"eve\",\"role\":\"admin\"," GOOD_REST),
         "tokens[0]: name: stands twice"},
        {ENTRY("\"name\":\"ada\",\"role\":\"admin\",\"expires\":\"x\"," GOOD_REST),
         "tokens[0]: \"expires\": unknown member"},
        {ENTRY("\"name\":\"ada\",\"role\":\"admin\",\"expires_at\":\"soon\"," GOOD_REST),
         "tokens[0]: expires_at: "},
        {ENTRY("\"name\":\"ada\",\"role\":\"admin\",\"id\":\"0123456789ABCDEF\"," GOOD_SALT
               "," GOOD_HASH "," GOOD_TIME),
         "tokens[0]: id: must be 16 lower-case hex digits"},
        {ENTRY("\"name\":\"ada\",\"role\":\"admin\"," GOOD_ID ",\"salt\":\"00\"," GOOD_HASH
               "," GOOD_TIME),
         "tokens[0]: salt: must be 32 lower-case hex digits"},
        {ENTRY("\"name\":\"ada\",\"role\":\"admin\"," GOOD_ID "," GOOD_SALT
               ",\"hash\":\"zz\"," GOOD_TIME),
         "tokens[0]: hash: must be 64 lower-case hex digits"},
        {"{\"tokens\":[{\"name\":\"ada\",\"role\":\"admin\"," GOOD_REST
         "},{\"name\":\"eve\",\"role\":\"admin\"," GOOD_REST "}]}",
         "tokens[1]: id: tokens[0] has the same"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tokens *tokens = NULL;
        struct err err = {0}, create_err = {0};
        char token[TOKEN_SIZE], text[4096];
        world_write(world, cases[i].text);
        assert_int_equal(tokens_open(world->path, &world->seams, &tokens, &err), STATUS_INVALID);
        assert_null(tokens);
        if (!strstr(err.text, world->path) || !strstr(err.text, cases[i].error))
            fail_msg("%s: %s", cases[i].text, err.text);
        /* What cannot be read is not replaced. */
        assert_int_equal(tokens_create(world->path, SLICE("new"), ROLE_ADMIN, INSTANT_NONE,
                                       &world->seams, token, &create_err),
                         STATUS_INVALID);
        assert_string_equal(create_err.text, err.text);
        world_read(world, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
    world_write(world, ENTRY("\"name\":\"ada\",\"role\":\"admin\"," GOOD_REST));
    tokens_close(open_tokens(world));
}

static void revoking_says_when_there_is_nothing_to_revoke(void **state)
{
    struct world *world = *state;
    struct err err = {0};
    char token[TOKEN_SIZE], missing[128];

    assert_int_equal(tokens_revoke(world->path, SLICE("ada"), &err), STATUS_NOT_FOUND);
    assert_string_equal(err.text, "there is no token with the name \"ada\"");
    snprintf(missing, sizeof(missing), "%s/none/tokens.json", world->directory);
    assert_int_equal(tokens_revoke(missing, SLICE("ada"), NULL), STATUS_NOT_FOUND);
    assert_int_equal(
        tokens_create(missing, SLICE("ada"), ROLE_ADMIN, INSTANT_NONE, &world->seams, token, &err),
        STATUS_IO);
    assert_non_null(strstr(err.text, missing));
    create(world, "eve", ROLE_VIEWER, INSTANT_NONE, token);
    assert_int_equal(tokens_revoke(world->path, SLICE("ada"), NULL), STATUS_NOT_FOUND);
}

static void a_link_to_the_file_stays_a_link(void **state)
{
    struct world *world = *state;
    char target[128], token[TOKEN_SIZE];
    struct stat info;

    snprintf(target, sizeof(target), "%s/real.json", world->directory);
    world_write(world, "{\"tokens\":[]}");
    assert_int_equal(rename(world->path, target), 0);
    assert_int_equal(symlink(target, world->path), 0);
    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    assert_int_equal(lstat(world->path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    struct tokens *tokens = open_tokens(world);
    assert_true(gets_in(tokens, token));
    tokens_close(tokens);
}

/* ---- who gets in
 * -------------------------------------------------------------------------------*/

static void a_token_that_is_not_exactly_right_does_not_get_in(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE], other[TOKEN_SIZE], wrong[TOKEN_SIZE + 8];

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    create(world, "eve", ROLE_VIEWER, INSTANT_NONE, other);
    struct tokens *tokens = open_tokens(world);
    for (size_t i = 0; i < strlen(token); i++) {
        memcpy(wrong, token, TOKEN_SIZE);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_false(gets_in(tokens, wrong));
    }
    snprintf(wrong, sizeof(wrong), "%s0", token);
    assert_false(gets_in(tokens, wrong));
    assert_false(tokens_check(tokens, (struct slice){token, strlen(token) - 1}, NULL));
    assert_false(gets_in(tokens, ""));
    assert_false(gets_in(tokens, "lzt_"));
    /* One's id with another one's secret. */
    snprintf(wrong, sizeof(wrong), "%.*s%s", (int)(strrchr(token, '_') - token), token,
             strrchr(other, '_'));
    assert_false(gets_in(tokens, wrong));
    assert_true(gets_in(tokens, token));
    tokens_close(tokens);
}

static void the_hash_of_one_salt_is_worthless_with_another(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE], text[4096];

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    world_read(world, text, sizeof(text));
    char *salt = strstr(text, "\"salt\":\"") + 8;
    *salt = *salt == '0' ? '1' : '0';
    world_write(world, text);
    struct tokens *tokens = open_tokens(world);
    assert_false(gets_in(tokens, token));
    tokens_close(tokens);
}

static void an_expired_token_does_not_get_in(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE];

    create(world, "ada", ROLE_ADMIN, (struct instant){world->wall.us + HOUR_US}, token);
    struct tokens *tokens = open_tokens(world);
    world->wall.us += HOUR_US - 1;
    assert_true(gets_in(tokens, token));
    world->wall.us += 1;
    assert_false(gets_in(tokens, token));
    tokens_close(tokens);
}

/* ---- a file that changes
 * -----------------------------------------------------------------------*/

static void tokens_are_made_and_revoked_while_they_are_checked(void **state)
{
    struct world *world = *state;
    char ada[TOKEN_SIZE], eve[TOKEN_SIZE];

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, ada);
    struct tokens *tokens = open_tokens(world);
    create(world, "eve", ROLE_ADMIN, INSTANT_NONE, eve);
    /* Within the second nobody looks. */
    assert_false(gets_in(tokens, eve));
    look_again(world);
    assert_true(gets_in(tokens, eve));
    assert_int_equal(tokens_revoke(world->path, SLICE("ada"), NULL), STATUS_OK);
    assert_true(gets_in(tokens, ada));
    look_again(world);
    assert_false(gets_in(tokens, ada));
    assert_true(gets_in(tokens, eve));
    tokens_close(tokens);
}

static void a_change_that_keeps_size_and_time_is_seen(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE], text[4096];
    struct stat info;

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    world_read(world, text, sizeof(text));
    assert_int_equal(stat(world->path, &info), 0);
    struct tokens *tokens = open_tokens(world);
    char *id = strstr(text, "\"id\":\"") + 6;
    *id = *id == '0' ? '1' : '0';
    world_write(world, text);
    struct timespec times[] = {info.st_atim, info.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, world->path, times, 0), 0);
    look_again(world);
    assert_false(gets_in(tokens, token));
    tokens_close(tokens);
}

static void a_file_that_cannot_be_read_leaves_the_last_tokens_in_force(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE], kept[128];

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    struct tokens *tokens = open_tokens(world);
    snprintf(kept, sizeof(kept), "%s/kept.json", world->directory);
    assert_int_equal(rename(world->path, kept), 0);

    world_write(world, "{\"tokens\":");
    look_again(world);
    assert_true(gets_in(tokens, token));
    assert_non_null(strstr(world->logged, "stay in force"));
    assert_non_null(strstr(world->logged, world->path));

    /* It is said once, and tried again. */
    world->logged[0] = '\0';
    look_again(world);
    assert_true(gets_in(tokens, token));
    assert_string_equal(world->logged, "");

    assert_int_equal(unlink(world->path), 0);
    assert_int_equal(mkdir(world->path, 0700), 0);
    look_again(world);
    assert_true(gets_in(tokens, token));
    assert_non_null(strstr(world->logged, "is not a file"));
    assert_int_equal(rmdir(world->path), 0);
    assert_int_equal(rename(kept, world->path), 0);
    assert_int_equal(tokens_revoke(world->path, SLICE("ada"), NULL), STATUS_OK);
    look_again(world);
    assert_false(gets_in(tokens, token));
    tokens_close(tokens);
}

static void a_failed_allocation_leaves_no_revoked_token_in_force_for_long(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE];

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    struct tokens *tokens = open_tokens(world);
    assert_int_equal(tokens_revoke(world->path, SLICE("ada"), NULL), STATUS_OK);
    look_again(world);
    mem_fail_after(1);
    assert_true(gets_in(tokens, token));
    mem_fail_after(0);
    look_again(world);
    assert_false(gets_in(tokens, token));
    tokens_close(tokens);
}

static void once_there_was_a_file_tokens_stay_required(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE];

    struct tokens *tokens = open_tokens(world);
    assert_false(tokens_required(tokens));
    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    assert_false(tokens_required(tokens));
    look_again(world);
    assert_true(tokens_required(tokens));
    assert_true(gets_in(tokens, token));
    assert_string_equal(world->logged, "");
    assert_int_equal(unlink(world->path), 0);
    look_again(world);
    assert_true(tokens_required(tokens));
    assert_false(gets_in(tokens, token));
    assert_non_null(strstr(world->logged, "nobody gets in"));
    tokens_close(tokens);
}

static void an_empty_file_requires_tokens_and_has_none(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE];

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    struct tokens *tokens = open_tokens(world);
    world_write(world, "");
    look_again(world);
    assert_true(tokens_required(tokens));
    assert_false(gets_in(tokens, token));
    tokens_close(tokens);
    tokens = open_tokens(world);
    assert_true(tokens_required(tokens));
    tokens_close(tokens);
    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
}

static void a_file_that_others_can_read_is_warned_about(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE];

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    struct tokens *tokens = open_tokens(world);
    assert_string_equal(world->logged, "");
    assert_int_equal(chmod(world->path, 0640), 0);
    look_again(world);
    assert_true(gets_in(tokens, token));
    assert_non_null(strstr(world->logged, "can be used by others (mode 640)"));
    world->logged[0] = '\0';
    look_again(world);
    assert_true(gets_in(tokens, token));
    assert_string_equal(world->logged, "");
    tokens_close(tokens);
}

/* ---- many at once
 * ------------------------------------------------------------------------------*/

#define PROCESSES 6
#define EACH 20

static void create_many(struct world *world, int process)
{
    char name[32], token[TOKEN_SIZE];
    struct err err = {0};
    for (int i = 0; i < EACH; i++) {
        snprintf(name, sizeof(name), "p%d-%d", process, i);
        if (tokens_create(world->path, slice_of(name), ROLE_WORKER, INSTANT_NONE, seams_real(),
                          token, &err) != STATUS_OK)
            _exit(1);
        /* Every third goes again. */
        if (i % 3 == 2 && tokens_revoke(world->path, slice_of(name), &err) != STATUS_OK)
            _exit(2);
    }
    _exit(0);
}

static void processes_that_create_at_the_same_time_lose_none(void **state)
{
    struct world *world = *state;
    struct arena arena = {0};
    struct token_entry *entries;
    size_t count = 0;
    pid_t children[PROCESSES];

    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            create_many(world, i);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(tokens_list(world->path, &arena, &entries, &count, NULL), STATUS_OK);
    assert_int_equal(count, PROCESSES * (EACH - EACH / 3));
    arena_release(&arena);
}

/* racing_steady is a clock of which each look is a second: the file is looked at every time. */
static struct span racing_steady(void *ctx)
{
    static _Atomic int64_t seconds;
    (void)ctx;
    return span_seconds(++seconds);
}

struct checker {
    struct tokens *tokens;
    const char *token;
    int refused;
};

static void *check_often(void *ctx)
{
    struct checker *checker = ctx;
    for (int i = 0; i < 500; i++)
        checker->refused += !gets_in(checker->tokens, checker->token);
    return NULL;
}

static void threads_check_while_the_file_is_replaced(void **state)
{
    struct world *world = *state;
    char token[TOKEN_SIZE], other[TOKEN_SIZE];
    struct checker checkers[4];
    pthread_t threads[COUNT(checkers)];
    struct tokens *tokens = NULL;

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    world->seams.steady = racing_steady;
    assert_int_equal(tokens_open(world->path, &world->seams, &tokens, NULL), STATUS_OK);
    for (size_t i = 0; i < COUNT(checkers); i++) {
        checkers[i] = (struct checker){tokens, token, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, check_often, &checkers[i]), 0);
    }
    for (int i = 0; i < 10; i++) {
        create(world, "eve", ROLE_VIEWER, INSTANT_NONE, other);
        assert_int_equal(tokens_revoke(world->path, SLICE("eve"), NULL), STATUS_OK);
    }
    for (size_t i = 0; i < COUNT(checkers); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(checkers[i].refused, 0);
    }
    tokens_close(tokens);
}

static void every_failed_allocation_is_reported(void **state)
{
    struct world *world = *state;
    enum status status = STATUS_NO_MEMORY;
    char token[TOKEN_SIZE], before[4096], after[4096];

    create(world, "ada", ROLE_ADMIN, INSTANT_NONE, token);
    world_read(world, before, sizeof(before));
    for (unsigned long n = 1; status != STATUS_OK; n++) {
        struct err err = {0};
        mem_fail_after(n);
        status = tokens_create(world->path, SLICE("eve"), ROLE_VIEWER, INSTANT_NONE, &world->seams,
                               token, &err);
        mem_fail_after(0);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        world_read(world, after, sizeof(after));
        if (status != STATUS_OK)
            assert_string_equal(before, after);
        assert_true(n < 100);
    }
    struct tokens *tokens = open_tokens(world);
    assert_true(gets_in(tokens, token));
    tokens_close(tokens);
}

static void roles_have_names_and_an_order(void **state)
{
    static const char *const names[] = {"viewer", "worker", "operator", "reviewer", "admin"};
    enum role role = ROLE_NONE, before;

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        before = role;
        assert_true(role_from_name(slice_of(names[i]), &role));
        assert_string_equal(role_name(role), names[i]);
        assert_true(role > before);
    }
    assert_int_equal(role, ROLE_ADMIN);
    assert_false(role_from_name(SLICE("none"), &role));
    assert_false(role_from_name(SLICE("Admin"), &role));
    assert_false(role_from_name(SLICE(""), &role));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_created_is_listed_and_gets_in),
        TEST(the_file_has_no_secret_and_is_its_owners_alone),
        TEST(a_name_is_taken_until_its_token_is_revoked_or_has_expired),
        TEST(what_cannot_be_created_is_refused),
        TEST(a_file_that_is_wrong_is_refused_by_name),
        TEST(revoking_says_when_there_is_nothing_to_revoke),
        TEST(a_link_to_the_file_stays_a_link),
        TEST(a_token_that_is_not_exactly_right_does_not_get_in),
        TEST(the_hash_of_one_salt_is_worthless_with_another),
        TEST(an_expired_token_does_not_get_in),
        TEST(tokens_are_made_and_revoked_while_they_are_checked),
        TEST(a_change_that_keeps_size_and_time_is_seen),
        TEST(a_file_that_cannot_be_read_leaves_the_last_tokens_in_force),
        TEST(a_failed_allocation_leaves_no_revoked_token_in_force_for_long),
        TEST(once_there_was_a_file_tokens_stay_required),
        TEST(an_empty_file_requires_tokens_and_has_none),
        TEST(a_file_that_others_can_read_is_warned_about),
        TEST(processes_that_create_at_the_same_time_lose_none),
        TEST(threads_check_while_the_file_is_replaced),
        TEST(every_failed_allocation_is_reported),
        cmocka_unit_test(roles_have_names_and_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
