// Power sums of bool and of integers of one and two bytes: exact, whatever the values and however many they are. Moments of
// them are made of these sums about the integer next to the mean, where nothing cancels: no element becomes binary64.
#pragma once
#include "sums.cuh"

// Elements are taken as signed: of unsigned ones the middle of their range is taken away, which flips their top bit.
template <class T> struct NarrowInteger { static const bool yes = false; };
template <class Own, u32 Middle> struct SignedAs {
    static const bool yes = true, of_bits = false;
    typedef Own Signed;
    static const u32 middle = Middle, flips = sizeof(Own) == 1 ? Middle * 0x01010101u : Middle * 0x00010001u;
};
template <> struct NarrowInteger<boolean> : SignedAs<i8, 0> { static const bool of_bits = true; };
template <> struct NarrowInteger<i8> : SignedAs<i8, 0> {};
template <> struct NarrowInteger<u8> : SignedAs<i8, 0x80> {};
template <> struct NarrowInteger<i16> : SignedAs<i16, 0> {};
template <> struct NarrowInteger<u16> : SignedAs<i16, 0x8000> {};
GR_HD i32 signed_byte(i32 word, int k) {
#ifdef GR_EMULATED
    return (i8)(word >> (8 * k));
#else
    i32 byte;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(byte) : "r"(word), "r"(0x8880 + 0x1111 * k));  // and its sign three times
    return byte;
#endif
}
// The elements of a word, of which unsigned ones have been flipped.
template <class T> GR_HD void unpack(i32 word, i32* x) {
    if constexpr (sizeof(T) == 1) {
#pragma unroll
        for (int k = 0; k < 4; k++) x[k] = signed_byte(word, k);
    } else {
        x[0] = (i16)word;
        x[1] = word >> 16;
    }
}
template <class T, int V> GR_HD void unpack(const Pack<T, V>& pack, i32 (&x)[V]) {
    if constexpr (sizeof(T) * V % 4 == 0) {
#pragma unroll
        for (int w = 0; w < (int)sizeof(T) * V / 4; w++)
            unpack<T>((i32)(((const u32*)&pack)[w] ^ NarrowInteger<T>::flips), x + w * (4 / (int)sizeof(T)));
    } else {
#pragma unroll
        for (int j = 0; j < V; j++) x[j] = cast<i32>(pack.at[j]) - (i32)NarrowInteger<T>::middle;
    }
}

// Elements of a slot outside the row become the one that counts as 0; `place` is that of the slot's first.
template <class T, int V> GR_HD void nothing_outside(Pack<T, V>& pack, i32 place, i32 length) {
    typedef typename Unsigned<sizeof(T)>::type Bits;
    fill_outside(pack, place, length, bit_cast<T>((Bits)NarrowInteger<T>::middle));
}

// 96 bits in two's complement: fourth powers of 2^32 numbers of 16 bits.
struct Wide { u32 low, middle, high; };
GR_HD void add(Wide& sum, u32 low, u32 middle, u32 high) {
#ifdef GR_EMULATED
    const u64 first = (u64)sum.low + low, second = (u64)sum.middle + middle + (first >> 32);
    sum = {(u32)first, (u32)second, sum.high + high + (u32)(second >> 32)};
#else
    asm("add.cc.u32 %0, %0, %3; addc.cc.u32 %1, %1, %4; addc.u32 %2, %2, %5;"
        : "+&r"(sum.low), "+&r"(sum.middle), "+&r"(sum.high) : "r"(low), "r"(middle), "r"(high));
#endif
}
GR_HD void add(Wide& sum, Wide x) { add(sum, x.low, x.middle, x.high); }
GR_HD void add(Wide& sum, u64 x) { add(sum, (u32)x, (u32)(x >> 32), 0); }
GR_HD void add(Wide& sum, i64 x) { add(sum, (u32)x, (u32)(x >> 32), (u32)(x >> 63)); }

