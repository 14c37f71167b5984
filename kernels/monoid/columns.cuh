// The running values of V neighbouring columns of one thread: what the columns kernels keep in registers.
//
//   start()                     nothing taken in yet
//   take(pack, index, column_offset)  one element of each column; element j has index `index + column_offset[j]`
//   takes_four, take_four       true where four rows together are cheaper than one by one
//   takes_rows, take_rows       the same of all rows of a batch
//   is_decided()                of an operator that stops: nothing that comes can change the states
//   settle(j)                   the state of column j
//   counts                      true where settle(j) leaves the index to locate(state, j, at): at(n) is the index of the
//                               element that n of the column came before
// A thread takes at most 2^16 elements a column: the plan sees to that.
#pragma once
#include "arg.cuh"
#include "logical.cuh"
#include "moments.cuh"
#include "products.cuh"
#include "sums.cuh"

template <class Op, int V> struct ColumnsOneByOne {
    static const bool counts = false, takes_four = false, takes_rows = false;
    typename Op::Acc acc[V];
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) acc[j] = Op::start();
    }
    GR_HD void take(const Pack<typename Op::In, V>& pack, i64 index, const i64 (&column_offset)[V]) {
#pragma unroll
        for (int j = 0; j < V; j++) Op::absorb(acc[j], pack.element(j), index + column_offset[j]);
    }
    GR_HD typename Op::State settle(int j) { return Op::settle(acc[j]); }
};
template <class Op, int V> struct Columns : ColumnsOneByOne<Op, V> {};
// Of an operator that stops: elements come from the end that it looks at first.
template <class Op, int V> struct StoppingColumns {
    static const bool counts = false, takes_four = false, takes_rows = false;
    typename Op::State state[V];
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) state[j] = Op::identity();
    }
    GR_HD void take(const Pack<typename Op::In, V>& pack, i64 index, const i64 (&column_offset)[V]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            typename Op::Acc acc = Op::start();
            Op::absorb(acc, pack.at[j], index + column_offset[j]);
            const typename Op::State one = Op::settle(acc);
            state[j] = Op::from_last ? Op::combine(one, state[j]) : Op::combine(state[j], one);
        }
    }
    GR_HD bool is_decided() const {
        bool all = true;
#pragma unroll
        for (int j = 0; j < V; j++) all = all && Op::is_decided(state[j]);
        return all;
    }
    GR_HD typename Op::State settle(int j) { return state[j]; }
};
// Elements come in order of their index, evenly spaced: what holds for every operator but the positions is kept.
template <class Op, int V> struct EvenColumns : Columns<Op, V> {};

