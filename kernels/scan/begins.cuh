// A share of a running variance in which one line begins, and no other ends but that before it: folded and written as others are,
// but for the lane in whose run that is. What it has of the new line all lanes of the warp tell together, an element each.
#pragma once
#include "../warp/reduce.cuh"
#include "../warp/scan.cuh"
#include "powers.cuh"
#include "spreads.cuh"

template <class Op, class Emit, class Share, bool Reverse> struct LineBegin {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    typedef PivotSums::Sums Sums;
    static const u32 run = Share::run, all = Share::elements, rounds = (run + 31) / 32;
    const In* const share;
    const u32 lane, at, owner;  // at: the line's first element in the order of the scan; as many as there are, where none begins
    GR_HD LineBegin(const u8* from, u32 first) : share((const In*)from), lane(threadIdx.x % 32), at(first), owner(first / run) {}

    // All lanes of a warp call, with whether a line begins at their first element, and how many are left of theirs.
    static GR_HD u32 found(bool begins, u32 left, u64 length) {
        const u32 some = __ballot_sync(0xffffffffu, begins || left < run);
        const bool ends = __shfl_sync(0xffffffffu, left, 31) == run;
        if (some == 0 || ends || length < all) return all;
        const u32 lane = __ffs((i32)some) - 1;
        return lane * run + __shfl_sync(0xffffffffu, begins ? 0u : left, (int)lane);
    }
    GR_HD bool exists() const { return at < all; }
    GR_HD bool is_behind() const { return lane > owner; }
    GR_HD u32 end() const { return (owner + 1) * run; }
    static GR_HD u32 placed(u32 element) { return Reverse ? all - 1 - element : element; }
    GR_HD In first() const { return share[placed(at)]; }
    // What a lane's sums are about.
    GR_HD In pivot() const { return is_behind() ? first() : share[placed(0)]; }
    // What comes before a lane's run in its line, of this share.
    GR_HD u32 before() const { return lane * run - (is_behind() ? at : 0); }

    // All lanes of a warp call, and get the same.
    GR_HD Sums::State sums(u32 from, u32 to, In about) const {
        PivotSums told(cast<f64>(about));
#pragma unroll 1
        for (u32 i = from + lane; i < to; i += 32) told.add(cast<f64>(share[placed(i)]));
        return shuffle_from(0xffffffffu, warp_reduce<Sums, 32>(told.sums), 0, 32);
    }
    // All lanes of a warp call. Sums up to a lane's run, from the new line's first element on.
    GR_HD Sums::State through(Sums::State own) const {
        const Sums::State new_ones = sums(at, end(), first());
        return WarpFold<Op>::through(lane == owner ? new_ones : own, owner);
    }

    // The new line's state, in the last lane.
    GR_HD State begun(Sums::State through) const { return WarpFold<Op>::state_of(cast<f64>(first()), through, all - at); }
    // All lanes of a warp call. What that lane has of the line before.
    GR_HD State ended() const {
        const u32 begin = owner * run;
        const In about = share[placed(begin)];
        return WarpFold<Op>::state_of(cast<f64>(about), sums(begin, at, about), at - begin);
    }
    // The new line's elements of that lane's run, before results take their place.
    struct Held {
        f64 about, x[rounds];
    };
    GR_HD Held held() const {
        Held found;
        found.about = cast<f64>(first());
#pragma unroll
        for (u32 i = 0; i < rounds; i++) found.x[i] = at + 32 * i + lane < end() ? cast<f64>(share[placed(at + 32 * i + lane)]) : 0;
        return found;
    }
    // All lanes of a warp call. Their results, about the first one.
    GR_HD void write(const Held& from, State start, const f64* option, u8* to) const {
        Sums::State before = Sums::identity();
#pragma unroll
        for (u32 i = 0; i < rounds; i++) {
            if (at + 32 * i >= end()) break;
            const u32 number = 32 * i + lane;
            const bool is_one = at + number < end();
            PivotSums own(from.about);
            if (is_one) own.add(from.x[i]);
            const Sums::State through = Sums::combine(before, warp_scan<Sums, 32>(own.sums));
            before = shuffle_from(0xffffffffu, through, 31, 32);
            const State state = Op::combine(start, WarpFold<Op>::state_of(from.about, through, number + 1));
            if (is_one) *(Out*)(to + placed(at + number) * (u32)sizeof(Out)) = Along<Emit>::of(state, option);
        }
    }
};
