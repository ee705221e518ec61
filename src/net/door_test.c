/* door_test.c: strangers of every kind at the door, while callers get in. */
#include "net/door_testing.h"

#include <errno.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* ---- Kinds of strangers ---------------------------------------------------------------------- */

static void every_altered_field_has_its_counter(void **state)
{
    (void)state;
    const door_refusals *r = &door->refusals;
    const struct {
        size_t byte;
        const uint64_t *counter;
    } table[] = {{0, &r->garbage},        {7, &r->garbage},           {8, &r->wrong_version},
                 {11, &r->wrong_version}, {12, &r->wrong_key},        {16, &r->wrong_job},
                 {47, &r->wrong_job},     {48, &r->wrong_generation}, {55, &r->wrong_generation},
                 {56, &r->wrong_key},     {64, &r->wrong_key},        {68, &r->wrong_key},
                 {72, &r->wrong_key},     {76, &r->wrong_key},        {80, &r->wrong_key},
                 {84, &r->wrong_key},     {96, &r->wrong_key},        {127, &r->wrong_key},
                 {128, &r->wrong_key},    {159, &r->wrong_key},       {191, &r->wrong_key}};
    const net_purpose purpose = test_purpose();
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        proof_transcript said;
        const uint64_t before = *table[i].counter;
        make_hello(&caller_id, &purpose, 1, &said);
        said.hello[table[i].byte] ^= 0x40;
        const int fd = test_stranger(&at);
        say(fd, said.hello, sizeof said.hello);
        until_noticed(start_ns);
        assert_int_equal(*table[i].counter, before + 1);
        assert_int_equal(test_sum(r), i + 1);
        assert_turned_away(fd);
    }
    assert_caller_gets_in();
}

static void a_caller_for_another_rank_is_refused(void **state)
{
    (void)state;
    net_purpose purpose = test_purpose();
    proof_transcript said;
    purpose.to = TEST_HOST + 1;
    make_hello(&caller_id, &purpose, 1, &said);
    const int fd = test_stranger(&at);
    say(fd, said.hello, sizeof said.hello);
    until_noticed(start_ns);
    assert_int_equal(door->refusals.wrong_purpose, 1);
    assert_turned_away(fd);
}

static void garbage_is_refused_at_once(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01", "SSH-2.0-x\r\n", "x", "rueda-a\n", "rueda-hx"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const int fd = test_stranger(&at);
        say(fd, texts[i], strlen(texts[i]));
        until_noticed(start_ns);
        assert_int_equal(door->refusals.garbage, i + 1);
        assert_turned_away(fd);
    }
    static uint8_t megabyte[1 << 20];
    const int fd = test_stranger(&at);
    (void)!send(fd, megabyte, sizeof megabyte, MSG_DONTWAIT | MSG_NOSIGNAL);
    until_noticed(start_ns);
    assert_int_equal(door->refusals.garbage, 7);
    close(fd);
}

static void who_leaves_early_is_counted_and_gone(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    proof_transcript said;
    make_hello(&caller_id, &purpose, 1, &said);
    static const size_t lengths[] = {0, 1, 12, PROOF_HELLO - 1, PROOF_HELLO};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const int fd = test_stranger(&at);
        if (lengths[i] > 0)
            say(fd, said.hello, lengths[i]);
        until_noticed(start_ns);
        close(fd);
        until_noticed(start_ns);
        assert_int_equal(door->refusals.garbage, i + 1);
        assert_int_equal(net_door_deadline(door), UINT64_MAX); /* no guest is left */
    }
}

/* A caller's hello, and what it says then, if the host answers. */
static bool gets_in(proof_transcript *said)
{
    const int fd = test_stranger(&at);
    say(fd, said->hello, sizeof said->hello);
    until_noticed(start_ns);
    const bool answered = recv(fd, said->answer, PROOF_ANSWER, MSG_WAITALL) == PROOF_ANSWER;
    net_link *link = NULL;
    if (answered) {
        assert_int_equal(proof_check_answer(&caller_id, said), PROOF_GOOD);
        proof_make_finish(&caller_id, said);
        say(fd, said->finish, sizeof said->finish);
        test_wait(net_door_fd(door), POLLIN, -1, 0);
        link = net_door_progress(door, start_ns);
    }
    net_link_close(link);
    close(fd);
    return link != NULL;
}