// Four words of four bytes each, transposed: word k gets byte k of every one.
GR_HD void transpose_bytes(u32 r0, u32 r1, u32 r2, u32 r3, u32 (&column)[4]) {
    const u32 low_a = __byte_perm(r0, r1, 0x5140), low_b = __byte_perm(r2, r3, 0x5140);
    const u32 high_a = __byte_perm(r0, r1, 0x7362), high_b = __byte_perm(r2, r3, 0x7362);
    column[0] = __byte_perm(low_a, low_b, 0x5410);
    column[1] = __byte_perm(low_a, low_b, 0x7632);
    column[2] = __byte_perm(high_a, high_b, 0x5410);
    column[3] = __byte_perm(high_a, high_b, 0x7632);
}
// What a sum of narrow integers adds up in a thread, exactly: the elements, their magnitudes or their squares. 32 bits hold that of
// 2^16 elements, but for squares of two bytes. `four` takes a word of bytes.
template <class T> struct NarrowTotal { typedef i32 type; };
template <> struct NarrowTotal<u16> { typedef u32 type; };
template <class Map> struct NarrowTerm { static const bool yes = false; };
template <class T> struct NarrowValues {
    static const bool yes = true;
    typedef typename NarrowTotal<T>::type Total;
    static GR_HD void one(Total& sum, T x) { sum += (Total)cast<i32>(x); }
    static GR_HD void four(Total& sum, u32 word) { sum += ByteWord<T>::dot((i32)word, 0x01010101); }
};
template <class T> struct NarrowSquares {
    static const bool yes = true;
    typedef u32 Total;
    static GR_HD void one(Total& sum, T x) { sum += (u32)(cast<i32>(x) * cast<i32>(x)); }
    static GR_HD void four(Total& sum, u32 word) { sum += (u32)ByteWord<T>::dot((i32)word, (i32)word); }
};
template <> struct NarrowSquares<i16> {
    static const bool yes = true;
    typedef i64 Total;
    static GR_HD void one(Total& sum, i16 x) { add_product(sum, (i32)x, (i32)x); }
};
template <> struct NarrowSquares<u16> {
    static const bool yes = true;
    typedef u64 Total;
    static GR_HD void one(Total& sum, u16 x) { add_product(sum, (u32)x, (u32)x); }
};
template <class T> struct NarrowMagnitudes {
    static const bool yes = true;
    typedef u32 Total;
    static GR_HD void one(Total& sum, T x) { sum += (u32)(x < 0 ? -(i32)x : (i32)x); }
    static GR_HD void four(Total& sum, u32 word) {  // of a negative byte the others of its bits, and one
        const u32 signs = word >> 7 & 0x01010101u;
        sum = __dp4a(word ^ signs * 255, 0x01010101u, __dp4a(signs, 0x01010101u, sum));
    }
};
template <class To> struct NarrowTerm<Value<boolean, To>> : NarrowValues<boolean> {};
template <class To> struct NarrowTerm<Value<i8, To>> : NarrowValues<i8> {};
template <class To> struct NarrowTerm<Value<u8, To>> : NarrowValues<u8> {};
template <class To> struct NarrowTerm<Value<i16, To>> : NarrowValues<i16> {};
template <class To> struct NarrowTerm<Value<u16, To>> : NarrowValues<u16> {};
template <class Number, class To> struct NarrowTerm<Square<i8, Number, To>> : NarrowSquares<i8> {};
template <class Number, class To> struct NarrowTerm<Square<u8, Number, To>> : NarrowSquares<u8> {};
template <class Number, class To> struct NarrowTerm<Square<i16, Number, To>> : NarrowSquares<i16> {};
template <class Number, class To> struct NarrowTerm<Square<u16, Number, To>> : NarrowSquares<u16> {};
template <> struct NarrowTerm<Magnitude<boolean>> : NarrowValues<boolean> {};
template <> struct NarrowTerm<Magnitude<i8>> : NarrowMagnitudes<i8> {};
template <> struct NarrowTerm<Magnitude<u8>> : NarrowValues<u8> {};
template <> struct NarrowTerm<Magnitude<i16>> : NarrowMagnitudes<i16> {};
template <> struct NarrowTerm<Magnitude<u16>> : NarrowValues<u16> {};

// Bytes of four rows are turned into words of one column each, which one instruction adds up.
template <class Term, class T, class A, int V> struct NarrowSums {
    static const bool counts = false, takes_four = sizeof(T) == 1 && V % 4 == 0, takes_rows = false;  // whole words
    typename Term::Total sum[V];
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
#pragma unroll
        for (int j = 0; j < V; j++) Term::one(sum[j], pack.at[j]);
    }
    GR_HD void take_four(const Pack<T, V>& a, const Pack<T, V>& b, const Pack<T, V>& c, const Pack<T, V>& d) {
#pragma unroll
        for (int w = 0; w < V / 4; w++) {
            u32 column[4];
            transpose_bytes(((const u32*)&a)[w], ((const u32*)&b)[w], ((const u32*)&c)[w], ((const u32*)&d)[w], column);
#pragma unroll
            for (int k = 0; k < 4; k++) Term::four(sum[4 * w + k], column[k]);
        }
    }
    GR_HD A settle(int j) { return (A)sum[j]; }
};

// N rows, one after another.
template <class Running, class In, int V, int N>
GR_HD void take_batch(Running& columns, const Pack<In, V> (&packs)[N], const i64 (&index)[N], const i64 (&column_offset)[V]) {
    if constexpr (Running::takes_rows) {
        columns.take_rows(packs, index, column_offset);
    } else if constexpr (Running::takes_four && N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) columns.take_four(packs[i], packs[i + 1], packs[i + 2], packs[i + 3]);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) columns.take(packs[i], index[i], column_offset);
    }
}

