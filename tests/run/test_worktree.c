/* Worktrees, with the real git in repositories that are made for each test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "run/worktree.h"
#include "run/worktree_parts.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char root[64];     /* of everything that a test makes */
static char repo[96];     /* ROOT/repo */
static char data[96];     /* ROOT/data/worktrees */
static char here[4096];   /* where the tests were started */
static char *path_before; /* PATH */
static struct loop *loop;
static struct worktrees *all;

/* ---- helpers --------------------------------------------------------------------------------- */

/* sh runs a script in the root; true when it succeeded. */
__attribute__((format(printf, 1, 2))) static bool sh(const char *format, ...)
{
    char script[4096];
    va_list args;

    int at = snprintf(script, sizeof(script), "cd '%s' && { ", root);
    va_start(args, format);
    at += vsnprintf(script + at, sizeof(script) - (size_t)at, format, args);
    va_end(args);
    snprintf(script + at, sizeof(script) - (size_t)at, "; } >'%s/log' 2>&1", root);
    return system(script) == 0;
}

/* answer is what a script prints, without the last line end. */
__attribute__((format(printf, 1, 2))) static const char *answer(const char *format, ...)
{
    static char text[8192];
    char script[4096];
    va_list args;

    int at = snprintf(script, sizeof(script), "cd '%s' && ", root);
    va_start(args, format);
    vsnprintf(script + at, sizeof(script) - (size_t)at, format, args);
    va_end(args);
    FILE *pipe = popen(script, "r");
    size_t len = fread(text, 1, sizeof(text) - 1, pipe);
    pclose(pipe);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    text[len] = '\0';
    return text;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/lazaret-worktree-XXXXXX");
    if (!mkdtemp(root) || !getcwd(here, sizeof(here)))
        return -1;
    snprintf(repo, sizeof(repo), "%s/repo", root);
    snprintf(data, sizeof(data), "%s/data/worktrees", root);
    setenv("HOME", root, 1);
    setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    unsetenv("XDG_CONFIG_HOME");
    path_before = strdup(getenv("PATH"));
    if (!sh("git config --global core.fsync none && git init -q -b main repo && cd repo && git "
            "config user.name Ann && "
            "git config user.email ann@example.org && echo one > a && echo one > b && "
            "git add . && git commit -q -m first"))
        return -1;
    return loop_open(&loop, NULL) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    worktrees_close(all);
    all = NULL;
    loop_close(loop);
    setenv("PATH", path_before, 1);
    free(path_before);
    char script[128];
    snprintf(script, sizeof(script), "rm -rf '%s'", root);
    return chdir(here) == 0 && system(script) == 0 ? 0 : -1;
}

