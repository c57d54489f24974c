/* The sections `targets` and `deliveries` of a configuration, as what reads it gets them; tokens
 * and secrets.  What a mistake says is in tests/cli/test_config.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/config_targets.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* struct desk: a directory with a configuration and the files that it names. */
struct desk {
    char directory[32];
    struct arena arena;
    struct config config;
    struct err err;
};

static void write_file(const struct desk *desk, const char *name, struct slice text)
{
    char path[96];

    snprintf(path, sizeof path, "%s/%s", desk->directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.ptr, 1, text.len, file), text.len);
    assert_int_equal(fclose(file), 0);
}

/* desk_read reads a configuration in which @ stands for the directory. */
static enum status desk_read(struct desk *desk, const char *text)
{
    struct buf whole;
    char path[96];

    buf_init(&whole, 1 << 20);
    for (; *text; text++) {
        if (*text == '@')
            buf_add_str(&whole, desk->directory);
        else
            buf_add_char(&whole, *text);
    }
    write_file(desk, "lazaret.yml", buf_slice(&whole));
    buf_release(&whole);
    snprintf(path, sizeof path, "%s/lazaret.yml", desk->directory);
    config_init(&desk->config);
    return config_read(path, &desk->arena, &desk->config, &desk->err);
}

static void desk_must_read(struct desk *desk, const char *text)
{
    if (desk_read(desk, text) != STATUS_OK)
        fail_msg("%s", desk->err.text);
}

static int desk_open(void **state)
{
    static struct desk desk;

    desk = (struct desk){.directory = "/tmp/lazaret-config-XXXXXX"};
    assert_non_null(mkdtemp(desk.directory));
    *state = &desk;
    return 0;
}

static int desk_close(void **state)
{
    struct desk *desk = *state;
    char command[96];

    arena_release(&desk->arena);
    snprintf(command, sizeof command, "rm -r %s", desk->directory);
    return system(command);
}

static void a_target_has_what_its_keys_say(void **state)
{
    struct desk *desk = *state;

    desk_must_read(desk, "targets:\n"
                         "  gate:\n"
                         "    url: https://Gate.example/api\n"
                         "    kind: mcp\n"
                         "    tool: gate.done\n"
                         "    headers: {X-Team: a, X-Note: \"b: \\u00e9\"}\n"
                         "    policy: slow\n"
                         "    follow_redirects: true\n"
                         "    connect_seconds: 0.5\n"
                         "    request_seconds: 7\n"
                         "    parallel: 3\n"
                         "  hooks: {url: 'http://127.0.0.1:9000'}\n");
    assert_int_equal(desk->config.targets.count, 2);
    const struct target *gate = &desk->config.targets.list[0];
    assert_true(slice_is(gate->name, "gate"));
    assert_true(slice_is(gate->url, "https://gate.example:443/api/mcp"));
    assert_int_equal(gate->kind, DELIVERY_MCP);
    assert_true(slice_is(gate->tool, "gate.done"));
    assert_true(slice_is(gate->policy, "slow"));
    assert_int_equal(gate->header_count, 2);
    assert_true(slice_is(gate->headers[0], "X-Team: a"));
    assert_true(slice_is(gate->headers[1], "X-Note: b: \xc3\xa9"));
    assert_true(gate->redirects && gate->trusted);
    assert_int_equal(gate->connect.us, 500000);
    assert_int_equal(gate->whole.us, 7000000);
    assert_int_equal(gate->parallel, 3);
    const struct target *hooks = &desk->config.targets.list[1];
    assert_true(slice_is(hooks->name, "hooks"));
    assert_true(slice_is(hooks->url, "http://127.0.0.1:9000/"));
    assert_int_equal(hooks->kind, DELIVERY_HTTP);
    assert_true(hooks->trusted && !hooks->redirects);
    assert_true(hooks->tool.len == 0 && hooks->policy.len == 0 && hooks->header_count == 0);
    assert_true(hooks->connect.us == 0 && hooks->whole.us == 0 && hooks->parallel == 0);
}