// The first `count` of N rows, by fours.
template <class Running, class In, int V, int N>
GR_HD void take_some(Running& columns, const Pack<In, V> (&packs)[N], const i64 (&index)[N], const i64 (&column_offset)[V],
                     int count) {
    const int some = N % 4 == 0 ? 4 : 1;
#pragma unroll
    for (int i = 0; i < N; i += some) {
        if (i + some <= count) {
            Pack<In, V> rows[some];
            i64 at[some];
#pragma unroll
            for (int k = 0; k < some; k++) rows[k] = packs[i + k], at[k] = index[i + k];
            take_batch(columns, rows, at, column_offset);
        } else {
#pragma unroll
            for (int k = 0; k < some; k++)
                if (i + k < count) columns.take(packs[i + k], index[i + k], column_offset);
        }
    }
}

// Four rows of a column are multiplied as a pack is.
template <class Map, int V> struct EvenColumns<Prod<Map>, V> : Columns<Prod<Map>, V> {
    typedef Pack<typename Map::In, V> Row;
    static const bool takes_four = true;
    GR_HD void take_four(const Row& a, const Row& b, const Row& c, const Row& d) {
#pragma unroll
        for (int j = 0; j < V; j++)
            Prod<Map>::absorb_pack(this->acc[j], Pack<typename Map::In, 4>{{a.at[j], b.at[j], c.at[j], d.at[j]}}, 0, 0);
    }
};