static void open_all(bool commit_required)
{
    struct err err = {0};

    if (worktrees_open(loop, repo, data, SLICE("run-1"), commit_required, &all, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

static struct worktree place(const char *item)
{
    struct worktree worktree;
    struct err err = {0};

    if (worktree_init(all, slice_of(item), &worktree, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return worktree;
}

/* What the last step came to. */
static struct worktree_end last;
static char last_text[16384];
static int last_exit; /* of the git command; -1: none's fault */

static void step_done(void *ctx, const struct worktree_end *end)
{
    (void)ctx;
    last = *end;
    snprintf(last_text, sizeof(last_text), "%.*s", SLICE_ARG(end->text));
    last_exit = end->process ? end->process->exit_code : -1;
    loop_stop(loop);
}

/* step does one and waits for it. */
static bool step(struct worktree *worktree, enum worktree_step what)
{
    snprintf(last_text, sizeof(last_text), "?");
    assert_true(worktree_do(worktree, what, step_done, NULL));
    loop_run(loop);
    return last.ok;
}

static void steps_well(struct worktree *worktree, enum worktree_step what)
{
    if (!step(worktree, what))
        fail_msg("step %d: %s", what, last_text);
}

static void assert_text_has(const char *part)
{
    if (!strstr(last_text, part))
        fail_msg("\"%s\" is not in: %s", part, last_text);
}

static bool exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

/* ---- the whole way --------------------------------------------------------------------------- */

static void an_item_is_made_checked_merged_and_removed(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("item 1");
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(w.base, answer("git -C repo rev-parse HEAD"));
    assert_string_equal(answer("git -C '%s' symbolic-ref --short HEAD", w.path), w.branch);
    assert_true(sh("cd '%s' && echo two > a && echo new > c && rm b", w.path));

    steps_well(&w, WORKTREE_CHECK);
    assert_string_equal(answer("git -C '%s' log -1 --format='%%s, %%an, %%ae'", w.path),
                        "lazaret: item 1, Ann, ann@example.org");
    assert_string_equal(answer("git -C '%s' status --porcelain", w.path), "");

    steps_well(&w, WORKTREE_MERGE);
    assert_string_equal(answer("git -C repo log -1 --format='%%s'"), "lazaret: merge item 1");
    assert_string_equal(answer("cd repo && cat a c && ls"), "two\nnew\na\nc");
    assert_string_equal(answer("git -C repo status --porcelain"), "");

    steps_well(&w, WORKTREE_REMOVE);
    assert_string_equal(last_text, "");
    assert_false(exists(w.path));
    assert_string_equal(answer("git -C repo branch --format='%%(refname:short)'"), "main");
    assert_string_equal(answer("git -C repo worktree list --porcelain | grep -c ^worktree"), "1");
    worktree_release(&w);
    worktrees_close(all);
    all = NULL;
    assert_string_equal(answer("ls data/worktrees"), "");
}

static void an_item_without_changes_is_merged_as_nothing(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("quiet");
    for (enum worktree_step i = WORKTREE_MAKE; i <= WORKTREE_REMOVE; i++)
        steps_well(&w, i);
    assert_string_equal(answer("git -C repo log --format=%%s"), "first");
    worktree_release(&w);
}

static void changes_that_come_to_nothing_are_not_committed(void **state)
{
    (void)state;
    assert_true(
        sh("cd repo && echo 'a text' > .gitattributes && git add . && git commit -qm attr"));
    open_all(false);
    struct worktree w = place("crlf");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("cd '%s' && printf 'one\\r\\n' > a && touch -d @1 a", w.path));
    assert_string_not_equal(answer("git -C '%s' status --porcelain", w.path), "");
    steps_well(&w, WORKTREE_CHECK);
    assert_string_equal(answer("git -C '%s' rev-parse HEAD", w.path), w.base);
    worktree_release(&w);
}

static void our_name_stands_in_where_none_is_configured(void **state)
{
    (void)state;
    assert_true(sh("cd repo && git config --unset user.email"));
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("echo two > '%s/a'", w.path));
    steps_well(&w, WORKTREE_CHECK);
    steps_well(&w, WORKTREE_MERGE);
    assert_string_equal(answer("git -C repo show -s --format='%%an, %%ae, %%cn, %%ce' HEAD HEAD^2"),
                        "Ann, lazaret@localhost, Ann, lazaret@localhost\n"
                        "Ann, lazaret@localhost, Ann, lazaret@localhost");
    worktree_release(&w);
}

static void variables_that_point_elsewhere_do_not_count(void **state)
{
    static const char *const names[] = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE",
                                        "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"};
    (void)state;

    for (size_t i = 0; i < COUNT(names); i++)
        setenv(names[i], "/nonexistent", 1);
    open_all(false);
    struct worktree w = place("x");
    for (enum worktree_step i = WORKTREE_MAKE; i <= WORKTREE_REMOVE; i++)
        steps_well(&w, i);
    for (size_t i = 0; i < COUNT(names); i++)
        unsetenv(names[i]);
    worktree_release(&w);
}

static void relative_paths_are_meant_from_here(void **state)
{
    struct err err = {0};
    (void)state;

    assert_int_equal(chdir(repo), 0);
    assert_int_equal(worktrees_open(loop, ".", "../data/worktrees", SLICE("r"), false, &all, &err),
                     STATUS_OK);
    assert_int_equal(chdir("/"), 0);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(exists(w.path));
    steps_well(&w, WORKTREE_MAKE); /* and found again */
    worktree_release(&w);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void every_item_has_a_branch_of_its_own_that_git_accepts(void **state)
{
    static const char long_name[] =
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789.lock";
    static const char *const items[] = {
        "a",
        "a b",
        "a..b",
        "..",
        ".",
        "a.",
        ".a",
        "a.lock",
        "a.lock.lock",
        ".lock",
        "@{",
        "@",
        "a@{b",
        "-a",
        "--all",
        "-",
        "a/b",
        "a\\b",
        "a~b",
        "a^b",
        "a:b",
        "a?b",
        "a*b",
        "a[b",
        "a\x7f",
        "a\nb",
        "caf\xc3\xa9",
        "\xff",
        "HEAD",
        "$(id)",
        "a;b",
        "a'b",
        "a\"b",
        "%2E",
        "%",
        "",
        "a...",
        "...a",
        "a.b",
        "a.locks",
        "refs/heads/x",
        long_name,
        long_name + 1,
    };
    struct worktree places[COUNT(items)];
    char name[512];
    (void)state;

    open_all(false);
    for (size_t i = 0; i < COUNT(items); i++) {
        places[i] = place(items[i]);
        snprintf(name, sizeof(name), "%s", places[i].branch);
        if (!sh("git check-ref-format --branch '%s'", name))
            fail_msg("git refuses %s", name);
        assert_null(strchr(places[i].path + strlen(data) + 1 + strlen("run-1/"), '/'));
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(places[i].branch, places[j].branch);
            assert_string_not_equal(places[i].path, places[j].path);
        }
    }
    for (size_t i = 0; i < COUNT(items); i++)
        worktree_release(&places[i]);
}

static void runs_have_names_of_any_kind_too(void **state)
{
    static const char *const runs[] = {"-r", "a..b", "x.lock", "a b/c", "..", "@{-1}"};
    struct err err = {0};
    (void)state;

    for (size_t i = 0; i < COUNT(runs); i++) {
        assert_int_equal(worktrees_open(loop, repo, data, slice_of(runs[i]), false, &all, &err),
                         STATUS_OK);
        struct worktree w = place("-i..lock");
        for (enum worktree_step s = WORKTREE_MAKE; s <= WORKTREE_REMOVE; s++)
            steps_well(&w, s);
        worktree_release(&w);
        worktrees_close(all);
        all = NULL;
    }
    assert_string_equal(answer("ls data/worktrees"), "");
}

static void an_item_in_a_commit_is_one_line(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("a\nb\tc\x7f#");
    assert_string_equal(w.item, "a b c #");
    worktree_release(&w);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void what_is_wrong_with_a_repository_is_said_at_once(void **state)
{
    static const struct {
        const char *script, *repository, *words;
        enum status status;
    } cases[] = {
        {"mkdir plain", "plain", "is in no git repository", STATUS_INVALID},
        {"true", "absent", "cannot change to", STATUS_INVALID},
        {"git init -q empty", "empty", "has no commit yet", STATUS_INVALID},
        {"git clone -q --bare repo bare.git", "bare.git", "is a bare repository", STATUS_INVALID},
        {"true", "repo/.git", "inside the .git directory", STATUS_INVALID},
        {"git clone -q repo loose && git -C loose checkout -q --detach", "loose",
         "no branch checked out", STATUS_INVALID},
        {"git clone -q repo taken && git -C taken branch lazaret", "taken", "has a branch lazaret,",
         STATUS_CONFLICT},
        {"git clone -q repo taken2 && git -C taken2 branch lazaret/run-1", "taken2",
         "has a branch lazaret/run-1,", STATUS_CONFLICT},
        {"git clone -q repo torn && echo '[' >> torn/.git/config", "torn", "bad config",
         STATUS_INVALID},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err err = {0};
        char path[256];
        snprintf(path, sizeof(path), "%s/%s", root, cases[i].repository);
        assert_true(sh("%s", cases[i].script));
        enum status status = worktrees_open(loop, path, data, SLICE("run-1"), false, &all, &err);
        if (status != cases[i].status || !strstr(err.text, cases[i].words))
            fail_msg("%s: %d, %s", cases[i].repository, status, err.text);
        assert_null(all);
    }
}

static void a_missing_git_is_said_at_once(void **state)
{
    struct err err = {0};
    (void)state;

    setenv("PATH", root, 1);
    assert_int_equal(worktrees_open(loop, repo, data, SLICE("r"), false, &all, &err),
                     STATUS_UNAVAILABLE);
    assert_string_equal(err.text, "git is not in PATH: install it, or run without --worktree");
}

static void worktrees_do_not_lie_among_the_files_of_the_repository(void **state)
{
    struct err err = {0};
    char nested[256];
    (void)state;

    snprintf(nested, sizeof(nested), "%s/data/worktrees", repo);
    assert_int_equal(worktrees_open(loop, repo, nested, SLICE("r"), false, &all, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "would lie inside the repository"));
    assert_true(sh("echo /data/ > repo/.git/info/exclude"));
    assert_int_equal(worktrees_open(loop, repo, nested, SLICE("r"), false, &all, &err), STATUS_OK);
    struct worktree w = place("x");
    for (enum worktree_step s = WORKTREE_MAKE; s <= WORKTREE_REMOVE; s++)
        steps_well(&w, s);
    worktree_release(&w);
}

static void a_worktree_may_have_worktrees_of_items(void **state)
{
    struct err err = {0};
    char path[256];
    (void)state;

    assert_true(sh("git -C repo worktree add -q -b side ../side"));
    snprintf(path, sizeof(path), "%s/side", root);
    assert_int_equal(worktrees_open(loop, path, data, SLICE("r"), false, &all, &err), STATUS_OK);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("echo two > '%s/a'", w.path));
    steps_well(&w, WORKTREE_CHECK);
    steps_well(&w, WORKTREE_MERGE);
    assert_string_equal(answer("git log -1 --format=%%s -C 2>/dev/null; git -C side log -1 "
                               "--format=%%s; git -C repo log -1 --format=%%s"),
                        "lazaret: merge x\nfirst");
    /* A conflict is seen and undone there as well. */
    assert_true(sh("cd side && echo three > a && git commit -qam three && cd '%s' && echo four > a "
                   "&& git commit -qam four",
                   w.path));
    assert_false(step(&w, WORKTREE_MERGE));
    assert_true(last.conflict);
    assert_string_equal(answer("git -C side status --porcelain"), "");
    worktree_release(&w);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void an_earlier_attempt_is_gone_on_with(void **state)
{
    (void)state;
    open_all(true);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("cd '%s' && echo two > a && git commit -qam two && echo half > b", w.path));
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(answer("cat '%s/a' '%s/b'", w.path, w.path), "two\nhalf");
    assert_string_equal(w.base, answer("git -C '%s' rev-parse HEAD", w.path));
    /* The commit of the earlier attempt does not count for this one. */
    assert_false(step(&w, WORKTREE_CHECK));
    assert_true(last.no_commit);
    worktree_release(&w);
}

static void a_branch_without_a_worktree_is_attached(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    assert_true(sh("cd repo && git switch -qc '%s' && echo two > a && git commit -qam two && "
                   "git switch -q main",
                   w.branch));
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(answer("cat '%s/a'", w.path), "two");
    worktree_release(&w);
}

static void a_worktree_whose_directory_is_gone_is_made_again(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("rm -r '%s'", w.path));
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(answer("cat '%s/a'", w.path), "one");
    /* Also when its branch is gone, and when only an empty directory is left. */
    assert_true(
        sh("rm -r '%s' && rm 'repo/.git/refs/heads/%s' && mkdir '%s'", w.path, w.branch, w.path));
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(answer("cat '%s/a'", w.path), "one");
    worktree_release(&w);
}

/* What a git that was killed leaves: it is locked, and files are missing that would be committed as
 * deleted. */
static void a_worktree_that_was_never_finished_is_made_anew(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("rm '%s/a' && d=$(git -C '%s' rev-parse --absolute-git-dir) && "
                   "echo initializing > $d/locked && touch $d/index.lock",
                   w.path, w.path));
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(answer("cat '%s/a'", w.path), "one");
    assert_string_equal(answer("git -C '%s' status --porcelain", w.path), "");
    /* One that was only registered, too. */
    assert_true(sh("d=$(git -C '%s' rev-parse --absolute-git-dir) && rm -r '%s' && "
                   "echo initializing > $d/locked",
                   w.path, w.path));
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(answer("cat '%s/a'", w.path), "one");
    worktree_release(&w);
}

