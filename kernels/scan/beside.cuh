// Columns that a lane takes side by side: how the states of each operator are folded and scanned.
#pragma once
#include "moved_beside.cuh"
#include "narrow_beside.cuh"
#include "runs_beside.cuh"

template <class Op, int V> struct FoldBeside : FoldAny<Op, V> {};
template <int V> struct FoldBeside<Var<f32, false>, V> : FoldPowers<f32, Var<f32, false>, V> {};
template <int V> struct FoldBeside<Std<f32, false>, V> : FoldPowers<f32, Std<f32, false>, V> {};
template <class Op, class Emit, int V, bool Exclusive> struct ScanBeside : ScanAny<Op, Emit, V, Exclusive> {
    using ScanAny<Op, Emit, V, Exclusive>::ScanAny;
};
// Of words there must be whole ones.
template <class T, bool Max, bool SkipNan, int V>
using FoldExtremes = typename Either<V * sizeof(T) % 4 == 0, FoldNarrow<T, Max, SkipNan, V>, FoldAny<MinMax<T, Max, SkipNan>, V>>::type;
template <class T, bool Max, bool SkipNan, int V>
using ScanExtremes = typename Either<V * sizeof(T) % 4 == 0, ScanNarrow<T, Max, SkipNan, V>,
                                     ScanAny<MinMax<T, Max, SkipNan>, Final<MinMax<T, Max, SkipNan>, T>, V, false>>::type;
#define GR_BESIDE(T)                                                                                                  \
    template <bool Max, bool SkipNan, int V>                                                                          \
    struct FoldBeside<MinMax<T, Max, SkipNan>, V> : FoldExtremes<T, Max, SkipNan, V> {};                              \
    template <bool Max, bool SkipNan, int V>                                                                          \
    struct ScanBeside<MinMax<T, Max, SkipNan>, Final<MinMax<T, Max, SkipNan>, T>, V, false> : ScanExtremes<T, Max, SkipNan, V> { \
        typedef ScanExtremes<T, Max, SkipNan, V> Way;                                                                 \
        using Way::Way;                                                                                               \
    };
GR_BESIDE(half) GR_BESIDE(bfloat16) GR_BESIDE(i16) GR_BESIDE(u16) GR_BESIDE(i8) GR_BESIDE(u8) GR_BESIDE(boolean)
#undef GR_BESIDE

#define GR_BESIDE(T, Map)                                                                                \
    template <int V> struct FoldBeside<Sum<Map<T, f64>, f64>, V> : FoldMoved<Map<T, f64>, V> {};         \
    template <int V> struct ScanBeside<Sum<Map<T, f64>, f64>, Final<Sum<Map<T, f64>, f64>, T>, V, false> \
        : ScanMoved<Map<T, f64>, Final<Sum<Map<T, f64>, f64>, T>, V> {                                   \
        using ScanMoved<Map<T, f64>, Final<Sum<Map<T, f64>, f64>, T>, V>::ScanMoved;                     \
    };
GR_BESIDE(half, Value) GR_BESIDE(half, NonNan) GR_BESIDE(bfloat16, Value) GR_BESIDE(bfloat16, NonNan)
#undef GR_BESIDE

template <int V>
struct ScanBeside<Sum<Value<f64, f64>, Twofold>, Final<Sum<Value<f64, f64>, Twofold>, f64>, V, false>
    : ScanPairs<Value<f64, f64>, Final<Sum<Value<f64, f64>, Twofold>, f64>, V> {
    using ScanPairs<Value<f64, f64>, Final<Sum<Value<f64, f64>, Twofold>, f64>, V>::ScanPairs;
};
template <class Map, class A, class Result, int V>
struct ScanBeside<Mean<Map, A>, Final<Mean<Map, A>, Result>, V, false>
    : ScanQuotients<Mean<Map, A>, Final<Mean<Map, A>, Result>, V> {
    typedef ScanQuotients<Mean<Map, A>, Final<Mean<Map, A>, Result>, V> Way;
    using Way::Way;
};
template <class T, class Result, int V>
struct ScanBeside<Var<T, false>, Final<Var<T, false>, Result>, V, false>
    : ScanQuotients<Var<T, false>, Final<Var<T, false>, Result>, V> {
    typedef ScanQuotients<Var<T, false>, Final<Var<T, false>, Result>, V> Way;
    using Way::Way;
};
template <class T, class Result, int V>
struct ScanBeside<Std<T, false>, Final<Std<T, false>, Result>, V, false>
    : ScanQuotients<Std<T, false>, Final<Std<T, false>, Result>, V> {
    typedef ScanQuotients<Std<T, false>, Final<Std<T, false>, Result>, V> Way;
    using Way::Way;
};
// How a kernel folds and scans columns; and one whose lanes wait for conversions, but have registers left: sums of float32 by bits
// that are moved. H200, 2026-11, 4 GiB, shares of a copy without and so: by allies (allies.cuh) down (n, 64), (n, 80), (n, 100),
// (n, 127) 0.97, 0.93, 0.92, 0.93 and 0.99, 0.97, 0.94, 0.95, in strips down (n, 513) 0.77 and 0.80; but as strands down
// (n, 65), (n, 100) 0.90, 0.88 and 0.87, 0.84.
template <class Op, class Emit, int V, bool Exclusive> struct Besides {
    typedef FoldBeside<Op, V> Fold;
    typedef ScanBeside<Op, Emit, V, Exclusive> Scan;
};
template <class Op, class Emit, int V, bool Exclusive> struct MovedBesides : Besides<Op, Emit, V, Exclusive> {};
template <class Map, class Emit, int V, bool Exclusive> struct MovedWays {
    typedef FoldMoved<Map, V> Fold;
    typedef typename Either<Exclusive, ScanAny<Sum<Map, f64>, Emit, V, true>, ScanMoved<Map, Emit, V>>::type Scan;
};
template <class Emit, int V, bool Exclusive>
struct MovedBesides<Sum<Value<f32, f64>, f64>, Emit, V, Exclusive> : MovedWays<Value<f32, f64>, Emit, V, Exclusive> {};
template <class Emit, int V, bool Exclusive>
struct MovedBesides<Sum<NonNan<f32, f64>, f64>, Emit, V, Exclusive> : MovedWays<NonNan<f32, f64>, Emit, V, Exclusive> {};
// Operators of which several rows had better be scanned together.
template <class Op> struct InRuns { static const bool yes = false; };
template <class Map, class A> struct InRuns<Mean<Map, A>> { static const bool yes = true; };
template <class T> struct InRuns<Var<T, false>> { static const bool yes = true; };
template <class T> struct InRuns<Std<T, false>> { static const bool yes = true; };
