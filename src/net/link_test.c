/* link_test.c: how links begin, what refuses them, and how they end. */
#include "net/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/wait.h>

static net_identity host_id, caller_id;

static int fresh_identities(void **state)
{
    (void)state;
    host_id = test_identity(TEST_HOST, false);
    caller_id = test_identity(TEST_CALLER, false);
    return 0;
}

static void encrypt_both(void)
{
    host_id.encrypt = caller_id.encrypt = true;
}

static void assert_refused(const net_link *link, const char *why)
{
    assert_int_equal(link->state, NET_REFUSED);
    if (strstr(net_link_why(link), why) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", why, net_link_why(link));
    assert_null(link->shake); /* the key is gone */
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static void both_ends_know_what_the_link_is_for(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    net_address at, seen, local;
    net_door *door = test_door(&host_id, 4, &at);
    net_link *a = test_call(&caller_id, &at), *b = test_meet(door, a);
    assert_true(test_same_purpose(net_link_purpose(a), &purpose));
    assert_true(test_same_purpose(net_link_purpose(b), &purpose));
    assert_true(net_link_peer(a, &seen) && test_same_address(&seen, &at));
    assert_true(net_link_local(b, &local) && test_same_address(&local, &at));
    assert_true(net_link_local(a, &local) && net_link_peer(b, &seen));
    assert_true(test_same_address(&local, &seen));
    assert_string_equal(net_link_why(a), "");
    const net_link *both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const int fd = net_link_fd(both[i]);
        int on = 0;
        socklen_t bytes = sizeof on;
        assert_int_not_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
        assert_int_not_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &bytes), 0);
        assert_int_not_equal(on, 0);
        assert_null(both[i]->shake);
    }
    net_link_close(a);
    net_link_close(b);
    net_door_close(door);
}

static void the_local_address_can_be_chosen(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    const net_address from = {.family = 4, .port = 4242, .ip = {127, 0, 0, 2}};
    net_address at, seen;
    net_door *door = test_door(&host_id, 4, &at);
    net_link *a;
    assert_ok(net_link_call(&caller_id, &purpose, &at, &from, TEST_LIMIT_NS, &a));
    net_link *b = test_meet(door, a);
    assert_true(net_link_peer(b, &seen));
    assert_memory_equal(seen.ip, from.ip, 4);
    assert_int_not_equal(seen.port, 4242);
    net_link_close(a);
    net_link_close(b);
    net_door_close(door);
}

static void what_cannot_be_called_is_said_at_once(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    const net_address six = test_loopback(6), none = {.family = 0};
    const net_address to = {.family = 4, .port = 9, .ip = {127, 0, 0, 1}};
    const net_address foreign = {.family = 4, .ip = {203, 0, 113, 77}};
    net_link *link = NULL;
    assert_int_equal(net_link_call(&caller_id, &purpose, &to, &six, 1, &link), RUEDA_ERR_SYSTEM);
    assert_int_equal(net_link_call(&caller_id, &purpose, &to, &foreign, 1, &link),
                     RUEDA_ERR_SYSTEM);
    assert_non_null(strstr(status_text(), "127.0.0.1:9"));
    assert_non_null(strstr(status_text(), "203.0.113.77"));
    assert_int_equal(net_link_call(&caller_id, &purpose, &none, NULL, 1, &link),
                     RUEDA_ERR_ARGUMENT);
    assert_null(link);
}

static void a_port_where_nobody_listens_refuses(void **state)
{
    (void)state;
    net_address at = test_loopback(4);
    int fd;
    assert_ok(net_listen(&at, 0, 0, &fd, &at.port));
    close(fd);
    net_link *link = test_call(&caller_id, &at);
    while (net_link_progress(link, world_now_ns()) == NET_WAITS)
        test_wait(net_link_fd(link), test_events(link), -1, 0);
    assert_refused(link, "not reached: Connection refused");
    char byte = 0;
    assert_int_equal(net_link_send(link, &(struct iovec){&byte, 1}, 1), -1);
    assert_int_equal(net_link_receive(link, &byte, 1), -1);
    net_link_close(link);
}

