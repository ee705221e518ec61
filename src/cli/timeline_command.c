/* timeline_command.c: `rueda timeline`: checks timelines, adds them up, puts several into one. */
#include "cli/commands.h"
#include "cli/json_line.h"
#include "cli/launch/bytes.h"
#include "cli/options.h"
#include "cli/timeline_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOP_DEFAULT 20
#define TOP_MAX 1000000000
#define US_PER_MS 1e3
#define US_PER_S 1e6

static const char usage[] = "rueda timeline [options] FILE...";
static const char about[] =
    "Checks that each FILE is a whole timeline, and tells how long the tensors took to be agreed on\n"
    "(negotiate), to wait for their turn (queue) and to be combined (work), most time first; then,\n"
    "which ranks were last to be ready, and how long the others waited for them. Times are summed over\n"
    "all ranks in the files. With --output the events of all files are put into one.";

typedef struct request {
    const char *output;
    int64_t top;
    bool json;
} request;

static json_t *name_of(const timeline_tensor *t)
{
    return json_line_string(t->name == NULL ? "?" : t->name);
}

/* On one line, whatever is in it. */
static void print_name(const timeline_tensor *t)
{
    json_t *name = name_of(t);
    char *text = json_dumps(name, JSON_ENCODE_ANY);
    if (text == NULL)
        bytes_end_without_memory();
    printf("%.*s\n", (int)strlen(text) - 2, text + 1); /* without the quotation marks */
    free(text);
    json_decref(name);
}

static void tell_tensor(const timeline_tensor *t)
{
    json_line_print(json_pack("{s:o, s:I, s:o, s:o, s:o, s:o}", "tensor", name_of(t), "operations",
                              (json_int_t)t->operations, "negotiate_us",
                              json_line_number(t->us[ACTIVITY_NEGOTIATE], 3), "queue_us",
                              json_line_number(t->us[ACTIVITY_QUEUE], 3), "work_us",
                              json_line_number(t->us[ACTIVITY_WORK], 3), "longest_us",
                              json_line_number(t->longest_us, 3)));
}

static void tell_tensors(timeline_tensor *const *tensors, const request *r)
{
    if (!r->json)
        printf("%12s %12s %12s %10s %12s  %s\n", "negotiate ms", "queue ms", "work ms",
               "operations", "longest ms", "tensor");
    for (int64_t i = 0; tensors[i] != NULL && i < r->top; i++) {
        const timeline_tensor *t = tensors[i];
        if (r->json) {
            tell_tensor(t);
            continue;
        }
        printf("%12.3f %12.3f %12.3f %10llu %12.3f  ", t->us[ACTIVITY_NEGOTIATE] / US_PER_MS,
               t->us[ACTIVITY_QUEUE] / US_PER_MS, t->us[ACTIVITY_WORK] / US_PER_MS,
               (unsigned long long)t->operations, t->longest_us / US_PER_MS);
        print_name(t);
    }
}

static void tell_late(const timeline_sum *s, bool json)
{
    bool any = false;
    for (int i = 0; i < TIMELINE_RANKS_MAX; i++) {
        const timeline_late *l = &s->late[i];
        if (l->times == 0)
            continue;
        if (!json && !any)
            printf("\n%12s %12s %12s\n", "rank", "times last", "waited ms");
        any = true;
        if (json)
            json_line_print(json_pack("{s:i, s:I, s:o}", "rank", i, "times_last",
                                      (json_int_t)l->times, "waited_us",
                                      json_line_number(l->us, 3)));
        else
            printf("%12d %12llu %12.3f\n", i, (unsigned long long)l->times, l->us / US_PER_MS);
    }
}

static void tell_whole(const timeline_sum *s, bool json)
{
    const double seconds = (s->last_ts - s->first_ts) / US_PER_S;
    const size_t open = timeline_sum_open(s);
    if (json) {
        json_line_print(json_pack("{s:I, s:I, s:o, s:I, s:I, s:I}", "events", (json_int_t)s->events,
                                  "tensors", (json_int_t)s->tensor_count, "seconds",
                                  json_line_number(seconds, 6), "rounds", (json_int_t)s->rounds,
                                  "open", (json_int_t)open, "dropped", (json_int_t)s->dropped));
        return;
    }
    printf("\n%llu events of %zu tensors in %.3f s", (unsigned long long)s->events, s->tensor_count,
           seconds);
    if (open > 0)
        printf("; %zu activities have not ended", open);
    if (s->dropped > 0)
        printf("; %llu notes were dropped: the sums are too small", (unsigned long long)s->dropped);
    puts("");
}

