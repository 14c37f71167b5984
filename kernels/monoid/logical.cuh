// any, all and count_nonzero, by whole 32-bit words: NaN is true, -0.0 is false.
#pragma once
#include "plain.cuh"

// The bits of a word that make an element of this type nonzero; w is the word's place in its element.
template <class T> struct Significant { static GR_HD u32 bits(int) { return 0xffffffffu; } };
template <> struct Significant<half> { static GR_HD u32 bits(int) { return 0x7fff7fffu; } };
template <> struct Significant<bfloat16> { static GR_HD u32 bits(int) { return 0x7fff7fffu; } };
template <> struct Significant<f32> { static GR_HD u32 bits(int) { return 0x7fffffffu; } };
template <> struct Significant<c64> { static GR_HD u32 bits(int) { return 0x7fffffffu; } };
template <> struct Significant<f64> { static GR_HD u32 bits(int w) { return w % 2 ? 0x7fffffffu : 0xffffffffu; } };
template <> struct Significant<c128> { static GR_HD u32 bits(int w) { return w % 2 ? 0x7fffffffu : 0xffffffffu; } };

// The top bit of every zero element of the word, for elements of 1, 2 and 4 bytes.
template <int Bytes> GR_HD u32 zeros(u32 word) {
    const u32 low = Bytes == 1 ? 0x7f7f7f7fu : Bytes == 2 ? 0x7fff7fffu : 0x7fffffffu;
    return ~(((word & low) + low) | word | low);
}

template <class T, int V> struct Wordwise { static const bool yes = sizeof(T) * V >= 4 && (sizeof(T) * V) % 4 == 0; };

// Bits that tell zero elements of a pack apart: nonzero where word group `group` holds a zero element.
template <class T, int V> GR_HD u32 zero_bits(const Pack<T, V>& pack, int group) {
    const int words = sizeof(T) > 4 ? sizeof(T) / 4 : 1;
    u32 word = 0;
#pragma unroll
    for (int w = 0; w < words; w++) word |= ((const u32*)&pack)[group * words + w] & Significant<T>::bits(w);
    return zeros<(sizeof(T) < 4 ? sizeof(T) : 4)>(word);
}
template <class T, int V> struct Groups { static const int count = sizeof(T) >= 4 ? V : V * (int)sizeof(T) / 4; };

template <class T> struct Any : Plain<Any<T>, T, boolean> {
    typedef u32 Acc;  // nonzero once an element was
    static GR_HD Acc start() { return 0; }
    static GR_HD void absorb(Acc& acc, T x, i64) { acc |= is_nonzero(x); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<T, V>& pack, i64 index, i64 step) {
        if constexpr (Wordwise<T, V>::yes) {
#pragma unroll
            for (int w = 0; w < (int)sizeof(T) * V / 4; w++) acc |= ((const u32*)&pack)[w] & Significant<T>::bits(w);
        } else {
            Plain<Any<T>, T, boolean>::absorb_pack(acc, pack, index, step);
        }
    }
    static GR_HD boolean settle(Acc acc) { return {(u8)(acc != 0)}; }
    static GR_HD boolean identity() { return {0}; }
    static GR_HD boolean combine(boolean earlier, boolean later) { return {(u8)(earlier.byte | later.byte)}; }
    static GR_HD boolean finalise(boolean state, const f64*) { return state; }
    // False where a pack leaves a state as it is.
    template <int V> static GR_HD bool may_change(boolean state, const Pack<T, V>& pack) {
        Acc acc = start();
        absorb_pack(acc, pack, 0, 1);
        return state.byte == 0 && acc != 0;
    }
    static GR_HD void atomic(boolean* cell, boolean state) {
        u64 at = (u64)cell;  // the aligned word around the byte: others in it gain no bits
        if (state.byte) atomicOr((u32*)(at & ~3ull), 1u << (8 * (u32)(at & 3)));
    }
};

template <class T> struct All : Plain<All<T>, T, boolean> {
    typedef u32 Acc;  // nonzero once an element was zero
    static GR_HD Acc start() { return 0; }
    static GR_HD void absorb(Acc& acc, T x, i64) { acc |= !is_nonzero(x); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<T, V>& pack, i64 index, i64 step) {
        if constexpr (Wordwise<T, V>::yes) {
#pragma unroll
            for (int g = 0; g < Groups<T, V>::count; g++) acc |= zero_bits(pack, g);
        } else {
            Plain<All<T>, T, boolean>::absorb_pack(acc, pack, index, step);
        }
    }
    static GR_HD boolean settle(Acc acc) { return {(u8)(acc == 0)}; }
    static GR_HD boolean identity() { return {1}; }
    static GR_HD boolean combine(boolean earlier, boolean later) { return {(u8)(earlier.byte & later.byte)}; }
    static GR_HD boolean finalise(boolean state, const f64*) { return state; }
    template <int V> static GR_HD bool may_change(boolean state, const Pack<T, V>& pack) {
        Acc acc = start();
        absorb_pack(acc, pack, 0, 1);
        return state.byte != 0 && acc != 0;
    }
    static GR_HD void atomic(boolean* cell, boolean state) {
        u64 at = (u64)cell;
        if (!state.byte) atomicAnd((u32*)(at & ~3ull), ~(1u << (8 * (u32)(at & 3))));
    }
};

template <class T> struct CountNonzero : Plain<CountNonzero<T>, T, i64> {
    static GR_HD i64 identity() { return 0; }
    static GR_HD void absorb(i64& acc, T x, i64) { acc += is_nonzero(x); }
    template <int V> static GR_HD void absorb_pack(i64& acc, const Pack<T, V>& pack, i64 index, i64 step) {
        if constexpr (Wordwise<T, V>::yes) {
            i32 zero = 0;
#pragma unroll
            for (int g = 0; g < Groups<T, V>::count; g++) zero += __popc(zero_bits(pack, g));
            acc += V - zero;
        } else {
            Plain<CountNonzero<T>, T, i64>::absorb_pack(acc, pack, index, step);
        }
    }
    static GR_HD i64 combine(i64 earlier, i64 later) { return earlier + later; }
    static GR_HD i64 finalise(i64 state, const f64*) { return state; }
    static GR_HD void atomic(i64* cell, i64 state) { atomicAdd((u64*)cell, (u64)state); }
};