static void a_silent_host_is_given_up(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    net_address at = test_loopback(4);
    int fd;
    net_link *link;
    assert_ok(net_listen(&at, 0, 0, &fd, &at.port)); /* the system accepts, nobody answers */
    const uint64_t before = world_now_ns();
    assert_ok(net_link_call(&caller_id, &purpose, &at, NULL, TEST_LIMIT_NS, &link));
    const uint64_t after = world_now_ns();
    while (net_link_wants_write(link)) {
        assert_int_equal(net_link_progress(link, before + TEST_LIMIT_NS - 1), NET_WAITS);
        test_wait(net_link_fd(link), test_events(link), -1, 0);
    }
    char byte = 0;
    assert_int_equal(net_link_send(link, &(struct iovec){&byte, 1}, 1), 0);
    assert_int_equal(net_link_receive(link, &byte, 1), 0);
    assert_int_equal(net_link_progress(link, before + TEST_LIMIT_NS - 1), NET_WAITS);
    assert_int_equal(net_link_progress(link, after + TEST_LIMIT_NS), NET_REFUSED);
    assert_refused(link, "within the time limit");
    net_link_close(link);
    assert_ok(net_link_call(&caller_id, &purpose, &at, NULL, UINT64_MAX, &link));
    assert_int_equal(net_link_progress(link, UINT64_MAX - 1), NET_WAITS); /* no limit at all */
    net_link_close(link);
    close(fd);
}

/* ---- False hosts ----------------------------------------------------------------------------- */

/* A host that says these bytes to whoever calls, and then closes. */
static void assert_false_host(const void *bytes, size_t count, const char *why)
{
    net_address at = test_loopback(4);
    int listener;
    assert_ok(net_listen(&at, 0, 0, &listener, &at.port));
    net_link *link = test_call(&caller_id, &at);
    test_wait(listener, POLLIN, -1, 0);
    const int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    uint8_t hello[PROOF_HELLO];
    while (net_link_wants_write(link)) {
        assert_int_equal(net_link_progress(link, world_now_ns()), NET_WAITS);
        test_wait(net_link_fd(link), POLLOUT, -1, 0);
    }
    assert_int_equal(recv(fd, hello, sizeof hello, MSG_WAITALL), sizeof hello);
    assert_int_equal(send(fd, bytes != NULL ? bytes : hello, count, 0), count);
    shutdown(fd, SHUT_WR);
    while (net_link_progress(link, world_now_ns()) == NET_WAITS)
        test_wait(net_link_fd(link), POLLIN, -1, 0);
    assert_refused(link, why);
    /* and it was told nothing more */
    uint8_t more;
    net_link_close(link);
    assert_true(recv(fd, &more, 1, 0) <= 0);
    close(fd);
    close(listener);
}

static void false_hosts_are_found_out(void **state)
{
    (void)state;
    static const char http[PROOF_ANSWER] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_false_host(http, sizeof http, "not from rueda");
    assert_false_host(NULL, PROOF_ANSWER, "not from rueda"); /* an echo */
    assert_false_host("", 0, "turned away");
    assert_false_host("rueda-a", 7, "turned away");
    static const char newer[PROOF_ANSWER] = "rueda-a\n\xff";
    assert_false_host(newer, sizeof newer, "version");
    char guess[PROOF_ANSWER] = "rueda-a\n";
    guess[8] = PROOF_VERSION;
    assert_false_host(guess, sizeof guess, "key");
}

static void a_differing_caller_is_turned_away(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        fresh_identities(NULL);
        net_address at;
        net_door *door = test_door(&host_id, 4, &at);
        const uint64_t *counters[] = {&door->refusals.wrong_key, &door->refusals.wrong_job,
                                      &door->refusals.wrong_generation,
                                      &door->refusals.wrong_purpose, &door->refusals.wrong_purpose};
        caller_id.key[31] ^= i == 0;
        caller_id.job[0] = i == 1 ? 'J' : 'j';
        caller_id.generation += i == 2;
        caller_id.encrypt = i == 3;
        net_purpose purpose = test_purpose();
        purpose.to += i == 4;
        net_link *link;
        assert_ok(net_link_call(&caller_id, &purpose, &at, NULL, TEST_LIMIT_NS, &link));
        assert_null(test_meet(door, link));
        assert_int_equal(link->state, NET_REFUSED);
        assert_int_equal(*counters[i], 1);
        assert_int_equal(test_sum(&door->refusals), 1);
        net_link_close(link);
        net_door_close(door);
    }
}

