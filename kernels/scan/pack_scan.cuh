// Packs of V elements scanned at once, where that costs less than one element after another: extremes of narrow elements two to
// an instruction, sums of 16-bit floats two to a rounding, and all that comes behind an element that decides. Sums of floats that
// are assumed to be finite, along lines and of columns side by side.
#pragma once
#include "scan_state.cuh"

//   PackScan(state, option)   begins behind `state`
//   run(from, to)             the next pack's results
//   now()                     the state behind that pack
struct NoPackScan { static const bool exists = false; };
template <class Op, class Emit, int V> struct PackScanOf { typedef NoPackScan type; };
template <class Op, class Emit, int V> using PackScan = typename PackScanOf<Op, Emit, V>::type;

// The elements in the other order, where that is so.
template <bool Turns, class T, int V> GR_HD Pack<T, V> turned(const Pack<T, V>& pack) {
    Pack<T, V> other;
    unrolled<V>([&](int i) { other.at[Turns ? V - 1 - i : i] = pack.at[i]; });
    return other;
}
template <class Op, class Emit, bool Exclusive> struct ElementwiseScan {
    typename Op::State state;
    const f64* option;
    i64 index, step;  // of the next element, where states keep positions
    GR_HD ElementwiseScan() {}
    GR_HD ElementwiseScan(const typename Op::State& before, const f64* options) : state(before), option(options), index(0), step(0) {}
    GR_HD void begin_at(i64 first, i64 next) { index = first, step = next; }
    GR_HD typename Op::State now() const { return state; }
    template <int V> GR_HD void run(const Pack<typename Op::In, V>& from, Pack<typename Emit::Out, V>& to) {
        unrolled<V>([&](int i) { to.at[i] = scan_one<Op, Emit, Exclusive>(state, from.at[i], option, index + i * step); });
        index += V * step;
    }
};

// any, all and the first element change once, if at all: one result for every element of a pack that leaves the state as it is.
template <class Op, class Emit, int V> struct ChangesOnceScan : ElementwiseScan<Op, Emit, false> {
    static const bool exists = V > 1;
    typedef ElementwiseScan<Op, Emit, false> Elementwise;
    using Elementwise::ElementwiseScan;
    GR_HD void run(const Pack<typename Op::In, V>& from, Pack<typename Emit::Out, V>& to) {
        if (Op::may_change(this->state, from)) return Elementwise::run(from, to);
        const typename Emit::Out result = Emit::of(this->state, this->option);
        unrolled<V>([&](int j) { to.at[j] = result; });
    }
};
template <class T, class Emit, int V> struct PackScanOf<Any<T>, Emit, V> { typedef ChangesOnceScan<Any<T>, Emit, V> type; };
template <class T, class Emit, int V> struct PackScanOf<All<T>, Emit, V> { typedef ChangesOnceScan<All<T>, Emit, V> type; };
template <class T, class Emit, int V> struct PackScanOf<FirstLast<T, false>, Emit, V> {
    typedef ChangesOnceScan<FirstLast<T, false>, Emit, V> type;
};

// Running extremes of a pack of elements of one or two bytes, two lanes of 16 bits to an instruction.
template <class T, bool Max, bool SkipNan, int V> struct NarrowScan {
    typedef NarrowBest<T, Max, SkipNan> Best;
    typedef Halves<T, Max, SkipNan> Lane;
    static const bool exists = sizeof(T) * V % 4 == 0;

    u32 carry;  // the best of all before, in both lanes
    GR_HD NarrowScan(T best, const f64*) : carry(Best::place(best) * 0x10001u) {}
    GR_HD T now() const { return Best{carry}.settle(); }
    GR_HD void run(const Pack<T, V>& from, Pack<T, V>& to) {
        const u32 worst = Best::place(Extreme<T, Max, SkipNan>::worst());
        unrolled<(int)sizeof(T) * V / 4>([&](int w) {
            const u32 word = ((const u32*)&from)[w];
            u32& out = ((u32*)&to)[w];
            if constexpr (sizeof(T) == 2) {
                out = Lane::better(carry, Lane::better(__byte_perm(word, worst, 0x1054), word));
                carry = __byte_perm(out, 0, 0x3232);
            } else {  // upper bytes of lanes are elements; the lower ones make no difference between unlike elements
                const u32 even = word << 8, both = Lane::better(even, word);
                const u32 before = Lane::better(carry, __byte_perm(both, worst, 0x1054));
                const u32 odd = Lane::better(before, both);
                out = __byte_perm(Lane::better(before, even), odd, 0x7351);
                carry = __byte_perm(odd, 0, 0x3232);
            }
        });
    }
};
template <class T, bool Max, bool SkipNan, int V>
struct PackScanOf<MinMax<T, Max, SkipNan>, Final<MinMax<T, Max, SkipNan>, T>, V>
    : Conditional<(sizeof(T) <= 2), NarrowScan<T, Max, SkipNan, V>, NoPackScan> {};