static void a_target_that_says_no_times_has_those_of_deliveries(void **state)
{
    struct desk *desk = *state;

    /* Whichever of the two sections is first. */
    desk_must_read(desk, "targets:\n"
                         "  a: {url: 'http://a.example', connect_seconds: 1}\n"
                         "  b: {url: 'http://b.example', request_seconds: 2}\n"
                         "deliveries:\n"
                         "  parallel: 500\n"
                         "  parallel_per_host: 8\n"
                         "  connect_seconds: 3\n"
                         "  request_seconds: 4\n"
                         "  receipts_file: /var/lib/receipts.json\n");
    const struct target *list = desk->config.targets.list;
    assert_true(list[0].connect.us == 1000000 && list[0].whole.us == 4000000);
    assert_true(list[1].connect.us == 3000000 && list[1].whole.us == 2000000);
    assert_int_equal(desk->config.targets.connect.us, 3000000);
    assert_int_equal(desk->config.targets.whole.us, 4000000);
    assert_int_equal(desk->config.deliveries_connect.us, 3000000);
    assert_int_equal(desk->config.deliveries_request.us, 4000000);
    assert_int_equal(desk->config.deliveries_parallel, 500);
    assert_int_equal(desk->config.deliveries_per_host, 8);
    assert_string_equal(desk->config.receipts_file, "/var/lib/receipts.json");
}

static void the_allow_list_lets_through_what_it_names(void **state)
{
    struct desk *desk = *state;
    struct target target;

    desk_must_read(desk, "deliveries:\n  allow: ['*.example.org', '10.0.0.0/8', '[::1]:9000']\n");
    assert_int_equal(desk->config.targets.allow_count, 3);
    assert_int_equal(targets_resolve(&desk->config.targets, SLICE("http://a.example.org"),
                                     DELIVERY_HTTP, &desk->arena, &target, NULL),
                     STATUS_OK);
    assert_int_equal(targets_resolve(&desk->config.targets, SLICE("http://[::1]:9000"),
                                     DELIVERY_HTTP, &desk->arena, &target, NULL),
                     STATUS_OK);
    assert_int_equal(targets_resolve(&desk->config.targets, SLICE("http://[::1]:9001"),
                                     DELIVERY_HTTP, &desk->arena, &target, NULL),
                     STATUS_REFUSED);
}

static void nothing_said_lets_nothing_through(void **state)
{
    struct desk *desk = *state;

    desk_must_read(desk, "targets:\ndeliveries:\n");
    assert_int_equal(desk->config.targets.count, 0);
    assert_int_equal(desk->config.targets.allow_count, 0);
    assert_null(desk->config.receipts_file);
    assert_int_equal(config_targets_load(&desk->config, &desk->arena, &desk->err), STATUS_OK);
    desk_must_read(desk, "targets: {}\ndeliveries: {allow: }\n");
    desk_must_read(desk, "deliveries: {allow: []}\n");
    assert_int_equal(desk->config.targets.allow_count, 0);
    config_init(&desk->config);
    assert_int_equal(config_targets_load(&desk->config, &desk->arena, &desk->err), STATUS_OK);
}

