// Rounds Kulisch accumulators to states: each group's words, read by a warp, or by a thread where groups are many, as one number
// of many digits that is rounded at the end.
#pragma once
#include "added.cuh"

// A sum whose rounding errors are carried along N - 1 times, as if of 53 N bits (Ogita, Rump and Oishi 2005, SumK).
template <int N> struct Manyfold {
    f64 part[N];
    GR_HD void add(f64 x) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const f64 sum = __dadd_rn(part[i], x), shadow = __dsub_rn(sum, part[i]);
            x = __dadd_rn(__dsub_rn(part[i], __dsub_rn(sum, shadow)), __dsub_rn(x, shadow));
            part[i] = sum;
        }
    }
    GR_HD void add(Twofold x) {
        add(x.hi);
        add(x.lo);
    }
};
typedef Manyfold<3> Threefold;
// The same number, as parts each of which is half a unit of the one before, at most.
template <int N> GR_HD Manyfold<N> rounded(Manyfold<N> sum) {
#pragma unroll
    for (int again = 1; again < N; again++)
#pragma unroll
        for (int i = N - 2; i >= 0; i--) {
            Twofold pair = {sum.part[i], 0};
            add(pair, sum.part[i + 1]);
            sum.part[i] = pair.hi;
            sum.part[i + 1] = pair.lo;
        }
    return sum;
}
// x times two to any power.
GR_HD f64 scaled(f64 x, i32 exponent) {
    for (; exponent > 1000; exponent -= 1000) x *= power_of_two(1000);
    for (; exponent < -1000; exponent += 1000) x *= power_of_two(-1000);
    return x * power_of_two(exponent);
}

const u32 WORDS_AHEAD = 4;  // that a thread loads at once which reads alone

// A sum's words, which 32 lanes read together, or one alone.
template <int Lanes> struct WordsOf {
    const i64* first;
    u64 groups;  // from one word to the next
    u32 number, apart;

    // All lanes call. Gives `take` each word that is not zero, and its number, from the highest to the lowest.
    template <class Take> GR_HD void each(Take take) const {
        if constexpr (Lanes == 1) {
            for (u32 end = (number + WORDS_AHEAD - 1) / WORDS_AHEAD * WORDS_AHEAD; end > 0; end -= WORDS_AHEAD) {
                i64 words[WORDS_AHEAD];
#pragma unroll
                for (u32 i = 0; i < WORDS_AHEAD; i++) words[i] = end - 1 - i < number ? first[(end - 1 - i) * groups] : 0;
#pragma unroll
                for (u32 i = 0; i < WORDS_AHEAD; i++)
                    if (words[i] != 0) take(end - 1 - i, words[i]);
            }
        } else {
            for (u32 i = (number + Lanes - 1) / Lanes; i-- > 0;) {
                const u32 own = i * Lanes + threadIdx.x % Lanes;
                const i64 mine = own < number ? first[own * groups] : 0;
                for (u32 there = __ballot_sync(0xffffffffu, mine != 0); there;) {
                    const int bit = 31 - __clz((i32)there);
                    there ^= 1u << bit;
                    take(i * Lanes + bit, __shfl_sync(0xffffffffu, mine, bit, Lanes));
                }
            }
        }
    }
    // Adds a word over 2^(apart x top), but for one that is too small beside words there.
    template <class Sum> GR_HD void add(Sum& sum, u32 at, i64 word, i32 top) const {
        const i32 place = ((i32)at - top) * (i32)apart;
        if (place < -900) return;
        sum.add((f64)(word >> 32) * power_of_two(place + 32));
        sum.add((f64)(u32)word * power_of_two(place));
    }
    // All lanes call. The number of the highest word that is not zero, or 0.
    GR_HD u32 highest() const {
        u32 found = 0;
        each([&](u32 at, i64) { found = at > found ? at : found; });
        return found;
    }
    // All lanes call. The sum over 2^(apart x top).
    template <class Sum> GR_HD Sum sum(i32 top) const {
        Sum sum = Sum();
        each([&](u32 at, i64 word) { add(sum, at, word, top); });
        return rounded(sum);
    }
    // All lanes call. The sum over 2^(apart x top), for a word where it does not cancel: `top` follows the words down while
    // those before came to so little that the next ones may cancel it.
    GR_HD Threefold sum_from_top(u32& top) const {
        Threefold sum = Threefold();
        top = 0;
        each([&](u32 at, i64 word) {
            const i32 down = (i32)(top - at) * (i32)apart;
            const f64 total = sum.part[0] + sum.part[1] + sum.part[2];
            if (total == 0 || (down < 900 && fabs(total) < power_of_two(70 - down))) {
#pragma unroll
                for (int i = 0; i < 3; i++) sum.part[i] = total == 0 ? 0 : sum.part[i] * power_of_two(down);
                top = at;
            }
            add(sum, at, word, (i32)top);
        });
        return rounded(sum);
    }
};

