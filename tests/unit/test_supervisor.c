/* test_supervisor: both protocols, spoken with real sockets.  A process that is passed a socket is
 * this program itself, started again with "--passed". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/supervisor.h"
#include "base/log.h"

static int warnings;

static void count_warnings(enum log_level level, const char *line, void *ctx)
{
    (void)line;
    (void)ctx;
    warnings += level <= LOG_WARN;
}

static int heed_warnings(void **state)
{
    (void)state;
    warnings = 0;
    log_set(LOG_WARN, count_warnings, NULL);
    return 0;
}

static int ignore_warnings(void **state)
{
    (void)state;
    log_set(LOG_INFO, NULL, NULL);
    unsetenv("NOTIFY_SOCKET");
    return 0;
}

/* listen_for_states binds a datagram socket to `place`; "@" begins an abstract name. */
static int listen_for_states(const char *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    memcpy(address.sun_path, place, strlen(place));
    if (place[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(place));
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, size), 0);
    return fd;
}

static void expect_state(int fd, const char *state)
{
    char got[200] = {0};
    assert_int_equal(recv(fd, got, sizeof got - 1, MSG_DONTWAIT), (ssize_t)strlen(state));
    assert_string_equal(got, state);
}

static void a_state_reaches_a_socket_in_the_file_system(void **state)
{
    char directory[] = "/tmp/lazaret-notify-XXXXXX", place[sizeof directory + 10];
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(place, sizeof place, "%s/notify", directory);
    int fd = listen_for_states(place);
    setenv("NOTIFY_SOCKET", place, 1);
    supervisor_notify("READY=1\nSTATUS=ready");
    supervisor_notify("STOPPING=1");
    expect_state(fd, "READY=1\nSTATUS=ready");
    expect_state(fd, "STOPPING=1");
    assert_int_equal(warnings, 0);
    close(fd);
    unlink(place);
    rmdir(directory);
}

static void a_state_reaches_an_abstract_socket(void **state)
{
    char place[60];
    (void)state;
    snprintf(place, sizeof place, "@lazaret-notify-%ld", (long)getpid());
    int fd = listen_for_states(place);
    setenv("NOTIFY_SOCKET", place, 1);
    supervisor_notify("READY=1");
    expect_state(fd, "READY=1");
    assert_int_equal(warnings, 0);
    close(fd);
}

static void without_a_supervisor_nothing_happens(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    supervisor_notify("READY=1");
    setenv("NOTIFY_SOCKET", "", 1);
    supervisor_notify("READY=1");
    assert_int_equal(warnings, 0);
}

static void a_supervisor_that_cannot_be_told_is_a_warning(void **state)
{
    char places[3][200] = {"/nonesuch/notify", "not-a-place", "/"};
    (void)state;
    memset(places[2] + 1, 'x', sizeof places[2] - 2);
    for (int i = 0; i < 3; i++) {
        setenv("NOTIFY_SOCKET", places[i], 1);
        supervisor_notify("READY=1");
        assert_int_equal(warnings, i + 1);
    }
}

/* ---- passed sockets ---------------------------------------------------------------------------
 */

enum passed { PASSED_NONE = 10, PASSED_SOCKET, PASSED_ERROR, PASSED_WRONG };

/* passed_main is what the process does that is passed something: it says what it found. */
static int passed_main(void)
{
    struct err err = {0};
    int fd = -2;
    log_set(LOG_ERROR, NULL, NULL);
    if (supervisor_socket(&fd, &err) != STATUS_OK)
        return err.text[0] ? PASSED_ERROR : PASSED_WRONG;
    if (getenv("LISTEN_PID") || getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES"))
        return PASSED_WRONG;
    if (fd == -1)
        return PASSED_NONE;
    return fd == 3 && fcntl(fd, F_GETFD) == FD_CLOEXEC ? PASSED_SOCKET : PASSED_WRONG;
}

/* pass_on starts this program with `fd` (-1: nothing) as descriptor 3, and the variables; `pid`
 * NULL is that of the process itself. */
static int pass_on(int fd, const char *pid, const char *count)
{
    pid_t child = fork();
    if (child == 0) {
        char own[20], first[] = "test_supervisor", second[] = "--passed";
        char *const args[] = {first, second, NULL};
        snprintf(own, sizeof own, "%ld", (long)getpid());
        if (fd >= 0 && fd != 3)
            dup2(fd, 3);
        if (fd == 3)
            fcntl(3, F_SETFD, 0);
        if (fd < 0)
            close(3);
        setenv("LISTEN_PID", pid ? pid : own, 1);
        setenv("LISTEN_FDS", count, 1);
        setenv("LISTEN_FDNAMES", "lazaret.socket", 1);
        execv("/proc/self/exe", args);
        _exit(99);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int stream_socket(bool listening)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    if (listening)
        assert_int_equal(listen(fd, 5), 0);
    return fd;
}

static void a_listening_socket_is_taken(void **state)
{
    int fd = stream_socket(true);
    (void)state;
    assert_int_equal(pass_on(fd, NULL, "1"), PASSED_SOCKET);
    close(fd);
}

static void what_was_for_another_process_is_left(void **state)
{
    int fd = stream_socket(true);
    (void)state;
    assert_int_equal(pass_on(fd, "1", "1"), PASSED_NONE);
    assert_int_equal(pass_on(fd, NULL, "0"), PASSED_NONE);
    close(fd);
}

static void what_is_no_listening_socket_is_an_error(void **state)
{
    int stream = stream_socket(false), file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(pass_on(stream, NULL, "1"), PASSED_ERROR);
    assert_int_equal(pass_on(file, NULL, "1"), PASSED_ERROR);
    assert_int_equal(pass_on(datagrams, NULL, "1"), PASSED_ERROR);
    assert_int_equal(pass_on(-1, NULL, "1"), PASSED_ERROR);
    close(stream);
    close(file);
    close(datagrams);
}

static void variables_that_are_no_numbers_are_an_error(void **state)
{
    int fd = stream_socket(true);
    (void)state;
    static const char *const bad[] = {"", "one", "1x", "-1", "+1", " 1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(pass_on(fd, NULL, bad[i]), PASSED_ERROR);
        assert_int_equal(pass_on(fd, bad[i], "1"), PASSED_ERROR);
    }
    close(fd);
}

static void without_the_variables_there_is_no_socket(void **state)
{
    struct err err = {0};
    int fd = 7;
    (void)state;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    assert_int_equal(supervisor_socket(&fd, &err), STATUS_OK);
    assert_int_equal(fd, -1);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--passed") == 0)
        return passed_main();
#define WITH_WARNINGS(test) cmocka_unit_test_setup_teardown(test, heed_warnings, ignore_warnings)
    const struct CMUnitTest tests[] = {
        WITH_WARNINGS(a_state_reaches_a_socket_in_the_file_system),
        WITH_WARNINGS(a_state_reaches_an_abstract_socket),
        WITH_WARNINGS(without_a_supervisor_nothing_happens),
        WITH_WARNINGS(a_supervisor_that_cannot_be_told_is_a_warning),
        cmocka_unit_test(a_listening_socket_is_taken),
        cmocka_unit_test(what_was_for_another_process_is_left),
        cmocka_unit_test(what_is_no_listening_socket_is_an_error),
        cmocka_unit_test(variables_that_are_no_numbers_are_an_error),
        cmocka_unit_test(without_the_variables_there_is_no_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
