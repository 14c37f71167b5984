// One cell a thread: partials to results, and output filled with the identity.
#pragma once
#include "../core/state.cuh"
#include "../core/task.cuh"

// Grid: any number of blocks. `rows` states, one after another, become results at `out`.
template <class Op, class Emit, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) finalise_cells(const __grid_constant__ Task<Chunks> task) {
    const typename Op::State* states = (const typename Op::State*)task.base[0].a;
    for (u64 i = (u64)blockIdx.x * Threads + threadIdx.x; i < task.rows; i += (u64)gridDim.x * Threads)
        ((typename Emit::Out*)task.out)[i] = Emit::of(states[i], task.option);
}

// Grid: any number of blocks. Sets `rows` cells at `out` to the empty reduction.
template <class Op, class Emit, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) fill_cells(const __grid_constant__ Task<Chunks> task) {
    for (u64 i = (u64)blockIdx.x * Threads + threadIdx.x; i < task.rows; i += (u64)gridDim.x * Threads)
        ((typename Emit::Out*)task.out)[i] = Emit::of(Op::identity(), task.option);
}
