// A function behind one of these is compiled for several generations of processors, and the loader takes the right one.
#pragma once
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#define WITH_AVX2 __attribute__((target_clones("avx2", "default"))) /* as fast where results wait for one another */
#else
#define EACH_PROCESSOR
#define WITH_AVX2
#endif
