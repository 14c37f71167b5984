// The cells of blocks of shape (outer, n, inner), walked so that vectors are full whatever their shape: where few cells
// lie side by side, rows of memory that follow one another are taken side by side, and of short rows as many as fill a
// buffer are copied beside one another.
#pragma once
#include <stddef.h>
#include "each_processor.h"

enum {
    LANES = 16,      // elements that one loop takes
    STRIP = 1024,    // cells whose states stay in the first levels of cache while rows pass
    NARROW = 64,     // elements of several rows that are taken side by side,
    FEWER = 16,      // and of rows of less than LONG elements, for in the end those states are combined too
    LONG = 512,
    SHORT = 64,      // elements of a row, or of a few columns, up to which as many as fill a buffer are copied beside
    ROOM = 4096,     // one another: elements of that buffer
    LINE = 64,       // bytes that come from memory together
    AHEAD = 4,       // rows ahead that are asked for: between strips processors do not see what comes
};

#define INLINE static inline __attribute__((always_inline))

// Each step is a loop of its own over so many elements. Compilers turn it into vectors, unless they have unrolled it.
#define EACH _Pragma("GCC unroll 1") for (int k = 0; k < LANES; k++)

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Asks for some elements of a row that are looked at later.
#define ASK_FOR(T, row, start, end)                                                                                    \
    for (int64_t k = (start) * sizeof(T); k < (end) * (int64_t)sizeof(T); k += LINE) __builtin_prefetch((row) + k);

// How many rows are taken side by side: as many as fill the lanes, where they follow one another in memory.
INLINE int64_t side_by_side(int64_t n, int64_t inner, int64_t stride, int64_t itemsize) {
    const int64_t most = inner == 1 && n < LONG ? FEWER : NARROW / inner;
    return most < 2 || stride != inner * itemsize ? 1 : least(n, most);
}

// The cells of a block of shape (outer, n, inner), whose last axis is that of neighbours, in the order of the results:
// a strip of one row of cells at a time, or, where a row has few elements, as many rows as there is room for.
#define EACH_STRIP(T, STRIP_CELLS, ...)                                                                                \
    {                                                                                                                  \
        T room[ROOM];                                                                                                  \
        const int64_t strip = (STRIP_CELLS), most = least(ROOM / (n * inner), strip / inner);                          \
        const int64_t many = n * inner <= SHORT ? least(outer, most) : 1;                                              \
        const int64_t part = least((n - 1) * step[1] + inner * sizeof(T), 2 * n * inner * sizeof(T));                  \
        for (int64_t row = 0; row < outer; row += many)                                                                \
            for (int64_t begin = 0; begin < inner; begin += strip) {                                                   \
                const int64_t some = least(many, outer - row), at = row * inner + begin;                               \
                const int64_t cells = many > 1 ? some * inner : least(inner - begin, strip);                           \
                const int64_t stride = many > 1 ? cells * sizeof(T) : step[1];                                         \
                const char *x = rows + row * step[0] + begin * sizeof(T);                                              \
                if (many > 1) {                                                                                        \
                    const char *ahead = x + some * step[0]; /* read across rows, memory is not asked for in time */    \
                    for (int64_t r = 0; r < some; r++) /* those of a row, and not what lies between rows */            \
                        for (int64_t at = 0; at < part; at += LINE) __builtin_prefetch(ahead + r * step[0] + at);      \
                    for (int64_t i = 0; i < n; i++) {                                                                  \
                        const char *from = x + i * step[1];                                                            \
                        T *restrict to = room + i * cells;                                                             \
                        if (inner == 1)                                                                                \
                            for (int64_t r = 0; r < some; r++) to[r] = *(const T *)(from + r * step[0]);               \
                        else                                                                                           \
                            for (int64_t r = 0; r < some; r++)                                                         \
                                for (int64_t j = 0; j < inner; j++)                                                    \
                                    to[r * inner + j] = ((const T *)(from + r * step[0]))[j];                          \
                    }                                                                                                  \
                    x = (const char *)room;                                                                            \
                }                                                                                                      \
                __VA_ARGS__                                                                                            \
            }                                                                                                          \
    }
