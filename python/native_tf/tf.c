/* tf.c: finds TensorFlow in the process. */
#include "tf.h"

#include <dlfcn.h>
#include <string.h>

tf_table tf;

static void *open_tensorflow(void)
{
    /* the names of 2.x; the library is there already, because TensorFlow loads us */
    static const char *const names[] = {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
        if (library != NULL && dlsym(library, "TF_NewKernelBuilder") != NULL)
            return library;
    }
    return dlsym(RTLD_DEFAULT, "TF_NewKernelBuilder") != NULL ? RTLD_DEFAULT : NULL;
}

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    void *other = symbol != NULL ? NULL : dlopen("libtensorflow_cc.so.2", RTLD_NOLOAD | RTLD_LAZY);
    return other == NULL ? symbol : dlsym(other, name);
}

/* Where the address of each function goes. */
typedef struct row {
    const char *name;
    void *to;
    bool newer; /* not all versions have it */
} row;

static const row rows[] = {
#define TF_ROW(result, name, parameters) {"TF_" #name, &tf.name, false},
    TF_FUNCTIONS(TF_ROW)
#define TF_NEWER_ROW(result, name, parameters) {"TF_" #name, &tf.name, true},
        TF_NEWER_FUNCTIONS(TF_NEWER_ROW)};

bool tf_find(const char **missing)
{
    void *library = open_tensorflow();
    *missing = "TF_NewKernelBuilder";
    if (library == NULL)
        return false;
    for (const row *r = rows; r < rows + sizeof rows / sizeof rows[0]; r++) {
        void *symbol = find(library, r->name);
        *missing = r->name;
        if (symbol == NULL && !r->newer)
            return false;
        memcpy(r->to, &symbol, sizeof symbol);
    }
    return true;
}

bool tf_has(const char *symbol)
{
    void *library = open_tensorflow();
    return library != NULL && find(library, symbol) != NULL;
}