/* Before the meeting all jobs of a name and key look alike, afterwards no two do. */
static void a_door_can_get_another_identity(void **state)
{
    (void)state;
    fresh_identities(NULL);
    net_address at;
    const net_purpose purpose = test_purpose();
    net_door *door = test_door(&host_id, 4, &at);
    net_instance_make(&host_id);
    net_door_set_identity(door, &host_id);
    for (int knows = 0; knows < 2; knows++) {
        net_link *link;
        if (knows)
            memcpy(caller_id.instance, host_id.instance, sizeof host_id.instance);
        assert_ok(net_link_call(&caller_id, &purpose, &at, NULL, TEST_LIMIT_NS, &link));
        net_link *host = test_meet(door, link);
        assert_int_equal(host != NULL, knows);
        assert_int_equal(door->refusals.wrong_job, 1);
        net_link_close(link);
        net_link_close(host);
    }
    net_door_close(door);
}

/* ---- Somebody on the line -------------------------------------------------------------------- */

/* Carries bytes between a caller and the door, and changes one of them. */
typedef struct proxy {
    int listener, caller, host;
    uint64_t carried[2]; /* towards the host, towards the caller */
    uint64_t victim;     /* number of the byte that is changed */
    int direction;
} proxy;

static void carry(proxy *p, int direction)
{
    const int from = direction == 0 ? p->caller : p->host,
              to = direction == 0 ? p->host : p->caller;
    uint8_t bytes[4096];
    const ssize_t got = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0)
        shutdown(to, SHUT_WR);
    if (got <= 0)
        return;
    const uint64_t start = p->carried[direction];
    p->carried[direction] += (uint64_t)got;
    if (direction == p->direction && p->victim >= start && p->victim < p->carried[direction])
        bytes[p->victim - start] ^= 4;
    (void)!send(to, bytes, (size_t)got, MSG_NOSIGNAL);
}

#define TALK_BYTES 3000

/* Tries to bring TALK_BYTES from `from` to `to`; whatever arrives must be right. */
static void talk(net_link *from, net_link *to, uint64_t *sent, uint64_t *received)
{
    uint8_t bytes[TALK_BYTES];
    if (from != NULL && from->state == NET_OPEN && *sent < TALK_BYTES) {
        for (size_t i = 0; i < TALK_BYTES; i++)
            bytes[i] = (uint8_t)(i * 11);
        const ssize_t got =
            net_link_send(from, &(struct iovec){bytes + *sent, TALK_BYTES - *sent}, 1);
        *sent += got > 0 ? (uint64_t)got : 0;
    }
    if (to == NULL)
        return;
    const ssize_t got = net_link_receive(to, bytes, sizeof bytes);
    for (ssize_t i = 0; i < got; i++)
        assert_int_equal(bytes[i], (uint8_t)((*received + (uint64_t)i) * 11));
    *received += got > 0 ? (uint64_t)got : 0;
}

static bool is_over(const net_link *link)
{
    return link != NULL && (link->state == NET_REFUSED || link->state == NET_BROKEN);
}