/* The lock that git itself holds while it makes a worktree says what we look for. */
static void git_locks_a_worktree_while_it_makes_it(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    assert_true(
        sh("printf '#!/bin/sh\\ncat $(git rev-parse --absolute-git-dir)/locked > %s/seen\\n'"
           " > filter && chmod +x filter && cd repo && "
           "git config filter.f.smudge '%s/filter; cat' && echo 'a filter=f' > "
           ".git/info/attributes",
           root, root));
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(answer("cat seen"), "initializing");
    worktree_release(&w);
}

static void one_that_a_person_locked_is_used_as_it_is(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(
        sh("git -C repo worktree lock --reason mine '%s' && echo half > '%s/a'", w.path, w.path));
    steps_well(&w, WORKTREE_MAKE);
    assert_string_equal(answer("cat '%s/a'", w.path), "half");
    worktree_release(&w);
}

static void a_lock_of_a_git_that_was_killed_is_taken_away(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("touch $(git -C '%s' rev-parse --absolute-git-dir)/index.lock", w.path));
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("echo two > '%s/a'", w.path));
    steps_well(&w, WORKTREE_CHECK);
    worktree_release(&w);
}

static void what_is_in_the_way_is_left_alone(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    assert_true(sh("mkdir -p '%s' && echo mine > '%s/file'", w.path, w.path));
    assert_false(step(&w, WORKTREE_MAKE));
    assert_text_has("is no worktree of the repository");
    assert_string_equal(answer("cat '%s/file'", w.path), "mine");

    assert_true(sh("rm -r '%s' && git clone -q repo '%s'", w.path, w.path));
    assert_false(step(&w, WORKTREE_MAKE));
    assert_text_has("is no worktree of the repository");
    assert_int_equal(last_exit, -1);

    assert_true(sh("rm -rf '%s' && touch '%s'", w.path, w.path));
    assert_false(step(&w, WORKTREE_MAKE));
    assert_text_has("it is no directory");

    assert_true(sh("rm '%s' && git -C repo worktree add -q -b other '%s'", w.path, w.path));
    assert_false(step(&w, WORKTREE_MAKE));
    assert_text_has("has refs/heads/other checked out instead of the branch lazaret/run-1/x");
    worktree_release(&w);
}

