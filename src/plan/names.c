/* names.c: the words for collectives, algorithms, checks and steps. They come from the lists in
 * plan.h, so nothing here has to be kept in step with them. */
#include "plan/plan.h"

#include <string.h>

#define TEXT_OF(name, text) text,
static const char *const COLLECTIVES[] = {PLAN_COLLECTIVE_LIST(TEXT_OF)};
static const char *const ALGORITHMS[] = {PLAN_ALGORITHM_LIST(TEXT_OF)};
static const char *const CHECKS[] = {PLAN_CHECK_LIST(TEXT_OF)};

#define LOCAL_OF(name, local, remote) local,
#define REMOTE_OF(name, local, remote) remote,
static const char *const LOCAL_KINDS[] = {PLAN_KIND_LIST(LOCAL_OF)};
static const char *const REMOTE_KINDS[] = {PLAN_KIND_LIST(REMOTE_OF)};

#define COUNT(list) (sizeof(list) / sizeof *(list))

const char *plan_collective_name(plan_collective collective)
{
    return (size_t)collective < COUNT(COLLECTIVES) ? COLLECTIVES[collective] : "?";
}

const char *plan_algorithm_name(plan_algorithm algorithm)
{
    return (size_t)algorithm < COUNT(ALGORITHMS) ? ALGORITHMS[algorithm] : "?";
}

const char *plan_check_name(plan_check check)
{
    return (size_t)check < COUNT(CHECKS) ? CHECKS[check] : "?";
}

static bool elsewhere(const plan *p, const plan_operand *operand)
{
    return operand->buffer != PLAN_NONE && operand->rank != p->layout.rank;
}

const char *plan_step_name(const plan *p, const plan_step *step)
{
    if (step->kind >= PLAN_KIND_COUNT)
        return "?";
    if (step->kind == PLAN_COPY && elsewhere(p, &step->dst))
        return "PUT";
    bool remote = elsewhere(p, &step->dst) || elsewhere(p, &step->a) || elsewhere(p, &step->b);
    return remote ? REMOTE_KINDS[step->kind] : LOCAL_KINDS[step->kind];
}

/* The index of text in list, or -1. */
static int find(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, list[i]) == 0)
            return (int)i;
    return -1;
}

bool plan_collective_parse(const char *text, plan_collective *collective)
{
    int i = find(text, COLLECTIVES, COUNT(COLLECTIVES));
    if (i >= 0)
        *collective = (plan_collective)i;
    return i >= 0;
}

bool plan_algorithm_parse(const char *text, plan_algorithm *algorithm)
{
    int i = find(text, ALGORITHMS, COUNT(ALGORITHMS));
    if (i >= 0)
        *algorithm = (plan_algorithm)i;
    return i >= 0;
}
