/* corpus.c: see corpus.h. The whole text is read into memory; words are counted in a hash table with
 * open addressing that maps a word to its number in the order of first occurrence. */
#include "corpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024 /* of the hash table; a power of two */

/* ---- Words of a text ------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0; /* UTF-8 too */
}

static bool is_inside(const char *at, const char *end)
{
    return is_letter(*at) || ((*at == '\'' || *at == '-') && at + 1 < end && is_letter(at[1]));
}

const char *next_word(const char *at, const char *end, char word[MAX_WORD_BYTES])
{
    size_t bytes = 0;
    while (at < end && !is_letter(*at))
        at++;
    if (at == end)
        return NULL;
    for (; at < end && is_inside(at, end); at++) {
        if (bytes + 1 < MAX_WORD_BYTES)
            word[bytes++] = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
    }
    word[bytes] = '\0';
    return at;
}

/* ---- Counting -------------------------------------------------------------------------------- */

typedef struct counter {
    vocabulary words; /* in the order of first occurrence */
    int capacity;
    int32_t *slots; /* number of a word plus 1; 0: free */
    size_t slot_count;
} counter;

static uint64_t hash(const char *word)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *word != '\0'; word++)
        h = (h ^ (uint8_t)*word) * UINT64_C(0x100000001b3);
    return h;
}

/* The slot of a word, or the free one where it belongs. */
static size_t slot_of(const counter *c, const char *word)
{
    size_t slot = hash(word) & (c->slot_count - 1);
    while (c->slots[slot] != 0 && strcmp(c->words.words[c->slots[slot] - 1], word) != 0)
        slot = (slot + 1) & (c->slot_count - 1);
    return slot;
}

static bool grow_slots(counter *c)
{
    const size_t count = c->slot_count == 0 ? FIRST_SLOTS : 2 * c->slot_count;
    int32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        return false;
    free(c->slots);
    c->slots = slots;
    c->slot_count = count;
    for (int32_t i = 0; i < c->words.count; i++)
        c->slots[slot_of(c, c->words.words[i])] = i + 1;
    return true;
}

static bool grow_words(counter *c)
{
    const int capacity = c->capacity == 0 ? FIRST_SLOTS / 2 : 2 * c->capacity;
    void *words = realloc(c->words.words, sizeof *c->words.words * (size_t)capacity);
    if (words != NULL)
        c->words.words = words;
    int64_t *counts = realloc(c->words.counts, sizeof *counts * (size_t)capacity);
    if (counts != NULL)
        c->words.counts = counts;
    if (words == NULL || counts == NULL)
        return false;
    c->capacity = capacity;
    return true;
}

/* Counts a word; its number, or -1: out of memory. */
static int32_t count_word(counter *c, const char *word)
{
    if (2 * ((size_t)c->words.count + 1) > c->slot_count && !grow_slots(c))
        return -1;
    const size_t slot = slot_of(c, word);
    if (c->slots[slot] == 0) {
        if (c->words.count == c->capacity && !grow_words(c))
            return -1;
        strcpy(c->words.words[c->words.count], word);
        c->words.counts[c->words.count] = 0;
        c->slots[slot] = ++c->words.count;
    }
    c->words.counts[c->slots[slot] - 1]++;
    return c->slots[slot] - 1;
}

static void free_words(vocabulary *v)
{
    free(v->words);
    free(v->counts);
    *v = (vocabulary){0};
}

/* ---- The vocabulary -------------------------------------------------------------------------- */

typedef struct entry {
    int64_t count;
    const char *word;
    int32_t number; /* in the order of first occurrence */
} entry;

static int compare_entries(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return strcmp(a->word, b->word);
}

/* Makes the vocabulary of the frequent words; renumbered[i] is the new number of word i, or -1. */
static bool keep_frequent(const counter *c, int least, vocabulary *v, int32_t *renumbered)
{
    const size_t count = (size_t)c->words.count;
    entry *entries = malloc(sizeof *entries * (count + 1));
    v->words = malloc(sizeof *v->words * (count + 1));
    v->counts = malloc(sizeof *v->counts * (count + 1));
    const bool good = entries != NULL && v->words != NULL && v->counts != NULL;
    for (size_t i = 0; good && i < count; i++) {
        entries[i] = (entry){c->words.counts[i], c->words.words[i], (int32_t)i};
        renumbered[i] = -1;
    }
    if (good)
        qsort(entries, count, sizeof *entries, compare_entries);
    for (size_t i = 0; good && i < count && entries[i].count >= least; i++) {
        strcpy(v->words[i], entries[i].word);
        v->counts[i] = entries[i].count;
        renumbered[entries[i].number] = (int32_t)i;
        v->count = (int)i + 1;
    }
    free(entries);
    return good;
}

