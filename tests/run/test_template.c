/* Templates: what is a place, what it becomes, and that no value is ever more than the value: real
 * shells read back what is printed, and run the scripts that are made. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "run/template.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ARGS(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static struct arena arena; /* emptied after each test */

static int empty_arena(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static struct item value_item(const char *text)
{
    struct json json;
    struct item item;

    assert_int_equal(json_parse(slice_of(text), &json, NULL), STATUS_OK);
    assert_int_equal(item_from_value(json, &arena, &item, NULL), STATUS_OK);
    return item;
}

static struct item line_item(struct slice line)
{
    struct item item;

    assert_int_equal(item_from_line(line, &arena, &item, NULL), STATUS_OK);
    return item;
}

static const struct template *parsed(const char *const *args, size_t count)
{
    const struct template *template = NULL;

    assert_int_equal(template_parse(args, count, &arena, &template, NULL), STATUS_OK);
    return template;
}

static const struct template *parsed_one(const char *arg)
{
    return parsed(&arg, 1);
}

/* filled is what one argument becomes. */
static const char *filled(const char *arg, struct item item)
{
    char **argv = NULL;
    struct err err = {0};

    if (template_fill(parsed_one(arg), &item, &arena, &argv, &err) != STATUS_OK)
        fail_msg("%s: %s", arg, err.text);
    assert_null(argv[1]);
    return argv[0];
}

/* ---- places -----------------------------------------------------------------------------------
 */

static void braces_are_places_for_the_item_and_its_fields(void **state)
{
    static const char item[] = "{\"file\":\"a b.c\",\"n\":1.50,\"on\":true,\"no\":null,"
                               "\"list\":[ \"x\" , {\"y\":2} ],\"deep\":{\"er-1\":{\"_\":\"z\"}},"
                               "\"gr\\u00f6\\u00dfe\":3}";
    static const char *const cases[][2] = {
        {"{file}", "a b.c"},
        {"--file={file}", "--file=a b.c"},
        {"{file}{n}{file}", "a b.c1.50a b.c"},
        {"<{n}>", "<1.50>"},
        {"{on} {no}", "true null"},
        {"{list}", "[\"x\",{\"y\":2}]"},
        {"{list.0}", "x"},
        {"{list.1.y}", "2"},
        {"{deep.er-1._}", "z"},
        {"{gr\xC3\xB6\xC3\x9F"
         "e}",
         "3"},
        {"${item.file}", "a b.c"},
        {"${item.list.0}", "x"},
        {"{{file}}", "{a b.c}"},
        {"${}",
         "${\"file\":\"a b.c\",\"n\":1.50,\"on\":true,\"no\":null,\"list\":[\"x\",{\"y\":2}],"
         "\"deep\":{\"er-1\":{\"_\":\"z\"}},\"gr\\u00f6\\u00dfe\":3}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(filled(cases[i][0], value_item(item)), cases[i][1]);
    assert_string_equal(filled("{}", value_item("{ \"a\" : [ 1 ] }")), "{\"a\":[1]}");
    assert_string_equal(filled("${item}", value_item("[1, 2]")), "[1,2]");
    assert_string_equal(filled("{}", value_item("\"a\\n\\u00e9\"")), "a\n\xC3\xA9");
    assert_string_equal(filled("${item.0}-${item.1}", value_item("[1,2]")), "1-2");
    assert_string_equal(filled("--file={}", line_item(SLICE("a b \xFF"))), "--file=a b \xFF");
    assert_string_equal(filled("{}", line_item(SLICE(""))), "");
}

static void other_braces_stay_as_they_are(void **state)
{
    static const char *const cases[] = {
        "{print $1}", "{ }",        "{a,b}",      "{a b}",   "{a.}",   "{.a}",     "{a..b}",
        "{.}",        "{1..3}",     "{",          "}",       "}{",     "{a",       "a}",
        "{a.b",       "",           "{\xFF}",     "${HOME}", "${a.b}", "${items}", "${item",
        "${item.}",   "${item.a.}", "${item:-x}", "$",       "$$",     "$HOME",    "$(date)",
        "{a:b}",      "{%s}",       "${#item}",   "a{3}",    "{0}",    "{2.a}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(filled(cases[i], value_item("{\"a\":1}")), cases[i]);
}

static void no_argument_becomes_two_and_none_is_lost(void **state)
{
    const char *const *args = ARGS("{}", "--", "{}", "", "x{}y");
    struct item item = line_item(SLICE("-rf /; $(reboot) 'a' \"b\"\n"));
    char **argv;

    (void)state;
    assert_int_equal(template_fill(parsed(args, 5), &item, &arena, &argv, NULL), STATUS_OK);
    assert_string_equal(argv[0], "-rf /; $(reboot) 'a' \"b\"\n");
    assert_string_equal(argv[1], "--");
    assert_string_equal(argv[2], argv[0]);
    assert_string_equal(argv[3], "");
    assert_string_equal(argv[4], "x-rf /; $(reboot) 'a' \"b\"\ny");
    assert_null(argv[5]);
}

static void what_cannot_be_filled_says_why_and_what_to_do(void **state)
{
    static const struct {
        const char *arg;
        const char *item;
        const char *sentence;
    } cases[] = {
        {"{name}", "\"a line\"", "the item has no field \"name\": it is a string"},
        {"{name}", "{\"a\":1}", "the item has no field \"name\""},
        {"x{a.b}", "{\"a\":1}", "the item has no field \"a.b\""},
        {"${item.3}", "[1]", "the item has no field \"3\""},
        {"{a}", "5", "the item has no field \"a\": it is a number"},
        {"{item.a}", "{\"a\":1}", "the item has no field \"item\": write {a}, or ${item.a}"},
        {"{item.b}", "{\"a\":1}", "the item has no field \"item.b\""},
        {"{}", "\"a\\u0000b\"",
         "{} holds a NUL byte, which no argument can: let the command read $LAZARET_ITEM_FILE"},
        {"-f{x}", "{\"x\":\"\\u0000\"}",
         "{x} holds a NUL byte, which no argument can: let the command read $LAZARET_ITEM_FILE"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct item item = value_item(cases[i].item);
        struct err err = {0};
        char **argv = NULL;
        assert_int_equal(template_fill(parsed_one(cases[i].arg), &item, &arena, &argv, &err),
                         STATUS_INVALID);
        assert_string_equal(err.text, cases[i].sentence);
        assert_null(argv);
    }
    struct err err = {0};
    const struct template *none = NULL;
    assert_int_equal(template_parse(NULL, 0, &arena, &none, &err), STATUS_INVALID);
    assert_string_equal(err.text, "there is no command: give one to run for each item");
    assert_null(none);
}

static void an_argument_has_a_greatest_length(void **state)
{
    char *text = mem_zalloc(ARGUMENT_MAX + 2), **argv = NULL;
    struct err err = {0};

    (void)state;
    memset(text, 'x', ARGUMENT_MAX + 1);
    struct item fits = line_item((struct slice){text, ARGUMENT_MAX});
    assert_int_equal(template_fill(parsed_one("{}"), &fits, &arena, &argv, &err), STATUS_OK);
    assert_int_equal(strlen(argv[0]), ARGUMENT_MAX);

    assert_int_equal(template_fill(parsed_one("-{}"), &fits, &arena, &argv, &err), STATUS_INVALID);
    assert_string_equal(err.text,
                        "the argument -{} gets 131072 bytes, and one may have 131071: let "
                        "the command read $LAZARET_ITEM_FILE");
    assert_int_equal(template_fill(parsed_one(text), &fits, &arena, &argv, &err), STATUS_INVALID);

    /* It is what Linux says. */
    char *const fitting[] = {(char[]){"true"}, text, NULL};
    for (int over = 0; over < 2; over++) {
        text[ARGUMENT_MAX + over] = '\0';
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            execvp("true", fitting);
            _exit(99);
        }
        int ended;
        assert_int_equal(waitpid(pid, &ended, 0), pid);
        assert_int_equal(WEXITSTATUS(ended), over ? 99 : 0);
        text[ARGUMENT_MAX] = 'x';
    }
    mem_free(text);
}

/* ---- printing ---------------------------------------------------------------------------------
 */

static void a_template_is_printed_as_a_person_types_it(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    template_print(parsed(ARGS("cp", "--", "{}", "--to={dir.name}", "a b{}", "${item}",
                               "{print}x y", "it's", "", "{a,b}"),
                          10),
                   &out);
    assert_string_equal(buf_str(&out), "cp -- {} --to={dir.name} 'a b{}' '${item}' '{print}x y' "
                                       "\"it's\" '' '{a,b}'");
    buf_release(&out);
}

static void only_what_needs_quotes_gets_them(void **state)
{
    static const char *const cases[][2] = {
        {"abc", "abc"},
        {"a-b_c.d/e:f,g@h%i+j", "a-b_c.d/e:f,g@h%i+j"},
        {"--x=y", "--x=y"},
        {"=x", "'=x'"},
        {"", "''"},
        {"a b", "'a b'"},
        {"$x", "'$x'"},
        {"~", "'~'"},
        {"*", "'*'"},
        {"#a", "'#a'"},
        {"it's", "\"it's\""},
        {"it's $x", "'it'\\''s $x'"},
        {"\"", "'\"'"},
        {"'\"", "''\\''\"'"},
        {"{}", "'{}'"},
        {"a\nb", "'a\nb'"},
        {"\xC3\xA9", "'\xC3\xA9'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *argv[] = {(char[]){"x"}, mem_strdup(cases[i][0]), NULL};
        struct buf out;
        buf_init(&out, 4096);
        command_print(argv, &out);
        assert_string_equal(buf_str(&out) + 2, cases[i][1]);
        buf_release(&out);
        mem_free(argv[1]);
    }
}

/* run_sh runs a script with `shell -c` and appends what it writes, whatever bytes these are.  `env`
 * may be NULL. */
static int run_sh(const char *shell, const char *script, char *const *env, struct buf *out)
{
    int fds[2], ended;
    char chunk[4096];
    ssize_t got;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *const none[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
        dup2(fds[1], STDOUT_FILENO);
        execle(shell, "sh", "-c", script, (char *)NULL, env ? env : none);
        _exit(127);
    }
    close(fds[1]);
    while ((got = read(fds[0], chunk, sizeof(chunk))) > 0)
        buf_add(out, chunk, (size_t)got);
    close(fds[0]);
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
}

static const char *const nasty[] = {
    "",
    " ",
    "a b",
    "-rf",
    "--",
    "-n",
    "'",
    "''",
    "\"",
    "it's",
    "'\"'\"'",
    "$(touch pwned)",
    "`touch pwned`",
    "$HOME",
    "${HOME}",
    "\\",
    "\\\\",
    "\\'",
    "\\n",
    "a\nb",
    "\n",
    "\n\n",
    "a\n",
    "\ta\r",
    "*",
    "?",
    "[a-z]*",
    "~",
    "~root",
    "#x",
    "a#b",
    "; touch pwned",
    "\"; touch pwned; \"",
    "'; touch pwned; '",
    "&& touch pwned",
    "| touch pwned",
    "> pwned",
    "<(touch pwned)",
    "a=b",
    "{a,b}",
    "{}",
    "!x",
    "!",
    "it's!",
    "%s%n",
    "\xFF\xFE\x80",
    "\xC3",
    "caf\xC3\xA9",
    "\x01\x1B[31m\x7F",
    "$'a'",
    "((1))",
    "if",
    "a[$(touch pwned)]",
};

static const char *const shells[] = {"/bin/sh", "/bin/bash"};

/* In an empty directory nothing may appear. */
static char directory[] = "/tmp/lazaret-template-XXXXXX";

static int enter_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int leave_directory(void **state)
{
    (void)state;
    return chdir("/") == 0 && rmdir(directory) == 0 ? 0 : -1; /* it is still empty */
}

static void a_shell_reads_back_the_same_arguments(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shells); s++) {
        if (access(shells[s], X_OK) != 0)
            continue;
        for (size_t i = 0; i < COUNT(nasty); i++) {
            char *argv[] = {(char[]){"printf"}, (char[]){"%s|"}, mem_strdup(nasty[i]),
                            mem_strdup(nasty[COUNT(nasty) - 1 - i]), NULL};
            struct buf command, out, wanted;
            buf_init(&command, 4096);
            buf_init(&out, 4096);
            buf_init(&wanted, 4096);
            command_print(argv, &command);
            buf_addf(&wanted, "%s|%s|", argv[2], argv[3]);
            assert_int_equal(run_sh(shells[s], buf_str(&command), NULL, &out), 0);
            assert_string_equal(buf_str(&out), buf_str(&wanted));
            buf_release(&command);
            buf_release(&out);
            buf_release(&wanted);
            mem_free(argv[2]);
            mem_free(argv[3]);
        }
    }
    assert_int_not_equal(access("pwned", F_OK), 0);
}

/* A command's name is a name, though the shell may have a word or an assignment like it. */
static void a_shell_takes_the_first_argument_for_a_command(void **state)
{
    static const char *const names[] = {"if", "while", "{", "!", "a=b", "case", "time", "x y"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        char *argv[] = {mem_strdup(names[i]), (char[]){"a"}, NULL};
        struct buf command, out;
        buf_init(&command, 4096);
        buf_init(&out, 4096);
        command_print(argv, &command);
        buf_add_str(&command, " 2>/dev/null");
        assert_int_equal(run_sh("/bin/sh", buf_str(&command), NULL, &out), 127);
        buf_release(&command);
        buf_release(&out);
        mem_free(argv[0]);
    }
}

/* ---- splitting --------------------------------------------------------------------------------
 */

static void a_plain_line_is_split_as_a_shell_would(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"  \t\n ", ""},
        {"a", "a|"},
        {" a  b\tc\n", "a|b|c|"},
        {"'a b' c", "a b|c|"},
        {"\"a b\" c", "a b|c|"},
        {"a'b'\"c\"d", "abcd|"},
        {"'' \"\"", "||"},
        {"a\\ b", "a b|"},
        {"\\'a\\\"", "'a\"|"},
        {"'a\\b' \"a\\b\" a\\b", "a\\b|a\\b|ab|"},
        {"\"\\\"\\\\\\$\\`\"", "\"\\$`|"},
        {"'$(a) `b` | & ; < >'", "$(a) `b` | & ; < >|"},
        {"\"| & ; < >\"", "| & ; < >|"},
        {"a\\|b \\$\\(c", "a|b|$(c|"},
        {"awk '{print $1}' {}", "awk|{print $1}|{}|"},
        {"cp {} ${item.dir}/x", "cp|{}|${item.dir}/x|"},
        {"a # b", "a|#|b|"},
        {"caf\xC3\xA9 \xFF", "caf\xC3\xA9|\xFF|"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char **args;
        size_t count;
        struct buf out;
        struct err err = {0};
        buf_init(&out, 4096);
        if (command_split(slice_of(cases[i][0]), &arena, &args, &count, &err) != STATUS_OK)
            fail_msg("%s: %s", cases[i][0], err.text);
        for (size_t k = 0; k < count; k++)
            buf_addf(&out, "%s|", args[k]);
        assert_null(args[count]);
        assert_string_equal(buf_str(&out), cases[i][1]);
        buf_release(&out);
    }
}

