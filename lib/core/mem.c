#include "lib/core/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES ((size_t)2 << 20)

void *mem_alloc(size_t bytes)
{
    void *p = NULL;

    if (!bytes || bytes > SIZE_MAX - MEM_ALIGN || posix_memalign(&p, MEM_ALIGN, bytes))
        return NULL;
    return p;
}

void *mem_zalloc(size_t bytes)
{
    void *p = mem_alloc(bytes);

    if (p)
        memset(p, 0, bytes);
    return p;
}

void *mem_map(size_t bytes)
{
    void *p;

    if (!bytes)
        return NULL;
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= 4 * HUGE_BYTES)
        madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

void mem_unmap(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

bool mem_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool mem_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