static bool read_file(timeline_sum *s, const char *path, FILE *merged)
{
    char reason[TIMELINE_REASON_MAX];
    FILE *from = fopen(path, "r");
    if (from == NULL) {
        fprintf(stderr, "rueda timeline: %s: %s\n", path, strerror(errno));
        return false;
    }
    const bool good = timeline_sum_add(s, from, merged, reason);
    if (!good)
        fprintf(stderr, "rueda timeline: %s, %s\n", path, reason);
    fclose(from);
    return good;
}

static bool read_all(timeline_sum *s, char **paths, const request *r)
{
    FILE *merged = r->output == NULL ? NULL : fopen(r->output, "w");
    bool good = r->output == NULL || merged != NULL;
    if (merged != NULL)
        fputs("[\n", merged);
    for (; good && *paths != NULL; paths++) {
        if (!read_file(s, *paths, merged)) {
            if (merged != NULL)
                fclose(merged);
            return false;
        }
    }
    if (merged != NULL) {
        fputs("\n]\n", merged);
        good = ferror(merged) == 0;
        good = fclose(merged) == 0 && good;
    }
    if (!good)
        fprintf(stderr, "rueda timeline: %s: %s\n", r->output, strerror(errno));
    return good;
}

static int summarise(char **paths, const request *r)
{
    timeline_sum *s = malloc(sizeof *s);
    timeline_tensor **sorted = NULL;
    if (s == NULL)
        return EXIT_FAILURE;
    timeline_sum_init(s);
    const bool good = read_all(s, paths, r) && (sorted = timeline_sum_sorted(s)) != NULL;
    if (good) {
        tell_tensors(sorted, r);
        tell_late(s, r->json);
        tell_whole(s, r->json);
    }
    free(sorted);
    timeline_sum_fini(s);
    free(s);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Options may stand between the files. */
static options_result parse(const command_line *line, int argc, char **argv, char **paths)
{
    for (int next;; argc -= next, argv += next) {
        const options_result parsed = options_parse(line, argc, argv, &next);
        if (parsed != OPTIONS_GO || next == argc)
            return parsed;
        if (strcmp(argv[next - 1], "--") == 0) {
            memcpy(paths, argv + next, (size_t)(argc - next) * sizeof *paths);
            return OPTIONS_GO;
        }
        *paths++ = argv[next];
        argv[next] = argv[0]; /* the command's name, for complaints */
    }
}

static bool is_usable(char *const *paths, const request *r)
{
    if (paths[0] == NULL)
        return options_complain("timeline", "which file? write: %s", usage), false;
    for (; *paths != NULL; paths++) {
        if (r->output != NULL && strcmp(*paths, r->output) == 0)
            return options_complain("timeline", "--output %s is one of the files to read",
                                    r->output),
                   false;
    }
    return true;
}

int timeline_command(int argc, char **argv)
{
    request r = {.top = TOP_DEFAULT};
    const option options[] = {
        {"--output", "FILE", "all events of all files in one", OPTION_TEXT, &r.output, 0, 0},
        {"--top", "N", "tensors to show (20)", OPTION_NUMBER, &r.top, 0, TOP_MAX},
        {"--json", NULL, "one object a line", OPTION_FLAG, &r.json, 0, 0},
    };
    const command_line line = {.usage = usage,
                               .about = about,
                               .options = options,
                               .option_count = sizeof options / sizeof options[0]};
    char **paths = calloc((size_t)argc + 1, sizeof *paths);
    if (paths == NULL)
        return EXIT_FAILURE;
    const options_result parsed = parse(&line, argc, argv, paths);
    int code = options_exit_code(parsed);
    if (parsed == OPTIONS_GO)
        code = is_usable(paths, &r) ? summarise(paths, &r) : EXIT_USAGE;
    free(paths);
    return code;
}
