/* kill_loop: kills a program that uses the library, again and again, and looks at what it left.
 *
 *     kill_loop [--kills N] [--seed S]
 *
 * The moment of the kill is drawn: while the store is being opened, or some time after the first
 * acknowledgement.  A data directory is used for KILLS_PER_DIRECTORY lives, so that each life
 * begins with the ruins of the one before; then a fresh one is taken. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "e2e/kill.h"
#include "sim/rng.h"

#define KILLS_PER_DIRECTORY 25
#define FIRST_LINE_MS_MAX 60000 /* a victim that says nothing for this long is stuck */

/* struct life: one victim, from its start to its end. */
struct life {
    pid_t pid;
    int pipe;
    char line[256]; /* what was read of the line that is under way */
    size_t len;
    size_t lines;
};

struct totals {
    unsigned kills;
    size_t acknowledged;
    long lost;
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool life_start(struct life *life, const char *data, unsigned number)
{
    int pipes[2];
    char number_text[16], pipe_text[16];

    *life = (struct life){0};
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return false;
    life->pid = fork();
    if (life->pid < 0)
        return false;
    if (life->pid == 0) {
        fcntl(pipes[1], F_SETFD, 0);
        snprintf(number_text, sizeof(number_text), "%u", number);
        snprintf(pipe_text, sizeof(pipe_text), "%d", pipes[1]);
        execl("/proc/self/exe", "kill_loop", "--victim", data, number_text, pipe_text,
              (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    life->pipe = pipes[0];
    return true;
}

/* life_read takes what the victim wrote; false at the end of the pipe. */
static bool life_read(struct life *life, struct ledger *ledger)
{
    char bytes[4096];
    ssize_t got = read(life->pipe, bytes, sizeof(bytes));

    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] != '\n') {
            if (life->len + 1 < sizeof(life->line))
                life->line[life->len++] = bytes[i];
            continue;
        }
        life->line[life->len] = '\0';
        life->len = 0;
        life->lines++;
        ledger_note(ledger, life->line);
    }
    return got > 0 || (got < 0 && errno == EINTR);
}

/* life_watch reads until the moment of the kill; false when the victim ended before it. */
static bool life_watch(struct life *life, struct ledger *ledger, struct rng *rng)
{
    bool early = rng_chance(rng, 15);
    int64_t delay = (int64_t)rng_below(rng, early ? 30 : 150);
    int64_t until = now_ms() + (early ? delay : FIRST_LINE_MS_MAX);
    bool begun = early;

    for (;;) {
        struct pollfd wait = {.fd = life->pipe, .events = POLLIN};
        int64_t left = until - now_ms();

        if (left <= 0)
            return begun;
        if (poll(&wait, 1, (int)left) > 0 && !life_read(life, ledger))
            return false;
        if (!begun && life->lines) {
            begun = true;
            until = now_ms() + delay;
        }
    }
}

/* life_end kills the victim and reads what it had still written. */
static bool life_end(struct life *life, struct ledger *ledger)
{
    int status = 0;

    kill(life->pid, SIGKILL);
    while (life_read(life, ledger))
        ;
    close(life->pipe);
    while (waitpid(life->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    fprintf(stderr, "kill_loop: the victim ended by itself (status %d)\n", status);
    return false;
}

static int remove_one(const char *path, const struct stat *stat, int flag, struct FTW *ftw)
{
    (void)stat;
    (void)flag;
    (void)ftw;
    return remove(path);
}

/* run_directory lets `kills` victims live and die in one directory. */
static bool run_directory(unsigned kills, struct rng *rng, struct totals *totals)
{
    char data[] = "/tmp/lazaret-kill-XXXXXX";
    struct ledger *ledger = ledger_new();
    bool good = mkdtemp(data) != NULL;

    for (unsigned i = 0; good && i < kills; i++) {
        struct life life;

        good = life_start(&life, data, totals->kills);
        if (!good)
            break;
        bool alive = life_watch(&life, ledger, rng);
        good = life_end(&life, ledger) && alive;
        totals->kills++;
        int lost = ledger_check(ledger, data, i + 1 == kills);
        if (lost) {
            fprintf(stderr, "kill_loop: after kill %u; the directory is kept: %s\n", totals->kills,
                    data);
            totals->lost += lost > 0 ? lost : 0;
            good = false;
        }
    }
    totals->acknowledged += ledger_acknowledged(ledger);
    ledger_free(ledger);
    if (good)
        nftw(data, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return good;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"kills", required_argument, NULL, 'k'},
                                          {"seed", required_argument, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    unsigned long kills = KILLS_PER_DIRECTORY;
    uint64_t seed = (uint64_t)time(NULL);
    struct totals totals = {0};
    bool good = true;
    int option;

    if (argc == 5 && strcmp(argv[1], "--victim") == 0)
        return victim_main(argv[2], (unsigned)strtoul(argv[3], NULL, 10),
                           (int)strtol(argv[4], NULL, 10));
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?') {
            fprintf(stderr, "usage: kill_loop [--kills N] [--seed S]\n");
            return 2;
        }
        if (option == 'k')
            kills = strtoul(optarg, NULL, 10);
        else
            seed = strtoull(optarg, NULL, 10);
    }
    struct rng rng = rng_fork(seed, 0);
    while (good && totals.kills < kills) {
        unsigned long left = kills - totals.kills;

        good = run_directory((unsigned)(left < KILLS_PER_DIRECTORY ? left : KILLS_PER_DIRECTORY),
                             &rng, &totals);
    }
    printf("%u kills, %zu jobs acknowledged, %ld lost\n", totals.kills, totals.acknowledged,
           totals.lost);
    if (!good)
        fprintf(stderr, "kill_loop: failed with --seed %llu\n", (unsigned long long)seed);
    return good ? 0 : 1;
}
