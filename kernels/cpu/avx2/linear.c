#include "kernels/cpu/init.h"

#if defined(__x86_64__)

void kern_init_linear_avx2(struct kern_ops *ops, uint32_t flags)
{
    (void)ops;
    (void)flags;
}

#endif