// Arithmetic modulo two to as many bits as a sum about the mean has: what is on the way to it may wrap.
GR_HD void widen(u32& to, i64 x) { to = (u32)x; }
GR_HD void widen(u64& to, i64 x) { to = (u64)x; }
GR_HD void widen(Wide& to, i64 x) { to = {(u32)x, (u32)(x >> 32), (u32)(x >> 63)}; }
GR_HD void widen(Wide& to, Wide x) { to = x; }
GR_HD i32 negated(i32 x) { return -x; }
GR_HD i64 negated(i64 x) { return -x; }
GR_HD Wide negated(Wide x) {
    Wide found = {~x.low, ~x.middle, ~x.high};
    add(found, 1, 0, 0);
    return found;
}
GR_HD void add_product(i32& sum, i32 x, i32 y) { sum += x * y; }
GR_HD void add_product(u32& sum, u32 x, u32 y) { sum += x * y; }
// One instruction, which a compiler that knows the range of x would make three of.
GR_HD void add_product(i64& sum, i32 x, i32 y) {
#ifdef GR_EMULATED
    sum += (i64)x * y;
#else
    i64 product;
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(x), "r"(y));
    sum += product;
#endif
}
GR_HD void add_product(u64& sum, u32 x, u32 y) { sum += (u64)x * y; }
GR_HD void add_product(u64& sum, u64 x, u32 y) { sum += x * y; }
GR_HD void add_product(Wide& sum, Wide x, u32 by) {
    const u64 low = (u64)x.low * by, middle = (u64)x.middle * by + (low >> 32);
    add(sum, (u32)low, (u32)middle, x.high * by + (u32)(middle >> 32));
}
GR_HD f64 number(u32 x) { return (f64)(i32)x; }
GR_HD f64 number(u64 x) { return (f64)(i64)x; }
GR_HD f64 number(Wide x) { return __fma_rn((f64)(i64)((u64)x.high << 32 | x.middle), 4294967296.0, (f64)x.low); }

// What holds the sums: of few elements, 2^16 at most, or of many, fewer than 2^32; and Shift, what they are moved in.
template <int Bytes, int Order, bool Many> struct PowersFit { typedef i32 First, Second; typedef u32 Shift; };
template <> struct PowersFit<1, 2, true> { typedef i64 First, Second; typedef u64 Shift; };
template <> struct PowersFit<1, 4, false> { typedef i32 First, Second; typedef i64 Third, Fourth; typedef u64 Shift; };
template <> struct PowersFit<1, 4, true> { typedef i64 First, Second, Third, Fourth; typedef u64 Shift; };
template <> struct PowersFit<2, 2, false> { typedef i32 First; typedef i64 Second; typedef u64 Shift; };
template <> struct PowersFit<2, 2, true> { typedef i64 First, Second; typedef u64 Shift; };
template <> struct PowersFit<2, 4, false> { typedef i32 First; typedef i64 Second, Third; typedef Wide Fourth, Shift; };
template <> struct PowersFit<2, 4, true> { typedef i64 First, Second; typedef Wide Third, Fourth, Shift; };

// What holds the cubes and the fourth powers of 8 elements.
template <int Bytes> struct NarrowSum { typedef i32 Signed; typedef u32 Positive; };
template <> struct NarrowSum<2> { typedef i64 Signed; typedef u64 Positive; };

template <class Fit, int Order> struct SumsOf { typename Fit::Second second; typename Fit::First first; };
template <class Fit> struct SumsOf<Fit, 4> {  // in an order that leaves no gaps
    typename Fit::Second second;
    typename Fit::Third third;
    typename Fit::Fourth fourth;
    typename Fit::First first;
};

// Hands the elements of a pack on, some at a time.
template <class Powers, class T, int V> GR_HD void take_pack(Powers& powers, const Pack<T, V>& pack) {
    if constexpr (sizeof(T) == 1 && V % 4 == 0) {
        const int some = V < 8 ? V / 4 : 2;
#pragma unroll
        for (int w = 0; w < V / 4; w += some) {
            u32 taken[some];
#pragma unroll
            for (int k = 0; k < some; k++) taken[k] = ((const u32*)&pack)[w + k];
            powers.take(taken);
        }
    } else {
        const int some = V < 8 ? V : 8;
        static_assert(V % some == 0, "packs are powers of two");
        i32 elements[V];
        unpack(pack, elements);
#pragma unroll
        for (int j = 0; j < V; j += some) {
            i32 taken[some];
#pragma unroll
            for (int k = 0; k < some; k++) taken[k] = elements[j + k];
            powers.take(taken);
        }
    }
}

