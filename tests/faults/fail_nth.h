/* fail_nth.h: the n-th call that asks the system for something fails.
 *
 * The linker puts these calls of the library, and of nothing else that is shared with it, in the place of
 * the real ones (--wrap, see CMakeLists.txt): the library itself knows nothing of it. They fail as the
 * real ones would: with the same value and the same errno. Which calls: the list in fail_nth.c.
 */
#ifndef RUEDA_TESTS_FAIL_NTH_H
#define RUEDA_TESTS_FAIL_NTH_H

#include <stdbool.h>

/* Which call it was; in memory that the test shares with the rank, so that it is known after a crash. */
typedef struct fail_nth_note {
    bool failed;
    char call[24];
    unsigned long where; /* in the program, for addr2line */
} fail_nth_note;

/* From now on calls are counted, by all threads of this process, and call n (1, 2, …) fails; with
 * `onwards` all that follow it as well. */
void fail_nth_arm(long n, bool onwards, fail_nth_note *note);
/* All calls succeed again. */
void fail_nth_disarm(void);

/* For more calls than those of fail_nth.c: counts one, and tells whether it is to fail. */
bool fail_nth_now(const char *call, const void *caller);

#endif
