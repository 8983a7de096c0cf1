/* What the vector kernels need of the compiler: functions that are inlined with constant arguments, and loops over arrays of
 * registers that disappear. */
#ifndef SLUICE_KERNELS_CPU_INLINE_H
#define SLUICE_KERNELS_CPU_INLINE_H

#define INLINE static inline __attribute__((always_inline))

/* Before a loop of at most n rounds, their number being known once the function is inlined: unrolled wholly. (clang takes
 * "GCC unroll" too, but then unrolls so late that the array stays in memory.) */
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL(n) PRAGMA(clang loop unroll(full))
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif

#endif
