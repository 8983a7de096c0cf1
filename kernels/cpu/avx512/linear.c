#include "kernels/cpu/init.h"

void kern_init_linear_avx512(struct kern_ops *ops, uint32_t flags)
{
    (void)ops;
    (void)flags;
}
