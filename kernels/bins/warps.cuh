// More groups than threads have room for: every warp has a state for each, in shared memory. Lanes whose elements are of
// one group bring them together first, in the order of lanes (Westphal 2014), so that each state has one writer and no
// order depends on time.
#pragma once
#include "../core/shared.cuh"
#include "../core/state.cuh"
#include "elements.cuh"

// All 32 lanes call. The lanes whose key is that of the caller.
GR_HD u32 match_lanes(u32 key) {
#if defined(GR_EMULATED) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700)
    u32 peers = 0;
    for (int lane = 0; lane < 32; lane++) peers |= (u32)(__shfl_sync(0xffffffffu, key, lane, 32) == key) << lane;
    return peers;
#else
    return __match_any_sync(0xffffffffu, key);
#endif
}

// All 32 lanes call. Folds the states of equal lanes, left to right, into the first of them. No block barrier.
template <class Op> GR_HD typename Op::State fold_peers(typename Op::State state, u32 peers) {
    const u32 lane = threadIdx.x % 32;
    u32 later = peers & (0xfffffffeu << lane), rank = __popc(peers & ((1u << lane) - 1));
    while (__any_sync(0xffffffffu, later != 0)) {
        const int next = later ? __popc((later & (0u - later)) - 1) : (int)lane;
        const typename Op::State other = shuffle_from(0xffffffffu, state, next, 32);
        if (later) state = Op::combine(state, other);
        later &= __ballot_sync(0xffffffffu, (rank & 1) == 0);
        rank >>= 1;
    }
    return state;
}

// Grid: rows x splits. Shared: a state for each warp and group. Writes a state for each block and group, in order.
template <class Op, class L, int V, bool Indexed, int Threads, int Loads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_warps(const __grid_constant__ Task<2> task) {
    typedef typename Op::State State;
    typedef typename Op::In In;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    State* own = (State*)GR_SHARED + warp * task.cells;
    Grouper<L> grouper(task);
    for (u64 k = lane; k < task.cells; k += 32) own[k] = Op::identity();
    __syncwarp();
    const Share<Op, L, V> share(task);
    // All lanes call, each with an element or a group that is none, and the lanes whose group is the same.
    auto take = [&](In x, u32 group, u32 peers, u64 at) {
        const bool counts = group < grouper.groups;
        peers = counts ? peers : 1u << lane;
        const bool first = (peers & ((1u << lane) - 1)) == 0;
        const State state = fold_peers<Op>(lifted<Op>(x, position_of<Indexed>(task, at)), peers);
        if (counts && first) own[group] = Op::combine(own[group], state);
        __syncwarp();
    };
    for (u64 begin = share.first + warp * 32; begin < share.last; begin += Loads * Threads) {
        Pack<In, V> x[Loads] = {};
        u32 groups[Loads][V];
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            const u64 slot = begin + i * Threads + lane;
#pragma unroll
            for (int j = 0; j < V; j++) groups[i][j] = grouper.groups;
            if (slot >= share.last) continue;
            x[i] = share.elements(slot);
            const Pack<L, V> labels = share.labels_of(slot);
#pragma unroll
            for (int j = 0; j < V; j++) groups[i][j] = grouper.of(labels.at[j]);
        }
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            u32 peers[V];
#pragma unroll
            for (int j = 0; j < V; j++) peers[j] = match_lanes(groups[i][j]);
#pragma unroll
            for (int j = 0; j < V; j++) take(x[i].at[j], groups[i][j], peers[j], (begin + i * Threads + lane) * V + j);
        }
    }
    if (warp == 0)
        for (u64 begin = share.rest; begin < share.stop; begin += 32) {
            const u64 at = begin + lane;
            const bool inside = at < share.stop;
            const u32 group = inside ? grouper.of(share.label(at)) : grouper.groups;
            take(inside ? share.element(at) : In(), group, match_lanes(group), at);
        }
    grouper.report(task);
    __syncthreads();
    for (u64 k = threadIdx.x; k < task.cells; k += Threads) {
        State state = ((const State*)GR_SHARED)[k];
        for (u64 w = 1; w < Threads / 32; w++) state = Op::combine(state, ((const State*)GR_SHARED)[w * task.cells + k]);
        ((State*)task.out)[blockIdx.x * task.cells + k] = state;
    }
}