static void a_branch_that_is_checked_out_elsewhere_is_refused_in_gits_words(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    assert_true(sh("git -C repo worktree add -q -b '%s' ../elsewhere", w.branch));
    assert_false(step(&w, WORKTREE_MAKE));
    assert_text_has("git worktree add: fatal: ");
    assert_text_has("is already checked out at");
    assert_int_equal(last_exit, 128);
    worktree_release(&w);
}

/* ---- checking -------------------------------------------------------------------------------- */

static void a_commit_is_required_when_that_is_wanted(void **state)
{
    (void)state;
    open_all(true);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("echo two > '%s/a'", w.path));
    assert_false(step(&w, WORKTREE_CHECK));
    assert_true(last.no_commit);
    assert_text_has("made no commit");
    assert_int_equal(last_exit, -1);
    assert_true(sh("git -C '%s' commit -qam two", w.path));
    steps_well(&w, WORKTREE_CHECK);
    assert_false(last.no_commit);
    worktree_release(&w);
}

static void what_is_left_beside_a_required_commit_is_not_lost(void **state)
{
    (void)state;
    open_all(true);
    assert_true(sh("git -C repo config status.showUntrackedFiles no"));
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("cd '%s' && echo two > a && git commit -qam two && echo rest > c", w.path));
    steps_well(&w, WORKTREE_CHECK);
    steps_well(&w, WORKTREE_MERGE);
    steps_well(&w, WORKTREE_REMOVE);
    assert_text_has("is kept: it has changes that were not committed");
    assert_string_equal(answer("cat '%s/c'", w.path), "rest");
    assert_string_equal(answer("cat repo/a"), "two");
    worktree_release(&w);
}

static void a_commit_that_a_hook_refuses_fails_in_its_words(void **state)
{
    (void)state;
    open_all(false);
    assert_true(sh("printf '#!/bin/sh\\necho no tabs, please >&2; exit 1\\n' > "
                   "repo/.git/hooks/pre-commit && chmod +x repo/.git/hooks/pre-commit"));
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("echo two > '%s/a'", w.path));
    assert_false(step(&w, WORKTREE_CHECK));
    assert_string_equal(last_text, "git commit: no tabs, please");
    assert_int_equal(last_exit, 1);
    assert_false(last.no_commit);
    worktree_release(&w);
}

