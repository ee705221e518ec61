/* later.c: threads that end kernels, and the copy of TensorFlow's callback that they need.
 *
 * TensorFlow's C interface gives an asynchronous kernel the address of a std::function<void()> that lives
 * only until the call returns. So it is copied, by the layout that libstdc++ has had since there is a
 * std::function, and only where a symbol of this TensorFlow says that its callbacks are of this type. */
#include "later.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* std::function<void()> of libstdc++ */
typedef struct callback {
    void *captured[2];
    bool (*manage)(void *to, const void *from, int task);
    void (*call)(const void *captured);
} callback;
enum { CLONE = 2, DESTROY = 3 }; /* tasks of `manage` */

typedef struct job {
    void (*work)(TF_OpKernelContext *);
    TF_OpKernelContext *context;
    callback done;
    struct job *next;
} job;

/* Threads never end: there are as many as kernels have waited at one time. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    job *jobs;
    int queued, idle;
} crew = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

bool later_possible(void)
{
    /* ThreadPoolDevice::ComputeAsync(AsyncOpKernel *, OpKernelContext *, std::function<void()>) */
    return tf.NewAsyncKernelBuilder != NULL && tf.RunAsyncOpKernelDoneCallback != NULL &&
           tf_has("_ZN10tensorflow16ThreadPoolDevice12ComputeAsyncEPNS_13AsyncOpKernelE"
                  "PNS_15OpKernelContextESt8functionIFvvEE");
}

static void run(job *each)
{
    each->work(each->context);
    each->done.call(each->done.captured);
    each->done.manage(each->done.captured, each->done.captured, DESTROY);
    free(each);
}

static void *work_forever(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&crew.lock);
    for (;;) {
        while (crew.jobs == NULL) {
            crew.idle++;
            pthread_cond_wait(&crew.more, &crew.lock);
            crew.idle--;
        }
        job *mine = crew.jobs;
        crew.jobs = mine->next;
        crew.queued--;
        pthread_mutex_unlock(&crew.lock);
        run(mine);
        pthread_mutex_lock(&crew.lock);
    }
    return NULL;
}

/* Signals are for the program's own threads. */
static bool add_thread(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool made = pthread_create(&thread, NULL, work_forever, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made)
        pthread_detach(thread);
    return made;
}

/* False: there is no thread for it. */
static bool hand_over(job *each)
{
    pthread_mutex_lock(&crew.lock);
    const bool fine = crew.queued < crew.idle || add_thread();
    if (fine) {
        each->next = crew.jobs;
        crew.jobs = each;
        crew.queued++;
        pthread_cond_signal(&crew.more);
    }
    pthread_mutex_unlock(&crew.lock);
    return fine;
}

void later(void (*work)(TF_OpKernelContext *), TF_OpKernelContext *context,
           TF_AsyncOpKernelDoneCallback *done)
{
    const callback *theirs = (const callback *)(const void *)done;
    job *each = calloc(1, sizeof *each);
    if (each == NULL) {
        work(context);
        tf.RunAsyncOpKernelDoneCallback(done);
        return;
    }
    *each = (job){.work = work, .context = context, .done = *theirs};
    theirs->manage(each->done.captured, theirs->captured, CLONE);
    if (!hand_over(each))
        run(each);
}
