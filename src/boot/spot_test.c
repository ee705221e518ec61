/* spot_test.c: ranks of a host find each other, two jobs of one name are found out, and who has taken a name
 * is named. */
#include "boot/spot.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

static net_identity make_identity(bool has_key)
{
    net_identity me = {.generation = 1};
    snprintf(me.job, sizeof me.job, "spot test %d", (int)getpid());
    memset(me.key, has_key ? 7 : 0, sizeof me.key);
    return me;
}

static int listen_at(const spot *s)
{
    int fd = -1;
    if (spot_listen(s, &fd) != RUEDA_OK)
        fail_msg("%s", status_text());
    return fd;
}

static void name_of(int fd, struct sockaddr_un *address, socklen_t *length)
{
    *length = sizeof *address;
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, length), 0);
}

static void assert_nobody(const spot *s)
{
    spot_stranger met = {0};
    assert_int_equal(spot_connect(s, &met), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(met.pid, 0);
}

static void ranks_find_each_other_and_nobody_else(void **state)
{
    (void)state;
    for (int has_key = 0; has_key < 2; has_key++) {
        const net_identity me = make_identity(has_key);
        net_identity later = me, other = me, later_met = me;
        const spot s = {&me, "topic", 0};
        spot_stranger met = {0};
        later.generation++;
        other.key[5] ^= 1;
        later_met.instance[3] ^= 1;
        assert_nobody(&s);
        const int listener = listen_at(&s), fd = spot_connect(&s, &met);
        assert_true(fd >= 0 && spot_is_own_user(fd, &met));
        assert_nobody(&(spot){&me, "topic", 1});
        assert_nobody(&(spot){&me, "other", 0});
        assert_nobody(&(spot){&later, "topic", 0});
        assert_nobody(&(spot){&later_met, "topic", 0});
        assert_nobody(&(spot){&other, "topic", 0});
        close(fd);
        close(listener);
        assert_nobody(&s);
    }
}

static void a_second_job_of_the_name_is_refused(void **state)
{
    (void)state;
    for (int has_key = 0; has_key < 2; has_key++) {
        const net_identity me = make_identity(has_key);
        const spot s = {&me, "topic", 0};
        char process[32];
        int second = -1;
        const int first = listen_at(&s);
        assert_int_equal(spot_listen(&s, &second), RUEDA_ERR_SYSTEM);
        snprintf(process, sizeof process, "process %d is rank 0", (int)getpid());
        assert_non_null(strstr(status_text(), process));
        assert_non_null(strstr(status_text(), "running twice"));
        assert_int_equal(second, -1);
        close(first);
    }
}

static void names_cannot_be_foreseen(void **state)
{
    (void)state;
    const net_identity me = make_identity(false);
    net_identity a = make_identity(true), b = a;
    struct sockaddr_un one, two;
    socklen_t bytes, other_bytes;
    int fd = listen_at(&(spot){&me, "topic", 0});
    name_of(fd, &one, &bytes);
    close(fd);
    fd = listen_at(&(spot){&me, "topic", 0}); /* the same again, without a key: another end */
    name_of(fd, &two, &other_bytes);
    close(fd);
    assert_true(bytes == other_bytes && memcmp(&one, &two, bytes) != 0);
    b.key[31] ^= 1;
    fd = listen_at(&(spot){&a, "topic", 0});
    name_of(fd, &one, &bytes);
    close(fd);
    fd = listen_at(&(spot){&b, "topic", 0});
    name_of(fd, &two, &other_bytes);
    close(fd);
    assert_true(bytes == other_bytes && memcmp(&one, &two, bytes) != 0);
}

/* In a child of another user: takes the name, says so by the pipe, and stays until it is closed. */
static void squat(const struct sockaddr_un *address, socklen_t length, int told, int ended)
{
    char byte = 0;
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0 ||
        bind(fd, (const struct sockaddr *)address, length) != 0 || listen(fd, 4) != 0)
        _exit(1);
    (void)!write(told, &byte, 1);
    (void)!read(ended, &byte, 1);
    _exit(0);
}

static void who_has_taken_the_name_is_named(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    const net_identity me = make_identity(true);
    const spot s = {&me, "topic", 0};
    struct sockaddr_un address;
    socklen_t length;
    int told[2], ended[2], listener = listen_at(&s);
    name_of(listener, &address, &length);
    close(listener);
    assert_true(pipe(told) == 0 && pipe(ended) == 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ended[1]);
        squat(&address, length, told[1], ended[0]);
    }
    close(told[1]);
    char byte, process[40];
    assert_int_equal(read(told[0], &byte, 1), 1);
    spot_stranger met = {0};
    assert_int_equal(spot_connect(&s, &met), -1);
    assert_int_equal(met.pid, child);
    assert_int_equal(met.user, NOBODY);
    assert_int_equal(spot_listen(&s, &listener), RUEDA_ERR_SYSTEM);
    snprintf(process, sizeof process, "process %d of user %d", (int)child, NOBODY);
    assert_non_null(strstr(status_text(), process));
    close(ended[1]);
    close(ended[0]);
    close(told[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_find_each_other_and_nobody_else),
        cmocka_unit_test(a_second_job_of_the_name_is_refused),
        cmocka_unit_test(names_cannot_be_foreseen),
        cmocka_unit_test(who_has_taken_the_name_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
