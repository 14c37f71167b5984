// Running means and variances by the pack: without a branch an element, so that one's divisions overlap with the next's, and
// with a reciprocal of each count from that of one nearby.
#pragma once
#include "../warp/scan.cuh"
#include "flow.cuh"
#include "pack.cuh"

// Reciprocals of numbers near `begin`: from its own, where they are `near` it (relative errors of 2^-18 before a step of third
// order), else each from the hardware's.
struct Reciprocals {
    f64 first;
    bool far;
    GR_HD Reciprocals(f64 begin, bool near) : first(one_over(begin)), far(!near) {}
    GR_HD f64 of(f64 x) const { return refined(x, approximate(x, first, far)); }
};

// sum / count, given the count's reciprocal but for its last bit: right but for those of binary64, and where the result has
// as many, right as a division is (Markstein 1990), which a product that is no number leaves alone.
template <class Result> struct Quotient {
    static GR_HD Result of(f64 sum, f64, f64 part) { return cast<Result>(sum * part); }
};
template <> struct Quotient<f64> {
    static GR_HD f64 of(f64 sum, f64 count, f64 part) {
        const f64 near = sum * part, better = __fma_rn(__fma_rn(-near, count, sum), part, near);
        return better == better ? better : near;
    }
};
template <class Map, class A, class Result> struct MeanScan {
    typedef typename Map::In T;
    static const bool exists = true;
    A sum;
    f64 count;
    GR_HD MeanScan(Averaged<A> mean, const f64*) : sum(mean.sum), count((f64)mean.count) {}
    GR_HD Averaged<A> now() const { return {sum, (i64)count}; }
    template <int V> GR_HD void run(const Pack<T, V>& from, Pack<Result, V>& to) {
        const Reciprocals parts(count + 1, count >= 4194304.0);
        if constexpr (Moved<T>::exists && sizeof(A) == 8 && V * sizeof(T) % 4 == 0) {
            if (all_finite(from)) {
#pragma unroll
                for (int j = 0; j < V; j++) {
                    sum = __fma_rn(Moved<T>::at(from, j), Moved<T>::scale(), sum);
                    count += 1;
                    to.at[j] = Quotient<Result>::of(sum, count, parts.of(count));
                }
                return;
            }
        }
#pragma unroll
        for (int j = 0; j < V; j++) {
            add(sum, Map::of(from.at[j]));
            count += Map::counts(from.at[j]) ? 1.0 : 0.0;
            to.at[j] = Quotient<Result>::of((f64)value_of(sum), count, parts.of(count));
        }
    }
};
template <class Map, class A, class Result, int V>
struct PackScan<Mean<Map, A>, Final<Mean<Map, A>, Result>, V> : MeanScan<Map, A, Result> {
    using MeanScan<Map, A, Result>::MeanScan;
};
template <class Map, class Part, class Result, int V>
struct PackScan<Mean<Map, Parts<Part>>, Final<Mean<Map, Parts<Part>>, Result>, V> { static const bool exists = false; };

