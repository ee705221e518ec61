/* squatter_test.c: another user of the machine takes every name he can guess, and calls and rings wherever
 * he sees a name: jobs start and work as if he were not there. Needs root, to become another user.
 * ctest: waits timeout=120 */
#include "survivors.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 3 /* of the job; the next one is the other user */
#define SKIPPED 77
#define NOBODY 65534
#define LIFES 4 /* of the job, one after the other: rueda_init … rueda_shutdown */
#define NAMES_MOST 400

enum { SQUATS, DONE };

/* ---- The other user -------------------------------------------------------------------------- */

static socklen_t name_socket(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t length = strlen(name);
    CHECK(length < sizeof address->sun_path - 1);
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* Listens there if nobody does; who knows whether anybody will look for it. */
static int squat(const char *name, int type)
{
    struct sockaddr_un address;
    const socklen_t length = name_socket(name, &address);
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 &&
        (type == SOCK_DGRAM || listen(fd, 4) == 0))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Names that follow from the job's alone. */
static void squat_guesses(const char *job)
{
    static const char *const topics[] = {"memory", "meeting", "bell"};
    for (int generation = 1; generation <= LIFES; generation++) {
        for (int i = 0; i < 3 * RANKS; i++) {
            char name[108];
            snprintf(name, sizeof name, "rueda/%s/%d/%s-%d", job, generation, topics[i % 3], i / 3);
            CHECK(squat(name, i % 3 == 2 ? SOCK_DGRAM : SOCK_STREAM) >= 0);
        }
    }
}

/* One that differs from a name that he sees in its last letter. */
static void squat_beside(const char *name)
{
    char other[108];
    snprintf(other, sizeof other, "%s", name);
    for (char c = '0'; c <= '9'; c++) {
        other[strlen(other) - 1] = c;
        (void)!squat(other, SOCK_STREAM);
    }
}

static void molest(const char *name)
{
    struct sockaddr_un address;
    const socklen_t length = name_socket(name, &address);
    for (int i = 0; i < 100; i++) {
        const int type = i % 2 == 0 ? SOCK_STREAM : SOCK_DGRAM;
        const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&address, length) == 0) {
            (void)!send(fd, "!", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        close(fd);
    }
}

/* Whatever of the job is to be seen now. */
static void look_for_victims(const char *job)
{
    char line[512], mark[100];
    static int names;
    snprintf(mark, sizeof mark, "@rueda/%s/", job);
    FILE *list = fopen("/proc/net/unix", "re");
    CHECK(list != NULL);
    while (fgets(line, sizeof line, list) != NULL) {
        char *name = strstr(line, mark);
        if (name == NULL)
            continue;
        name[strcspn(name, "\n")] = '\0';
        molest(name + 1);
        if (names++ < NAMES_MOST / 10)
            squat_beside(name + 1);
    }
    fclose(list);
}

static void be_a_nuisance(void)
{
    const char *job = getenv("RUEDA_JOB");
    CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
    squat_guesses(job);
    atomic_store(job_counter(SQUATS), 1);
    while (atomic_load(job_counter(DONE)) < RANKS)
        look_for_victims(job);
}

/* ---- The job --------------------------------------------------------------------------------- */

static void live(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    if (rank == RANKS) {
        be_a_nuisance();
        return;
    }
    setenv("RUEDA_SIZE", "3", 1);
    setenv("RUEDA_LOCAL_SIZE", "3", 1);
    setenv("RUEDA_LOG_LEVEL", "error", 1);
    await_counter(SQUATS, 1);
    for (int life = 0; life < LIFES; life++) {
        doing("life %d", life);
        CHECK_OK(rueda_init(NULL));
        for (int i = 0; i < 20; i++)
            CHECK_OK(run_one("work"));
        CHECK_OK(rueda_shutdown());
    }
    atomic_fetch_add(job_counter(DONE), 1);
}

static void another_user_blocks_nothing(void **state)
{
    (void)state;
    run_job(&(job){.ranks = RANKS + 1, .body = live});
}

static void another_user_blocks_nothing_of_a_job_with_a_key(void **state)
{
    (void)state;
    static const char *const environment[] = {
        "RUEDA_KEY=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", NULL};
    run_job(&(job){.ranks = RANKS + 1, .body = live, .environment = environment});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_user_blocks_nothing),
        cmocka_unit_test(another_user_blocks_nothing_of_a_job_with_a_key),
    };
    if (geteuid() != 0) {
        print_message("SKIPPED: only root can become another user\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("squatter", tests, NULL, look_for_rest);
}
