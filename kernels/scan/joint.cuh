// States of a warp's lanes folded or scanned: one after another; or, where a combination is long and results have few digits,
// as sums about one mean, which need but additions, and one reciprocal in the end.
#pragma once
#include "../warp/reduce.cuh"
#include "../warp/scan.cuh"
#include "flow.cuh"
#include "pack.cuh"

struct NotJoint { static const bool exists = false; };
template <class Op> struct Joint : NotJoint {};

// Variances about the mean of the first that has elements: of as many as that has and more, so that what cancels is known by it.
struct Powers {
    f64 count, sum, squares;
};
template <class M> struct JointMoments {
    static const bool exists = true;
    typedef Moments2<M> State;
    static GR_HD Powers about(M pivot, State state) {
        const f64 away = distance(pivot, state.mean), sum = state.count * away;
        return {state.count, sum, __fma_rn(sum, away, state.m2)};
    }
    static GR_HD Powers both(Powers a, Powers b) { return {a.count + b.count, a.sum + b.sum, a.squares + b.squares}; }
    static GR_HD State settled(M pivot, Powers all) {
        if (all.count == 0) return State();
        const f64 shift = all.sum * one_over(all.count), m2 = __fma_rn(-all.sum, shift, all.squares);
        if (m2 != m2 && shift - shift == 0) return {all.count, shifted(pivot, shift), all.squares};  // past the range of binary64
        return {all.count, shifted(pivot, shift), m2 < 0 ? 0 : m2};
    }
    static GR_HD u32 with_elements(State state) { return __ballot_sync(0xffffffffu, state.count > 0); }
};
template <class T, bool SkipNan> struct Joint<Var<T, SkipNan>> : JointMoments<decltype(Var<T, SkipNan>::identity().mean)> {};
template <class T, bool SkipNan> struct Joint<Std<T, SkipNan>> : JointMoments<decltype(Std<T, SkipNan>::identity().mean)> {};
template <class Real, bool SkipNan> struct Joint<Var<complex<Real>, SkipNan>> : NotJoint {};
template <class Real, bool SkipNan> struct Joint<Std<complex<Real>, SkipNan>> : NotJoint {};

// All lanes of a warp call, and get all states folded, left to right.
template <class Op> GR_HD typename Op::State fold_lanes(typename Op::State state) {
    if constexpr (Joint<Op>::exists) {
        const u32 some = Joint<Op>::with_elements(state);
        const auto pivot = shuffle_from(0xffffffffu, state.mean, some ? __ffs((i32)some) - 1 : 0, 32);
        Powers all = Joint<Op>::about(pivot, state);
#pragma unroll
        for (int bits = 16; bits > 0; bits /= 2) all = Joint<Op>::both(all, shuffle_xor(0xffffffffu, all, bits));
        return Joint<Op>::settled(pivot, all);
    } else {
        return shuffle_from(0xffffffffu, warp_reduce<Op, 32>(state), 0, 32);
    }
}

// A lane's own states folded, the first of them `count` of `states`.
template <class Op, int Most>
GR_HD typename Op::State fold_list(typename Op::State state, const typename Op::State (&states)[Most], u32 count) {
    if constexpr (Joint<Op>::exists) {
        if (count == 0) return state;
        const auto pivot = state.count > 0 ? state.mean : states[0].mean;
        Powers all = Joint<Op>::about(pivot, state);
#pragma unroll
        for (int i = 0; i < Most; i++)
            if (i < (int)count) all = Joint<Op>::both(all, Joint<Op>::about(pivot, states[i]));
        return Joint<Op>::settled(pivot, all);
    } else {
#pragma unroll
        for (int i = 0; i < Most; i++)
            if (i < (int)count) state = Op::combine(state, states[i]);
        return state;
    }
}

// All lanes of a warp call, with what flows through a scan. Inclusive.
template <class Op, class Flow> GR_HD typename Flow::State scan_lanes(typename Flow::State state) {
    if constexpr (Joint<Op>::exists) {
        const typename Op::State own = Flow::value(state);
        const u32 lane = threadIdx.x % 32, begun = __ballot_sync(0xffffffffu, Flow::began(state)) & (0xffffffffu >> (31 - lane));
        const u32 first = begun ? 31 - __clz((i32)begun) : 0, some = Joint<Op>::with_elements(own) & (0xffffffffu << first);
        const auto pivot = shuffle_from(0xffffffffu, own.mean, some ? __ffs((i32)some) - 1 : 0, 32);
        Powers all = Joint<Op>::about(pivot, own);
#pragma unroll
        for (int up = 1; up < 32; up *= 2) {
            const Powers earlier = shuffle_up(0xffffffffu, all, up, 32);
            if (lane >= first + up) all = Joint<Op>::both(earlier, all);
        }
        return Flow::of(Joint<Op>::settled(pivot, all), begun != 0);
    } else {
        return warp_scan<Flow, 32>(state);
    }
}
