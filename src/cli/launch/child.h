/* child.h: the one way in which this program starts another.
 *
 * Who only goes on as a second process of this program (the guard, the agent of our own host, simulated jobs) calls
 * fork itself: nothing is executed there, and none of what follows has a meaning for it.
 * Between fork and exec the child is alone with one thread, so it may use the whole C library.
 */
#ifndef RUEDA_CLI_LAUNCH_CHILD_H
#define RUEDA_CLI_LAUNCH_CHILD_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Exit codes, as the shell counts. */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128 /* and the number of the signal */

#define CHILD_NOTHING (-1) /* in place of a descriptor: /dev/null */

typedef enum child_place { CHILD_BESIDE_US, CHILD_OWN_GROUP, CHILD_OWN_SESSION } child_place;

/* A field that is zero changes nothing: the child keeps what it has from us. */
typedef struct child {
    char *const *command; /* looked up in PATH; ends with NULL */
    int input, output, errors;
    child_place place;
    int death_signal;     /* that it gets when we die */
    const sigset_t *mask; /* its signal mask; SIGPIPE is then not ignored either */
    bool (*prepare)(
        void *context); /* called in the child, last; false: errno says why not to go on */
    void *context;
    /* If the command cannot be executed: where its errno can be read (a descriptor of the caller), or else
     * what is said on its stderr before the command's name and the reason, or else nothing. */
    int *report;
    const char *complaint;
} child;

/* Its pid, or −errno: no process could be made. Does not wait until the command runs. */
pid_t child_start(const child *c);

/* Waits for its end and returns its exit code. *signal, if not NULL: what ended it, or 0. */
int child_wait(pid_t pid, int *signal);

/* Runs a line by /bin/sh, beside us, and returns its exit code. */
int child_shell(const char *line);

/* Whether PATH has the program, or it is a path itself. */
bool child_exists(const char *program);
/* The path of a file beside our own program. False: it is not known (errno), or too long. */
bool child_beside(const char *name, char path[PATH_MAX]);

#endif