static void tokens_and_secrets_are_read_when_they_are_needed(void **state)
{
    struct desk *desk = *state;

    desk_must_read(desk, "targets:\n"
                         "  a: {url: 'http://a.example', token_file: @/token, secret_file: @/key}\n"
                         "  b: {url: 'http://b.example', token_env: LAZARET_TEST_TOKEN,\n"
                         "      secret_env: LAZARET_TEST_SECRET}\n"
                         "  c: {url: 'http://c.example'}\n");
    assert_int_equal(desk->config.targets.list[0].token.len, 0);
    write_file(desk, "token", SLICE("tok-1\n"));
    write_file(desk, "key", SLICE("whsec_MDEyMzQ1Njc4OWFiY2RlZg==\r\n"));
    setenv("LAZARET_TEST_TOKEN", "tok-2", 1);
    setenv("LAZARET_TEST_SECRET", "a secret of some words", 1);
    const struct target *before = desk->config.targets.list;
    if (config_targets_load(&desk->config, &desk->arena, &desk->err) != STATUS_OK)
        fail_msg("%s", desk->err.text);
    const struct target *list = desk->config.targets.list;
    assert_ptr_not_equal(before, list);
    assert_true(slice_is(list[0].token, "tok-1"));
    assert_true(slice_is(list[0].secret, "0123456789abcdef"));
    assert_true(slice_is(list[0].url, "http://a.example:80/"));
    assert_true(slice_is(list[1].token, "tok-2"));
    assert_true(slice_is(list[1].secret, "a secret of some words"));
    assert_true(list[2].token.len == 0 && list[2].secret.len == 0);
}

static void a_single_target_needs_only_its_own_secrets(void **state)
{
    struct desk *desk = *state;
    struct target target = {.parallel = 7};

    desk_must_read(desk, "targets:\n"
                         "  a: {url: 'http://a.example', token_file: @/nonesuch}\n"
                         "  b: {url: 'http://b.example', token_file: @/token}\n");
    write_file(desk, "token", SLICE("tok-1"));
    assert_int_equal(
        config_target_load(&desk->config, SLICE("b"), &desk->arena, &target, &desk->err),
        STATUS_OK);
    assert_true(slice_is(target.token, "tok-1") && slice_is(target.name, "b") && target.trusted);
    target = (struct target){.parallel = 7};
    assert_int_equal(
        config_target_load(&desk->config, SLICE("a"), &desk->arena, &target, &desk->err),
        STATUS_INVALID);
    assert_int_equal(
        config_target_load(&desk->config, SLICE("c"), &desk->arena, &target, &desk->err),
        STATUS_NOT_FOUND);
    assert_non_null(strstr(desk->err.text, "a, b"));
    assert_int_equal(
        config_target_load(&desk->config, SLICE("http://h/"), &desk->arena, &target, &desk->err),
        STATUS_NOT_FOUND);
    assert_int_equal(target.parallel, 7);
}

static void a_token_or_secret_that_cannot_be_used_is_named_but_not_shown(void **state)
{
    static char long_line[8200];
    const struct {
        const char *key;
        struct slice content; /* ptr NULL: there is no file, no variable */
        const char *said;
    } cases[] = {
        {"token_file", {0}, "cannot read "},
        {"token_file", SLICE(""), "is empty"},
        {"token_file", SLICE("\n"), "is empty"},
        {"token_file", SLICE("\r\n"), "is empty"},
        {"token_file", SLICE("geheim\ngeheim\n"), "more than one line"},
        {"token_file", SLICE("geheim\n\n"), "more than one line"},
        {"token_file", SLICE("gehe im"), "visible ASCII"},
        {"token_file", SLICE(" geheim"), "visible ASCII"},
        {"token_file", SLICE("geheim\r\r\n"), "visible ASCII"},
        {"token_file", SLICE("geheim\0x"), "visible ASCII"},
        {"token_file", SLICE("geheim\xc3\xa9"), "visible ASCII"},
        {"token_file", {long_line, sizeof long_line}, "has more than 8192 bytes"},
        {"token_env", {0}, "is not set"},
        {"token_env", SLICE(""), "is empty"},
        {"token_env", SLICE("geheim\ngeheim"), "more than one line"},
        {"secret_file", {0}, "cannot read "},
        {"secret_file", SLICE(""), "is empty"},
        {"secret_file", SLICE("geheim\ngeheim geheim\n"), "more than one line"},
        {"secret_file", SLICE("geheim geheim\tgeheim"), "must not have control characters"},
        {"secret_file", SLICE("geheim"), "from 16 to 64 bytes"},
        {"secret_file", SLICE("whsec_geheim!geheimgeheim"), "no base64"},
        {"secret_env", {0}, "is not set"},
        {"secret_env", SLICE("geheim"), "from 16 to 64 bytes"},
    };
    struct desk *desk = *state;

    memset(long_line, 'q', sizeof long_line);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[160], key[48], file[96];
        bool is_file = strstr(cases[i].key, "_file");
        snprintf(text, sizeof text, "targets: {a: {url: 'http://a.example', %s: %s}}", cases[i].key,
                 is_file ? "@/of_target" : "LAZARET_TEST_OF_TARGET");
        snprintf(file, sizeof file, "%s/of_target", desk->directory);
        (void)unlink(file);
        unsetenv("LAZARET_TEST_OF_TARGET");
        if (is_file && cases[i].content.ptr)
            write_file(desk, "of_target", cases[i].content);
        else if (cases[i].content.ptr)
            setenv("LAZARET_TEST_OF_TARGET", cases[i].content.ptr, 1);
        desk_must_read(desk, text);
        const struct target *before = desk->config.targets.list;
        assert_int_equal(config_targets_load(&desk->config, &desk->arena, &desk->err),
                         STATUS_INVALID);
        snprintf(key, sizeof key, "lazaret.yml: targets.a.%s: ", cases[i].key);
        if (!strstr(desk->err.text, key) || !strstr(desk->err.text, cases[i].said))
            fail_msg("%s: %s", cases[i].key, desk->err.text);
        assert_null(strstr(desk->err.text, "geheim"));
        assert_null(strstr(desk->err.text, "qqq"));
        assert_null(strstr(desk->err.text, "LAZARET_TEST"));
        assert_ptr_equal(desk->config.targets.list, before);
    }
}

