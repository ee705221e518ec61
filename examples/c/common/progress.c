/* progress.c: see progress.h. */
#include "common/progress.h"

#include "common/bar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 6
#define CELL_PARTS 8
#define BAR_INTERVAL_S 0.1
#define MEMORY 0.95 /* of the running means */

/* The launcher's terminal is not ours: what we write goes through its pipe, and the bar must be asked
 * for. */
static progress_mode choose(const run_options *run)
{
    if (run->json || rueda_rank() > 0)
        return PROGRESS_NONE;
    if (run->progress != PROGRESS_AUTO)
        return (progress_mode)run->progress;
    return isatty(STDOUT_FILENO) ? PROGRESS_BAR : PROGRESS_LINES;
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

void progress_start(progress *p, const subject *about, const run_options *run, const run_summary *s,
                    const char *what)
{
    *p =
        (progress){.about = about, .mode = choose(run), .epochs = s->epochs, .workers = s->workers};
    if (p->mode == PROGRESS_NONE)
        return;
    if (p->mode == PROGRESS_BAR)
        bar_clear_when_interrupted();
    printf("%s: %s\n%d worker%s on %d rank%s, %s, largest rate %g\n", about->title, what,
           s->workers, plural(s->workers), s->ranks, plural(s->ranks), s->how, run->lr);
    if (s->op == RUEDA_ADASUM && s->workers > 1)
        printf(
            "Orthogonality × %d is about how many of the %d workers' steps add up: 1 if all want "
            "the same step,\nso that one worker would have done; %d if each one's step goes in a "
            "direction of its own.\n",
            s->workers, s->workers, s->workers);
    fflush(stdout);
}

void progress_change(progress *p, const run_options *run, int workers, int step)
{
    if (p->mode == PROGRESS_NONE && choose(run) == PROGRESS_BAR) /* another rank has drawn so far */
        bar_clear_when_interrupted();
    p->mode = choose(run);
    p->workers = workers;
    if (p->mode == PROGRESS_NONE)
        return;
    printf("%s%d worker%s go%s on after step %d: others were lost\n",
           p->mode == PROGRESS_BAR ? BAR_CLEAR : "", workers, plural(workers),
           workers == 1 ? "es" : "", step);
    fflush(stdout);
}

/* ---- Bar ------------------------------------------------------------------------------------- */

static void add_cells(bar *b, double part)
{
    static const char *const parts[CELL_PARTS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const int filled = (int)(part * BAR_CELLS * CELL_PARTS);
    int cells = filled / CELL_PARTS;
    for (int i = 0; i < cells; i++)
        bar_add(b, "█");
    if (filled % CELL_PARTS != 0) {
        bar_add(b, "%s", parts[filled % CELL_PARTS]);
        cells++;
    }
    for (; cells < BAR_CELLS; cells++)
        bar_add(b, "·");
}

/* Items in a second, in five characters. */
static void add_speed(bar *b, double speed)
{
    if (speed < 99999)
        bar_add(b, " %5.0f/s", speed);
    else
        bar_add(b, " %4.0fk/s", speed / 1000);
}

/* What matters most comes first: a narrow terminal has no room for the rest. */
static void draw_bar(const progress *p, const step_record *r)
{
    const double part = (double)r->step / r->steps;
    const int left = (int)(r->seconds / part * (1 - part) + 0.5);
    bar b;
    bar_begin(&b, bar_width());
    bar_add(&b, "%d/%d ", r->epoch, p->epochs);
    add_cells(&b, part);
    bar_add(&b, " %3.0f%%", 100 * part);
    add_speed(&b, r->items / r->seconds);
    bar_add(&b, " %d:%02d left", left / 60, left % 60);
    bar_add(&b, "  loss %.3f", p->loss);
    if (p->about->has_accuracy)
        bar_add(&b, "  %5.2f%%", 100 * p->accuracy);
    if (isfinite(p->orthogonality))
        bar_add(&b, "  %.1f of %d add up (%.2f)", p->orthogonality * p->workers, p->workers,
                p->orthogonality);
    bar_draw(&b);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void print_line(const progress *p, const step_record *r)
{
    printf("%sepoch %d/%d, step %d/%d: %.0f %s/s, loss %.3f",
           p->mode == PROGRESS_BAR ? BAR_CLEAR : "", r->epoch, p->epochs, r->step, r->steps,
           r->items / r->seconds, p->about->items, p->loss);
    if (p->about->has_accuracy)
        printf(", accuracy %.2f%%", 100 * p->accuracy);
    if (isfinite(p->orthogonality))
        printf(", orthogonality %.2f: about %.1f of %d workers' steps add up", p->orthogonality,
               p->orthogonality * p->workers, p->workers);
    if (isfinite(r->test))
        printf(", %s %.2f%%", p->about->test, 100 * r->test);
    putchar('\n');
    fflush(stdout);
}

static double running(double mean, double value, int step)
{
    return step == 1 ? value : MEMORY * mean + (1 - MEMORY) * value;
}

void progress_step(progress *p, const step_record *r)
{
    /* on all ranks: another one may be rank 0 later */
    p->loss = running(p->loss, r->loss, r->step);
    p->accuracy = running(p->accuracy, r->accuracy, r->step);
    p->orthogonality = running(p->orthogonality, r->orthogonality, r->step);
    if (p->mode == PROGRESS_NONE)
        return;
    const int tenth = (int)((int64_t)10 * r->step / r->steps);
    if (isfinite(r->test) || (p->mode == PROGRESS_LINES && tenth > p->shown_tenth)) {
        print_line(p, r);
    } else if (p->mode == PROGRESS_BAR && r->seconds - p->shown_at >= BAR_INTERVAL_S) {
        draw_bar(p, r);
        p->shown_at = r->seconds;
    }
    p->shown_tenth = tenth;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* In an elastic job there may be fewer workers at the end. */
static void print_row(const progress *p, const run_summary *s, const char *name, double first,
                      double last)
{
    printf("  %-17s %11.2f %7.1f %11.2f %7.1f\n", name, first, first * s->workers, last,
           last * p->workers);
}

static void print_orthogonality(const progress *p, const run_summary *s)
{
    printf("\n%-19s %11s %7s %11s %7s\n", "orthogonality", "first tenth", "add up", "last tenth",
           "add up");
    for (int t = 0; t < p->about->tensors; t++)
        print_row(p, s, p->about->places[t].name, s->tensor_first[t], s->tensor_last[t]);
    print_row(p, s, "the whole update", s->first, s->last);
    printf("\nOf the %d workers' steps about %.1f added up at first, about %.1f", s->workers,
           s->first * s->workers, s->last * p->workers);
    if (p->workers != s->workers)
        printf(" of %d", p->workers);
    puts(" at the end.");
}

void progress_summary(const progress *p, const run_summary *s)
{
    char sentence[SENTENCE_BYTES];
    if (p->mode == PROGRESS_NONE)
        return;
    if (p->mode == PROGRESS_BAR)
        fputs(BAR_CLEAR, stdout);
    if (isfinite(s->first) && isfinite(s->last) && s->outcome != RUN_DIVERGED)
        print_orthogonality(p, s);
    summary_sentence(s, p->about, sentence);
    printf("\n%-14s %.2f%%\n", p->about->test, 100 * s->test[s->epochs - 1]);
    printf("%s/s%*s %.0f\n", p->about->items, (int)(12 - strlen(p->about->items)), "",
           s->items_per_second);
    if (isfinite(s->first) && isfinite(s->last))
        printf("orthogonality  %.2f first, %.2f last\n", s->first, s->last);
    printf("time           %.1f s\n", s->seconds);
    printf("outcome        %s\n", sentence);
    fflush(stdout);
}
