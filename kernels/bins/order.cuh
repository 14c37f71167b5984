// Order-preserving keys: elements as unsigned words that order as they do, so that the better of two is the larger word
// and one atomic keeps it. Of floats, no element is as small as zero; one stands for NaN where it loses, all ones where
// it wins.
#pragma once
#include "../monoid/arg.cuh"
#include "../monoid/both.cuh"
#include "../monoid/counts.cuh"
#include "../monoid/extremes.cuh"
#include "../monoid/logical.cuh"
#include "../monoid/order.cuh"

// The bits of a float, those of a negative one turned over, of a positive one behind them all (Herf 2001).
template <class T, class B, B Infinity> struct FloatOrder {
    typedef B Bits;
    static const bool has_nan = true;
    static const B sign = B(B(1) << (8 * sizeof(B) - 1));
    static GR_HD bool is_nan(T x) { return B(bit_cast<B>(x) & B(~sign)) > Infinity; }
    static GR_HD bool is_zero(T x) { return B(bit_cast<B>(x) & B(~sign)) == 0; }
    static GR_HD B of(T x) {
        const B bits = bit_cast<B>(x);
        return bits & sign ? B(~bits) : B(bits | sign);
    }
    static GR_HD T back(B word) { return bit_cast<T>(word & sign ? B(word ^ sign) : B(~word)); }
};
template <class T> struct Order {  // integers
    typedef typename Unsigned<sizeof(T)>::type Bits;
    static const bool has_nan = false;
    static const Bits sign = T(-1) < T(0) ? Bits(Bits(1) << (8 * sizeof(T) - 1)) : Bits(0);
    static GR_HD bool is_nan(T) { return false; }
    static GR_HD bool is_zero(T) { return false; }  // of two kinds
    static GR_HD Bits of(T x) { return Bits(Bits(x) ^ sign); }
    static GR_HD T back(Bits word) { return T(word ^ sign); }
};
template <> struct Order<boolean> {
    typedef u8 Bits;
    static const bool has_nan = false;
    static GR_HD bool is_nan(boolean) { return false; }
    static GR_HD bool is_zero(boolean) { return false; }
    static GR_HD u8 of(boolean x) { return x.byte; }
    static GR_HD boolean back(u8 word) { return {u8(word & 1)}; }
};
template <> struct Order<f32> : FloatOrder<f32, u32, 0x7f800000u> {};
template <> struct Order<f64> : FloatOrder<f64, u64, 0x7ff0000000000000ull> {};
template <> struct Order<half> : FloatOrder<half, u16, u16(0x7c00)> {};
template <> struct Order<bfloat16> : FloatOrder<bfloat16, u16, u16(0x7f80)> {};

