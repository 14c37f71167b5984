// Rows of results that no alignment suits: stored in whole sectors of memory all the same, but for a stretch's ends.
#pragma once
#include "../core/pack.cuh"
#include "../core/state.cuh"

// All lanes of a warp call, each with Count results a warp's width apart, of which lane 0's first goes to `row`: they change
// lanes, so that each store of the warp begins at a multiple of what it stores.
template <int Count, class Out> GR_HD void store_turned(u8* row, const Out (&results)[Count]) {
    const u32 lane = threadIdx.x % 32, turn = (u32)((u64)row / sizeof(Out)) % 32;
    const bool own = lane >= turn;  // else what comes from the stretch before
    Out* const to = (Out*)row + lane - turn;
    Out last = shuffle_from(0xffffffffu, results[0], (int)((lane - turn) % 32), 32);
    if (own) store_once(to, last);
#pragma unroll
    for (int j = 1; j < Count; j++) {
        const Out now = shuffle_from(0xffffffffu, results[j], (int)((lane - turn) % 32), 32);
        store_once(to + j * 32, own ? now : last);
        last = now;
    }
    if (!own) store_once(to + Count * 32, last);
}