// What a sum is where elements are infinite or NaN, by flags of three bits.
GR_HD f64 with_special(f64 sum, u32 seen) {
    const f64 infinity = bit_cast<f64>(0x7ff0000000000000ull);
    if (seen & SEEN_NAN || (seen & SEEN_PLUS && seen & SEEN_MINUS)) return bit_cast<f64>(0x7ff8000000000000ull);
    return seen & SEEN_PLUS ? infinity : seen & SEEN_MINUS ? -infinity : sum;
}
GR_HD void set(f64& to, const Threefold& sum, i32 exponent, u32 seen) { to = with_special(scaled(sum.part[0], exponent), seen); }
GR_HD void set(Twofold& to, const Threefold& sum, i32 exponent, u32 seen) {
    set(to.hi, sum, exponent, seen);
    to.lo = to.hi - to.hi == 0 ? scaled(sum.part[1], exponent) : 0;
}

// What is known of a group's sums when its state is made, by all its lanes alike.
template <class Op, int Lanes> struct Rounding {
    typedef Added<Op> Add;
    const i64* first;
    u64 groups;
    u32 apart, seen;
    f64 count;

    template <int F> GR_HD WordsOf<Lanes> words() const {
        return {first + ExactWords<Op>::template before<F>(apart) * groups, groups, Add::template At<F>::words(apart), apart};
    }
    template <int F, class A> GR_HD void total(A& to) const {
        u32 top;
        const Threefold sum = words<F>().sum_from_top(top);
        const i32 exponent = (i32)(top * apart) + Add::template At<F>::unit;
        const u32 both = seen | seen >> 3, squares = both & SEEN_MINUS ? (both & SEEN_NAN) | SEEN_PLUS : both & 7;
        set(to, sum, exponent, F < Add::sums ? seen >> 3 * F & 7 : squares);
    }
    template <class A> GR_HD void state(A& to) const { total<0>(to); }
    template <class A> GR_HD void state(Parts<A>& to) const {
        total<0>(to.re);
        total<1>(to.im);
    }
    template <class A> GR_HD void state(Averaged<A>& to) const {
        state(to.sum);
        to.count = (i64)count;
    }
    // The means of all sums, and the sum of squares about them: that of squares, less twice each mean times its sum, and the
    // mean's square for each element. Next to nothing is lost where they cancel. Of complex elements one part may be constant
    // and far larger than the other: squares of both then have bits far apart, three numbers of 53 each. So that no product
    // of small parts is below binary64's range, all are scaled to its upper end.
    template <class M, int Means> GR_HD f64 spread(M (&mean)[Means]) const {
        const WordsOf<Lanes> squares = words<Add::sums>();
        const i32 half = (i32)(squares.highest() + 1) / 2 - UP, scale = half * (i32)apart + Add::template At<0>::unit;
        auto m2 = squares.template sum<Manyfold<3 * Means>>(2 * half);
        part<0>(mean, m2, half, scale);
        const f64 found = scaled(m2.part[0], 2 * scale);
        return seen ? bit_cast<f64>(0x7ff8000000000000ull) : found > 0 ? found : 0;
    }
    static const i32 UP = 14;  // words of 32 bits, twice that for squares: these are less than 2^(2 x 14 x 32 + 64)
    template <int F, class M, int Means> GR_HD void part(M (&mean)[Means], Manyfold<3 * Means>& m2, i32 half, i32 scale) const {
        if constexpr (F < Means) {
            Threefold sum = words<F>().template sum<Threefold>(half), exact = Threefold();
#pragma unroll
            for (int more = 0; more < 2; more++) {  // the mean is rounded: what all elements together are beyond it has one, too
                const f64 p = count > 0 ? sum.part[0] / count : 0;
#pragma unroll
                for (int i = 0; i < 3; i++) m2.add(two_prod(-2 * p, sum.part[i]));
                const Twofold square = two_prod(p, p);
                m2.add(two_prod(count, square.hi));
                m2.add(two_prod(count, square.lo));
                m2 = rounded(m2);  // what is left has all its bits again
                sum.add(two_prod(-p, count));
                sum = rounded(sum);
                exact.part[more] = p;
            }
            set(mean[F], rounded(exact), scale, seen >> 3 * F & 7);
            part<F + 1>(mean, m2, half, scale);
        }
    }
    template <class M> GR_HD void state(Moments2<M>& to) const {
        M mean[1];
        const f64 m2 = spread(mean);
        to = {count, mean[0], m2};
    }
    GR_HD void state(ComplexMoments2& to) const {
        f64 mean[2];
        const f64 m2 = spread(mean);
        to = {count, mean[0], mean[1], m2};
    }
};

// Grid: any number of blocks; 32 lanes take a row's group, or one does. Its state, from words at base[0].a and flags at
// base[0].b.
template <class Op, int Lanes, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_round(const __grid_constant__ Task<2> task) {
    const u32 apart = (u32)task.slots, each = ExactWords<Op>::each(apart);
    const u64 cells = task.rows * task.cells, subwarps = Threads / Lanes;
    for (u64 cell = blockIdx.x * subwarps + threadIdx.x / Lanes; cell < cells; cell += gridDim.x * subwarps) {
        const u64 row = cell / task.cells, group = cell - row * task.cells;
        const i64* words = (const i64*)task.base[0].a + row * task.cells * each + group;
        const f64 count = Added<Op>::counted ? (f64)words[(each - 1) * task.cells] : 0;
        const Rounding<Op, Lanes> rounding = {words, task.cells, apart, ((const u32*)task.base[0].b)[cell], count};
        typename Op::State state;
        rounding.state(state);
        if (threadIdx.x % Lanes == 0) ((typename Op::State*)task.out)[cell] = state;
    }
}
