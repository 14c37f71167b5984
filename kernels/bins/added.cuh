// What an element adds to its group, where additions are exact and hence the same in any order: a 64-bit integer that wraps, or
// numbers to one sum or several; and a count, in means and moments.
#pragma once
#include "../monoid/moments.cuh"
#include "elements.cuh"
#include "numbers.cuh"

template <class State> struct WrapsState { static const bool yes = false, counted = false; };
template <> struct WrapsState<i64> { static const bool yes = true, counted = false; };
template <> struct WrapsState<u64> { static const bool yes = true, counted = false; };
template <> struct WrapsState<Averaged<i64>> { static const bool yes = true, counted = true; };

// States that are one 64-bit integer, beside a count in means.
template <class Op> GR_HD u64 whole_of(const Op*, typename Op::In x) { return bit_cast<u64>(lifted<Op>(x, 0)); }
template <class Map> GR_HD u64 whole_of(const Mean<Map, i64>*, typename Map::In x) { return (u64)Map::of(x); }
template <class Op> struct AddedWhole {
    static const bool whole = true, counted = WrapsState<typename Op::State>::counted;
    static const int fields = 1;
    static GR_HD u64 of(typename Op::In x) { return whole_of((const Op*)0, x); }
    static GR_HD bool counts(typename Op::In) { return true; }  // means of integers have nothing that is missing
};

// Sums of elements, of magnitudes where all count as Positive, and of squares. Those of complex elements: one of real
// parts, one of imaginary ones, and one of the squares of both.
template <class T> struct RealParts {
    typedef T Real;
    static const int number = 1;
    static GR_HD T of(T x, int) { return x; }
};
template <class Part> struct RealParts<complex<Part>> {
    typedef Part Real;
    static const int number = 2;
    static GR_HD Part of(complex<Part> x, int part) { return part ? x.im : x.re; }
};
template <class T, bool Sums, bool Squares, bool SkipNan, bool Positive, bool Counted> struct AddedNumbers {
    typedef RealParts<T> Parts;
    typedef typename Parts::Real Real;
    static const bool whole = false, counted = Counted;
    static const int parts = Parts::number, sums = Sums ? parts : 0, fields = sums + Squares;
    template <int F> using At = Field<Real, F < sums ? 1 : 2>;
    static GR_HD bool counts(T x) { return !SkipNan || !is_nan(x); }
    // `to.add<F>(number)` for what sum F gets; it says false where the number has no place there, and is a rare one, maybe:
    // then `to.special(flags)` where it is not finite, three flags a part, or `to.add_rare<F>(number)`.
    template <class To> static GR_HD void take(T x, const To& to) {
        if (!counts(x)) return;
        take_part<0>(Parts::of(x, 0), to);
        if constexpr (parts > 1) take_part<1>(Parts::of(x, 1), to);
    }
    template <int Part, class To> static GR_HD void take_part(Real x, const To& to) {
        Exact number = Exactly<Real>::of(x);
        if (Positive) number.negative = false;
        bool added = true;
        if constexpr (Sums) added = to.template add<Part>(number);
        if constexpr (Squares) {
            const bool square = to.template add<sums>(squared(number));
            if (!square) take_rare<Part, false, true>(x, to);
        }
        if (Sums && !added) take_rare<Part, true, false>(x, to);
    }
    template <int Part, bool Sum, bool Square, class To> static GR_HD void take_rare(Real x, const To& to) {
        Exact number = Exactly<Real>::of(x);
        const u32 seen = Exactly<Real>::seen(x);
        if (number.place == (u32)Exactly<Real>::places) return to.special((Positive && seen == SEEN_MINUS ? SEEN_PLUS : seen) << 3 * Part);
        if (number.place == ~0u) number = Exactly<Real>::rare(x);
        if (Positive) number.negative = false;
        if constexpr (Sum) to.template add_rare<Part>(number);
        if constexpr (Square) to.template add_rare<sums>(squared(number));
    }
};
template <class Op> struct AddedOf;
template <class T, class To, class A> struct AddedOf<Sum<Value<T, To>, A>> : AddedNumbers<T, true, false, false, false, false> {};
template <class T, class To, class A> struct AddedOf<Sum<NonNan<T, To>, A>> : AddedNumbers<T, true, false, true, false, false> {};
template <class T, class A> struct AddedOf<Sum<Magnitude<T>, A>> : AddedNumbers<T, true, false, false, true, false> {};
template <class T, class N, class To, class A>
struct AddedOf<Sum<Square<T, N, To>, A>> : AddedNumbers<T, false, true, false, false, false> {};
template <class Map, class A> struct AddedOf<RootSum<Map, A>> : AddedOf<Sum<Map, A>> {};
template <class T, class To, class A> struct AddedOf<Mean<Value<T, To>, A>> : AddedNumbers<T, true, false, false, false, true> {};
template <class T, class To, class A> struct AddedOf<Mean<NonNan<T, To>, A>> : AddedNumbers<T, true, false, true, false, true> {};
template <class T, bool SkipNan, bool Root>
struct AddedOf<Variance<T, SkipNan, Root>> : AddedNumbers<T, true, true, SkipNan, false, true> {};
template <class Real, bool SkipNan, bool Root>
struct AddedOf<ComplexVariance<Real, SkipNan, Root>> : AddedNumbers<complex<Real>, true, true, SkipNan, false, true> {};
template <class Op, bool IsWhole = WrapsState<typename Op::State>::yes> struct Added : AddedWhole<Op> {};
template <class Op> struct Added<Op, false> : AddedOf<Op> {};

