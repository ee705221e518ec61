/* part_command.c: `rueda part INDEX/COUNT HOST:PORT LINE...`, for a process of a worker that is one of
 * many, each with a `rueda run` of its own: the pods of a Kubernetes Job, which nobody reaches by ssh.
 *
 * It turns the place within the worker into the place within the job, then runs the lines, each when
 * all processes of all workers have ended the one before. The key comes in RUEDA_PART_KEY.
 */
#include "cli/commands.h"
#include "cli/launch/child.h"
#include "cli/launch/meet.h"
#include "cli/options.h"
#include "rueda.h"

#include <errno.h>
#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEY_VARIABLE "RUEDA_PART_KEY"
#define NAME_DIGITS 32
#define START_TIMEOUT_S 30      /* as RUEDA_START_TIMEOUT */
#define NAME_PAUSE_NS 500000000 /* between two questions for a name */
#define WHOLE_LINE_S "86400"    /* how long a worker may be behind the others in a line */

static int number_in(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : otherwise;
}

static void set_number(const char *what, int value)
{
    static const char *const owners[] = {"RUEDA", "HOROVOD"};
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
        char name[64], text[16];
        snprintf(name, sizeof name, "%s_%s", owners[i], what);
        snprintf(text, sizeof text, "%d", value);
        setenv(name, text, true);
    }
}

/* Each worker's launcher has made up a name of its own. The key is the same for all, and no other job has
 * it; its hash gives nothing of it away. */
static void set_name(const char *key)
{
    uint8_t hash[crypto_generichash_BYTES];
    char name[2 * sizeof hash + 1];
    crypto_generichash(hash, sizeof hash, (const uint8_t *)key, strlen(key), NULL, 0);
    sodium_bin2hex(name, sizeof name, hash, sizeof hash);
    name[NAME_DIGITS] = '\0';
    setenv("RUEDA_JOB", name, true);
}

/* The workers are alike, so all places follow from ours. */
static void take_place(int index, int count, const char *meet, const char *key)
{
    const int local = number_in("RUEDA_LOCAL_RANK", 0), size = number_in("RUEDA_LOCAL_SIZE", 1);
    set_number("RANK", index * size + local);
    set_number("SIZE", count * size);
    set_number("CROSS_RANK", index);
    set_number("CROSS_SIZE", count);
    setenv("RUEDA_MEET", meet, true);
    setenv("RUEDA_KEY", key, true);
    set_name(key);
    unsetenv(KEY_VARIABLE);
}

/* A name server learns of a pod when it starts. False: it has not in time. */
static bool await_name(const char *meet)
{
    char host[MEET_MAX];
    int port, tries = 2 * number_in("RUEDA_START_TIMEOUT", START_TIMEOUT_S);
    struct addrinfo *found = NULL;
    if (!meet_parse(meet, host, sizeof host, &port))
        return true; /* rueda_init says what is wrong */
    while (getaddrinfo(host, NULL, NULL, &found) != 0) {
        if (tries-- <= 0)
            return false;
        nanosleep(&(struct timespec){0, NAME_PAUSE_NS}, NULL);
    }
    freeaddrinfo(found);
    return true;
}

/* All processes of the job come here. Only the first to fail ends before that, and ends the job. */
static bool await_others(void)
{
    char before[32];
    snprintf(before, sizeof before, "%d", number_in("RUEDA_START_TIMEOUT", START_TIMEOUT_S));
    setenv("RUEDA_START_TIMEOUT", WHOLE_LINE_S, true);
    const bool met = rueda_init(NULL) == RUEDA_OK && rueda_barrier(0, NULL) == RUEDA_OK;
    if (!met)
        fprintf(stderr, "rueda part: %s\n", rueda_error());
    rueda_shutdown();
    setenv("RUEDA_START_TIMEOUT", before, true);
    return met;
}

int part_command(int argc, char **argv)
{
    int index = -1, count = 0;
    char rest;
    const char *key = getenv(KEY_VARIABLE);
    if (argc < 4 || sscanf(argv[1], "%d/%d%c", &index, &count, &rest) != 2 || index < 0 ||
        index >= count)
        return options_complain("part", "is for rueda submit alone; see rueda submit --help");
    if (key == NULL)
        return options_complain("part", "the job has no key: set " KEY_VARIABLE);
    take_place(index, count, argv[2], key);
    if (!await_name(argv[2])) {
        fprintf(stderr, "rueda part: no address for %s; did worker 0 start?\n", argv[2]);
        return EXIT_FAILURE;
    }
    int code = EXIT_SUCCESS;
    for (int i = 3; i < argc && code == EXIT_SUCCESS; i++) {
        if (i > 3 && !await_others())
            return EXIT_FAILURE;
        code = child_shell(argv[i]);
    }
    return code;
}
