/* expect.c: what a test expects of a program. */
#include "litmus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define WHOLE_STATES 2000 /* programs with fewer are explored whole as well */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What is left out of the states must not change what is found. */
static void compare_whole(const litmus_program *program, litmus_change change,
                          const litmus_result *result)
{
    litmus_program whole = *program;
    whole.whole = true;
    litmus_result *all = litmus_explore(&whole, &change, 1);
    const bool alike = (all->failure == NULL) == (result->failure == NULL);
    if (!alike)
        fprintf(stderr, "without leaving anything out: %s\n%s",
                all->failure == NULL ? "holds" : all->failure, all->trace);
    litmus_free(all);
    assert_true(alike);
}

static litmus_result *explore(const char *name, const litmus_program *program, litmus_change change)
{
    const double begin = seconds_now();
    litmus_result *result = litmus_explore(program, &change, 1);
    printf("%-58s %8llu states %6.2f s  %s\n", name, (unsigned long long)result->states,
           seconds_now() - begin, result->failure == NULL ? "holds" : result->failure);
    if (result->failure != NULL && getenv("LITMUS_TRACE") != NULL)
        printf("%s", result->trace);
    if (result->states < WHOLE_STATES)
        compare_whole(program, change, result);
    return result;
}

void litmus_holds_with(const char *name, const litmus_program *program, litmus_change change)
{
    litmus_result *result = explore(name, program, change);
    const bool holds = result->failure == NULL;
    if (!holds)
        fprintf(stderr, "%s: %s\n%s", name, result->failure, result->trace);
    litmus_free(result);
    assert_true(holds);
}

void litmus_holds(const char *name, const litmus_program *program)
{
    litmus_holds_with(name, program, LITMUS_UNCHANGED);
}

void litmus_fails(const char *name, const litmus_program *program, litmus_change change,
                  const char *failure)
{
    litmus_result *result = explore(name, program, change);
    const bool found =
        result->failure != NULL && strncmp(result->failure, failure, strlen(failure)) == 0;
    if (!found)
        fprintf(stderr, "%s: should fail with '%s'\n%s", name, failure, result->trace);
    litmus_free(result);
    assert_true(found);
}
