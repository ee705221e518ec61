/* progress.c: see progress.h. A bar is drawn over itself: each drawing ends with a return, so that
 * the next one, or a line, begins where it began. */
#include "progress.h"

#include "gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 8
#define CELL_PARTS 8
#define BAR_INTERVAL_S 0.1
#define MEMORY 0.95 /* of the running means */
#define CLEAR "\033[K"

/* The launcher's terminal is not ours: what we write goes through its pipe, and the bar must be asked
 * for. */
static progress_mode choose(progress_mode asked)
{
    if (asked != PROGRESS_AUTO)
        return asked;
    return isatty(STDOUT_FILENO) ? PROGRESS_BAR : PROGRESS_LINES;
}

void progress_start(progress *p, const options *o, int ranks, int workers, int images)
{
    *p = (progress){.mode = choose(o->progress), .epochs = (int)o->epochs, .test_accuracy = NAN};
    if (p->mode == PROGRESS_NONE)
        return;
    printf("MNIST: %d images, %d worker%s on %d rank%s, batch %d each, %s, peak rate %g, by %s\n",
           images, workers, workers == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s", (int)o->batch,
           rueda_op_name(o->op), o->lr, gemm_name());
    fflush(stdout);
}

/* ---- Bar ------------------------------------------------------------------------------------- */

static void draw_cells(double part)
{
    static const char *const parts[CELL_PARTS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const int filled = (int)(part * BAR_CELLS * CELL_PARTS);
    int cells = filled / CELL_PARTS;
    for (int i = 0; i < cells; i++)
        fputs("█", stdout);
    if (filled % CELL_PARTS != 0) {
        fputs(parts[filled % CELL_PARTS], stdout);
        cells++;
    }
    for (; cells < BAR_CELLS; cells++)
        fputs("·", stdout);
}

/* At most 76 columns, so that the launcher's prefix fits before it. */
static void draw_bar(const progress *p, const step_record *r)
{
    const double part = (double)r->step / r->steps;
    const int left = (int)(r->seconds / part * (1 - part) + 0.5);
    printf("%d/%d ", r->epoch, p->epochs);
    draw_cells(part);
    printf(" %3.0f%% %5.0f/s %d:%02d left  loss %.3f  %5.2f%%", 100 * part, r->images / r->seconds,
           left / 60, left % 60, p->loss, 100 * p->accuracy);
    if (isfinite(p->orthogonality))
        printf("  orthogonality %.2f", p->orthogonality);
    fputs(CLEAR "\r", stdout);
    fflush(stdout);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void print_line(const progress *p, const step_record *r)
{
    printf("%sepoch %d/%d, step %d/%d: %.0f images/s, loss %.3f, accuracy %.2f%%",
           p->mode == PROGRESS_BAR ? CLEAR : "", r->epoch, p->epochs, r->step, r->steps,
           r->images / r->seconds, p->loss, 100 * p->accuracy);
    if (isfinite(p->orthogonality))
        printf(", orthogonality %.2f", p->orthogonality);
    if (isfinite(r->test_accuracy))
        printf(", test %.2f%%", 100 * r->test_accuracy);
    putchar('\n');
    fflush(stdout);
}

static double running(double mean, double value, int step)
{
    return step == 1 ? value : MEMORY * mean + (1 - MEMORY) * value;
}

void progress_step(progress *p, const step_record *r)
{
    if (p->mode == PROGRESS_NONE)
        return;
    p->loss = running(p->loss, r->loss, r->step);
    p->accuracy = running(p->accuracy, r->accuracy, r->step);
    p->orthogonality = running(p->orthogonality, r->orthogonality, r->step);
    const int tenth = 10 * r->step / r->steps;
    if (isfinite(r->test_accuracy) || (p->mode == PROGRESS_LINES && tenth > p->shown_tenth)) {
        print_line(p, r);
    } else if (p->mode == PROGRESS_BAR && r->seconds - p->shown_at >= BAR_INTERVAL_S) {
        draw_bar(p, r);
        p->shown_at = r->seconds;
    }
    p->shown_tenth = tenth;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void print_orthogonality(const run_summary *s)
{
    puts("\northogonality       first tenth  last tenth");
    for (int t = 0; t < TENSORS; t++)
        printf("  %-17s %11.2f %11.2f\n", network_tensors[t].name, s->tensor_first[t],
               s->tensor_last[t]);
    printf("  %-17s %11.2f %11.2f\n\n", "the whole update", s->first, s->last);
    printf(
        "Of the %d workers' steps about %.1f added up at first, about %.1f at the end (workers ×\n"
        "orthogonality: 1 if all want the same step, and one worker would have done; %d if each\n"
        "one's step goes in a direction of its own).\n",
        s->workers, s->first * s->workers, s->last * s->workers, s->workers);
}

void progress_summary(const progress *p, const run_summary *s)
{
    if (p->mode == PROGRESS_NONE)
        return;
    if (p->mode == PROGRESS_BAR)
        fputs(CLEAR, stdout);
    if (isfinite(s->first) && isfinite(s->last))
        print_orthogonality(s);
    if (s->diverged)
        printf("\nDiverged: after step %d the loss is no longer a number. Try a smaller --lr.\n",
               s->steps);
    printf("\ntest accuracy  %.2f%%\n", 100 * s->test_accuracy[s->epochs - 1]);
    printf("images/s       %.0f\n", s->images_per_second);
    if (isfinite(s->first))
        printf("orthogonality  %.2f first, %.2f last\n", s->first, s->last);
    printf("time           %.1f s\n", s->seconds);
    fflush(stdout);
}
