/* publish.c: a program of the swarm that gives work up: it tries a task a few times, and when
 * nobody can do it, publishes it as a dead letter on NATS, with its attempts.  A Lazaret server
 * (`lazaret serve --nats URL`) takes the letter in; whoever reviews it there has the task published
 * again, byte for byte, to the subject that it came from.
 *
 * Usage: publish NATS_URL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lazaret.h>

#define SUBJECT "swarm.task.request"

static const char task[] = "{\"task_id\": \"t-17\",  \"needs\": [\"research\"]}";

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* dispatch asks an agent to do the task; here each has another excuse. */
static const char *dispatch(uint32_t attempt, const char **agent)
{
    static const char *const agents[] = {"ada", "bob", "cleo"};
    *agent = agents[(attempt - 1) % 3];
    return attempt % 2 ? "cannot do research" : "is asleep";
}

int main(int argc, char **argv)
{
    enum { TRIES = 3 };
    struct lz_attempt attempts[TRIES];
    struct lz_publisher *publisher;
    struct lz_published published;
    struct lz_error error;

    if (argc != 2) {
        fprintf(stderr, "usage: publish NATS_URL\n");
        return 2;
    }
    struct lz_publisher_options nats = {.url = argv[1], .source = "dispatch"};
    if (lz_publisher_open(&nats, &publisher, &error) != LZ_OK) {
        fprintf(stderr, "publish: %s\n", error.text);
        return 1;
    }
    for (uint32_t i = 0; i < TRIES; i++) {
        attempts[i] = (struct lz_attempt){.attempt = i + 1, .attempted_at_us = now_us()};
        attempts[i].failure_reason = dispatch(i + 1, &attempts[i].agent);
        printf("attempt %u: %s %s\n", i + 1, attempts[i].agent, attempts[i].failure_reason);
    }
    struct lz_publish_options letter = {.original_subject = SUBJECT,
                                        .original_payload = task,
                                        .original_payload_len = strlen(task),
                                        .reason = "no_capable_agent",
                                        .reason_detail = "nobody can do research",
                                        .retry_count = TRIES,
                                        .max_retries = TRIES,
                                        .retry_history = attempts,
                                        .retry_history_count = TRIES,
                                        .recoverable = 1};
    enum lz_status status = lz_publish(publisher, &letter, &published, &error);
    if (status == LZ_UNAVAILABLE) { /* once more: with the same dlq_id it is stored once */
        letter.dlq_id = published.dlq_id;
        status = lz_publish(publisher, &letter, &published, &error);
    }
    if (status == LZ_OK)
        printf("dead: %s on %s\n", published.dlq_id, published.subject);
    else
        fprintf(stderr, "publish: %s\n", error.text);
    lz_publisher_close(publisher);
    return status == LZ_OK ? 0 : 1;
}
