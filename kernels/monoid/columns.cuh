// The running values of V neighbouring columns of one thread: what the columns kernels keep in registers.
//
//   take(pack, index, within)   one element of each column; element j has index `index + within[j]`
//   settle(j)                   the state of column j
//   counts                      true where settle(j) leaves the index to the kernel: winner(j) says how many elements
//                               of the column came before the one that won
// A thread takes fewer than 2^23 elements a column: the plan sees to that.
#pragma once
#include "arg.cuh"
#include "moments.cuh"
#include "sums.cuh"

template <class Op, int V> struct Columns {
    static const bool counts = false;
    typename Op::Acc acc[V];
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) acc[j] = Op::start();
    }
    GR_HD void take(const Pack<typename Op::In, V>& pack, i64 index, const i64 (&within)[V]) {
#pragma unroll
        for (int j = 0; j < V; j++) Op::absorb(acc[j], pack.at[j], index + within[j]);
    }
    GR_HD typename Op::State settle(int j) { return Op::settle(acc[j]); }
};
// Elements come in order of their index, evenly spaced: what holds for every operator but the positions is kept.
template <class Op, int V> struct EvenColumns : Columns<Op, V> {};

// Bytes are summed four to a word in 16-bit lanes, and those emptied into 64 bits before they can overflow.
template <class T> struct ByteBias { static const u32 word = 0, each = 0; };
template <> struct ByteBias<i8> { static const u32 word = 0x80808080u, each = 128; };  // signed bytes, shifted to 0..255
template <class T, class A, int V> struct ByteColumns {
    static const bool counts = false;
    static const int words = V / 4, most = 256;  // 256 * 255 < 2^16
    u32 even[words], odd[words];
    i64 wide[V], taken;
    u32 pending;
    GR_HD void start() {
#pragma unroll
        for (int w = 0; w < words; w++) even[w] = odd[w] = 0;
#pragma unroll
        for (int j = 0; j < V; j++) wide[j] = 0;
        taken = 0;
        pending = 0;
    }
    GR_HD void empty() {
#pragma unroll
        for (int w = 0; w < words; w++) {
            wide[4 * w] += even[w] & 0xffffu;
            wide[4 * w + 1] += odd[w] & 0xffffu;
            wide[4 * w + 2] += even[w] >> 16;
            wide[4 * w + 3] += odd[w] >> 16;
            even[w] = odd[w] = 0;
        }
        taken += pending;
        pending = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
#pragma unroll
        for (int w = 0; w < words; w++) {
            u32 word = ((const u32*)&pack)[w] ^ ByteBias<T>::word;
            even[w] += word & 0x00ff00ffu;
            odd[w] += (word >> 8) & 0x00ff00ffu;
        }
        if (++pending == most) empty();
    }
    GR_HD A settle(int j) {
        if (pending) empty();
        return (A)(wide[j] - (i64)ByteBias<T>::each * taken);
    }
};

// Narrow extremes: two 16-bit lanes a word, as in the row kernels, but each lane a column of its own.
template <class T, bool Max, bool SkipNan, int V> struct ExtremeColumns {
    static const bool counts = false;
    typedef Halves<T, Max, SkipNan> Lane;
    static const int words = V / 2;
    u32 best[words];
    GR_HD void start() {
        u32 worst = NarrowBest<T, Max, SkipNan>::start().lanes;
#pragma unroll
        for (int w = 0; w < words; w++) best[w] = worst;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
#pragma unroll
        for (int w = 0; w < (int)sizeof(T) * V / 4; w++) {
            u32 word = ((const u32*)&pack)[w];
            if constexpr (sizeof(T) == 1) {  // even bytes, then odd ones, in the upper half of their lanes
                best[2 * w] = Lane::better(best[2 * w], (word << 8) & 0xff00ff00u);
                best[2 * w + 1] = Lane::better(best[2 * w + 1], word & 0xff00ff00u);
            } else {
                best[w] = Lane::better(best[w], word);
            }
        }
    }
    GR_HD T settle(int j) {
        typedef typename Word<sizeof(T)>::type Bits;
        if constexpr (sizeof(T) == 1) {
            u32 lanes = best[j / 4 * 2 + j % 2];
            return bit_cast<T>((Bits)(lanes >> (j % 4 / 2 * 16 + 8)));
        } else {
            return bit_cast<T>((Bits)(best[j / 2] >> (j % 2 * 16)));
        }
    }
};