// Narrow extremes: two 16-bit lanes a word, as in the row kernels, but each lane a column of its own.
template <class T, bool Max, bool SkipNan, int V> struct ExtremeColumns {
    static const bool counts = false, takes_four = false, takes_rows = false;
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

// any and all of narrow elements, whose columns lie in words as the elements do: what was nonzero of any, the top bit of what
// was zero of all.
template <class T, bool Every, int V> struct LogicColumns {
    static const bool counts = false, takes_four = false, takes_rows = false;
    u32 bits[sizeof(T) * V / 4];
    GR_HD void start() {
#pragma unroll
        for (int w = 0; w < (int)sizeof(T) * V / 4; w++) bits[w] = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
#pragma unroll
        for (int w = 0; w < (int)sizeof(T) * V / 4; w++) {
            const u32 word = ((const u32*)&pack)[w] & Significant<T>::bits(w);
            bits[w] |= Every ? zeros<sizeof(T)>(word) : word;
        }
    }
    GR_HD boolean settle(int j) {
        const int place = j * (int)sizeof(T);
        const u32 lane = bits[place / 4] >> (8 * (place % 4)) & ((1u << (8 * sizeof(T))) - 1);
        return {(u8)((lane != 0) != Every)};
    }
};
// Counts of bytes: sums of ones.
template <class T, int V> struct ByteCounts : NarrowSums<NarrowValues<u8>, u8, i64, V> {
    typedef NarrowSums<NarrowValues<u8>, u8, i64, V> Sums;
    static GR_HD Pack<u8, V> ones(const Pack<T, V>& pack) {
        Pack<u8, V> found;
#pragma unroll
        for (int w = 0; w < V / 4; w++) ((u32*)&found)[w] = ~zeros<1>(((const u32*)&pack)[w]) >> 7 & 0x01010101u;
        return found;
    }
    GR_HD void take(const Pack<T, V>& pack, i64 index, const i64 (&column_offset)[V]) {
        Sums::take(ones(pack), index, column_offset);
    }
    GR_HD void take_four(const Pack<T, V>& a, const Pack<T, V>& b, const Pack<T, V>& c, const Pack<T, V>& d) {
        Sums::take_four(ones(a), ones(b), ones(c), ones(d));
    }
};

// Largest magnitudes of narrow elements, as the largest elements, or those and the least.
template <class T, int V> struct MagnitudeColumns {
    static const bool counts = false, takes_four = false, takes_rows = false;
    ExtremeColumns<T, true, false, V> high;
    ExtremeColumns<T, false, false, V> low;
    GR_HD void start() {
        const i64 column_offset[V] = {};
        high.start();
        low.start();
        take(Pack<T, V>(), 0, column_offset);  // zeros, whose magnitude is that of nothing
    }
    GR_HD void take(const Pack<T, V>& pack, i64 index, const i64 (&column_offset)[V]) {
        high.take(Unsign<T>::of(pack), index, column_offset);
        if (Unsign<T>::is_negative) low.take(pack, index, column_offset);
    }
    GR_HD f64 settle(int j) {
        const f64 size = magnitude(high.settle(j));
        return Unsign<T>::is_negative ? larger(size, magnitude(low.settle(j))) : size;
    }
};

// One count serves all columns of a thread: without NaN to skip, each has taken as many elements.
template <class Map, class A, int V> struct MeanColumns {
    static const bool counts = false, takes_four = false, takes_rows = true;
    Columns<Sum<Map, A>, V> sums;
    u32 count;
    GR_HD void start() {
        sums.start();
        count = 0;
    }
    GR_HD void take(const Pack<typename Map::In, V>& pack, i64 index, const i64 (&column_offset)[V]) {
        sums.take(pack, index, column_offset);
        count++;
    }
    template <int N>
    GR_HD void take_rows(const Pack<typename Map::In, V> (&packs)[N], const i64 (&index)[N], const i64 (&column_offset)[V]) {
        take_batch(sums, packs, index, column_offset);
        count += N;
    }
    GR_HD Averaged<A> settle(int j) { return {sums.settle(j), (i64)count}; }
};
// Else each has a count of its own, of 32 bits.
template <class Map, class A, int V> struct NanMeanColumns {
    static const bool counts = false, takes_four = false, takes_rows = false;
    Columns<Sum<Map, A>, V> sums;
    u32 count[V];
    GR_HD void start() {
        sums.start();
#pragma unroll
        for (int j = 0; j < V; j++) count[j] = 0;
    }
    GR_HD void take(const Pack<typename Map::In, V>& pack, i64 index, const i64 (&column_offset)[V]) {
        sums.take(pack, index, column_offset);
#pragma unroll
        for (int j = 0; j < V; j++) count[j] += Map::counts(pack.element(j));
    }
    GR_HD Averaged<A> settle(int j) { return {sums.settle(j), (i64)count[j]}; }
};
template <class T, int Order, int V> struct MomentColumns {
    static const bool counts = false, takes_four = false, takes_rows = true;
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
        for (int j = 0; j < V; j++) add_powers(sum[j], cast<f64>(pack.at[j]) - pivot[j]);
    }
    template <int N> GR_HD void take_rows(const Pack<T, V> (&packs)[N], const i64 (&)[N], const i64 (&)[V]) {
        if (count == 0) {
#pragma unroll
            for (int j = 0; j < V; j++) pivot[j] = cast<f64>(packs[0].at[j]);
        }
        count += N;
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int j = 0; j < V; j++) add_powers(sum[j], cast<f64>(packs[i].at[j]) - pivot[j]);
    }
    GR_HD auto settle(int j) { return settle_some(j, count); }
    GR_HD auto settle_some(int j, u32 number) {
        PowerSums<Order> acc;
        acc.pivot = pivot[j];
        acc.count = number;
#pragma unroll
        for (int k = 0; k < Order; k++) acc.sum[k] = sum[j][k];
        return settle_powers<MeanOf<T>>(acc);
    }
};
// A NaN lies at the pivot, where it adds nothing, and is not counted: no branch an element, whatever the data.
template <class T, int Order, int V> struct NanMomentColumns : MomentColumns<T, Order, V> {
    static const bool takes_rows = false;
    u32 missing[V];
    GR_HD void start() {
        MomentColumns<T, Order, V>::start();
#pragma unroll
        for (int j = 0; j < V; j++) missing[j] = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            const bool number = !is_nan(pack.at[j]);
            const f64 x = cast<f64>(pack.at[j]);
            this->pivot[j] = number & (missing[j] == this->count) ? x : this->pivot[j];
            add_powers(this->sum[j], number ? x - this->pivot[j] : 0);
            missing[j] += !number;
        }
        this->count++;
    }
    GR_HD auto settle(int j) { return this->settle_some(j, this->count - missing[j]); }
};
// Exact power sums of narrow integers, of 8 rows at a time. Bytes of four rows are turned into words of one column each;
// bools of all of them are counted in the bytes of a word first.
template <class T, int Order, int V> struct IntegerMomentColumns {
    static const bool counts = false, takes_four = false, takes_rows = true;
    IntegerPowers<T, Order, false> powers[V];
    u32 count;
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) powers[j] = IntegerPowers<T, Order, false>();
        count = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64 index, const i64 (&column_offset)[V]) {
        const i64 at[1] = {index};
        take_rows(only(pack), at, column_offset);
    }
    template <int N> GR_HD void take_rows(const Pack<T, V> (&packs)[N], const i64 (&)[N], const i64 (&)[V]) {
        const int some = N < 8 ? N : 8;
        static_assert(N % some == 0, "batches are powers of two");
#pragma unroll
        for (int i = 0; i < N; i += some) {
            const auto word = [&](int row, int w) { return ((const u32*)&packs[i + row])[w]; };
            if constexpr (NarrowInteger<T>::of_bits && V % 4 == 0) {
#pragma unroll
                for (int w = 0; w < V / 4; w++) {
                    u32 ones = 0;
#pragma unroll
                    for (int r = 0; r < some; r++) ones += word(r, w) & 0x01010101u;  // between columns may be any byte
#pragma unroll
                    for (int k = 0; k < 4; k++) powers[4 * w + k].take_byte(ones, k);
                }
            } else if constexpr (sizeof(T) == 1 && V % 4 == 0 && N % 4 == 0) {
#pragma unroll
                for (int w = 0; w < V / 4; w++) {
                    u32 words[4][some / 4], column[4];
#pragma unroll
                    for (int r = 0; r < some; r += 4) {
                        transpose_bytes(word(r, w), word(r + 1, w), word(r + 2, w), word(r + 3, w), column);
#pragma unroll
                        for (int k = 0; k < 4; k++) words[k][r / 4] = column[k];
                    }
#pragma unroll
                    for (int k = 0; k < 4; k++) powers[4 * w + k].take(words[k]);
                }
            } else {
                i32 elements[some][V];
#pragma unroll
                for (int r = 0; r < some; r++) unpack(packs[i + r], elements[r]);
#pragma unroll
                for (int j = 0; j < V; j++) {
                    i32 column[some];
#pragma unroll
                    for (int r = 0; r < some; r++) column[r] = elements[r][j];
                    powers[j].take(column);
                }
            }
        }
        count += N;
    }
    GR_HD auto settle(int j) {
        typedef decltype(settle_integers<Order>(powers[j], count)) State;
        if (count == 1) return State{1, powers[j].total() + NarrowInteger<T>::middle};  // of single rows nothing else is asked
        return settle_integers<Order>(powers[j], count);
    }
};
template <class T> struct IsFloat { static const bool yes = false; };
template <> struct IsFloat<f32> { static const bool yes = true; };
// The best value of each column, and how many elements came before it: ties keep the earlier. The first wins even
// where it is no better than the identity.
template <class T, bool Max, bool SkipNan, int V> struct ArgColumns {
    typedef Arg<T, Max, SkipNan> Op;
    static const bool counts = true, takes_four = false, takes_rows = !SkipNan && IsFloat<T>::yes;
    T best[V];
    u32 place[V], count;
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) best[j] = Extreme<T, Max, SkipNan>::worst(), place[j] = 0;
        count = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            const bool wins = Op::beats(best[j], pack.at[j]);
            best[j] = wins ? pack.at[j] : best[j];
            place[j] = wins ? count : place[j];
        }
        count++;
    }
    // The best of the rows by a tournament, and one comparison with the best so far.
    template <int N>
    GR_HD void take_rows(const Pack<T, V> (&packs)[N], const i64 (&index)[N], const i64 (&column_offset)[V]) {
        T top[V];
        u32 row[V];
        bool unclear = false;
#pragma unroll
        for (int j = 0; j < V; j++) {
            T value[N];
            u32 number[N];
#pragma unroll
            for (int i = 0; i < N; i++) value[i] = packs[i].at[j], number[i] = i;
#pragma unroll
            for (int gap = 1; gap < N; gap *= 2)
#pragma unroll
                for (int i = 0; i + gap < N; i += 2 * gap) {
                    number[i] = Contest<T, Max>::exceeds(value[i], value[i + gap]) ? number[i + gap] : number[i];
                    value[i] = Extreme<T, Max, false>::better(value[i], value[i + gap]);
                }
            top[j] = value[0];
            row[j] = number[0];
            unclear |= !(top[j] < 0 || top[j] > 0);
        }
        if (unclear) {  // a NaN, which no comparison finds, or a zero, which may have the other one's sign
#pragma unroll
            for (int i = 0; i < N; i++) take(packs[i], index[i], column_offset);
            return;
        }
#pragma unroll
        for (int j = 0; j < V; j++) {
            const bool wins = Contest<T, Max>::exceeds(best[j], top[j]);
            best[j] = wins ? top[j] : best[j];
            place[j] = wins ? count + row[j] : place[j];
        }
        count += N;
    }
    template <class At> GR_HD void locate(Placed<T>& state, int j, At at) {
        if (state.index >= 0) state.index = at(place[j]);
    }
    GR_HD Placed<T> settle(int j) { return {best[j], count == 0 || (SkipNan && is_nan(best[j])) ? -1 : 0}; }
};
// Integers of one or two bytes with their place below them in one word, so that one comparison settles both. A thread takes no
// more than 2^16 elements.
template <class T, bool Max, int V> struct PlacedColumns {
    static const bool counts = true, takes_four = false, takes_rows = false;
    static const int bits = 8 * sizeof(T), a_word = 4 / sizeof(T);
    static const u32 places = 0xffffffffu >> bits, ones = sizeof(T) == 1 ? 0x01010101u : 0x00010001u;
    static const u32 flip = (Max ? 0u : (1u << bits) - 1) ^ (T(-1) < T(0) ? 1u << (bits - 1) : 0u);
    u32 best[V], count;
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) best[j] = 0;
        count = 0;
    }
    GR_HD void take(const Pack<T, V>& pack, i64, const i64 (&)[V]) {
        const u32 later = places - count;  // of equal numbers the earlier is the larger word
        count++;
#pragma unroll
        for (int j = 0; j < V; j++) {
            const u32 word = (V < a_word ? (u32)(u16)pack.at[0] : ((const u32*)&pack)[j / a_word]) ^ flip * ones;
            const int k = j % a_word;
            const u32 key = __byte_perm(word, later, sizeof(T) == 1 ? 0x0654 | k << 12 : 0x1054 + k * 0x2200);
            best[j] = key > best[j] ? key : best[j];
        }
    }
    template <class At> GR_HD void locate(Placed<T>& state, int j, At at) {
        if (state.index >= 0) state.index = at(places - (best[j] & places));
    }
    GR_HD Placed<T> settle(int j) { return {(T)((best[j] >> (32 - bits)) ^ flip), count == 0 ? -1 : 0}; }
};
template <class T, bool Max, bool SkipNan, int V>
struct EvenColumns<Arg<T, Max, SkipNan>, V> : ArgColumns<T, Max, SkipNan, V> {};
template <class Real, bool Max, bool SkipNan, int V>
struct EvenColumns<Arg<complex<Real>, Max, SkipNan>, V> : Columns<Arg<complex<Real>, Max, SkipNan>, V> {};
template <bool Max, bool SkipNan, int V>
struct EvenColumns<Arg<i16, Max, SkipNan>, V> : PlacedColumns<i16, Max, V> {};
template <bool Max, bool SkipNan, int V>
struct EvenColumns<Arg<u16, Max, SkipNan>, V> : PlacedColumns<u16, Max, V> {};
template <class T, bool Max, int V, bool InWords = V % 4 == 0> struct ByteArgColumns : PlacedColumns<T, Max, V> {};
template <class T, bool Max, int V> struct ByteArgColumns<T, Max, V, false> : ArgColumns<T, Max, false, V> {};
template <bool Max, int V> struct EvenColumns<Arg<u8, Max, false>, V> : ByteArgColumns<u8, Max, V> {};
template <bool Max, int V> struct EvenColumns<Arg<i8, Max, false>, V> : ByteArgColumns<i8, Max, V> {};