static void a_command_that_left_the_branch_is_told(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("cd '%s' && git checkout -q --detach", w.path));
    assert_false(step(&w, WORKTREE_CHECK));
    assert_text_has("without the branch lazaret/run-1/x checked out");
    assert_true(sh("rm -rf '%s'", w.path));
    assert_false(step(&w, WORKTREE_CHECK));
    assert_text_has("git rev-parse: fatal: cannot change to");
    worktree_release(&w);
}

/* ---- merging --------------------------------------------------------------------------------- */

/* made_with makes a worktree with one commit, which a script prepared. */
static struct worktree made_with(const char *item, const char *script)
{
    struct worktree w = place(item);

    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("cd '%s' && %s", w.path, script));
    steps_well(&w, WORKTREE_CHECK);
    return w;
}

static void a_conflict_is_undone_and_its_files_are_named(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = made_with("x", "echo mine > a && echo mine > b && echo mine > 'n w'");
    struct worktree other = made_with("y", "echo other > c");
    assert_true(sh("cd repo && echo yours > a && echo yours > 'n w' && git add . && "
                   "git commit -qm yours"));
    char head[64];
    snprintf(head, sizeof(head), "%s", answer("git -C repo rev-parse HEAD"));

    assert_false(step(&w, WORKTREE_MERGE));
    assert_true(last.conflict);
    assert_string_equal(last_text, "merge conflict of lazaret/run-1/x in a, n w");
    assert_int_equal(last_exit, 1);
    assert_string_equal(answer("git -C repo rev-parse HEAD"), head);
    assert_string_equal(answer("git -C repo status --porcelain"), "");
    assert_true(exists(w.path));

    steps_well(&other, WORKTREE_MERGE);
    assert_string_equal(answer("cat repo/c repo/a"), "other\nyours");
    worktree_release(&w);
    worktree_release(&other);
}

static void local_changes_that_a_merge_would_lose_are_kept(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = made_with("x", "echo mine > a");
    assert_true(sh("echo unsaved > repo/a"));
    assert_false(step(&w, WORKTREE_MERGE));
    assert_false(last.conflict);
    assert_text_has("git merge: error: Your local changes to the following files would be "
                    "overwritten by merge: a");
    assert_string_equal(answer("cat repo/a"), "unsaved");
    assert_true(sh("cd repo && git checkout -q a && echo elsewhere > b"));
    steps_well(&w, WORKTREE_MERGE); /* changes that are not in the way do not matter */
    assert_string_equal(answer("cat repo/a repo/b"), "mine\nelsewhere");
    worktree_release(&w);
}

static void a_merge_that_a_person_has_begun_is_left_alone(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = made_with("x", "echo mine > a");
    assert_true(sh("cd repo && git switch -qc side && echo side > b && git commit -qam side && "
                   "git switch -q main && echo main > b && git commit -qam main && "
                   "! git merge -q side && echo half > b"));
    assert_false(step(&w, WORKTREE_MERGE));
    assert_false(last.conflict);
    assert_text_has("a merge is under way");
    assert_string_equal(
        answer("cat repo/b && git -C repo rev-parse -q --verify MERGE_HEAD >/dev/null"
               " && echo under way"),
        "half\nunder way");
    worktree_release(&w);
}

static void a_merge_of_ours_that_was_cut_off_is_undone_first(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = made_with("x", "echo mine > a");
    assert_true(
        sh("cd repo && git merge -q --no-ff --no-commit -m 'lazaret: merge x' '%s'", w.branch));
    assert_string_equal(answer("git -C repo rev-parse -q --verify MERGE_HEAD > /dev/null; echo $?"),
                        "0");
    steps_well(&w, WORKTREE_MERGE);
    assert_string_equal(answer("cat repo/a && git -C repo status --porcelain"), "mine");
    worktree_release(&w);
}

static void a_repository_that_lost_its_branch_is_not_merged_into(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = made_with("x", "echo mine > a");
    assert_true(sh("git -C repo checkout -q --detach"));
    assert_false(step(&w, WORKTREE_MERGE));
    assert_false(last.conflict);
    assert_text_has("no branch checked out");
    assert_string_equal(answer("cat repo/a"), "one");
    worktree_release(&w);
}

static void a_merge_that_a_hook_refuses_is_undone(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = made_with("x", "echo mine > a");
    assert_true(
        sh("printf '#!/bin/sh\\necho frozen >&2; exit 1\\n' > "
           "repo/.git/hooks/pre-merge-commit && chmod +x repo/.git/hooks/pre-merge-commit"));
    assert_false(step(&w, WORKTREE_MERGE));
    assert_false(last.conflict);
    assert_text_has("git merge: frozen");
    assert_string_equal(answer("cat repo/a && git -C repo status --porcelain"), "one");
    worktree_release(&w);
}

static void unlock(struct loop_timer *timer)
{
    (void)timer;
    assert_true(sh("rm repo/.git/index.lock"));
}

static void a_merge_waits_for_another_git(void **state)
{
    struct loop_timer timer = {.fire = unlock};
    (void)state;

    open_all(false);
    struct worktree w = made_with("x", "echo mine > a");
    assert_true(sh("touch repo/.git/index.lock"));
    assert_true(loop_timer_set(loop, &timer, span_ms(50)));
    steps_well(&w, WORKTREE_MERGE);
    assert_string_equal(last_text, "");
    assert_string_equal(answer("cat repo/a"), "mine");

    assert_true(sh("touch repo/.git/index.lock"));
    struct worktree y = made_with("y", "echo yours > b");
    assert_false(step(&y, WORKTREE_MERGE)); /* but not for ever */
    assert_text_has("another git is at work in");
    worktree_release(&w);
    worktree_release(&y);
}