template <class Map, class Result, int V>
struct PackScanOf<Prod<Map>, Final<Prod<Map>, Result>, V> { typedef RunningProducts<Map, Result> type; };

// Running sums of 16-bit floats in binary64, bit for bit as of one element after another.

// Two sums rounded to results that lie in one word. Sums of bfloat16 are multiples of its least number; below 2^-126 binary32 holds
// them exactly, and above a sticky bit stands for all digits that are cut off, so that ties are rounded right.
template <class Emit> GR_HD u32 rounded_pair(f64 lower, f64 upper, const f64* option) {
#if !defined(GR_EMULATED) && __CUDA_ARCH__ >= 800
    if constexpr (IsSame<typename Emit::Out, bfloat16>::yes) {
        const u32 a = bit_cast<u32>(__double2float_rz(lower)) | ((bit_cast<u64>(lower) & 0x1fffffffu) != 0);
        const u32 b = bit_cast<u32>(__double2float_rz(upper)) | ((bit_cast<u64>(upper) & 0x1fffffffu) != 0);
        u32 word;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(bit_cast<f32>(b)), "f"(bit_cast<f32>(a)));
        return word;
    }
#endif
    return Emit::of(lower, option).bits | (u32)Emit::of(upper, option).bits << 16;
}

// Sums of floats whose bits are shifted to where binary64 has them (exponent_shift.cuh). All are assumed to be finite, which takes
// no branch. The caller asks in the end whether they were, and if not folds and scans them as any elements. Of packs of V elements:
// a sum for each place, which is a column (column_ops.cuh says what is called), or with one of Sums the sum of all.
template <class Map, int V, int Sums = V> struct FiniteReduce {
    static_assert(AddsElements<Map>::yes, "elements are added, not terms");
    typedef typename Map::In T;
    static const bool assumes_finite = true;
    f64 sum[Sums];
    u32 check;
    GR_HD FiniteReduce() : check(0) { unrolled<Sums>([&](int j) { sum[j] = 0; }); }
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) {
        unrolled<Count>([&](int i) {
            const Pack<T, V> all = AddedPack<Map>::of(from[i]);
            check = check_finite(all, check);
            unrolled<V>([&](int j) { sum[j % Sums] = add_finite(sum[j % Sums], all, j); });
        });
    }
    GR_HD f64 state(int j) const { return sum[j]; }
    GR_HD bool was_finite() const { return check == 0; }
};
template <class Map, class Emit, int V, int Sums = V> struct FiniteScan {
    static_assert(AddsElements<Map>::yes, "elements are added, not terms");
    typedef typename Map::In T;
    typedef typename Emit::Out Out;
    static_assert(sizeof(T) == 4 || sizeof(Out) == 2, "16-bit elements have results of their own type");
    static const int each = sizeof(T) == 2 && V % 2 == 0 ? 2 : 1;  // results that are rounded together
    f64 sum[Sums];
    const f64* option;
    GR_HD FiniteScan(const f64 (&before)[Sums], const f64* options) : option(options) {
        unrolled<Sums>([&](int j) { sum[j] = before[j]; });
    }
    template <int Count> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
        unrolled<Count>([&](int i) { walk(from[i], to[i]); });
    }
    // The results of one pack.
    GR_HD void walk(const Pack<T, V>& from, Pack<Out, V>& to) {
        const Pack<T, V> all = AddedPack<Map>::of(from);
        unrolled<V / each>([&](int k) {
            f64 found[each];
            unrolled<each>([&](int i) {
                f64& total = sum[(k * each + i) % Sums];
                found[i] = total = add_finite(total, all, k * each + i);
            });
            if constexpr (each == 2) ((u32*)&to)[k] = rounded_pair<Emit>(found[0], found[1], option);
            else to.at[k] = Emit::of(found[0], option);
        });
    }
    GR_HD f64 after(int j) const { return sum[j]; }
};
// Of packs that lie along a line.
template <class Op, class Emit, int V> struct FiniteSums { static const bool exists = false; };
template <class Map, class Emit, int V> struct FiniteSums<Sum<Map, f64>, Emit, V> {
    typedef typename Map::In T;
    static const bool exists = ADDS_FLOATS<Map> || (ADDS_HALVES<Map> && V % 2 == 0 && IsSame<typename Emit::Out, T>::yes);
    typedef FiniteReduce<Map, V, 1> Fold;
    typedef FiniteScan<Map, Emit, V, 1> Scan;
};