// The words of a row's groups in memory: of each sum so many, the lowest first, and behind all sums a count. Those of all groups
// lie side by side. A word's unit is 2^apart times that of the word before, and it is signed. `seen` has flags of what is not
// finite.
template <class Op> struct ExactWords {
    typedef Added<Op> Add;
    u64* first;
    u32* seen;
    u64 groups;
    u32 apart;

    template <int F> static GR_HD u32 before(u32 apart) {
        if constexpr (F == 0 || Add::whole) return 0;
        else return before<F - 1>(apart) + Add::template At<F - 1>::words(apart);
    }
    static GR_HD u32 each(u32 apart) { return before<Add::fields>(apart) + Add::counted; }
    GR_HD ExactWords(const Task<2>& task, u64 row)
        : first((u64*)task.out + row * task.cells * each((u32)task.slots)), seen((u32*)task.partials + row * task.cells),
          groups(task.cells), apart((u32)task.slots) {}
    GR_HD void special(u32 group, u32 flags) const { atomicOr(seen + group, flags); }
    template <int F> GR_HD void add_word(u32 group, u32 word, u64 value) const {
        atomicAdd(first + (before<F>(apart) + word) * groups + group, value);
    }
    // A digit at a place, in one word, which is right while so few come that it cannot overflow; or, 32 bits apart, cut at
    // the borders of words.
    template <int F> GR_HD void add(u32 group, u32 place, u64 digit, bool negative) const {
        const u32 word = place / apart;
        const u64 shifted = digit << (place - word * apart);
        add_word<F>(group, word, negative ? 0 - shifted : shifted);
    }
    template <int F> GR_HD void add_cut(u32 group, u32 place, u64 digit, bool negative) const {
        const u32 word = place / 32, shift = place % 32;
        const u64 parts[3] = {(u32)(digit << shift), (digit << shift) >> 32, shift ? digit >> (64 - shift) : 0};
        for (u32 i = 0; i < 3; i++)
            if (parts[i]) add_word<F>(group, word + i, negative ? 0 - parts[i] : parts[i]);
    }
    GR_HD void add_count(u32 group, u64 number) const { add_word<Add::fields>(group, 0, number); }
};