static void what_only_a_shell_can_do_is_refused_with_its_column(void **state)
{
    static const char shell[] =
        "only a shell can do this: write it as `shell:`, or put it in single quotes";
    static const struct {
        const char *line;
        int column;
        const char *what;
    } cases[] = {
        {"a | b", 3, shell},
        {"a && b", 3, shell},
        {"a; b", 2, shell},
        {"a >b", 3, shell},
        {"a <b", 3, shell},
        {"a `b`", 3, shell},
        {"a $(b)", 3, shell},
        {"a \"$(b)\"", 4, shell},
        {"a \"`b`\"", 4, shell},
        {"\xC3\xA9 a|b", 4, shell},
        {"a 'b", 3, "this quote does not end"},
        {"a \"b", 3, "this quote does not end"},
        {"a \"b\\\"", 3, "this quote does not end"},
        {"a \"b\\", 3, "this quote does not end"},
        {"a \\", 3, "nothing follows this backslash"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char **args = NULL;
        size_t count = 0;
        struct err err = {0};
        char wanted[200];
        snprintf(wanted, sizeof(wanted), "column %d: %s", cases[i].column, cases[i].what);
        assert_int_equal(command_split(slice_of(cases[i].line), &arena, &args, &count, &err),
                         STATUS_INVALID);
        assert_string_equal(err.text, wanted);
        assert_null(args);
    }
    const char **args = NULL;
    size_t count;
    struct err err = {0};
    assert_int_equal(command_split(SLICE("a\0b"), &arena, &args, &count, &err), STATUS_INVALID);
    assert_string_equal(err.text, "column 2: a NUL byte may not stand in a command");
}

/* ---- scripts ----------------------------------------------------------------------------------
 */

static const char *const roots[] = {"item", "map", NULL};

static struct script script_of(const char *text)
{
    struct script script;
    struct err err = {0};

    if (script_parse(slice_of(text), roots, &arena, &script, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return script;
}

static void a_place_becomes_a_reference_in_quotes(void **state)
{
    static const char *const cases[][2] = {
        {"echo hello", "echo hello"},
        {"echo ${item}", "echo \"${LAZARET_P1}\""},
        {"echo ${item.a.0.b-c}", "echo \"${LAZARET_P1}\""},
        {"echo \"${item}\"", "echo \"${LAZARET_P1}\""},
        {"echo \"a ${item} 'b' ${item}\"", "echo \"a ${LAZARET_P1} 'b' ${LAZARET_P1}\""},
        {"echo ${item} ${map.total} ${item}",
         "echo \"${LAZARET_P1}\" \"${LAZARET_P2}\" \"${LAZARET_P1}\""},
        {"x=${item}.c", "x=\"${LAZARET_P1}\".c"},
        {"echo ${HOME} $item ${items} ${item_x} ${#item}",
         "echo ${HOME} $item ${items} ${item_x} ${#item}"},
        {"echo \\${item}", "echo \\${item}"},
        {"echo \"\\${item}\"", "echo \"\\${item}\""},
        {"echo \\\\${item}", "echo \\\\\"${LAZARET_P1}\""},
        {"echo $${item}", "echo $${item}"},
        {"echo $$${item}", "echo $$\"${LAZARET_P1}\""},
        {"echo 'a' ${item} 'b'", "echo 'a' \"${LAZARET_P1}\" 'b'"},
        {"echo \"'\" ${item} \"'\"", "echo \"'\" \"${LAZARET_P1}\" \"'\""},
        {"echo '\"' ${item} '\"'", "echo '\"' \"${LAZARET_P1}\" '\"'"},
        {"echo \\' ${item}", "echo \\' \"${LAZARET_P1}\""},
        {"# don't\necho ${item}", "# don't\necho \"${LAZARET_P1}\""},
        {"a # '${item}' ${item:-x}\n", "a # '\"${LAZARET_P1}\"' ${item:-x}\n"},
        {"echo a#'b' ${item}", "echo a#'b' \"${LAZARET_P1}\""},
        {"echo ${x#y} ${#x} $# ${item}", "echo ${x#y} ${#x} $# \"${LAZARET_P1}\""},
        {"\"$(basename ${item})\"", "\"$(basename \"${LAZARET_P1}\")\""},
        {"\"$(a \"${item}\" (b) ${item}) ${item}\"",
         "\"$(a \"${LAZARET_P1}\" (b) \"${LAZARET_P1}\") ${LAZARET_P1}\""},
        {"\"`a ${item}` ${item}\"", "\"`a \"${LAZARET_P1}\"` ${LAZARET_P1}\""},
        {"`a ${item}` ${item}", "`a \"${LAZARET_P1}\"` \"${LAZARET_P1}\""},
        {"echo $((${map.total} - (1 << 2))) ${item}",
         "echo $((${LAZARET_P1} - (1 << 2))) \"${LAZARET_P2}\""},
        {"\"$((1 + ${map.total}))${item}\"", "\"$((1 + ${LAZARET_P1}))${LAZARET_P2}\""},
        {"cat <<EOF\nit's ${item}\nEOF\n${item}",
         "cat <<EOF\nit's ${LAZARET_P1}\nEOF\n\"${LAZARET_P1}\""},
        {"cat <<-EOF a\n\t$(b ${item}) \\${item}\n\tEOF\n'x'",
         "cat <<-EOF a\n\t$(b \"${LAZARET_P1}\") \\${item}\n\tEOF\n'x'"},
        {"cat <<A <<'B'\n'\nA\n'\nB\n${item}", "cat <<A <<'B'\n'\nA\n'\nB\n\"${LAZARET_P1}\""},
        {"cat <<\"E F\"\n'\nE F\n${item}", "cat <<\"E F\"\n'\nE F\n\"${LAZARET_P1}\""},
        {"cat <<<${item} 'a'", "cat <<<\"${LAZARET_P1}\" 'a'"},
        {"${x:-${item}} \"${x:-${item}}\"", "${x:-\"${LAZARET_P1}\"} \"${x:-${LAZARET_P1}}\""},
        {"echo 'open", "echo 'open"},
        {"echo \\", "echo \\"},
        {"cat <<", "cat <<"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(script_of(cases[i][0]).text, cases[i][1]);
}

static void the_same_place_has_the_same_variable(void **state)
{
    struct script script = script_of("a ${item.x} ${map.total} ${item.x} ${item}");

    (void)state;
    assert_int_equal(script.place_count, 3);
    assert_string_equal(script.places[0].variable, "LAZARET_P1");
    assert_true(slice_is(script.places[0].name, "item.x"));
    assert_string_equal(script.places[1].variable, "LAZARET_P2");
    assert_true(slice_is(script.places[1].name, "map.total"));
    assert_string_equal(script.places[2].variable, "LAZARET_P3");
    assert_true(slice_is(script.places[2].name, "item"));
}

static void a_place_where_nothing_can_be_put_in_is_refused(void **state)
{
    static const char *const cases[][2] = {
        {"echo '${item}'",
         "column 7: a shell puts nothing in inside of single quotes: use double quotes"},
        {"echo '\xC3\xA9 ${item.x} \"'",
         "column 9: a shell puts nothing in inside of single quotes: use double quotes"},
        {"a\necho \"$(b '${map.total}')\"",
         "line 2, column 12: a shell puts nothing in inside of single quotes: use double quotes"},
        {"cat <<'EOF'\n${item}\nEOF",
         "line 2, column 1: a shell puts nothing in inside of this here-document: write its end "
         "without quotes"},
        {"cat <<\\EOF\n${item}\nEOF",
         "line 2, column 1: a shell puts nothing in inside of this here-document: write its end "
         "without quotes"},
        {"echo $((${item.n} + 1))",
         "column 9: a shell may run what is in an item inside of $(( )): check it and calculate in "
         "another way"},
        {"echo ${item:-x}", "column 6: only ${name} and ${name.path} can be put in: put it in a "
                            "variable of the script first"},
        {"echo ${item-x}", "column 6: only ${name} and ${name.path} can be put in: put it in a "
                           "variable of the script first"},
        {"echo ${item%.c}", "column 6: only ${name} and ${name.path} can be put in: put it in a "
                            "variable of the script first"},
        {"echo ${item.}", "column 6: only ${name} and ${name.path} can be put in: put it in a "
                          "variable of the script first"},
        {"echo ${item", "column 6: only ${name} and ${name.path} can be put in: put it in a "
                        "variable of the script first"},
        {"<<a <<a <<a <<a <<a <<a <<a <<a <<a", "column 33: too many here-documents on one line"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct script script = {.text = "untouched"};
        struct err err = {0};
        if (script_parse(slice_of(cases[i][0]), roots, &arena, &script, &err) != STATUS_INVALID)
            fail_msg("%s is not refused: %s", cases[i][0], script.text);
        assert_string_equal(err.text, cases[i][1]);
        assert_string_equal(script.text, "untouched");
    }
}

static void scripts_are_bounded(void **state)
{
    struct script script = {0};
    struct err err = {0};
    struct buf text;

    (void)state;
    assert_int_equal(script_parse(SLICE("a\0b"), roots, &arena, &script, &err), STATUS_INVALID);
    assert_string_equal(err.text, "column 2: a NUL byte may not stand in a script");
    buf_init(&text, 4 << 20);
    for (int i = 0; i < 64; i++)
        buf_add_str(&text, "$(");
    assert_int_equal(script_parse(buf_slice(&text), roots, &arena, &script, &err), STATUS_INVALID);
    assert_string_equal(err.text, "column 127: quotes and parentheses are nested too deep");
    buf_clear(&text);
    for (int i = 0; i < 257; i++)
        buf_addf(&text, "${item.%d}", i);
    assert_int_equal(script_parse(buf_slice(&text), roots, &arena, &script, &err), STATUS_INVALID);
    buf_clear(&text);
    while (text.len <= 1 << 20)
        buf_add_str(&text, "<<x\nx\n");
    text.len = 1 << 20;
    assert_int_equal(script_parse(buf_slice(&text), roots, &arena, &script, &err), STATUS_OK);
    assert_true(arena.used < 16 << 20);
    text.len++;
    assert_int_equal(script_parse(buf_slice(&text), roots, &arena, &script, &err), STATUS_INVALID);
    assert_string_equal(err.text, "a script may have 1048576 bytes: this one has 1048577");
    buf_release(&text);
}

/* Each of these must write the value and nothing else, as one argument. */
static const char *const carriers[] = {
    "printf '%s' ${item}",
    "printf '%s' \"${item}\"",
    "printf '%s' \"\"${item}''",
    "x=${item}; printf '%s' \"$x\"",
    "f() { printf '%s' \"$1\"; }; f ${item}",
    "x=\"$(printf '%s.' ${item})\"; printf '%s' \"${x%.}\"",
    "x=`printf '%s.' ${item}`; printf '%s' \"${x%.}\"",
    "case ${item} in ${item}) printf '%s' \"${item}\";; esac",
    "if [ ${item} = ${item} ]; then printf '%s' ${item}; fi",
    "for x in ${item}; do printf '%s' \"$x\"; done # it's ${item}",
    "printf '%s' \"${unset:-${item}}\"",
    "(printf '%s' ${item})",
    "set -- ${item}; [ $# = 1 ] && printf '%s' \"$1\"",
};

static void no_value_is_ever_read_as_code(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shells); s++) {
        if (access(shells[s], X_OK) != 0)
            continue;
        for (size_t c = 0; c < COUNT(carriers); c++) {
            struct script script = script_of(carriers[c]);
            for (size_t i = 0; i < COUNT(nasty); i++) {
                char *env[] = {mem_alloc(256), (char[]){"PATH=/usr/bin:/bin"}, NULL};
                struct buf out;
                snprintf(env[0], 256, "LAZARET_P1=%s", nasty[i]);
                buf_init(&out, 4096);
                if (run_sh(shells[s], script.text, env, &out) != 0)
                    fail_msg("%s fails with \"%s\"", carriers[c], nasty[i]);
                if (strcmp(buf_str(&out), nasty[i]) != 0)
                    fail_msg("%s: \"%s\" arrives as \"%s\"", carriers[c], nasty[i], buf_str(&out));
                buf_release(&out);
                mem_free(env[0]);
            }
        }
    }
    assert_int_not_equal(access("pwned", F_OK), 0);
}

static void a_here_document_has_the_value_in_it(void **state)
{
    struct script script = script_of("cat <<EOF\nit's <${item}> \"$(printf %s ${item})\"\nEOF\n");

    (void)state;
    for (size_t s = 0; s < COUNT(shells); s++) {
        for (size_t i = 0; i < COUNT(nasty) && access(shells[s], X_OK) == 0; i++) {
            char *env[] = {mem_alloc(256), (char[]){"PATH=/usr/bin:/bin"}, NULL};
            struct buf out, wanted;
            size_t len = strlen(nasty[i]);
            while (len > 0 && nasty[i][len - 1] == '\n')
                len--;
            buf_init(&out, 4096);
            buf_init(&wanted, 4096);
            snprintf(env[0], 256, "LAZARET_P1=%s", nasty[i]);
            buf_addf(&wanted, "it's <%s> \"%.*s\"\n", nasty[i], (int)len, nasty[i]);
            assert_int_equal(run_sh(shells[s], script.text, env, &out), 0);
            assert_string_equal(buf_str(&out), buf_str(&wanted));
            buf_release(&out);
            buf_release(&wanted);
            mem_free(env[0]);
        }
    }
    assert_int_not_equal(access("pwned", F_OK), 0);
}

static void every_failed_allocation_is_reported(void **state)
{
    struct item item = value_item("{\"a\":[1, \"\\n\"]}");
    enum status status = STATUS_NO_MEMORY;
    unsigned long n = 0;

    (void)state;
    while (status != STATUS_OK) {
        struct arena fresh = {0};
        const struct template *template = NULL;
        const char **args = NULL;
        struct script script;
        struct err err = {0};
        char **argv;
        size_t count = 0;
        mem_fail_after(++n);
        status = command_split(SLICE("a 'b c' {a} {a.1}"), &fresh, &args, &count, &err);
        if (status == STATUS_OK)
            status = template_parse(args, count, &fresh, &template, &err);
        if (status == STATUS_OK)
            status = template_fill(template, &item, &fresh, &argv, &err);
        if (status == STATUS_OK)
            status = script_parse(SLICE("cat <<a ${item}\na\n"), roots, &fresh, &script, &err);
        mem_fail_after(0);
        arena_release(&fresh);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
    }
    assert_true(n > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(braces_are_places_for_the_item_and_its_fields, empty_arena),
        cmocka_unit_test_teardown(other_braces_stay_as_they_are, empty_arena),
        cmocka_unit_test_teardown(no_argument_becomes_two_and_none_is_lost, empty_arena),
        cmocka_unit_test_teardown(what_cannot_be_filled_says_why_and_what_to_do, empty_arena),
        cmocka_unit_test_teardown(an_argument_has_a_greatest_length, empty_arena),
        cmocka_unit_test_teardown(a_template_is_printed_as_a_person_types_it, empty_arena),
        cmocka_unit_test_teardown(only_what_needs_quotes_gets_them, empty_arena),
        cmocka_unit_test_teardown(a_shell_reads_back_the_same_arguments, empty_arena),
        cmocka_unit_test_teardown(a_shell_takes_the_first_argument_for_a_command, empty_arena),
        cmocka_unit_test_teardown(a_plain_line_is_split_as_a_shell_would, empty_arena),
        cmocka_unit_test_teardown(what_only_a_shell_can_do_is_refused_with_its_column, empty_arena),
        cmocka_unit_test_teardown(a_place_becomes_a_reference_in_quotes, empty_arena),
        cmocka_unit_test_teardown(the_same_place_has_the_same_variable, empty_arena),
        cmocka_unit_test_teardown(a_place_where_nothing_can_be_put_in_is_refused, empty_arena),
        cmocka_unit_test_teardown(scripts_are_bounded, empty_arena),
        cmocka_unit_test_teardown(no_value_is_ever_read_as_code, empty_arena),
        cmocka_unit_test_teardown(a_here_document_has_the_value_in_it, empty_arena),
        cmocka_unit_test_teardown(every_failed_allocation_is_reported, empty_arena),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