template <class T, int Order, bool Many> struct IntegerPowers : SumsOf<PowersFit<sizeof(T), Order, Many>, Order> {
    typedef PowersFit<sizeof(T), Order, Many> Fit;
    GR_HD f64 total() const { return (f64)this->first; }
    template <bool Others> GR_HD void join(const IntegerPowers<T, Order, Others>& other) {
        this->first += other.first;
        this->second += other.second;
        if constexpr (Order == 4) {
            add(this->third, other.third);
            add(this->fourth, other.fourth);
        }
    }
    // The sums about the integer next to the mean of so many elements. Gives that integer.
    GR_HD f64 about(f64 mean, u32 count, f64 (&sum)[Order]) const {
        const bool mirrored = mean > 0;  // so that what is added to each element is not negative
        const u32 by = (u32)(fabs(mean) + 0.5);
        typename Fit::Shift power[Order + 1];
        widen(power[0], (i64)count);
        widen(power[1], mirrored ? negated(this->first) : this->first);
        widen(power[2], this->second);
        if constexpr (Order == 4) {
            widen(power[3], mirrored ? negated(this->third) : this->third);
            widen(power[4], this->fourth);
        }
        // After pass k, entry j is the sum of x^(j - k) (x + by)^k.
#pragma unroll
        for (int k = 1; k <= Order; k++)
#pragma unroll
            for (int j = Order; j >= k; j--) add_product(power[j], power[j - 1], by);
#pragma unroll
        for (int k = 0; k < Order; k++) sum[k] = k % 2 == 0 && mirrored ? -number(power[k + 1]) : number(power[k + 1]);
        return (mirrored ? (f64)by : -(f64)by) + (f64)NarrowInteger<T>::middle;
    }

    // Up to 8 signed elements, of few.
    template <int N> GR_HD void take(const i32 (&x)[N]) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            this->first += x[j];
            add_product(this->second, x[j], x[j]);
        }
        take_higher(x);
    }
    template <int N> GR_HD void take_higher(const i32 (&x)[N]) {
        static_assert(!Many && N <= 8, "as a NarrowSum holds");
        if constexpr (Order == 4) {
            typename NarrowSum<sizeof(T)>::Signed cubes = 0;
            typename NarrowSum<sizeof(T)>::Positive fourths = 0;
#pragma unroll
            for (int j = 0; j < N; j++) {
                const i32 square = x[j] * x[j];
                add_product(cubes, square, x[j]);
                add_product(fourths, (u32)square, (u32)square);
            }
            this->third += cubes;
            add(this->fourth, fourths);
        }
    }
    // One or two words of four bytes each.
    template <int N> GR_HD void take(const u32 (&words)[N]) {
        i32 x[4 * N];
#pragma unroll
        for (int w = 0; w < N; w++) {
            const i32 word = (i32)(words[w] ^ NarrowInteger<T>::flips);
            this->first = __dp4a(word, 0x01010101, this->first);
            this->second = __dp4a(word, word, this->second);
            unpack<T>(word, x + 4 * w);
        }
        take_higher(x);
    }
    template <int V> GR_HD void take(const Pack<T, V>& pack) { take_pack(*this, pack); }
};
// The powers of 0 and 1 are what they are themselves.
template <int Order, bool Many> struct IntegerPowers<boolean, Order, Many> {
    u32 ones;
    GR_HD f64 total() const { return (f64)ones; }
    template <bool Others> GR_HD void join(const IntegerPowers<boolean, Order, Others>& other) { ones += other.ones; }
    GR_HD f64 about(f64 mean, u32 count, f64 (&sum)[Order]) const {
        const bool mostly = mean > 0.5;
        const f64 away = (f64)(mostly ? count - ones : ones);
#pragma unroll
        for (int k = 0; k < Order; k++) sum[k] = k % 2 == 0 && mostly ? -away : away;
        return mostly;
    }
    template <int N> GR_HD void take(const i32 (&x)[N]) {
#pragma unroll
        for (int j = 0; j < N; j++) ones += (u32)x[j];
    }
    template <int N> GR_HD void take(const u32 (&words)[N]) {
#pragma unroll
        for (int w = 0; w < N; w++) ones = __dp4a(words[w], 0x01010101u, ones);
    }
    GR_HD void take_byte(u32 counts, int k) { ones = __dp4a(counts, 1u << 8 * k, ones); }
    template <int V> GR_HD void take(const Pack<boolean, V>& pack) { take_pack(*this, pack); }
};
