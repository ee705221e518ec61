/* bar.c: see bar.h. A drawing ends with a return, so that the next one, or a line, begins where it began.
 * After a terminal has become narrower the cursor stands where the old drawing began, and the rest of that is below:
 * so all that follows is cleared. */
#include "common/bar.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CUT_LONG_LINES "\033[?7l" /* should the terminal be narrower than we know */
#define WRAP_LONG_LINES "\033[?7h"

int bar_width(void)
{
    static const int descriptors[] = {STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO};
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++) {
        struct winsize size;
        if (ioctl(descriptors[i], TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
            return size.ws_col;
    }
    return BAR_WIDTH;
}

static void clear_and_end(int number)
{
    static const char clear[] = BAR_CLEAR WRAP_LONG_LINES;
    signal(number, SIG_DFL);
    if (write(STDOUT_FILENO, clear, sizeof clear - 1) >= 0)
        raise(number);
    else
        _exit(128 + number);
}

void bar_clear_when_interrupted(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (signal(numbers[i], clear_and_end) == SIG_IGN)
            signal(numbers[i], SIG_IGN);
    }
}

/* Every character of ours is one column wide; those behind the first byte of one count nothing. */
static int columns_of(const char *text)
{
    int columns = 0;
    for (; *text != '\0'; text++)
        columns += ((unsigned char)*text & 0xC0) != 0x80;
    return columns;
}

void bar_begin(bar *b, int width)
{
    *b = (bar){.width = width};
}

/* One column stays free: a cursor behind the last one would be on the next line on some terminals. */
void bar_add(bar *b, const char *format, ...)
{
    char *part = b->text + b->used;
    const size_t room = sizeof b->text - b->used;
    va_list args;
    if (b->full)
        return;
    va_start(args, format);
    const int bytes = vsnprintf(part, room, format, args);
    va_end(args);
    const int columns = columns_of(part);
    b->full = bytes < 0 || (size_t)bytes >= room || b->columns + columns >= b->width;
    if (b->full) {
        *part = '\0';
        return;
    }
    b->used += (size_t)bytes;
    b->columns += columns;
}

void bar_draw(const bar *b)
{
    printf(CUT_LONG_LINES "%s" BAR_CLEAR WRAP_LONG_LINES "\r", b->text);
    fflush(stdout);
}