static void a_token_is_never_read_from_standard_input(void **state)
{
    struct desk *desk = *state;

    desk_must_read(desk, "targets: {a: {url: 'http://a.example', token_file: '-'}}");
    assert_int_equal(config_targets_load(&desk->config, &desk->arena, &desk->err), STATUS_INVALID);
    assert_non_null(strstr(desk->err.text, "targets.a.token_file: must be the name of a file"));
}

static void a_token_that_others_can_read_is_read(void **state)
{
    struct desk *desk = *state;
    char path[96];

    desk_must_read(desk, "targets: {a: {url: 'http://a.example', token_file: @/token}}");
    write_file(desk, "token", SLICE("tok"));
    snprintf(path, sizeof path, "%s/token", desk->directory);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(config_targets_load(&desk->config, &desk->arena, &desk->err), STATUS_OK);
}

static void a_configuration_with_a_mistake_leaves_everything_as_it_was(void **state)
{
    struct desk *desk = *state;
    struct config before;

    config_init(&before);
    assert_int_equal(desk_read(desk, "deliveries: {parallel: 5, allow: [h]}\n"
                                     "targets: {a: {url: 'http://a.example'}, b: {}}\n"),
                     STATUS_INVALID);
    assert_non_null(strstr(desk->err.text, "lazaret.yml: targets.b.url: is missing"));
    assert_memory_equal(&desk->config, &before, sizeof before);
}

#define WITH_DESK(test) cmocka_unit_test_setup_teardown(test, desk_open, desk_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DESK(a_target_has_what_its_keys_say),
        WITH_DESK(a_target_that_says_no_times_has_those_of_deliveries),
        WITH_DESK(the_allow_list_lets_through_what_it_names),
        WITH_DESK(nothing_said_lets_nothing_through),
        WITH_DESK(tokens_and_secrets_are_read_when_they_are_needed),
        WITH_DESK(a_single_target_needs_only_its_own_secrets),
        WITH_DESK(a_token_or_secret_that_cannot_be_used_is_named_but_not_shown),
        WITH_DESK(a_token_is_never_read_from_standard_input),
        WITH_DESK(a_token_that_others_can_read_is_read),
        WITH_DESK(a_configuration_with_a_mistake_leaves_everything_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