/* ---- removing -------------------------------------------------------------------------------- */

static void a_branch_that_is_not_merged_is_kept(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = made_with("x", "echo mine > a");
    steps_well(&w, WORKTREE_REMOVE);
    assert_text_has("the branch lazaret/run-1/x is kept: git branch -d: error: ");
    assert_false(exists(w.path));
    assert_string_equal(answer("git -C repo show '%s:a'", w.branch), "mine");
    worktree_release(&w);
}

static void one_that_is_gone_already_is_removed_well(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("git -C repo worktree remove '%s'", w.path));
    steps_well(&w, WORKTREE_REMOVE);
    assert_string_equal(last_text, "");
    assert_string_equal(answer("git -C repo branch --format='%%(refname:short)'"), "main");
    worktree_release(&w);
}

static void one_that_is_locked_is_not_removed(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("git -C repo worktree lock --reason mine '%s'", w.path));
    assert_false(step(&w, WORKTREE_REMOVE));
    assert_text_has("git worktree remove: fatal: cannot remove a locked working tree");
    assert_true(exists(w.path));
    worktree_release(&w);
}

/* ---- looking --------------------------------------------------------------------------------- */

static void changes_are_told_by_file(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    steps_well(&w, WORKTREE_LOOK);
    assert_string_equal(last_text, "");
    assert_true(sh("cd '%s' && echo two > a && rm b && echo new > 'notes \"1\".txt' && mkdir d && "
                   "touch d/e && echo s > staged && git add staged",
                   w.path));
    steps_well(&w, WORKTREE_LOOK);
    assert_string_equal(last_text, "a modified, b deleted, staged added, d/ untracked, "
                                   "notes \"1\".txt untracked");
    assert_true(sh("rm -rf '%s'", w.path));
    assert_false(step(&w, WORKTREE_LOOK));
    assert_text_has("git status: fatal: cannot change to");
    worktree_release(&w);
}

static void many_changes_are_counted(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    steps_well(&w, WORKTREE_MAKE);
    assert_true(sh("cd '%s' && for i in $(seq 1000 1499); do echo > file-$i; done", w.path));
    steps_well(&w, WORKTREE_LOOK);
    assert_true(strncmp(last_text, "file-1000 untracked, file-1001 untracked, ", 42) == 0);
    assert_in_range(strlen(last_text), 3900, 4096);
    int named = 1, rest = 0;
    for (const char *at = last_text; (at = strstr(at, ", file-")); at++)
        named++;
    assert_int_equal(sscanf(strstr(last_text, ", and ") + 6, "%d more", &rest), 1);
    assert_int_equal(named + rest, 500);

    assert_true(sh("cd '%s' && for i in $(seq 10000 13999); do echo > file-$i; done", w.path));
    steps_well(&w, WORKTREE_LOOK);
    assert_in_range(strlen(last_text), 3900, 4096);
    assert_text_has(", and many more");
    worktree_release(&w);
}

static void the_letters_of_git_status_have_words(void **state)
{
    static const struct {
        struct slice status;
        bool whole;
        const char *words;
    } cases[] = {
        {SLICE(""), true, ""},
        {SLICE(" M a\0"), true, "a modified"},
        {SLICE("M  a\0MM b\0 T c\0"), true, "a modified, b modified, c modified"},
        {SLICE("A  a\0AM b\0"), true, "a added, b modified"},
        {SLICE("D  a\0 D b\0AD c\0"), true, "a deleted, b deleted, c deleted"},
        {SLICE("UU a\0AA b\0DD c\0DU d\0UA e\0"), true,
         "a in conflict, b in conflict, c in conflict, d in conflict, e in conflict"},
        {SLICE("?? a b\0"), true, "a b untracked"},
        {SLICE("?? a\0?? cut of"), false, "a untracked, and many more"},
        {SLICE("?? cut of"), false, "many files"},
        {SLICE("??\0\0x\0"), true, ""},
    };
    struct buf words;
    (void)state;

    buf_init(&words, 65536);
    for (size_t i = 0; i < COUNT(cases); i++) {
        buf_clear(&words);
        worktree_changes(cases[i].status, cases[i].whole, &words);
        assert_string_equal(buf_str(&words), cases[i].words);
    }
    char name[5000];
    memset(name, 'x', sizeof(name));
    memcpy(name, "?? ", 3);
    name[sizeof(name) - 1] = '\0';
    buf_clear(&words);
    worktree_changes((struct slice){name, sizeof(name)}, true, &words);
    assert_string_equal(buf_str(&words), "1 files with long names");
    buf_release(&words);
}

