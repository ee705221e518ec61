/* limits.c: what is left out of a trial, as a person writes it. */
#include "sim/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct word {
    const char *text;
    size_t offset; /* of the bool */
} word;

static const word WORDS[] = {{"stranger", offsetof(trial_limits, stranger)},
                             {"lives", offsetof(trial_limits, lives)},
                             {"sizes", offsetof(trial_limits, sizes)},
                             {"whims", offsetof(trial_limits, whims)}};
#define WORD_COUNT (sizeof WORDS / sizeof *WORDS)
#define ITEM 16 /* bytes of one, with the terminating zero */

static bool read_word(trial_limits *limits, const char *item)
{
    for (size_t i = 0; i < WORD_COUNT; i++) {
        if (strcmp(WORDS[i].text, item) != 0)
            continue;
        *(bool *)((char *)limits + WORDS[i].offset) = true;
        return true;
    }
    return false;
}

static bool read_item(trial_limits *limits, const char *item)
{
    const bool has_letter = item[0] == 'b' || item[0] == 't';
    const char *digits = item + has_letter;
    char *end;
    const unsigned long number = strtoul(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end != '\0')
        return read_word(limits, item);
    const unsigned long most = !has_letter      ? TRIAL_MISHAPS - 1
                               : item[0] == 'b' ? TRIAL_BATCHES - 1
                                                : TRIAL_NUMBERS;
    if (number > most)
        return false;
    if (!has_letter)
        limits->mishaps |= UINT32_C(1) << number;
    else if (item[0] == 'b')
        limits->batches |= UINT32_C(1) << number;
    else
        limits->tasks |= UINT64_C(1) << number;
    return true;
}

bool trial_limits_read(trial_limits *limits, const char *text)
{
    for (const char *at = text;; at++) {
        char item[ITEM];
        const size_t length = strcspn(at, ",");
        if (length >= sizeof item)
            return false;
        snprintf(item, sizeof item, "%.*s", (int)length, at);
        if (!read_item(limits, item))
            return false;
        at += length;
        if (*at == '\0')
            return true;
    }
}

static void add(char *text, size_t size, const char *item)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ",", item);
}

static void add_numbers(char *text, size_t size, const char *letter, uint64_t numbers)
{
    for (unsigned i = 0; i < 64; i++) {
        char item[ITEM];
        snprintf(item, sizeof item, "%s%u", letter, i);
        if ((numbers >> i & 1) != 0)
            add(text, size, item);
    }
}

void trial_limits_write(const trial_limits *limits, char *text, size_t size)
{
    text[0] = '\0';
    add_numbers(text, size, "", limits->mishaps);
    add_numbers(text, size, "b", limits->batches);
    add_numbers(text, size, "t", limits->tasks);
    for (size_t i = 0; i < WORD_COUNT; i++) {
        if (*(const bool *)((const char *)limits + WORDS[i].offset))
            add(text, size, WORDS[i].text);
    }
}