// Words of extremes. Of a count beside them only matters whether there is any element: it is 1 for as many as there are.
template <class T, bool Max, bool SkipNan> struct ExtremeKey {
    typedef Order<T> Elements;
    typedef typename Unsigned<sizeof(T) == 8 ? 8 : 4>::type Code;
    static GR_HD Code of(T x) {
        if (Elements::is_nan(x)) return SkipNan ? Code(1) : Code(~Code(0));
        return Max ? Code(Elements::of(x)) : Code(~Code(Elements::of(x)));
    }
    static GR_HD bool is_none(Code word) { return Elements::has_nan && word <= 1; }
    static GR_HD T back(Code word) {
        if (is_none(word)) return Extreme<T, Max, SkipNan>::worst();
        if (Elements::has_nan && word == Code(~Code(0))) return Extreme<T, Max, true>::worst();  // NaN
        return Elements::back(typename Elements::Bits(Max ? word : ~word));
    }
};
// What a word says, unless a Key says else: the element. A word may be a place, too, or with in_two the place is found in a second
// read; `may_be_zero` where an element's word may be that of nothing, `rises` where each element is better than those before it.
// A group has `words` words; `at` is what an element raises one of them to.
struct KeyDefaults {
    static const bool may_be_zero = false, in_two = false, rises = false;
    static const int words = 1;
    template <class Code> static GR_HD u32 place(Code) { return 0; }
};
template <class Op> struct Key;
template <class Op, class T> struct Key<Both<Op, Tally<T, false>>> : Key<Op> {
    typedef BothState<Op, Tally<T, false>> State;
    template <class Code, class Position, class Element>
    static GR_HD State state(const Code* words, u32 place, bool is_there, Position position, Element element) {
        return {Key<Op>::state(words, place, is_there, position, element), is_there};
    }
};
template <class T, bool Max, bool SkipNan> struct Key<MinMax<T, Max, SkipNan>> : KeyDefaults {
    typedef ExtremeKey<T, Max, SkipNan> Extremes;
    typedef typename Extremes::Code Code;
    static const bool may_be_zero = !Extremes::Elements::has_nan;
    static GR_HD Code at(int, T x, u32) { return Extremes::of(x); }
    template <class Position, class Element>
    static GR_HD T state(const Code* words, u32, bool is_there, Position, Element) {
        return is_there ? Extremes::back(words[0]) : Extreme<T, Max, SkipNan>::worst();
    }
};
// Both extremes: an element's two words are not both those of nothing.
template <class T> struct Key<PeakToPeak<T>> : KeyDefaults {
    typedef ExtremeKey<T, false, false> Least;
    typedef ExtremeKey<T, true, false> Most;
    typedef typename Most::Code Code;
    static const int words = 2;
    static GR_HD Code at(int word, T x, u32) { return word == 0 ? Least::of(x) : Most::of(x); }
    template <class Position, class Element>
    static GR_HD Range<T> state(const Code* words, u32, bool is_there, Position, Element) {
        if (!is_there) return PeakToPeak<T>::identity();
        return {Least::back(words[0]), Most::back(words[1])};
    }
};
// Whether an element is nonzero, or none is zero: a word of 1 says that one decides.
template <class T> struct Key<Any<T>> : KeyDefaults {
    typedef u32 Code;
    static GR_HD u32 at(int, const T& x, u32) { return is_nonzero(x); }
    template <class Position, class Element> static GR_HD boolean state(const u32* words, u32, bool, Position, Element) {
        return {(u8)words[0]};
    }
};
template <class T> struct Key<All<T>> : KeyDefaults {
    typedef u32 Code;
    static GR_HD u32 at(int, const T& x, u32) { return !is_nonzero(x); }
    template <class Position, class Element> static GR_HD boolean state(const u32* words, u32, bool, Position, Element) {
        return {(u8)!words[0]};
    }
};
// Magnitudes are no less than 0, which is that of nothing, and order as their bits do.
template <class T> struct Key<MaxMagnitude<T>> : KeyDefaults {
    typedef u64 Code;
    static GR_HD u64 at(int, T x, u32) {
        const f64 size = magnitude(x);
        return size != size ? ~0ull : bit_cast<u64>(size);
    }
    template <class Position, class Element> static GR_HD f64 state(const u64* words, u32, bool, Position, Element) {
        return bit_cast<f64>(words[0]);
    }
};
// With its place, counted down behind it, so that the first of equal elements has the largest word. Zeros are equal. Elements
// of 64 bits leave no room for a place.
template <class T, bool Max, bool SkipNan> struct Key<Arg<T, Max, SkipNan>> : KeyDefaults {
    typedef ExtremeKey<T, Max, SkipNan> Extremes;
    typedef u64 Code;
    static const bool in_two = sizeof(T) == 8, may_be_zero = in_two && !Extremes::Elements::has_nan;
    static GR_HD u64 at(int, T x, u32 place) {
        const u64 word = Extremes::of(Extremes::Elements::is_zero(x) ? T() : x);
        return in_two ? word : word << 32 | ~place;
    }
    static GR_HD u32 place(u64 word) { return ~(u32)word; }
    template <class Position, class Element>
    static GR_HD Placed<T> state(const u64* words, u32 place, bool is_there, Position position, Element) {
        const typename Extremes::Code best = in_two ? words[0] : words[0] >> 32;
        if (!is_there || Extremes::is_none(best)) return Arg<T, Max, SkipNan>::identity();
        return {Extremes::back(best), position(place)};
    }
};
// The place of the last element that is no NaN, or of the first; the element itself is read at the end.
template <class T, bool Last> struct Key<FirstLast<T, Last>> : KeyDefaults {
    typedef u32 Code;
    static const bool may_be_zero = true, rises = Last;
    static GR_HD u32 at(int, const T& x, u32 place) { return is_nan(x) ? 0 : Last ? place + 1 : ~place; }
    static GR_HD u32 place(u32 word) { return Last ? word - 1 : ~word; }
    template <class Position, class Element>
    static GR_HD FirstLastState<T> state(const u32* words, u32 place, bool, Position, Element element) {
        if (words[0] == 0) return FirstLast<T, Last>::identity();
        return {element(place), {1}};
    }
};
