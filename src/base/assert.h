/* assert.h: what must be so, whatever happens outside: a failure is a bug of the library, never of its users. */
#ifndef RUEDA_BASE_ASSERT_H
#define RUEDA_BASE_ASSERT_H

/* Checked in debug builds, with sanitizers, and in the simulated world; elsewhere it costs nothing. */
#if defined(RUEDA_SIMULATED) || !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) ||               \
    defined(__SANITIZE_THREAD__)
#define RUEDA_ASSERTS 1
#endif

#ifdef RUEDA_ASSERTS
/* Says where, and ends the process, or the simulated world. */
_Noreturn void assert_failed(const char *what, const char *file, int line);
#define RUEDA_ASSERT(x) ((x) ? (void)0 : assert_failed(#x, __FILE__, __LINE__))
#else
#define RUEDA_ASSERT(x) ((void)0)
#endif

#endif
