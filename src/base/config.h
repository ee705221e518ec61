/* config.h: the settings of one job, read once from the environment. No other file calls getenv.
 *
 * Invariant: a config that was loaded has every value within its bounds.
 */
#ifndef RUEDA_BASE_CONFIG_H
#define RUEDA_BASE_CONFIG_H

#include "base/settings.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define CONFIG_TEXT_MAX 256

typedef struct config_text {
    char text[CONFIG_TEXT_MAX];
} config_text;

typedef int64_t config_value_INT, config_value_BYTES, config_value_BOOL;
typedef config_text config_value_TEXT;

typedef struct config {
#define CONFIG_FIELD(type, field, name, alias, initial, min, max, scope, doc)                      \
    config_value_##type field;
    SETTING_LIST(CONFIG_FIELD)
} config;

typedef enum config_type { CONFIG_INT, CONFIG_BYTES, CONFIG_BOOL, CONFIG_TEXT } config_type;
typedef enum config_scope { CONFIG_LOCAL, CONFIG_EQUAL, CONFIG_JOB } config_scope;

/* One row of the table, for docs and `rueda doctor`. */
typedef struct config_setting {
    const char *name, *alias, *doc; /* alias may be NULL */
    config_type type;
    config_scope scope;
    int64_t initial_number, min, max; /* numbers; max also bounds the bytes of a TEXT */
    const char *initial_text;         /* TEXT, otherwise NULL */
    size_t offset;                    /* in struct config */
} config_setting;

extern const config_setting config_settings[];
extern const size_t config_setting_count;

/* Defaults, then the environment. A value out of bounds or not a number: ERR_CONFIG that names the
 * variable, the value and the bounds. An unknown variable that starts with RUEDA_ is passed to
 * `unknown` (may be NULL) with the nearest right name (or NULL). */
rueda_status config_load(config *c, void (*unknown)(const char *name, const char *nearest));

/* The value of an environment variable; NULL if it is not set or empty. For the variables of other
 * launchers (foreign.c): no other file calls getenv. */
const char *config_variable(const char *name);

/* A setting's value as text; a secret is only said to be set; the string lies in `buffer`. */
const char *config_format(const config *c, const config_setting *s, char *buffer, size_t size);
/* A default or a bound likewise: bytes are shown with K, M or G where that is exact. */
const char *config_format_number(config_type type, int64_t value, char *buffer, size_t size);

/* Whether every text of a config that came from elsewhere ends within its room. */
bool config_is_sound(const config *c);

/* Compares the settings of scope EQUAL of two ranks. ERR_CONFIG names rank and variable. */
rueda_status config_compare(const config *mine, const config *other, int mine_rank, int other_rank);

#endif