// One count serves all columns of a thread: without NaN to skip, each has taken as many elements.
template <class Map, class A, int V> struct MeanColumns {
    static const bool counts = false;
    Columns<Sum<Map, A>, V> sums;
    i64 count;
    GR_HD void start() {
        sums.start();
        count = 0;
    }
    GR_HD void take(const Pack<typename Map::In, V>& pack, i64 index, const i64 (&within)[V]) {
        sums.take(pack, index, within);
        count++;
    }
    GR_HD Averaged<A> settle(int j) { return {sums.settle(j), count}; }
};
template <class T, int Order, int V> struct MomentColumns {
    static const bool counts = false;
    f64 pivot[V], sum[V][Order];
    u32 count;
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) {
            pivot[j] = 0;
#pragma unroll
            for (int k = 0; k < Order; k++) sum[j][k] = 0;
        }
        count = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
        if (count == 0) {
#pragma unroll
            for (int j = 0; j < V; j++) pivot[j] = cast<f64>(pack.at[j]);
        }
        count++;
#pragma unroll
        for (int j = 0; j < V; j++) {
            f64 d = cast<f64>(pack.at[j]) - pivot[j], power = d;
#pragma unroll
            for (int k = 0; k < Order; k++) sum[j][k] += power, power *= d;
        }
    }
    GR_HD auto settle(int j) {
        PowerSums<Order> acc;
        acc.pivot = pivot[j];
        acc.count = count;
#pragma unroll
        for (int k = 0; k < Order; k++) acc.sum[k] = sum[j][k];
        return settle_powers(acc);
    }
};
// Power sums of bytes: a thread's sum fits 32 bits; its squares are emptied into binary64, exactly, every 2^16.
template <class T, int V> struct ByteMomentColumns {
    static const bool counts = false;
    i32 sum[V];
    u32 square[V], count;
    f64 squares[V];
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = 0, square[j] = 0, squares[j] = 0;
        count = 0;
    }
    GR_HD void empty() {
#pragma unroll
        for (int j = 0; j < V; j++) squares[j] += (f64)square[j], square[j] = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            i32 x = cast<i32>(pack.at[j]);
            sum[j] += x;
            square[j] += (u32)(x * x);
        }
        if ((++count & 0xffffu) == 0) empty();
    }
    GR_HD Moments2 settle(int j) {
        f64 n = (f64)count, mean = count ? (f64)sum[j] / n : 0;
        f64 m2 = squares[j] + (f64)square[j] - (f64)sum[j] * mean;
        return {n, mean, m2 > 0 ? m2 : 0};
    }
};

// The best value of each column, and how many elements came before it: ties keep the earlier.
template <class T, bool Max, bool SkipNan, int V> struct ArgColumns {
    typedef Arg<T, Max, SkipNan> Op;
    static const bool counts = true;
    T best[V];
    u32 place[V], count;
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) best[j] = Op::identity().value, place[j] = 0xffffffffu;
        count = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
        if (count == 0) {  // the first wins even where it is no better than the identity
#pragma unroll
            for (int j = 0; j < V; j++) {
                best[j] = pack.at[j];
                place[j] = SkipNan && is_nan(pack.at[j]) ? 0xffffffffu : 0;
            }
        } else {
#pragma unroll
            for (int j = 0; j < V; j++) {
                const bool wins = Op::beats(best[j], pack.at[j]);
                best[j] = wins ? pack.at[j] : best[j];
                place[j] = wins ? count : place[j];
            }
        }
        count++;
    }
    GR_HD u32 winner(int j) { return place[j]; }
    GR_HD Placed<T> settle(int j) { return {best[j], place[j] == 0xffffffffu ? -1 : 0}; }
};
// Bytes with their place below them in one word, so that one comparison settles both.
template <class T, bool Max, int V> struct ByteArgColumns {
    static const bool counts = true;
    static const u32 places = 0xffffffu;
    static const u32 flip = (Max ? 0u : 0xffu) ^ (T(-1) < T(0) ? 0x80u : 0u);
    u32 best[V], count;
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) best[j] = 0;
        count = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
        const u32 later = places - count;  // of equal bytes the earlier is the larger word; at least 2^23
        count++;
