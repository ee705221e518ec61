/* driver.c: runs a fuzzer's function without libFuzzer: over every file of the given folders, and over
 * many small changes of each. The changes are the same in every run.
 *
 *     x_fuzz FOLDER...
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 65536
#define CHANGES 2000 /* of each file */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Changes a byte, or moves, doubles or removes a part. */
static size_t change(unsigned char *data, size_t size, uint64_t *state)
{
    static const char special[] = ":-#&*!|>'\"%@`[]{},?\n\t \\0";
    const size_t at = size > 0 ? next(state) % size : 0;
    const size_t part = size > at ? next(state) % (size - at < 16 ? size - at : 16) : 0;
    switch (next(state) % 4) {
    case 0:
        if (size > 0)
            data[at] = (unsigned char)next(state);
        return size;
    case 1:
        if (size > 0)
            data[at] = (unsigned char)special[next(state) % (sizeof special - 1)];
        return size;
    case 2:
        memmove(data + at, data + at + part, size - at - part);
        return size - part;
    default:
        if (size + part > INPUT_MAX)
            return size;
        memmove(data + at + part, data + at, size - at);
        return size + part;
    }
}

static void run_once(const unsigned char *data, size_t size)
{
    unsigned char *copy = malloc(size > 0 ? size : 1); /* so that a byte too far is seen */
    if (copy == NULL)
        abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_file(const char *path, uint64_t *state)
{
    static unsigned char original[INPUT_MAX], changed[INPUT_MAX];
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return;
    const size_t size = fread(original, 1, sizeof original, file);
    fclose(file);
    run_once(original, size);
    for (int i = 0; i < CHANGES; i++) {
        size_t length = size;
        memcpy(changed, original, size);
        for (uint32_t times = 1 + next(state) % 4; times > 0; times--)
            length = change(changed, length, state);
        run_once(changed, length);
    }
}

static int run_folder(const char *folder)
{
    struct dirent **entries;
    uint64_t state = 1;
    const int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_type == DT_REG)
            run_file(path, &state);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return count;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (run_folder(argv[i]) < 0) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 1;
        }
    }
    return 0;
}
