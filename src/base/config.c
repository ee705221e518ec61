/* config.c: reads the table of settings.h from the environment. */
#include "base/config.h"

#include "base/foreign.h"
#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX "RUEDA_"
#define PREFIX_LENGTH (sizeof PREFIX - 1)

extern char **environ;

#define INITIAL_NUMBER_INT(x) (x)
#define INITIAL_NUMBER_BYTES(x) (x)
#define INITIAL_NUMBER_BOOL(x) (x)
#define INITIAL_NUMBER_TEXT(x) 0
#define INITIAL_TEXT_INT(x) NULL
#define INITIAL_TEXT_BYTES(x) NULL
#define INITIAL_TEXT_BOOL(x) NULL
#define INITIAL_TEXT_TEXT(x) (x)

const config_setting config_settings[] = {
#define CONFIG_ROW(type, field, name, alias, initial, min, max, scope, doc)                        \
    {name,                                                                                         \
     alias,                                                                                        \
     doc,                                                                                          \
     CONFIG_##type,                                                                                \
     CONFIG_##scope,                                                                               \
     INITIAL_NUMBER_##type(initial),                                                               \
     min,                                                                                          \
     max,                                                                                          \
     INITIAL_TEXT_##type(initial),                                                                 \
     offsetof(config, field)},
    SETTING_LIST(CONFIG_ROW)};
const size_t config_setting_count = sizeof config_settings / sizeof config_settings[0];

static int64_t *number_of(const config *c, const config_setting *s)
{
    return (int64_t *)((char *)c + s->offset);
}

static char *text_of(const config *c, const config_setting *s)
{
    return ((config_text *)((char *)c + s->offset))->text;
}

static bool parse_suffix(const char *text, int64_t *factor)
{
    if (*text == '\0')
        *factor = 1;
    else if (strcasecmp(text, "k") == 0 || strcasecmp(text, "kib") == 0)
        *factor = KIB;
    else if (strcasecmp(text, "m") == 0 || strcasecmp(text, "mib") == 0)
        *factor = MIB;
    else if (strcasecmp(text, "g") == 0 || strcasecmp(text, "gib") == 0)
        *factor = GIB;
    else
        return false;
    return true;
}

static bool parse_number(config_type type, const char *text, int64_t *number)
{
    static const char *const yes[] = {"1", "yes", "true", "on"};
    static const char *const no[] = {"0", "no", "false", "off"};
    if (type == CONFIG_BOOL) {
        for (size_t i = 0; i < 4; i++) {
            if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0)
                return *number = strcasecmp(text, yes[i]) == 0, true;
        }
        return false;
    }
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    int64_t factor;
    if (errno != 0 || end == text || !parse_suffix(end, &factor) ||
        (type == CONFIG_INT && factor != 1) || __builtin_mul_overflow(value, factor, number))
        return false;
    return true;
}

static rueda_status set_value(config *c, const config_setting *s, const char *name,
                              const char *text)
{
    if (s->type == CONFIG_TEXT) {
        if (strlen(text) > (size_t)s->max)
            return status_fail(RUEDA_ERR_CONFIG, "%s is longer than %lld bytes: shorten it", name,
                               (long long)s->max);
        snprintf(text_of(c, s), CONFIG_TEXT_MAX, "%s", text);
        return RUEDA_OK;
    }
    int64_t number;
    char min[32], max[32];
    if (!parse_number(s->type, text, &number) || number < s->min || number > s->max)
        return status_fail(RUEDA_ERR_CONFIG, "%s=%s is not valid: give %s from %s to %s", name,
                           text, s->type == CONFIG_BYTES ? "bytes (K, M, G allowed)" : "a number",
                           config_format_number(s->type, s->min, min, sizeof min),
                           config_format_number(s->type, s->max, max, sizeof max));
    *number_of(c, s) = number;
    return RUEDA_OK;
}

/* The prefix that all names share says nothing about which one was meant. */
static const char *nearest_name(const char *name)
{
    text_nearest nearest = text_nearest_to(name + PREFIX_LENGTH);
    for (size_t i = 0; i < config_setting_count; i++)
        text_nearest_offer(&nearest, config_settings[i].name + PREFIX_LENGTH);
    return nearest.best == NULL ? NULL : nearest.best - PREFIX_LENGTH;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        if (strcmp(config_settings[i].name, name) == 0)
            return true;
    }
    return false;
}

static void report_unknown(void (*unknown)(const char *name, const char *nearest))
{
    for (char **entry = environ; *entry != NULL; entry++) {
        char name[CONFIG_TEXT_MAX];
        const size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, PREFIX, PREFIX_LENGTH) != 0 || length >= sizeof name)
            continue;
        memcpy(name, *entry, length);
        name[length] = '\0';
        if (!is_known(name))
            unknown(name, nearest_name(name));
    }
}