// Variances about the mean that comes before the run, of at least as many elements as a run has: no more cancels than half.
// One reciprocal serves both divisors.
template <class T, class Op, class Result> struct SpreadScan {
    typedef typename Op::State State;
    static const bool exists = true;
    static const int least = 256;
    State state;  // what the sums are about
    f64 sum, squares, count;
    const f64* option;
    GR_HD SpreadScan(State before, const f64* options) : option(options) { begin(before); }
    GR_HD void begin(State before) {
        state = before;
        sum = 0;
        squares = before.m2;
        count = before.count;
    }
    GR_HD State now() const {
        const f64 part = one_over(count), shift = sum * part;
        return count == state.count ? state : State{count, shifted(state.mean, shift), __fma_rn(-sum, shift, squares)};
    }
    static GR_HD f64 away(f64 mean, T x) { return cast<f64>(x) - mean; }
    static GR_HD f64 away(Twofold mean, T x) { return (cast<f64>(x) - mean.hi) - mean.lo; }
    template <int V> GR_HD void run(const Pack<T, V>& from, Pack<Result, V>& to) {
        if (state.count >= least && count + 1 > option[0] && walk(from, to)) return;
        State each = now();
#pragma unroll
        for (int j = 0; j < V; j++) {
            each = Take<Op>::of(each, from.at[j]);
            to.at[j] = Final<Op, Result>::of(each, option);
        }
        begin(each);
    }
    // False where squares are past the range of binary64, or no numbers: nothing has been done then.
    template <int V> GR_HD bool walk(const Pack<T, V>& from, Pack<Result, V>& to) {
        const Reciprocals parts((count + 1) * (count + 1 - option[0]), count >= 8388608.0);  // a product of two is twice as far
        f64 first = sum, second = squares, number = count;
        Pack<Result, V> found;
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f64 d = away(state.mean, from.at[j]);
            first += d;
            second = __fma_rn(d, d, second);
            number += 1;
            const f64 part = parts.of(number * (number - option[0]));
            found.at[j] = cast<Result>(Op::spread(__fma_rn(-first, first, number * second) * part));
        }
        if (!(number * second < bit_cast<f64>(0x7fe0000000000000ull))) return false;
        to = found;
        sum = first;
        squares = second;
        count = number;
        return true;
    }
};
template <class T, class Result, int V>
struct PackScan<Var<T, false>, Final<Var<T, false>, Result>, V> : SpreadScan<T, Var<T, false>, Result> {
    using SpreadScan<T, Var<T, false>, Result>::SpreadScan;
};
template <class T, class Result, int V>
struct PackScan<Std<T, false>, Final<Std<T, false>, Result>, V> : SpreadScan<T, Std<T, false>, Result> {
    using SpreadScan<T, Std<T, false>, Result>::SpreadScan;
};
template <class Real, class Result, int V>
struct PackScan<Var<complex<Real>, false>, Final<Var<complex<Real>, false>, Result>, V> { static const bool exists = false; };
template <class Real, class Result, int V>
struct PackScan<Std<complex<Real>, false>, Final<Std<complex<Real>, false>, Result>, V> { static const bool exists = false; };

// A warp's share folded about its first element, which all lanes know: sums need no division to be scanned.
template <class Op> struct WarpFold { static const bool exists = false; };
template <class T, class Op> struct WarpPowers {
    static const bool exists = true;
    typedef typename Op::State State;
    struct Sums {
        struct State { f64 sum, squares; };
        static GR_HD State combine(State a, State b) { return {a.sum + b.sum, a.squares + b.squares}; }
    };
    f64 pivot;
    typename Sums::State sums;
    GR_HD WarpPowers(T first) : pivot(cast<f64>(first)), sums{0, 0} {}
    template <int V> GR_HD void take(const Pack<T, V>& pack) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f64 d = cast<f64>(pack.at[j]) - pivot;
            sums.sum += d;
            sums.squares = __fma_rn(d, d, sums.squares);
        }
    }
    // All lanes of the warp call, which have taken `run` elements each. The state of all up to this lane's.
    GR_HD State through(u32 run) const {
        const typename Sums::State all = warp_scan<Sums, 32>(sums);
        return settle_powers<MeanOf<T>>(PowerSums<2>{pivot, {all.sum, all.squares}, (threadIdx.x % 32 + 1) * run});
    }
};
template <class T> struct WarpFold<Var<T, false>> : WarpPowers<T, Var<T, false>> {
    using WarpPowers<T, Var<T, false>>::WarpPowers;
};
template <class T> struct WarpFold<Std<T, false>> : WarpPowers<T, Std<T, false>> {
    using WarpPowers<T, Std<T, false>>::WarpPowers;
};
template <class Real> struct WarpFold<Var<complex<Real>, false>> { static const bool exists = false; };
template <class Real> struct WarpFold<Std<complex<Real>, false>> { static const bool exists = false; };
