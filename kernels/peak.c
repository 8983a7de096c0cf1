#include "kernels/peak.h"

#include <string.h>

#include "kernels/isa.h"

int peak_ops_init(struct peak_ops *p, const char *isa)
{
    const uint32_t flags = isa_detect();
    struct kern_ops ops;
    int rc = kern_ops_init(&ops, isa);

    if (rc)
        return rc;
    memset(p, 0, sizeof *p);
    peak_init_ref(p, flags);
    if (strcmp(ops.isa, "ref"))
        peak_init_avx2(p, flags);
    if (!strcmp(ops.isa, "avx512"))
        peak_init_avx512(p, flags);
    p->isa = ops.isa;
    return 0;
}
