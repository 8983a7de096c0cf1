#include "kernels/cpu/init.h"

#if defined(__x86_64__)

void kern_init_nn_avx2(struct kern_ops *ops)
{
    (void)ops;
}

#endif