/* Returns whether everything arrived at both ends. */
static bool survives(int direction, uint64_t victim)
{
    net_address at, through = test_loopback(4);
    net_door *door = test_door(&host_id, 4, &at);
    proxy p = {.victim = victim, .direction = direction};
    assert_ok(net_listen(&through, 0, 0, &p.listener, &through.port));
    net_link *a = test_call(&caller_id, &through), *b = NULL;
    test_wait(p.listener, POLLIN, -1, 0);
    p.caller = accept(p.listener, NULL, NULL);
    p.host = test_stranger(&at);
    uint64_t sent[2] = {0}, received[2] = {0};
    bool whole = false;
    while (!whole && !is_over(a) && !is_over(b) && test_sum(&door->refusals) == 0) {
        struct pollfd fds[] = {{net_link_fd(a), POLLIN, 0},
                               {p.caller, POLLIN, 0},
                               {p.host, POLLIN, 0},
                               {b != NULL ? net_link_fd(b) : net_door_fd(door), POLLIN, 0}};
        poll(fds, 4, 1);
        net_link_progress(a, world_now_ns());
        carry(&p, 0);
        if (b == NULL)
            b = net_door_progress(door, world_now_ns());
        carry(&p, 1);
        talk(a, b, &sent[0], &received[0]);
        talk(b, a->state == NET_OPEN ? a : NULL, &sent[1], &received[1]);
        whole = received[0] == TALK_BYTES && received[1] == TALK_BYTES;
    }
    net_link_close(a);
    net_link_close(b);
    net_door_close(door);
    close(p.listener);
    close(p.caller);
    close(p.host);
    return whole;
}

static void alter_every_few_bytes(void)
{
    assert_true(survives(0, UINT64_MAX));
    const uint64_t whole = PROOF_HELLO + PROOF_MAC + TALK_BYTES + 20;
    for (uint64_t victim = 0; victim < whole; victim += victim < PROOF_HELLO + PROOF_MAC ? 13 : 397)
        assert_false(survives(0, victim));
    for (uint64_t victim = 0; victim < PROOF_ANSWER + TALK_BYTES + 20;
         victim += victim < PROOF_ANSWER ? 13 : 397)
        assert_false(survives(1, victim));
}

static void nobody_on_the_line_can_change_a_byte(void **state)
{
    (void)state;
    alter_every_few_bytes();
}

static void nobody_on_the_line_can_change_an_encrypted_byte(void **state)
{
    (void)state;
    encrypt_both();
    alter_every_few_bytes();
}

/* Without a key nothing is protected, and the bytes arrive as somebody has made them. */
static void without_a_key_bytes_can_be_changed(void **state)
{
    (void)state;
    net_address at;
    memset(host_id.key, 0, sizeof host_id.key);
    memset(caller_id.key, 0, sizeof caller_id.key);
    net_door *door = test_door(&host_id, 4, &at);
    net_link *a = test_call(&caller_id, &at), *b = test_meet(door, a);
    char got[5] = "";
    assert_int_equal(send(net_link_fd(a), "raw", 3, 0), 3); /* past the link */
    test_wait(net_link_fd(b), POLLIN, -1, 0);
    assert_int_equal(net_link_receive(b, got, sizeof got), 3);
    assert_string_equal(got, "raw");
    net_link_close(a);
    net_link_close(b);
    net_door_close(door);
}

static void a_broken_link_says_that_it_was_altered(void **state)
{
    (void)state;
    net_address at;
    net_door *door = test_door(&host_id, 4, &at);
    net_link *a = test_call(&caller_id, &at), *b = test_meet(door, a);
    uint8_t got[5];
    static const uint8_t forged[4 + 1 + 16] = {1};
    assert_int_equal(send(net_link_fd(a), forged, sizeof forged, 0), sizeof forged);
    test_wait(net_link_fd(b), POLLIN, -1, 0);
    assert_int_equal(net_link_receive(b, got, sizeof got), -1);
    assert_int_equal(b->state, NET_BROKEN);
    assert_non_null(strstr(net_link_why(b), "altered"));
    assert_true(net_link_altered(b));
    net_link_close(a);
    net_link_close(b);
    net_door_close(door);
}

/* ---- End ------------------------------------------------------------------------------------- */

