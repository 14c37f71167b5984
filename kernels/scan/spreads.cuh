// Running variances and deviations by the pack: about the mean before a lane's run, by sums of distances and of their squares.
#pragma once
#include "near.cuh"
#include "powers.cuh"
#include "quotients.cuh"
#include "roots.cuh"

// Results along lines, where variances are by a reciprocal. H200, 2026-11, of a copy, by a division: float32 in lines of
// 32768 0.57 and 0.61; but down as many columns 0.64 and 0.53.
template <class Emit> struct Along : Emit {};
template <class T, bool SkipNan, class Result> struct Along<Final<Var<T, SkipNan>, Result>> {
    template <class M> static GR_HD Result of(const M& state, const f64* option) {
        return cast<Result>(variance_by_reciprocal(state.count, state.m2, option));
    }
};
template <class T, bool SkipNan, class Result> struct Along<Final<Std<T, SkipNan>, Result>> {
    template <class M> static GR_HD Result of(const M& state, const f64* option) {
        const f64 variance = variance_by_reciprocal(state.count, state.m2, option);
        return cast<Result>(FewDigits<T>::yes ? short_root_of(variance) : scaled_root_of(variance));
    }
};

// Variances about the mean that comes before the run, of any number of elements where results have few digits, else of some: no
// more cancels than the run has elements for each of those. One reciprocal serves both divisors.
template <class T, bool SkipNan, class Op, class Result> struct SpreadScan {
    typedef typename Op::State State;
    static const bool exists = true;
    static const int least = sizeof(Result) <= 4 ? 1 : 4;
    static const bool roughly = FewDigits<T>::yes && sizeof(Result) <= 4;
    State state;  // what the sums are about
    f64 sum, squares, count;
    const f64* option;
    GR_HD SpreadScan(State before, const f64* options) : option(options) { begin(before); }
    GR_HD void begin(State before) {
        state = before;
        count = before.count;
        sum = count * rest_of(before.mean);
        squares = before.m2;
    }
    // Goes on behind so many elements, of few digits, given their sum and that of squares about the mean.
    GR_HD void skip(int elements, f64 their_sum, f64 their_squares) {
        sum = their_sum;
        squares = state.m2 + their_squares;
        count = state.count + elements;
    }
    GR_HD State now() const {
        const f64 part = one_over(count), shift = sum * part;
        const decltype(state.mean) about = {first_of(state.mean)};
        return count == state.count ? state : State{count, shifted(about, shift), __fma_rn(-sum, shift, squares)};
    }
    // True where the next elements, so many whose squares about the mean add up to `more` at most, need no look at what
    // their squares are.
    GR_HD bool is_steady(int elements, f64 more) const {
        if (!(state.count >= least && count + 1 > option[0])) return false;
        const f64 all = count + elements, most = squares + more;
        return (FewDigits<T>::yes ? more == more : all * most < bit_cast<f64>(0x7fd0000000000000ull)) &&
               Spreads<Op, Result>::covers(squares * one_over(all - option[0]), most * one_over(count + 1 - option[0]));
    }
    template <int V> GR_HD void run(const Pack<T, V>& from, Pack<Result, V>& to) {
        bool known = true;  // no element is left out
        if (SkipNan)
#pragma unroll
            for (int j = 0; j < V; j++) known = known && !is_nan(from.at[j]);
        if (known && state.count >= least && count + 1 > option[0]) {
            const f64 first = sum, second = squares, number = count;
            Pack<Result, V> found;
            walk<false>(from, found);
            if (FewDigits<T>::yes || count * squares < bit_cast<f64>(0x7fe0000000000000ull)) {
                to = found;
                return;
            }
            sum = first;  // squares are past the range of binary64, or no numbers
            squares = second;
            count = number;
        }
        State each = now();
#pragma unroll
        for (int j = 0; j < V; j++) {
            each = Take<Op>::of(each, from.at[j]);
            to.at[j] = Along<Final<Op, Result>>::of(each, option);
        }
        begin(each);
    }
    // Steady: as is_steady says.
    template <bool Steady = true, int V> GR_HD void walk(const Pack<T, V>& from, Pack<Result, V>& to) {
        const Reciprocals parts((count + 1) * (count + 1 - option[0]), count >= 8388608.0);  // a product of two is twice as far
        f64 variances[V];
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f64 d = cast<f64>(from.at[j]) - first_of(state.mean);
            sum += d;
            squares = __fma_rn(d, d, squares);
            count += 1;
            const f64 both = count * (count - option[0]);
            const f64 part = roughly && V > 2 ? parts.roughly(both) : V > 2 ? parts.of(both) : one_over(both);
            variances[j] = __fma_rn(-sum, sum, count * squares) * part;
        }
        Spreads<Op, Result>::template of<Steady>(variances, to);
    }
};
template <class T, bool SkipNan, class Result, int V>
struct PackScan<Var<T, SkipNan>, Final<Var<T, SkipNan>, Result>, V> : SpreadScan<T, SkipNan, Var<T, SkipNan>, Result> {
    using SpreadScan<T, SkipNan, Var<T, SkipNan>, Result>::SpreadScan;
};
template <class T, bool SkipNan, class Result, int V>
struct PackScan<Std<T, SkipNan>, Final<Std<T, SkipNan>, Result>, V> : SpreadScan<T, SkipNan, Std<T, SkipNan>, Result> {
    using SpreadScan<T, SkipNan, Std<T, SkipNan>, Result>::SpreadScan;
};
template <class Real, bool SkipNan, class Result, int V>
struct PackScan<Var<complex<Real>, SkipNan>, Final<Var<complex<Real>, SkipNan>, Result>, V> { static const bool exists = false; };
template <class Real, bool SkipNan, class Result, int V>
struct PackScan<Std<complex<Real>, SkipNan>, Final<Std<complex<Real>, SkipNan>, Result>, V> { static const bool exists = false; };
