/* bar.h: a line on a terminal that is drawn over itself, and never wider than the terminal is at that
 * moment: what does not fit is left out. */
#ifndef EXAMPLES_BAR_H
#define EXAMPLES_BAR_H

#include <stdbool.h>
#include <stddef.h>

#define BAR_BYTES 512
#define BAR_WIDTH 80 /* where no terminal tells */

/* Before a line that takes the bar's place. */
#define BAR_CLEAR "\033[J"

typedef struct bar {
    char text[BAR_BYTES];
    size_t used;
    int columns, width;
    bool full; /* a part did not fit: nothing more is added */
} bar;

/* The columns of the terminal. Behind a launcher our output is a pipe, but rank 0 has its input. */
int bar_width(void);
/* Ctrl-C must not leave the bar behind the shell's next line. */
void bar_clear_when_interrupted(void);

void bar_begin(bar *b, int width);
/* A part, as a whole or not at all. */
void bar_add(bar *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* To stdout, at once. */
void bar_draw(const bar *b);

#endif