template <class Map, class A, int V, bool Narrow = NarrowTerm<Map>::yes> struct SumColumns : ColumnsOneByOne<Sum<Map, A>, V> {};
template <class Map, class A, int V>
struct SumColumns<Map, A, V, true> : NarrowSums<NarrowTerm<Map>, typename Map::In, A, V> {};
template <class Map, class A, int V> struct Columns<Sum<Map, A>, V> : SumColumns<Map, A, V> {};
// Whether columns lie in words as narrow elements do.
template <class T, int V> constexpr bool IN_WORDS = sizeof(T) < 4 && sizeof(T) * V % 4 == 0;
template <class T, bool Max, bool Skip, int V, bool InWords = IN_WORDS<T, V>>
struct ExtremeColumnsOf : ExtremeColumns<T, Max, Skip, V> {};
template <class T, bool Max, bool Skip, int V>
struct ExtremeColumnsOf<T, Max, Skip, V, false> : ColumnsOneByOne<MinMax<T, Max, Skip>, V> {};
template <class T, bool Max, bool Skip, int V> struct Columns<MinMax<T, Max, Skip>, V> : ExtremeColumnsOf<T, Max, Skip, V> {};
template <class T, bool Every, class Op, int V, bool InWords = IN_WORDS<T, V>>
struct LogicColumnsOf : LogicColumns<T, Every, V> {};
template <class T, bool Every, class Op, int V> struct LogicColumnsOf<T, Every, Op, V, false> : ColumnsOneByOne<Op, V> {};
template <class T, int V> struct Columns<Any<T>, V> : LogicColumnsOf<T, false, Any<T>, V> {};
template <class T, int V> struct Columns<All<T>, V> : LogicColumnsOf<T, true, All<T>, V> {};
template <class T, int V, bool InWords = sizeof(T) == 1 && V % 4 == 0> struct CountColumns : ByteCounts<T, V> {};
template <class T, int V> struct CountColumns<T, V, false> : ColumnsOneByOne<CountNonzero<T>, V> {};
template <class T, int V> struct Columns<CountNonzero<T>, V> : CountColumns<T, V> {};
template <class T, int V, bool InWords = IN_WORDS<T, V>> struct MagnitudeColumnsOf : MagnitudeColumns<T, V> {};
template <class T, int V> struct MagnitudeColumnsOf<T, V, false> : ColumnsOneByOne<MaxMagnitude<T>, V> {};
template <class T, int V> struct Columns<MaxMagnitude<T>, V> : MagnitudeColumnsOf<T, V> {};
template <class Map, class A, int V> struct Columns<RootSum<Map, A>, V> : Columns<Sum<Map, A>, V> {};
template <class T, class To, class A, int V> struct Columns<Mean<Value<T, To>, A>, V> : MeanColumns<Value<T, To>, A, V> {};
template <class T, class To, class A, int V> struct Columns<Mean<NonNan<T, To>, A>, V> : NanMeanColumns<NonNan<T, To>, A, V> {};
template <class T, int Order, bool SkipNan, int V, bool Integer = NarrowInteger<T>::yes>
struct MomentColumnsOf : MomentColumns<T, Order, V> {};
template <class T, int Order, int V> struct MomentColumnsOf<T, Order, true, V, false> : NanMomentColumns<T, Order, V> {};
template <class T, int Order, bool SkipNan, int V>
struct MomentColumnsOf<T, Order, SkipNan, V, true> : IntegerMomentColumns<T, Order, V> {};
template <class T, bool SkipNan, bool Root, int V>
struct Columns<Variance<T, SkipNan, Root>, V> : MomentColumnsOf<T, 2, SkipNan, V> {};
template <class T, int V> struct Columns<CentralMoment<T>, V> : MomentColumnsOf<T, 4, false, V> {};
template <class T, int V> struct Columns<Skewness<T>, V> : MomentColumnsOf<T, 4, false, V> {};
template <class T, int V> struct Columns<Kurtosis<T>, V> : MomentColumnsOf<T, 4, false, V> {};