const char *config_variable(const char *name)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? NULL : text;
}

static bool is_switched_on(const char *name)
{
    const char *text = config_variable(name);
    int64_t on;
    return text != NULL && parse_number(CONFIG_BOOL, text, &on) && on;
}

/* Switches of Horovod's that are values of ours; ours win. */
static void take_switches(config *c)
{
    if (is_switched_on("HOROVOD_STALL_CHECK_DISABLE") &&
        config_variable("RUEDA_STALL_WARN") == NULL)
        c->stall_warn = 0;
    if ((is_switched_on("HOROVOD_HIERARCHICAL_ALLREDUCE") ||
         is_switched_on("HOROVOD_HIERARCHICAL_ALLGATHER")) &&
        config_variable("RUEDA_ALGORITHM") == NULL && !c->deterministic)
        snprintf(c->algorithm.text, sizeof c->algorithm.text, "hierarchical");
}

/* Our own words about who we are. `rueda run`, or a person, also says how the others are found. */
static bool is_told(void)
{
    static const char *const names[] = {"RUEDA_RANK", "RUEDA_SIZE", "HOROVOD_RANK", "HOROVOD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (config_variable(names[i]) != NULL)
            return true;
    }
    return false;
}

/* Another launcher may have started us. Our own words may repeat its own for scripts to read (`rueda submit`
 * writes jobs that do), and then say nothing of the others: what both agree on is its. */
static rueda_status adopt_identity(config *c)
{
    config adopted = *c;
    if (is_told() && (c->job.text[0] != '\0' || c->meet.text[0] != '\0'))
        return RUEDA_OK;
    const rueda_status status = foreign_adopt(&adopted);
    if (is_told() && (status != RUEDA_OK || adopted.rank != c->rank || adopted.size != c->size))
        return RUEDA_OK;
    if (status == RUEDA_OK)
        *c = adopted;
    return status;
}

rueda_status config_load(config *c, void (*unknown)(const char *name, const char *nearest))
{
    config loaded;
    memset(&loaded, 0, sizeof loaded);
    for (size_t i = 0; i < config_setting_count; i++) {
        const config_setting *s = &config_settings[i];
        if (s->type == CONFIG_TEXT)
            snprintf(text_of(&loaded, s), CONFIG_TEXT_MAX, "%s", s->initial_text);
        else
            *number_of(&loaded, s) = s->initial_number;
        const char *name = s->name, *text = config_variable(name);
        if (text == NULL && s->alias != NULL)
            text = config_variable(name = s->alias);
        if (text == NULL)
            continue;
        const rueda_status status = set_value(&loaded, s, name, text);
        if (status != RUEDA_OK)
            return status;
    }
    take_switches(&loaded);
    const rueda_status status = adopt_identity(&loaded);
    if (status != RUEDA_OK)
        return status;
    if (unknown != NULL)
        report_unknown(unknown);
    *c = loaded;
    return RUEDA_OK;
}

const char *config_format_number(config_type type, int64_t value, char *buffer, size_t size)
{
    static const struct {
        int64_t unit;
        char letter;
    } units[] = {{GIB, 'G'}, {MIB, 'M'}, {KIB, 'K'}};
    for (size_t i = 0; type == CONFIG_BYTES && value != 0 && i < 3; i++) {
        if (value % units[i].unit == 0) {
            snprintf(buffer, size, "%lld%c", (long long)(value / units[i].unit), units[i].letter);
            return buffer;
        }
    }
    snprintf(buffer, size, "%lld", (long long)value);
    return buffer;
}

const char *config_format(const config *c, const config_setting *s, char *buffer, size_t size)
{
    if (s->type != CONFIG_TEXT)
        return config_format_number(s->type, *number_of(c, s), buffer, size);
    const bool secret = s->offset == offsetof(config, key) && c->key.text[0] != '\0';
    snprintf(buffer, size, "%s", secret ? "(hidden)" : text_of(c, s));
    return buffer;
}

bool config_is_sound(const config *c)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        const config_setting *s = &config_settings[i];
        if (s->type == CONFIG_TEXT && memchr(text_of(c, s), '\0', CONFIG_TEXT_MAX) == NULL)
            return false;
    }
    return true;
}

rueda_status config_compare(const config *mine, const config *other, int mine_rank, int other_rank)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        const config_setting *s = &config_settings[i];
        char a[CONFIG_TEXT_MAX], b[CONFIG_TEXT_MAX];
        if (s->scope != CONFIG_EQUAL ||
            strcmp(config_format(mine, s, a, sizeof a), config_format(other, s, b, sizeof b)) == 0)
            continue;
        return status_fail(
            RUEDA_ERR_CONFIG,
            "%s differs: rank %d has '%s', rank %d has '%s'; set it alike on all ranks", s->name,
            mine_rank, a, other_rank, b);
    }
    return RUEDA_OK;
}
