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

bool tf_find(const char **missing)
{
    void *library = open_tensorflow();
    *missing = "TF_NewKernelBuilder";
    if (library == NULL)
        return false;
#define TF_LOOK_UP(result, name, parameters)                                                       \
    {                                                                                              \
        void *symbol = find(library, "TF_" #name);                                                 \
        *missing = "TF_" #name;                                                                    \
        if (symbol == NULL)                                                                        \
            return false;                                                                          \
        memcpy(&tf.name, &symbol, sizeof symbol);                                                  \
    }
    TF_FUNCTIONS(TF_LOOK_UP)
#define TF_LOOK_UP_NEWER(result, name, parameters)                                                 \
    {                                                                                              \
        void *symbol = find(library, "TF_" #name);                                                 \
        memcpy(&tf.name, &symbol, sizeof symbol);                                                  \
    }
    TF_NEWER_FUNCTIONS(TF_LOOK_UP_NEWER)
    return true;
}

bool tf_has(const char *symbol)
{
    void *library = open_tensorflow();
    return library != NULL && find(library, symbol) != NULL;
}