int vocabulary_find(const vocabulary *v, const char *word)
{
    for (int i = 0; i < v->count; i++) {
        if (strcmp(v->words[i], word) == 0)
            return i;
    }
    return -1;
}

/* ---- The text -------------------------------------------------------------------------------- */

/* The whole file, with *bytes of it; NULL: errno says why. */
static char *read_text(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    char *text = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        const long size = ftell(file);
        rewind(file);
        text = size < 0 ? NULL : malloc((size_t)size + 1);
        *bytes = text == NULL ? 0 : fread(text, 1, (size_t)size, file);
    }
    const int error = errno;
    fclose(file);
    errno = error;
    return text;
}

/* One pass over the text: numbers of all words, and where lines begin. */
static bool number_words(const char *text, size_t bytes, int most_lines, counter *count, corpus *c)
{
    const char *end = text + bytes;
    char word[MAX_WORD_BYTES];
    int64_t tokens = 0;
    c->lines = 0;
    for (const char *line = text; line < end && (most_lines == 0 || c->lines < most_lines);) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            stop = end;
        c->starts[c->lines++] = tokens;
        for (const char *at = line; (at = next_word(at, stop, word)) != NULL;) {
            const int32_t number = count_word(count, word);
            if (number < 0)
                return false;
            c->tokens[tokens++] = number;
        }
        line = stop + 1;
    }
    c->starts[c->lines] = tokens;
    return true;
}

/* Gives the words their final numbers and closes the gaps of those that are left out. */
static void renumber(corpus *c, const int32_t *renumbered)
{
    int64_t kept = 0;
    for (int line = 0; line < c->lines; line++) {
        const int64_t first = c->starts[line], end = c->starts[line + 1];
        c->starts[line] = kept;
        for (int64_t i = first; i < end; i++) {
            if (renumbered[c->tokens[i]] >= 0)
                c->tokens[kept++] = renumbered[c->tokens[i]];
        }
    }
    c->starts[c->lines] = kept;
}

static size_t count_lines(const char *text, size_t bytes)
{
    size_t lines = 1;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

static bool take_text(const char *text, size_t bytes, int least, int most_lines, corpus *c)
{
    counter count = {0};
    c->starts = malloc(sizeof *c->starts * (count_lines(text, bytes) + 1));
    c->tokens = malloc(sizeof *c->tokens * (bytes / 2 + 2)); /* words have gaps between them */
    bool good =
        c->starts != NULL && c->tokens != NULL && number_words(text, bytes, most_lines, &count, c);
    int32_t *renumbered =
        good ? malloc(sizeof *renumbered * ((size_t)count.words.count + 1)) : NULL;
    good = renumbered != NULL && keep_frequent(&count, least, &c->words, renumbered);
    if (good)
        renumber(c, renumbered);
    free(renumbered);
    free_words(&count.words);
    free(count.slots);
    return good;
}

bool corpus_read(const char *path, int least, int most_lines, corpus *c,
                 char error[CORPUS_ERROR_BYTES])
{
    size_t bytes = 0;
    *c = (corpus){0};
    errno = 0;
    char *text = read_text(path, &bytes);
    if (text == NULL) {
        snprintf(error, CORPUS_ERROR_BYTES, "%s: %s", path, strerror(errno));
        return false;
    }
    const bool good = take_text(text, bytes, least, most_lines, c);
    free(text);
    if (!good)
        snprintf(error, CORPUS_ERROR_BYTES, "%s: out of memory", path);
    else if (c->words.count < 2)
        snprintf(error, CORPUS_ERROR_BYTES, "%s: fewer than two words occur %d times or more", path,
                 least);
    if (good && c->words.count >= 2)
        return true;
    corpus_free(c);
    return false;
}

void corpus_free(corpus *c)
{
    free_words(&c->words);
    free(c->starts);
    free(c->tokens);
    *c = (corpus){0};
}
