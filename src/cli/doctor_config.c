/* doctor_config.c: the table of settings, for people, for docs/configuration.md and for scripts. */
#include "base/config.h"
#include "cli/doctor.h"
#include "cli/json_line.h"

#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {[CONFIG_INT] = "number",
                                         [CONFIG_BYTES] = "bytes",
                                         [CONFIG_BOOL] = "0 or 1",
                                         [CONFIG_TEXT] = "text"};
static const char *const scope_names[] = {[CONFIG_LOCAL] = "each rank for itself",
                                          [CONFIG_EQUAL] = "the same on all ranks",
                                          [CONFIG_JOB] = "set by the launcher"};

/* A setting's facts as text. */
typedef struct row {
    const config_setting *setting;
    char initial[CONFIG_TEXT_MAX], min[32], max[32], bounds[80];
} row;

static row describe(const config_setting *s)
{
    row r = {.setting = s};
    config_format_number(s->type, s->min, r.min, sizeof r.min);
    config_format_number(s->type, s->max, r.max, sizeof r.max);
    if (s->type == CONFIG_TEXT) {
        snprintf(r.initial, sizeof r.initial, "%s", s->initial_text);
        snprintf(r.bounds, sizeof r.bounds, "up to %s bytes", r.max);
    } else {
        config_format_number(s->type, s->initial_number, r.initial, sizeof r.initial);
        snprintf(r.bounds, sizeof r.bounds, "%s to %s", r.min, r.max);
    }
    return r;
}

static void print_text(const row *r, const char *value)
{
    const config_setting *s = r->setting;
    const bool changed = strcmp(value, r->initial) != 0;
    printf("%s = %s%s\n", s->name, value[0] != '\0' ? value : "\"\"",
           changed ? "   (changed)" : "");
    printf("    %s\n", s->doc);
    printf("    %s, %s; default %s; %s%s%s\n\n", type_names[s->type], r->bounds,
           r->initial[0] != '\0' ? r->initial : "\"\"", scope_names[s->scope],
           s->alias != NULL ? "; also " : "", s->alias != NULL ? s->alias : "");
}

static void print_json(const row *r, const char *value)
{
    const config_setting *s = r->setting;
    json_line_print(json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:s, s:s?, s:s}", "name", s->name,
                              "value", json_line_string(value), "default",
                              json_line_string(r->initial), "type", type_names[s->type], "min",
                              json_line_string(r->min), "max", json_line_string(r->max), "scope",
                              scope_names[s->scope], "alias", s->alias, "doc", s->doc));
}

static void print_page_row(const row *r)
{
    const config_setting *s = r->setting;
    printf("| `%s` | %s%s%s | %s | %s |", s->name, r->initial[0] != '\0' ? "`" : "", r->initial,
           r->initial[0] != '\0' ? "`" : "", r->bounds, scope_names[s->scope]);
    if (s->alias != NULL)
        printf(" %s Also `%s`. |\n", s->doc, s->alias);
    else
        printf(" %s |\n", s->doc);
}

/* The page shows no values of this machine, so it is the same everywhere. */
static void print_page(void)
{
    puts(
        "# Configuration\n\n"
        "<!-- Made by `make docs` from src/base/settings.h; do not edit. -->\n\n"
        "Every setting is an environment variable, read once by `rueda_init`. A value out of bounds\n"
        "ends `rueda_init` with an error that names it. An unknown variable that starts with `RUEDA_`\n"
        "is reported with the nearest right name. Settings that must be the same on all ranks are\n"
        "compared at the start; the error names the rank and the variable. Where Horovod has a name\n"
        "for a setting, that works too; ours wins when both are set. Bytes may be written with K, M\n"
        "or G (powers of 1024).\n\n"
        "`rueda doctor --config` shows the values in effect.\n\n"
        "| variable | default | bounds | scope | meaning |\n"
        "|---|---|---|---|---|");
    for (size_t i = 0; i < config_setting_count; i++) {
        const row r = describe(&config_settings[i]);
        print_page_row(&r);
    }
}

void doctor_warn_unknown(const char *name, const char *nearest)
{
    if (nearest != NULL)
        fprintf(stderr, "rueda doctor: %s means nothing; did you mean %s?\n", name, nearest);
    else
        fprintf(stderr, "rueda doctor: %s means nothing; see rueda doctor --config\n", name);
}

int doctor_config(doctor_form form)
{
    if (form == DOCTOR_MARKDOWN) {
        print_page();
        return 0;
    }
    config settings;
    if (config_load(&settings, doctor_warn_unknown) != RUEDA_OK) {
        fprintf(stderr, "rueda doctor: %s\n", status_text());
        return 1;
    }
    for (size_t i = 0; i < config_setting_count; i++) {
        const row r = describe(&config_settings[i]);
        char value[CONFIG_TEXT_MAX];
        config_format(&settings, r.setting, value, sizeof value);
        if (form == DOCTOR_JSON)
            print_json(&r, value);
        else
            print_text(&r, value);
    }
    return 0;
}
