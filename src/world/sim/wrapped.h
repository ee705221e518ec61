/* wrapped.h: what the linker's --wrap leaves of the functions that memory.c stands in for: the real ones, and ours.
 * The simulation's own code calls the real ones, so that what it allocates is nobody's. */
#ifndef RUEDA_WORLD_SIM_WRAPPED_H
#define RUEDA_WORLD_SIM_WRAPPED_H

#include <stddef.h>
#include <sys/types.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t each);
void *__real_realloc(void *block, size_t bytes);
void __real_free(void *block);
int __real_posix_memalign(void **block, size_t alignment, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *start, size_t bytes);
int __real_memfd_create(const char *name, unsigned flags);
int __real_ftruncate(int fd, off_t bytes);
int __real_fallocate(int fd, int mode, off_t at, off_t bytes);
int __real_close(int fd);
int __real_dup(int fd);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t each);
void *__wrap_realloc(void *block, size_t bytes);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
int __wrap_posix_memalign(void **block, size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *start, size_t bytes);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_ftruncate(int fd, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t at, off_t bytes);
int __wrap_close(int fd);
int __wrap_dup(int fd);
int __wrap_crypto_aead_aes256gcm_is_available(void);

#endif