static void a_child_forgets_without_harm(void **state)
{
    (void)state;
    net_address at;
    net_door *door = test_door(&host_id, 4, &at);
    net_link *a = test_call(&caller_id, &at), *b = test_meet(door, a);
    char text[8] = "";
    const pid_t child = fork();
    if (child == 0) {
        net_link_forget(a);
        net_link_forget(a);
        net_link_forget(b);
        net_door_forget(door);
        _exit(net_link_fd(a) == -1 ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(net_link_send(a, &(struct iovec){"here", 4}, 1), 4);
    test_wait(net_link_fd(b), POLLIN, -1, 0);
    assert_int_equal(net_link_receive(b, text, sizeof text), 4);
    net_link *again = test_call(&caller_id, &at), *in = test_meet(door, again);
    assert_non_null(in);
    net_link_close(again);
    net_link_close(in);
    net_link_close(a);
    net_link_close(b);
    net_door_close(door);
    net_link_close(NULL);
    net_door_close(NULL);
}

static void an_end_is_seen_while_a_child_holds_a_copy(void **state)
{
    (void)state;
    net_address at;
    net_door *door = test_door(&host_id, 4, &at);
    net_link *a = test_call(&caller_id, &at), *b = test_meet(door, a);
    const int copy = dup(net_link_fd(a)); /* as a child that has not forgotten it yet would */
    net_link_close(a);
    char byte;
    ssize_t got;
    while ((got = net_link_receive(b, &byte, 1)) == 0)
        test_wait(net_link_fd(b), POLLIN, -1, 0);
    assert_int_equal(got, -1);
    close(copy);
    net_link_close(b);
    net_door_close(door);
}

/* What was sent to a peer that is gone is nothing to wait for. */
static void a_reset_link_counts_as_flushed(void **state)
{
    (void)state;
    net_address at;
    net_door *door = test_door(&host_id, 4, &at);
    net_link *a = test_call(&caller_id, &at), *b = test_meet(door, a);
    static uint8_t bytes[1 << 20];
    while (net_link_send(a, &(struct iovec){bytes, sizeof bytes}, 1) > 0) {
    }
    assert_false(net_link_flushed(a));
    net_link_close(b); /* with all of that unread */
    while (!net_link_flushed(a))
        poll(NULL, 0, 1);
    net_link_close(a);
    net_door_close(door);
}

/* Links in every state are closed, and nothing is left (the sanitizers look). */
static void links_end_in_every_state(void **state)
{
    (void)state;
    encrypt_both();
    net_address at;
    net_door *door = test_door(&host_id, 4, &at);
    net_link_close(test_call(&caller_id, &at)); /* waits */
    net_link *a = test_call(&caller_id, &at);
    net_link_progress(a, UINT64_MAX); /* refused */
    net_link_close(a);
    a = test_call(&caller_id, &at);
    net_link *b = test_meet(door, a); /* open, with bytes inside */
    static uint8_t bytes[1 << 20];
    while (net_link_send(a, &(struct iovec){bytes, sizeof bytes}, 1) > 0) {
    }
    assert_true(net_link_wants_write(a));
    net_link_receive(b, bytes, 1);
    net_link_close(a);
    net_link_close(b);
    net_link_close(test_call(&caller_id, &at));
    net_door_close(door); /* with a guest that has not been let in */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(both_ends_know_what_the_link_is_for, fresh_identities),
        cmocka_unit_test_setup(the_local_address_can_be_chosen, fresh_identities),
        cmocka_unit_test_setup(what_cannot_be_called_is_said_at_once, fresh_identities),
        cmocka_unit_test_setup(a_port_where_nobody_listens_refuses, fresh_identities),
        cmocka_unit_test_setup(a_silent_host_is_given_up, fresh_identities),
        cmocka_unit_test_setup(false_hosts_are_found_out, fresh_identities),
        cmocka_unit_test_setup(a_differing_caller_is_turned_away, fresh_identities),
        cmocka_unit_test_setup(a_door_can_get_another_identity, fresh_identities),
        cmocka_unit_test_setup(nobody_on_the_line_can_change_a_byte, fresh_identities),
        cmocka_unit_test_setup(nobody_on_the_line_can_change_an_encrypted_byte, fresh_identities),
        cmocka_unit_test_setup(without_a_key_bytes_can_be_changed, fresh_identities),
        cmocka_unit_test_setup(a_broken_link_says_that_it_was_altered, fresh_identities),
        cmocka_unit_test_setup(a_child_forgets_without_harm, fresh_identities),
        cmocka_unit_test_setup(an_end_is_seen_while_a_child_holds_a_copy, fresh_identities),
        cmocka_unit_test_setup(a_reset_link_counts_as_flushed, fresh_identities),
        cmocka_unit_test_setup(links_end_in_every_state, fresh_identities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
