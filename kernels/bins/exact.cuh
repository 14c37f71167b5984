// Sums of floats up to binary32 by atomics, exact and hence the same in any order: a group's sum is a row of 64-bit limbs,
// `slots` bits of the exponent apart, and a float is an integer in the one limb that its exponent names (Kulisch's
// accumulator, cut into words that cannot overflow). Limb l of group k of a row lies at (row x limbs + l) x groups + k.
#pragma once
#include "../monoid/sums.cuh"
#include "elements.cuh"

const u32 SEEN_NAN = 1, SEEN_PLUS = 2, SEEN_MINUS = 4;

template <class T> GR_HD f32 widened(T x) { return to_f32(x); }
GR_HD f32 widened(f32 x) { return x; }

// Grid: rows x splits. `chunks` limbs at `out` and a word of flags for each row and group at `partials`, all zero.
template <class Op, class L, int V, bool Indexed, int Threads, int Loads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_exact(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    const Share<Op, L, V> share(task);
    u64* limbs = (u64*)task.out + share.row * task.chunks * task.cells;
    u32* flags = (u32*)task.partials + share.row * task.cells;
    Grouper<L> grouper(task);
    auto take = [&](In x, L label) {
        const u32 k = grouper.of(label);
        if (k >= grouper.groups) return;
        const u32 bits = bit_cast<u32>(widened(x)), exponent = bits >> 23 & 255, fraction = bits & 0x7fffffu;
        const bool negative = bits >> 31;
        if (exponent == 255) {
            atomicOr(flags + k, fraction ? SEEN_NAN : negative ? SEEN_MINUS : SEEN_PLUS);
            return;
        }
        const i64 number = exponent ? fraction | 0x800000u : fraction;
        if (!number) return;
        const u32 place = exponent ? exponent - 1 : 0, limb = place / (u32)task.slots;
        const i64 shifted = number << (place - limb * (u32)task.slots);
        atomicAdd(limbs + limb * task.cells + k, (u64)(negative ? -shifted : shifted));
    };
    for (u64 slot = share.first + threadIdx.x; slot < share.last; slot += Threads) {
        const Pack<In, V> x = share.elements(slot);
        const Pack<L, V> labels = share.labels_of(slot);
#pragma unroll
        for (int j = 0; j < V; j++) take(x.at[j], labels.at[j]);
    }
    for (u64 at = share.rest + threadIdx.x; at < share.stop; at += Threads) take(share.element(at), share.label(at));
    grouper.report(task);
}

GR_HD f64 power_of_two(int exponent) { return bit_cast<f64>((u64)(exponent + 1023) << 52); }

// Grid: any number of blocks. A sum in binary64 for each row and group, from base[0].a (limbs) and base[0].b (flags).
template <class Op, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_round(const __grid_constant__ Task<2> task) {
    const u64 cells = task.rows * task.cells;
    for (u64 cell = (u64)blockIdx.x * Threads + threadIdx.x; cell < cells; cell += (u64)gridDim.x * Threads) {
        const u64 row = cell / task.cells, k = cell % task.cells;
        const i64* limbs = (const i64*)task.base[0].a + row * task.chunks * task.cells + k;
        Twofold sum = Twofold();
        for (u64 l = 0; l < task.chunks; l++) {
            const i64 limb = limbs[l * task.cells];
            const int place = (int)(l * task.slots) - 149;
            add(sum, (f64)(u32)limb * power_of_two(place));
            add(sum, (f64)(limb >> 32) * power_of_two(place + 32));
        }
        f64 total = value_of(sum);
        const u32 seen = ((const u32*)task.base[0].b)[cell];
        const f64 infinity = bit_cast<f64>(0x7ff0000000000000ull);
        if (seen & SEEN_PLUS) total = infinity;
        if (seen & SEEN_MINUS) total = -infinity;
        if (seen & SEEN_NAN || (seen & SEEN_PLUS && seen & SEEN_MINUS)) total = bit_cast<f64>(0x7ff8000000000000ull);
        ((f64*)task.out)[cell] = total;
    }
}
