// Vector loads: N neighbouring elements as one access of up to 16 bytes (32 as two).
#pragma once
#include "types.cuh"

constexpr int pack_align(int bytes) { return bytes >= 16 ? 16 : bytes; }

template <class T, int N> struct Pack { T at[N]; };

template <int Bytes> struct Word;
template <> struct Word<1> { typedef u8 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<16> { typedef uint4 type; };

constexpr int word_bytes(int bytes, int align) {
    int b = align > 16 ? 16 : align;
    while (bytes % b) b /= 2;
    return b;
}

// Loads N elements that lie together; the address is a multiple of their size (of 16 when larger).
// Streams: each byte is read once, so it need not stay in L1.
template <class T, int N> GR_HD Pack<T, N> load_pack(const void* from) {
    const int wide = N == 1 ? word_bytes(sizeof(T), alignof(T)) : word_bytes(sizeof(T) * N, 16);
    typedef typename Word<wide>::type W;
    union { W words[sizeof(T) * N / wide]; Pack<T, N> pack; } both;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) * N) / wide; i++) both.words[i] = __ldcs((const W*)from + i);
    return both.pack;
}