static void evidence_has_the_names_of_the_map_system(void **state)
{
    struct buf text;
    struct jsonw w;
    struct worktree worktree = {.path = "/w/x", .branch = "lazaret/r/x"};
    (void)state;

    buf_init(&text, 65536);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    worktree_print(&worktree, (struct slice){0}, (struct slice){0}, &w);
    jsonw_object_end(&w);
    assert_string_equal(buf_str(&text),
                        "{\"worktree_path\":\"/w/x\",\"branch_name\":\"lazaret/r/x\","
                        "\"uncommitted_changes\":null,\"error_logs\":null}");
    buf_clear(&text);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    worktree_print(&worktree, SLICE("a modified"), SLICE("boom\n"), &w);
    jsonw_object_end(&w);
    assert_string_equal(buf_str(&text),
                        "{\"worktree_path\":\"/w/x\",\"branch_name\":\"lazaret/r/x\","
                        "\"uncommitted_changes\":\"a modified\",\"error_logs\":\"boom\\n\"}");

    char logs[40000];
    memset(logs, 1, sizeof(logs));
    buf_clear(&text);
    jsonw_init(&w, &text);
    jsonw_object(&w);
    worktree_print(&worktree, (struct slice){0}, (struct slice){logs, sizeof(logs)}, &w);
    jsonw_object_end(&w);
    assert_in_range(text.len, 3000, 9000);
    buf_release(&text);
}

/* ---- the lane -------------------------------------------------------------------------------- */

static char order[64];
static int waiting;

static void note(void *ctx, const struct worktree_end *end)
{
    size_t len = strlen(order);

    assert_true(end->ok);
    snprintf(order + len, sizeof(order) - len, "%s", (const char *)ctx);
    if (--waiting == 0)
        loop_stop(loop);
}

static struct worktree *queue_next; /* what `note_and_queue` goes on with */
static char last_letter[] = "e";

static void note_and_queue(void *ctx, const struct worktree_end *end)
{
    waiting++;
    assert_true(worktree_do(queue_next, WORKTREE_MERGE, note, last_letter));
    note(ctx, end);
}

static void steps_are_done_in_their_order(void **state)
{
    static char letters[][2] = {"a", "b", "c", "d"};
    struct worktree w[2];
    (void)state;

    open_all(false);
    w[0] = place("x");
    w[1] = place("y");
    queue_next = &w[0];
    order[0] = '\0';
    waiting = 4;
    assert_true(worktree_do(&w[0], WORKTREE_MAKE, note_and_queue, letters[0]));
    assert_true(worktree_do(&w[1], WORKTREE_MAKE, note, letters[1]));
    assert_true(worktree_do(&w[0], WORKTREE_CHECK, note, letters[2]));
    assert_true(worktree_do(&w[1], WORKTREE_REMOVE, note, letters[3]));
    assert_string_equal(order, ""); /* nothing is told before the loop runs */
    loop_run(loop);
    assert_string_equal(order, "abcde");
    worktree_release(&w[0]);
    worktree_release(&w[1]);
}

static void nobody(void *ctx, const struct worktree_end *end)
{
    (void)ctx;
    (void)end;
    fail_msg("told of a step that was dropped");
}

static void close_all(struct loop_timer *timer)
{
    (void)timer;
    worktrees_close(all);
    all = NULL;
    loop_stop(loop);
}

static void steps_that_wait_are_dropped_when_all_is_closed(void **state)
{
    struct loop_timer timer = {.fire = close_all};
    (void)state;

    open_all(false);
    struct worktree w = place("x");
    for (int i = 0; i < 3; i++)
        assert_true(worktree_do(&w, WORKTREE_LOOK, nobody, NULL));
    assert_true(loop_timer_set(loop, &timer, (struct span){0}));
    /* The first git is under way then: its timer was set first. */
    loop_run(loop);
    worktree_release(&w);
}

static void close_in_done(void *ctx, const struct worktree_end *end)
{
    (void)ctx;
    assert_true(end->ok);
    close_all(NULL);
}

static void all_may_be_closed_when_a_step_is_done(void **state)
{
    (void)state;
    open_all(false);
    struct worktree w = place("x");
    assert_true(worktree_do(&w, WORKTREE_MAKE, close_in_done, NULL));
    assert_true(worktree_do(&w, WORKTREE_LOOK, nobody, NULL));
    loop_run(loop);
    worktree_release(&w);
}

/* ---- other runs ---------------------------------------------------------------------------------
 */

static int lock_fd; /* of another run */

static void let_go(struct loop_timer *timer)
{
    (void)timer;
    close(lock_fd);
    lock_fd = -1;
}

static void wait_for_other(void *ctx, const struct worktree_end *end)
{
    assert_int_equal(lock_fd, -1);
    step_done(ctx, end);
}

static void steps_wait_for_those_of_another_run(void **state)
{
    struct loop_timer timer = {.fire = let_go};
    char path[256];
    (void)state;

    open_all(false);
    struct worktree w = place("x");
    snprintf(path, sizeof(path), "%s/.git/lazaret.lock", repo);
    lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock_fd, LOCK_EX | LOCK_NB), 0);
    assert_true(worktree_do(&w, WORKTREE_MAKE, wait_for_other, NULL));
    assert_true(loop_timer_set(loop, &timer, span_ms(50)));
    loop_run(loop);
    assert_true(last.ok);
    worktree_release(&w);
}

/* be_cut_off is a runner that is killed while git checks a worktree out. */
static pid_t be_cut_off(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct worktree w = place("x");
        worktree_do(&w, WORKTREE_MAKE, nobody, NULL);
        loop_run(loop);
        _exit(1);
    }
    return pid;
}

static void finish_checkout(struct loop_timer *timer)
{
    (void)timer;
    assert_true(sh("echo > go"));
}