#pragma unroll
        for (int w = 0; w < V / 4; w++) {
            const u32 word = ((const u32*)&pack)[w] ^ flip * 0x01010101u;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                u32 key = __byte_perm(word, later, 0x0654 | k << 12);
                best[4 * w + k] = key > best[4 * w + k] ? key : best[4 * w + k];
            }
        }
    }
    GR_HD u32 winner(int j) { return places - (best[j] & places); }
    GR_HD Placed<T> settle(int j) { return {(T)((best[j] >> 24) ^ flip), best[j] == 0 ? -1 : 0}; }
};
template <class T, bool Max, bool SkipNan, int V>
struct EvenColumns<Arg<T, Max, SkipNan>, V> : ArgColumns<T, Max, SkipNan, V> {};
template <class Real, bool Max, bool SkipNan, int V>
struct EvenColumns<Arg<complex<Real>, Max, SkipNan>, V> : Columns<Arg<complex<Real>, Max, SkipNan>, V> {};
template <bool Max> struct EvenColumns<Arg<u8, Max, false>, 8> : ByteArgColumns<u8, Max, 8> {};
template <bool Max> struct EvenColumns<Arg<i8, Max, false>, 8> : ByteArgColumns<i8, Max, 8> {};
template <bool Max> struct EvenColumns<Arg<u8, Max, false>, 16> : ByteArgColumns<u8, Max, 16> {};
template <bool Max> struct EvenColumns<Arg<i8, Max, false>, 16> : ByteArgColumns<i8, Max, 16> {};

template <class A> struct Columns<Sum<Value<i8, A>, A>, 16> : ByteColumns<i8, A, 16> {};
template <class A> struct Columns<Sum<Value<i8, A>, A>, 8> : ByteColumns<i8, A, 8> {};
template <class A> struct Columns<Sum<Value<u8, A>, A>, 16> : ByteColumns<u8, A, 16> {};
template <class A> struct Columns<Sum<Value<u8, A>, A>, 8> : ByteColumns<u8, A, 8> {};
template <class A> struct Columns<Sum<Value<boolean, A>, A>, 16> : ByteColumns<boolean, A, 16> {};
template <class A> struct Columns<Sum<Value<boolean, A>, A>, 8> : ByteColumns<boolean, A, 8> {};
template <bool Max> struct Columns<MinMax<i8, Max, false>, 16> : ExtremeColumns<i8, Max, false, 16> {};
template <bool Max> struct Columns<MinMax<u8, Max, false>, 16> : ExtremeColumns<u8, Max, false, 16> {};
template <bool Max> struct Columns<MinMax<boolean, Max, false>, 16> : ExtremeColumns<boolean, Max, false, 16> {};
template <bool Max> struct Columns<MinMax<i16, Max, false>, 8> : ExtremeColumns<i16, Max, false, 8> {};
template <bool Max> struct Columns<MinMax<u16, Max, false>, 8> : ExtremeColumns<u16, Max, false, 8> {};
template <bool Max, bool Skip> struct Columns<MinMax<half, Max, Skip>, 8> : ExtremeColumns<half, Max, Skip, 8> {};
template <bool Max, bool Skip>
struct Columns<MinMax<bfloat16, Max, Skip>, 8> : ExtremeColumns<bfloat16, Max, Skip, 8> {};
template <class T, class To, class A, int V> struct Columns<Mean<Value<T, To>, A>, V> : MeanColumns<Value<T, To>, A, V> {};
template <class T, int V> struct Columns<Var<T, false>, V> : MomentColumns<T, 2, V> {};
template <class T, int V> struct Columns<Std<T, false>, V> : MomentColumns<T, 2, V> {};
template <class T, int V> struct Columns<CentralMoment<T>, V> : MomentColumns<T, 4, V> {};
template <class T, int V> struct Columns<Skewness<T>, V> : MomentColumns<T, 4, V> {};
template <class T, int V> struct Columns<Kurtosis<T>, V> : MomentColumns<T, 4, V> {};
template <int V> struct Columns<Var<i8, false>, V> : ByteMomentColumns<i8, V> {};
template <int V> struct Columns<Var<u8, false>, V> : ByteMomentColumns<u8, V> {};
template <int V> struct Columns<Var<boolean, false>, V> : ByteMomentColumns<boolean, V> {};
template <int V> struct Columns<Std<i8, false>, V> : ByteMomentColumns<i8, V> {};
template <int V> struct Columns<Std<u8, false>, V> : ByteMomentColumns<u8, V> {};
template <int V> struct Columns<Std<boolean, false>, V> : ByteMomentColumns<boolean, V> {};