static void a_recorded_hello_is_refused_without_a_word(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    proof_transcript said, other;
    make_hello(&caller_id, &purpose, 1, &said);
    make_hello(&caller_id, &purpose, 2, &other);
    assert_true(gets_in(&said));
    for (int i = 0; i < 3; i++)
        assert_false(gets_in(&said));
    assert_int_equal(door->refusals.repeated, 3);
    assert_int_equal(test_sum(&door->refusals), 3);
    assert_true(gets_in(&other));
}

static void admitted_links_of_no_use_are_counted(void **state)
{
    (void)state;
    net_link *a = test_call(&caller_id, &at), *b = test_meet(door, a);
    net_door_refuse(door, b);
    assert_int_equal(door->refusals.wrong_purpose, 1);
    char byte;
    ssize_t got;
    while ((got = net_link_receive(a, &byte, 1)) == 0)
        test_wait(net_link_fd(a), POLLIN, -1, 0);
    assert_int_equal(got, -1);
    assert_int_equal(a->state, NET_BROKEN);
    net_link_close(a);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void silent_guests_go_at_their_deadline(void **state)
{
    (void)state;
    assert_int_equal(net_door_deadline(door), UINT64_MAX);
    const int early = test_stranger(&at);
    until_noticed(start_ns);
    const int late = test_stranger(&at);
    until_noticed(start_ns + 5);
    assert_int_equal(net_door_deadline(door), start_ns + NET_GUEST_LIMIT_NS);
    test_settle(door, start_ns + NET_GUEST_LIMIT_NS - 1);
    assert_int_equal(door->refusals.slow, 0);
    test_settle(door, start_ns + NET_GUEST_LIMIT_NS);
    assert_int_equal(door->refusals.slow, 1);
    assert_int_equal(net_door_deadline(door), start_ns + 5 + NET_GUEST_LIMIT_NS);
    test_settle(door, start_ns + 5 + NET_GUEST_LIMIT_NS);
    assert_int_equal(door->refusals.slow, 2);
    assert_turned_away(early);
    assert_turned_away(late);
}

static void a_byte_a_second_is_too_slow(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    const uint64_t second = UINT64_C(1000000000);
    proof_transcript said;
    make_hello(&caller_id, &purpose, 1, &said);
    const int fd = test_stranger(&at);
    until_noticed(start_ns);
    for (uint64_t i = 0; i * second < NET_GUEST_LIMIT_NS; i++) {
        assert_int_equal(door->refusals.slow, 0);
        say(fd, said.hello + i, 1);
        until_noticed(start_ns + i * second);
    }
    test_settle(door, start_ns + NET_GUEST_LIMIT_NS);
    assert_int_equal(door->refusals.slow, 1);
    close(fd);
}

static void who_never_finishes_is_too_slow(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    proof_transcript said;
    make_hello(&caller_id, &purpose, 1, &said);
    const int fd = test_stranger(&at);
    say(fd, said.hello, sizeof said.hello);
    until_noticed(start_ns);
    assert_int_equal(recv(fd, said.answer, PROOF_ANSWER, MSG_WAITALL), PROOF_ANSWER);
    test_settle(door, start_ns + NET_GUEST_LIMIT_NS);
    assert_int_equal(door->refusals.slow, 1);
    close(fd);
}

/* Proofs that are complete when the deadline has passed still count: the door was late, not they. */
static void a_late_door_does_not_blame_the_guest(void **state)
{
    (void)state;
    net_link *a = test_call(&caller_id, &at), *b = NULL;
    while (net_link_wants_write(a))
        net_link_progress(a, world_now_ns());
    until_noticed(start_ns);
    while (net_link_progress(a, world_now_ns()) == NET_WAITS)
        test_wait(net_link_fd(a), POLLIN, -1, 0);
    test_wait(net_door_fd(door), POLLIN, -1, 0);
    b = net_door_progress(door, start_ns + 2 * NET_GUEST_LIMIT_NS);
    assert_non_null(b);
    net_link_close(a);
    net_link_close(b);
}

/* ---- Trouble of our own ---------------------------------------------------------------------- */

static int lowest_free_descriptor(void)
{
    const int fd = dup(0);
    close(fd);
    return fd;
}

static void a_guest_is_gone_while_a_child_holds_a_copy(void **state)
{
    (void)state;
    const int fd = test_stranger(&at), accepted = lowest_free_descriptor();
    until_noticed(start_ns);
    const int copy = dup(accepted); /* as a child that has not forgotten it yet would */
    assert_true(copy >= 0);
    say(fd, "garbage", 7);
    until_noticed(start_ns);
    assert_int_equal(door->refusals.garbage, 1);
    say(fd, "more", 4);
    assert_false(is_readable(net_door_fd(door)));
    assert_turned_away(fd);
    close(copy);
}

static void running_out_of_descriptors_pauses_the_door(void **state)
{
    (void)state;
    struct rlimit before, low;
    getrlimit(RLIMIT_NOFILE, &before);
    const int fd = test_stranger(&at);
    test_wait(net_door_fd(door), POLLIN, -1, 0);
    low = (struct rlimit){(rlim_t)lowest_free_descriptor(), before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_null(net_door_progress(door, start_ns));
    const bool spins = is_readable(net_door_fd(door));
    const int trouble = net_door_trouble(door);
    const uint64_t deadline = net_door_deadline(door);
    assert_null(net_door_progress(door, start_ns + 1));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(spins);
    assert_int_equal(trouble, EMFILE);
    assert_true(deadline > start_ns && deadline < start_ns + NET_GUEST_LIMIT_NS);
    test_settle(door, deadline - 1);
    assert_int_equal(net_door_deadline(door), deadline);
    test_settle(door, deadline); /* the stranger is a guest now */
    assert_int_equal(net_door_trouble(door), 0);
    assert_int_equal(net_door_deadline(door), deadline + NET_GUEST_LIMIT_NS);
    close(fd);
    assert_caller_gets_in();
}

/* ---- The log --------------------------------------------------------------------------------- */

static int redirect_errors(int *saved)
{
    const int file = memfd_create("log", 0);
    assert_true(file >= 0);
    *saved = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    return file;
}

static void each_kind_is_logged_once_with_its_address(void **state)
{
    (void)state;
    static const char *const kinds[] = {"not from rueda", "does not know the job's key",
                                        "within the time limit"};
    const logger log = {.level = LOG_WARN, .rank = 1};
    const net_purpose purpose = test_purpose();
    char key[2 * NET_KEY_BYTES + 1], text[4096] = "", local[NET_TEXT] = "";
    int listener, saved;
    net_address own = test_loopback(4);
    assert_ok(net_listen(&own, 0, 0, &listener, &own.port));
    net_door *loud;
    assert_ok(net_door_open(&host_id, listener, &log, &loud));
    net_identity wrong = caller_id;
    wrong.key[0] ^= 1;
    proof_transcript said;
    make_hello(&wrong, &purpose, 1, &said);
    const int file = redirect_errors(&saved);
    for (int i = 0; i < 9; i++) {
        const int fd = test_stranger(&own);
        if (i % 3 == 0)
            say(fd, "garbage", 7);
        else if (i % 3 == 1)
            say(fd, said.hello, sizeof said.hello);
        if (i == 0) {
            struct sockaddr_storage system;
            socklen_t bytes = sizeof system;
            net_address mine;
            getsockname(fd, (struct sockaddr *)&system, &bytes);
            address_from_socket((struct sockaddr *)&system, &mine);
            net_format(&mine, local);
        }
        test_wait(net_door_fd(loud), POLLIN, -1, 0);
        test_settle(loud, start_ns);
        test_settle(loud, start_ns + NET_GUEST_LIMIT_NS);
        close(fd);
    }
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    close(file);
    int lines = 0;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 3);
    for (int i = 0; i < 3; i++)
        assert_non_null(strstr(text, kinds[i]));
    assert_non_null(strstr(text, local));
    assert_non_null(strstr(text, "rueda warn: rank 1: refused a connection from 127.0.0.1:"));
    sodium_bin2hex(key, sizeof key, host_id.key, sizeof host_id.key);
    key[8] = '\0';
    assert_null(strstr(text, key));
    net_door_close(loud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DOOR_TEST(every_altered_field_has_its_counter),
        DOOR_TEST(a_caller_for_another_rank_is_refused),
        DOOR_TEST(garbage_is_refused_at_once),
        DOOR_TEST(who_leaves_early_is_counted_and_gone),
        DOOR_TEST(a_recorded_hello_is_refused_without_a_word),
        DOOR_TEST(admitted_links_of_no_use_are_counted),
        DOOR_TEST(silent_guests_go_at_their_deadline),
        DOOR_TEST(a_byte_a_second_is_too_slow),
        DOOR_TEST(who_never_finishes_is_too_slow),
        DOOR_TEST(a_late_door_does_not_blame_the_guest),
        DOOR_TEST(a_guest_is_gone_while_a_child_holds_a_copy),
        DOOR_TEST(running_out_of_descriptors_pauses_the_door),
        DOOR_TEST(each_kind_is_logged_once_with_its_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
