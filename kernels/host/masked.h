// Numbers by masks, of bits as wide as they are, so that one loop is vectors throughout.
#pragma once
#include <string.h>
#include "strips.h"

// A number where the mask has ones, else zero. Of a choice between the two compilers make jumps.
INLINE double masked(double value, int64_t mask) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= mask;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

// The same of the narrower type, before it becomes wide: of half the words.
INLINE double masked_narrow(float value, int64_t mask) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= (int32_t)mask;
    memcpy(&value, &bits, sizeof bits);
    return value;
}
#define NARROW(x) _Generic((x), float: 1, default: 0)
#define MASKED(x, mask) _Generic((x), float: masked_narrow, default: masked)(x, mask)
