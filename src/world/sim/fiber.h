/* fiber.h: stacks, and changing from one to another. */
#ifndef RUEDA_WORLD_SIM_FIBER_H
#define RUEDA_WORLD_SIM_FIBER_H

#include <stddef.h>

#ifndef __has_feature
#define __has_feature(name) 0 /* clang has it, gcc says __SANITIZE_ADDRESS__ */
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define FIBER_SANITIZED 1
#else
#define FIBER_SANITIZED 0
#endif

#if FIBER_SANITIZED
#define FIBER_STACK_BYTES ((size_t)1 << 20) /* frames are several times as large */
#else
#define FIBER_STACK_BYTES ((size_t)256 << 10)
#endif

typedef struct fiber_context {
    void *place; /* of the saved registers; in the fallback its ucontext_t */
    char *stack; /* its lowest byte; NULL: the thread's own */
    void *fake;  /* AddressSanitizer's */
    size_t bytes;
    void (*first)(void *); /* the fallback's: where it begins, until it has begun */
    void *first_argument;
} fiber_context;

/* A fiber that begins with start(argument), which must never return. False: no memory. */
int fiber_open(fiber_context *f, void (*start)(void *), void *argument);
/* Not the running one. The stack is kept for the next one. */
void fiber_close(fiber_context *f);
/* `last`: the fiber that is left will never run again. */
void fiber_switch(fiber_context *from, fiber_context *to, int last);
/* The first thing that a new fiber does; `from`: who switched to it. */
void fiber_begin(fiber_context *from);

#endif
