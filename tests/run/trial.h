/* trial: one command that a test runs to its end, and what is asserted of it.
 *
 * Nothing here waits for a time.  A command that has to get ready says so on a stream; a death is
 * waited for by a pidfd. */
#ifndef LAZARET_TESTS_RUN_TRIAL_H
#define LAZARET_TESTS_RUN_TRIAL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/types.h>

#include "base/buf.h"
#include "run/process.h"

/* struct trial: one command and what came of it.  It is the state of a test. */
struct trial {
    struct loop *loop;
    struct process *process;
    struct process_end end;
    int ended; /* how often it was told */
    char *argv[4];
    struct process_spec spec;
    struct loop_timer look; /* looks for a word of the command */
    bool stop_now;          /* which stop follows it */
    char root[40];          /* a directory of its own */
};

extern char *const usual_environment[]; /* PATH alone */

int trial_make(void **state);
int trial_remove(void **state); /* fails when a child was left that nobody has reaped */

/* TRIAL is a test with a trial. */
#define TRIAL(name) cmocka_unit_test_setup_teardown(name, trial_make, trial_remove)

/* trial_words sets a command of up to three words; trial_script one of the shell. */
void trial_words(struct trial *trial, const char *a, const char *b, const char *c);
void trial_script(struct trial *trial, const char *script);

/* trial_start starts the command; trial_run also waits for its end, as trial_run_script does. */
void trial_start(struct trial *trial);
void trial_run(struct trial *trial);
void trial_run_script(struct trial *trial, const char *script);
void trial_ended(void *ctx, const struct process_end *end); /* of a trial: notes it and stops */

/* trial_stop_at_word runs a script, stops it once it has said something (on descriptor 3, when it
 * speaks there) and waits for its end. */
void trial_stop_at_word(struct trial *trial, const char *script, bool now);

/* trial_file makes a file in the trial's directory. */
void trial_file(const struct trial *trial, const char *name, const char *text, mode_t mode);

void assert_exit(const struct trial *trial, int code);
void assert_signal(const struct trial *trial, int number);
void assert_failed(const struct trial *trial, int error, const char *what); /* to start */
void assert_text(const struct capture *capture, const char *expected);
void assert_out(const struct trial *trial, const char *expected); /* on standard output */
void assert_file_is(const char *path, struct slice expected);

struct buf text_of(const struct capture *capture);
pid_t number_in(const struct capture *capture); /* that the command wrote first; 0: none */
int count_fds(void);
long own_peak_kb(void);

void await_death(pid_t pid);  /* of any process */
void await_zombie(pid_t pid); /* of a child, which stays to be reaped */

#endif