static void a_runner_that_is_killed_leaves_git_to_finish(void **state)
{
    struct loop_timer timer = {.fire = finish_checkout};
    char begun[128];
    (void)state;

    assert_true(sh("mkfifo go && cd repo && git config filter.f.smudge "
                   "'touch %s/begun; read line < %s/go; cat' && echo 'a filter=f' > "
                   ".git/info/attributes",
                   root, root));
    open_all(false);
    snprintf(begun, sizeof(begun), "%s/begun", root);
    pid_t pid = be_cut_off();
    while (!exists(begun))
        sched_yield();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    struct worktree w = place("x");
    assert_false(exists(answer("echo '%s/b'", w.path))); /* not all is checked out yet */
    assert_true(worktree_do(&w, WORKTREE_MAKE, step_done, NULL));
    assert_true(loop_timer_set(loop, &timer, span_ms(50)));
    loop_run(loop);
    if (!last.ok)
        fail_msg("%s", last_text);
    assert_string_equal(answer("cat '%s/a' '%s/b'", w.path, w.path), "one\none");
    assert_string_equal(answer("git -C '%s' status --porcelain", w.path), "");
    worktree_release(&w);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void no_memory_is_no_success(void **state)
{
    struct err err = {0};
    struct worktree w;
    enum status status = STATUS_NO_MEMORY;
    unsigned long n;
    (void)state;

    for (n = 1; status != STATUS_OK && n < 500; n += 1 + n / 8) {
        mem_fail_after(n);
        status = worktrees_open(loop, repo, data, SLICE("run-1"), false, &all, &err);
        mem_fail_after(0);
        assert_true(status == STATUS_OK || all == NULL);
    }
    assert_int_equal(status, STATUS_OK);
    mem_fail_after(1);
    assert_int_equal(worktree_init(all, SLICE("x"), &w, &err), STATUS_NO_MEMORY);
    mem_fail_after(0);
    w = place("x");
    mem_fail_after(1);
    assert_false(worktree_do(&w, WORKTREE_MAKE, step_done, NULL));
    mem_fail_after(0);
    assert_true(worktree_do(&w, WORKTREE_MAKE, step_done, NULL));
    mem_fail_after(1); /* the process of git */
    loop_run(loop);
    mem_fail_after(0);
    assert_false(last.ok);
    assert_string_equal(last_text, "out of memory");
    steps_well(&w, WORKTREE_MAKE);
    worktree_release(&w);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_item_is_made_checked_merged_and_removed),
        TEST(an_item_without_changes_is_merged_as_nothing),
        TEST(changes_that_come_to_nothing_are_not_committed),
        TEST(our_name_stands_in_where_none_is_configured),
        TEST(variables_that_point_elsewhere_do_not_count),
        TEST(relative_paths_are_meant_from_here),
        TEST(every_item_has_a_branch_of_its_own_that_git_accepts),
        TEST(runs_have_names_of_any_kind_too),
        TEST(an_item_in_a_commit_is_one_line),
        TEST(what_is_wrong_with_a_repository_is_said_at_once),
        TEST(a_missing_git_is_said_at_once),
        TEST(worktrees_do_not_lie_among_the_files_of_the_repository),
        TEST(a_worktree_may_have_worktrees_of_items),
        TEST(an_earlier_attempt_is_gone_on_with),
        TEST(a_branch_without_a_worktree_is_attached),
        TEST(a_worktree_whose_directory_is_gone_is_made_again),
        TEST(a_worktree_that_was_never_finished_is_made_anew),
        TEST(git_locks_a_worktree_while_it_makes_it),
        TEST(one_that_a_person_locked_is_used_as_it_is),
        TEST(a_lock_of_a_git_that_was_killed_is_taken_away),
        TEST(what_is_in_the_way_is_left_alone),
        TEST(a_branch_that_is_checked_out_elsewhere_is_refused_in_gits_words),
        TEST(a_commit_is_required_when_that_is_wanted),
        TEST(what_is_left_beside_a_required_commit_is_not_lost),
        TEST(a_commit_that_a_hook_refuses_fails_in_its_words),
        TEST(a_command_that_left_the_branch_is_told),
        TEST(a_conflict_is_undone_and_its_files_are_named),
        TEST(local_changes_that_a_merge_would_lose_are_kept),
        TEST(a_merge_that_a_person_has_begun_is_left_alone),
        TEST(a_merge_of_ours_that_was_cut_off_is_undone_first),
        TEST(a_repository_that_lost_its_branch_is_not_merged_into),
        TEST(a_merge_that_a_hook_refuses_is_undone),
        TEST(a_merge_waits_for_another_git),
        TEST(a_branch_that_is_not_merged_is_kept),
        TEST(one_that_is_gone_already_is_removed_well),
        TEST(one_that_is_locked_is_not_removed),
        TEST(changes_are_told_by_file),
        TEST(many_changes_are_counted),
        TEST(the_letters_of_git_status_have_words),
        TEST(evidence_has_the_names_of_the_map_system),
        TEST(steps_are_done_in_their_order),
        TEST(steps_that_wait_are_dropped_when_all_is_closed),
        TEST(all_may_be_closed_when_a_step_is_done),
        TEST(steps_wait_for_those_of_another_run),
        TEST(a_runner_that_is_killed_leaves_git_to_finish),
        TEST(no_memory_is_no_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
