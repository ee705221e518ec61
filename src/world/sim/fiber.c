/* fiber.c: a switch saves the registers that a called function must keep, on the stack that it leaves. */
#include "world/sim/fiber.h"

#include "world/sim/wrapped.h"

#include <stdint.h>
#include <sys/mman.h>

#define GUARD_BYTES ((size_t)4096) /* below each stack: running over is a fault, not a riddle */

#if FIBER_SANITIZED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define start_switch(fake, stack, bytes) __sanitizer_start_switch_fiber(fake, stack, bytes)
#define finish_switch(fake, stack, bytes) __sanitizer_finish_switch_fiber(fake, stack, bytes)
#define clean_stack(stack) __asan_unpoison_memory_region(stack, FIBER_STACK_BYTES)
#else
#define start_switch(fake, stack, bytes) ((void)0)
#define finish_switch(fake, stack, bytes) ((void)0)
#define clean_stack(stack) ((void)(stack))
#endif

/* ---- Stacks ----------------------------------------------------------------------------------- */

/* Of fibers that have ended; each begins with the address of the next. They outlive worlds. */
static char *kept_stacks;

static char *stack_take(void)
{
    char *stack = kept_stacks;
    if (stack != NULL) {
        kept_stacks = *(char **)(void *)stack;
        return stack;
    }
    char *made = __real_mmap(NULL, GUARD_BYTES + FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    mprotect(made, GUARD_BYTES, PROT_NONE);
    return made + GUARD_BYTES;
}

void fiber_close(fiber_context *f)
{
    if (f->stack == NULL)
        return;
    clean_stack(f->stack);
    *(char **)(void *)f->stack = kept_stacks;
    kept_stacks = f->stack;
    f->stack = NULL;
}

/* ---- Registers --------------------------------------------------------------------------------- */

#if defined(__x86_64__) && !defined(FIBER_UCONTEXT)

#define SAVED_WORDS 7 /* six registers, and where to return to; zeros above end a backtrace */

__asm__(".text\n"
        ".type sim_fiber_swap, @function\n"
        "sim_fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_fiber_swap, . - sim_fiber_swap\n"
        ".type sim_fiber_start, @function\n"
        "sim_fiber_start:\n"
        "    movq %r13, %rdi\n"
        "    callq *%r12\n"
        "    ud2\n"
        ".size sim_fiber_start, . - sim_fiber_start\n");

void sim_fiber_swap(void **save, void *load);
void sim_fiber_start(void);

static void prepare(fiber_context *f, void (*start)(void *), void *argument)
{
    uintptr_t *top = (uintptr_t *)(void *)(f->stack + FIBER_STACK_BYTES) - 2;
    uintptr_t *at = top - SAVED_WORDS;
    for (int i = 0; i < SAVED_WORDS + 2; i++)
        at[i] = 0;
    at[2] = (uintptr_t)argument; /* r13 */
    at[3] = (uintptr_t)start;    /* r12 */
    at[6] = (uintptr_t)sim_fiber_start;
    f->place = at;
}

#define CAN_PREPARE 1
#elif defined(__aarch64__) && !defined(FIBER_UCONTEXT)

#define SAVED_WORDS 20 /* x19 to x30, d8 to d15 */

__asm__(".text\n"
        ".type sim_fiber_swap, %function\n"
        "sim_fiber_swap:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size sim_fiber_swap, . - sim_fiber_swap\n"
        ".type sim_fiber_start, %function\n"
        "sim_fiber_start:\n"
        "    mov x0, x19\n"
        "    blr x20\n"
        "    brk #1\n"
        ".size sim_fiber_start, . - sim_fiber_start\n");

void sim_fiber_swap(void **save, void *load);
void sim_fiber_start(void);

static void prepare(fiber_context *f, void (*start)(void *), void *argument)
{
    uintptr_t *at = (uintptr_t *)(void *)(f->stack + FIBER_STACK_BYTES) - SAVED_WORDS;
    for (int i = 0; i < SAVED_WORDS; i++)
        at[i] = 0;
    at[0] = (uintptr_t)argument;         /* x19 */
    at[1] = (uintptr_t)start;            /* x20 */
    at[11] = (uintptr_t)sim_fiber_start; /* x30 */
    f->place = at;
}

#define CAN_PREPARE 1
#else
#include <ucontext.h>

/* makecontext passes only ints. */
static void (*first_start)(void *);
static void *first_argument;

static void start_first(void)
{
    first_start(first_argument);
}

/* The saved registers lie at the top of the stack, and the thread's own in a place that nobody else uses. */
static void sim_fiber_swap(void **save, void *load)
{
    ucontext_t here;
    *save = &here;
    swapcontext(&here, load);
}

static void enter(void)
{
    start_first();
}

static void prepare(fiber_context *f, void (*start)(void *), void *argument)
{
    ucontext_t *c = (ucontext_t *)(void *)(f->stack + FIBER_STACK_BYTES - 4096);
    getcontext(c);
    c->uc_stack.ss_sp = f->stack;
    c->uc_stack.ss_size = FIBER_STACK_BYTES - 4096;
    c->uc_link = NULL;
    makecontext(c, enter, 0);
    f->place = c;
    f->first = start;
    f->first_argument = argument;
}

#define CAN_PREPARE 0
#endif

int fiber_open(fiber_context *f, void (*start)(void *), void *argument)
{
    f->stack = stack_take();
    if (f->stack == NULL)
        return 0;
    f->bytes = FIBER_STACK_BYTES;
    f->fake = NULL;
    prepare(f, start, argument);
    return 1;
}

void fiber_switch(fiber_context *from, fiber_context *to, int last)
{
    (void)last;
#if !CAN_PREPARE
    if (to->first != NULL) {
        first_start = to->first;
        first_argument = to->first_argument;
        to->first = NULL;
    }
#endif
    start_switch(last ? NULL : &from->fake, to->stack, to->bytes);
    sim_fiber_swap(&from->place, to->place);
    finish_switch(from->fake, NULL, NULL);
}

void fiber_begin(fiber_context *from)
{
    (void)from;
    finish_switch(NULL, (const void **)&from->stack, &from->bytes);
}
