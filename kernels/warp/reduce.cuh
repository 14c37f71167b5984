// Reduces states across the lanes of a warp, in lane order.
#pragma once
#include "../core/state.cuh"

// How all lanes of a sub-warp bring their states together at once, where that takes less than two by two.
template <class State> struct Pooled { static const bool exists = false; };

// All lanes of the warp call. Each sub-warp of Lanes neighbouring lanes reduces by itself, left to right. Result valid
// in the first lane of each sub-warp. No block barrier.
template <class Op, int Lanes> GR_HD typename Op::State warp_reduce(typename Op::State state) {
    if constexpr (Pooled<typename Op::State>::exists && Lanes > 1) {
        return Pooled<typename Op::State>::template reduce<Lanes>(state);
    } else {
#pragma unroll
        for (int down = 1; down < Lanes; down *= 2)
            state = Op::combine(state, shuffle_down(0xffffffffu, state, down, Lanes));
        return state;
    }
}

// All lanes call. Reduces Rows states a lane across sub-warps of Lanes neighbouring lanes, Rows results at once: at
// each step a lane gives away half of its rows and takes in its neighbour's share of the other half. Op::combine takes
// its arguments in either order. Rows and Lanes are
// powers of two. Results valid in states[0 .. max(1, Rows / Lanes)): those of the rows that result_row names, several
// lanes holding the same where Lanes > Rows. No block barrier.
template <class Op, int Lanes, int Rows, int Step = 1> struct TransposeReduce {
    static GR_HD void run(typename Op::State (&states)[Rows]) {
        typedef typename Op::State State;
        const bool upper = threadIdx.x & Step;
        if constexpr (Step < Lanes) {
            const int half = Rows / (2 * Step);  // rows that a lane still holds after this step
            if constexpr (half >= 1) {
#pragma unroll
                for (int r = 0; r < half; r++) {
                    State give = upper ? states[r] : states[r + half], keep = upper ? states[r + half] : states[r];
                    states[r] = Op::combine(keep, shuffle_xor(0xffffffffu, give, Step));
                }
            } else {
                states[0] = Op::combine(states[0], shuffle_xor(0xffffffffu, states[0], Step));
            }
            TransposeReduce<Op, Lanes, Rows, 2 * Step>::run(states);
        }
    }
    // The row that states[r] belongs to after the reduction, in this lane.
    static GR_HD int result_row(int r) {
        int row = r, half = Rows / 2;
#pragma unroll
        for (int step = 1; step < Lanes && half >= 1; step *= 2, half /= 2)
            if (threadIdx.x & step) row += half;
        return row;
    }
};
