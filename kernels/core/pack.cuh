// Vector loads: N neighbouring elements as one access of up to 16 bytes (32 as two).
#pragma once
#include "types.cuh"

// Narrow elements that fill words lie as words do, so that they can be taken as such.
template <class T, int N> struct alignas(alignof(T) < 4 && sizeof(T) * N % 4 == 0 ? 4 : alignof(T)) Pack {
    T at[N];
    // Element j, bytes from their word: read as at[j], each would have a register from when the pack is loaded on.
    GR_HD T element(int j) const;
};
// A pack as several are passed. A copy instead would have a register for each element, of however few bytes.
template <class T, int N> GR_HD const Pack<T, N> (&only(const Pack<T, N>& pack))[1] { return *(const Pack<T, N>(*)[1])&pack; }

template <int Bytes> struct Word;
template <> struct Word<1> { typedef u8 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<16> { typedef uint4 type; };

template <int Bytes> struct Unsigned { typedef typename Word<Bytes>::type type; };
template <> struct Unsigned<8> { typedef u64 type; };
template <class T, int N> GR_HD T Pack<T, N>::element(int j) const {
    const int each = 4 / sizeof(T);
    if constexpr (sizeof(T) <= 2 && N % each == 0)
        return bit_cast<T>((typename Unsigned<sizeof(T)>::type)(((const u32*)this)[j / each] >> j % each * (8 * (int)sizeof(T))));
    else return at[j];
}

// The widest word, of at most `align` bytes, that a stretch of `bytes` is made of.
template <int Bytes, int Align, bool Fits = (Bytes % Align == 0)> struct WordBytes {
    static const int count = WordBytes<Bytes, Align / 2>::count;
};
template <int Bytes, int Align> struct WordBytes<Bytes, Align, true> { static const int count = Align; };

// Loads N elements that lie together; the address is a multiple of their size (of 16 when larger).
// Streams: each byte is read once, so it need not stay in L1.
template <class T, int N> GR_HD Pack<T, N> load_pack(const void* from) {
    const bool own = N > 1 || sizeof(T) == 8 || sizeof(T) == 16;  // aligned to its own size, not just its parts
    const int wide = WordBytes<sizeof(T) * N, (own ? 16 : alignof(T))>::count;
    typedef typename Word<wide>::type W;
    union { W words[sizeof(T) * N / wide]; Pack<T, N> pack; } both;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) * N) / wide; i++) both.words[i] = __ldcs((const W*)from + i);
    return both.pack;
}

// Loads N elements of one or two bytes or more, 4, 8 or 16 bytes together, from any multiple of their size: the aligned
// word that holds the first and, where it does not hold all, the one behind it, shifted into place. Both may be read.
template <class T, int N> GR_HD Pack<T, N> load_unaligned(const u8* from) {
    const int bytes = sizeof(T) * N, count = bytes / 4;
    typedef typename Word<bytes>::type W;
    const u32 past = (u32)((u64)from % bytes);
    union Both { W halves[2]; u32 words[2 * count]; } both;
    both.halves[0] = *(const W*)(from - past);
    both.halves[1] = past ? *(const W*)(from - past + bytes) : both.halves[0];
    u32 at[2 * count];
#pragma unroll
    for (int w = 0; w < 2 * count; w++) at[w] = both.words[w];
#pragma unroll
    for (int gap = count / 2; gap >= 1; gap /= 2)  // whole words first
#pragma unroll
        for (int w = 0; w < count + gap; w++)
            if (past & 4 * gap) at[w] = at[w + gap];
    union { u32 words[count]; Pack<T, N> pack; } found;
#pragma unroll
    for (int w = 0; w < count; w++) found.words[w] = (u32)(((u64)at[w + 1] << 32 | at[w]) >> (8 * (past % 4)));
    return found.pack;
}

// A pack from its last element to its first.
template <class T, int V> GR_HD Pack<T, V> reversed(const Pack<T, V>& pack) {
    Pack<T, V> back;
    if constexpr (sizeof(T) <= 2 && sizeof(T) * V % 4 == 0) {
        const int words = sizeof(T) * V / 4;
#pragma unroll
        for (int w = 0; w < words; w++)
            ((u32*)&back)[w] = __byte_perm(((const u32*)&pack)[words - 1 - w], 0, sizeof(T) == 1 ? 0x0123 : 0x1032);
    } else {
#pragma unroll
        for (int j = 0; j < V; j++) back.at[j] = pack.at[V - 1 - j];
    }
    return back;
}

// Puts `fill` where elements of a slot lie outside the row; `place` is that of the slot's first.
template <class In, int V> GR_HD void fill_outside(Pack<In, V>& pack, i32 place, i32 length, In fill) {
#pragma unroll
    for (int j = 0; j < V; j++)
        if ((u32)(place + j) >= (u32)length) pack.at[j] = fill;
}

// Takes in the elements [first, end) of a pack, of which there is one; `index` is that of the pack's first.
template <class Op, int V>
GR_HD void absorb_some(typename Op::Acc& acc, const Pack<typename Op::In, V>& pack, i32 first, i32 end, i64 index, i64 step) {
    if constexpr (Op::takes_part) {
        Op::absorb_part(acc, pack, first, end);
    } else {
#pragma unroll
        for (int j = 0; j < V; j++)
            if (j >= first && j < end) Op::absorb(acc, pack.at[j], index + j * step);
    }
}

// Stores a value that this launch does not read again: it need not stay in L2.
template <class T> GR_HD void store_streaming(T* to, const T& value) {
    const int wide = WordBytes<sizeof(T), alignof(T)>::count;
    typedef typename Word<wide>::type W;
    union Both { W words[sizeof(T) / wide]; T value; GR_HD Both(const T& x) : value(x) {} } both(value);
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / wide; i++) __stcs((W*)to + i, both.words[i]);
}
// The same of N elements that lie together, from a multiple of their size (of 16 when larger).
template <class T, int N> GR_HD void store_pack_streaming(void* to, const Pack<T, N>& pack) {
    const int wide = WordBytes<sizeof(T) * N, 16>::count;
    typedef typename Word<wide>::type W;
    union Both { W words[sizeof(T) * N / wide]; Pack<T, N> pack; GR_HD Both(const Pack<T, N>& x) : pack(x) {} } both(pack);
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) * N) / wide; i++) __stcs((W*)to + i, both.words[i]);
}
