/* The connection to a real nats-server: outages, what is told of them, and what is not kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/natslink.h"
#include "bridge/natsserver.h"

#define WAIT_MS 60000

struct fixture {
    struct natsserver server;
    struct natslink *link;
    struct err err;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned connected, disconnected, lost; /* how often each was told */
};

static void note(struct fixture *f, unsigned *count)
{
    pthread_mutex_lock(&f->lock);
    (*count)++;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void on_connected(void *ctx)
{
    struct fixture *f = ctx;
    note(f, &f->connected);
}

static void on_disconnected(void *ctx)
{
    struct fixture *f = ctx;
    note(f, &f->disconnected);
}

static void on_lost(void *ctx)
{
    struct fixture *f = ctx;
    note(f, &f->lost);
}

/* told waits until something was told so often. */
static void told(struct fixture *f, const unsigned *count, unsigned times)
{
    pthread_mutex_lock(&f->lock);
    while (*count < times)
        pthread_cond_wait(&f->changed, &f->lock);
    assert_int_equal(*count, times);
    pthread_mutex_unlock(&f->lock);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    natsserver_init(&f->server);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    natslink_close(f->link);
    natsserver_release(&f->server);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return 0;
}

static enum status open_link(struct fixture *f, bool patient)
{
    struct natslink_options options = {.url = f->server.url,
                                       .name = "the \"tests\"",
                                       .connected = on_connected,
                                       .disconnected = on_disconnected,
                                       .lost = on_lost,
                                       .ctx = f};
    return natslink_open(&options, patient, &f->link, &f->err);
}

static natsStatus say(struct fixture *f)
{
    return natsConnection_PublishString(natslink_connection(f->link), "some.where", "x");
}

static void a_server_that_is_away_is_an_error_or_is_waited_for(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_link(f, false), STATUS_UNAVAILABLE);
    assert_non_null(strstr(f->err.text, f->server.url));
    assert_int_equal(open_link(f, true), STATUS_OK);
    assert_false(natslink_connected(f->link));
    assert_false(natslink_wait(f->link, 0));
    assert_false(natslink_lost(f->link));
    natsserver_start(&f->server);
    assert_true(natslink_wait(f->link, WAIT_MS));
    told(f, &f->connected, 1);
    assert_int_equal(f->disconnected + f->lost, 0);
}

static void an_outage_is_told_and_passes(void **state)
{
    struct fixture *f = *state;
    natsserver_start(&f->server);
    assert_int_equal(open_link(f, false), STATUS_OK);
    assert_true(natslink_connected(f->link));
    for (unsigned i = 1; i <= 3; i++) {
        natsserver_stop(&f->server, i == 2 ? SIGTERM : SIGKILL);
        told(f, &f->disconnected, i);
        natsserver_start(&f->server);
        told(f, &f->connected, i);
        assert_true(natslink_wait(f->link, WAIT_MS));
    }
    assert_int_equal(f->lost, 0);
}

/* What is published without a connection must not wait in a buffer, and come out later. */
static void nothing_is_kept_while_there_is_no_connection(void **state)
{
    struct fixture *f = *state;
    natsSubscription *heard = NULL;
    natsMsg *msg = NULL;
    natsserver_start(&f->server);
    assert_int_equal(open_link(f, false), STATUS_OK);
    assert_int_equal(
        natsConnection_SubscribeSync(&heard, natslink_connection(f->link), "some.where"), NATS_OK);
    natsserver_stop(&f->server, SIGKILL);
    told(f, &f->disconnected, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(say(f), NATS_INSUFFICIENT_BUFFER);
    assert_int_equal(natslink_fail(f->link, NATS_INSUFFICIENT_BUFFER, 0, "saying x", &f->err),
                     STATUS_UNAVAILABLE);
    assert_non_null(strstr(f->err.text, "saying x: there is no connection to NATS at nats://"));
    natsserver_start(&f->server);
    told(f, &f->connected, 1);
    assert_int_equal(say(f), NATS_OK);
    assert_int_equal(natsSubscription_NextMsg(&msg, heard, WAIT_MS), NATS_OK);
    natsMsg_Destroy(msg);
    assert_int_equal(natsConnection_FlushTimeout(natslink_connection(f->link), WAIT_MS), NATS_OK);
    uint64_t more = 1;
    natsSubscription_QueuedMsgs(heard, &more);
    assert_int_equal(more, 0);
    natsSubscription_Destroy(heard);
}

static void a_link_that_was_lost_can_be_renewed(void **state)
{
    struct fixture *f = *state;
    natsserver_start(&f->server);
    assert_int_equal(open_link(f, false), STATUS_OK);
    assert_int_equal(natslink_renew(f->link, &f->err), STATUS_OK); /* nothing to do */
    natsserver_stop(&f->server, SIGKILL);
    natsserver_configure(&f->server, "authorization { user: ada, password: secret }");
    natsserver_start(&f->server);
    told(f, &f->lost, 1);
    assert_true(natslink_lost(f->link));
    assert_false(natslink_wait(f->link, WAIT_MS)); /* there is nothing to wait for */
    assert_int_equal(natslink_renew(f->link, &f->err), STATUS_REFUSED);
    assert_true(natslink_lost(f->link));
    natsserver_stop(&f->server, SIGKILL);
    assert_int_equal(natslink_renew(f->link, &f->err), STATUS_OK); /* away is not lost */
    assert_false(natslink_lost(f->link));
    natsserver_configure(&f->server, "");
    natsserver_start(&f->server);
    assert_true(natslink_wait(f->link, WAIT_MS));
    assert_int_equal(say(f), NATS_OK);
}

/* Who publishes into a network that takes nothing is told, rather than held for ever. */
static void a_server_that_reads_nothing_holds_nobody_for_ever(void **state)
{
    struct fixture *f = *state;
    size_t size = 512 << 10;
    void *bytes = calloc(1, size);
    natsStatus s;
    natsserver_start(&f->server);
    assert_int_equal(open_link(f, false), STATUS_OK);
    kill(f->server.pid, SIGSTOP);
    do
        s = natsConnection_Publish(natslink_connection(f->link), "x", bytes, (int)size);
    while (s == NATS_OK);
    kill(f->server.pid, SIGCONT);
    told(f, &f->disconnected, 1);
    assert_true(natslink_wait(f->link, WAIT_MS));
    assert_int_equal(say(f), NATS_OK);
    free(bytes);
}

/* Closing while libnats tries to connect, and while it is connected; the sanitizers see a callback
 * that comes too late. */
static void closing_ends_everything(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 20; i++) {
        if (i % 2)
            natsserver_start(&f->server);
        assert_int_equal(open_link(f, true), STATUS_OK);
        if (i % 4 == 3)
            natsserver_stop(&f->server, SIGKILL);
        natslink_close(f->link);
        f->link = NULL;
        natsserver_stop(&f->server, SIGKILL);
    }
    natslink_close(NULL);
    assert_int_equal(f->lost, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_server_that_is_away_is_an_error_or_is_waited_for),
        TEST(an_outage_is_told_and_passes),
        TEST(nothing_is_kept_while_there_is_no_connection),
        TEST(a_link_that_was_lost_can_be_renewed),
        TEST(a_server_that_reads_nothing_holds_nobody_for_ever),
        TEST(closing_ends_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
