// Whether any byte up to each was nonzero, or all were: four to a word.
#pragma once
#include "../monoid/logical.cuh"
#include "pack.cuh"

template <bool All, int V> struct LogicScan {
    static const bool exists = V % 4 == 0;
    u32 found;  // 1 in every byte once there was what decides: a true byte, or a false one
    GR_HD LogicScan(boolean state, const f64*) : found((state.byte != 0) != All ? 0x01010101u : 0) {}
    GR_HD boolean now() const { return {(u8)((found & 1) != All)}; }
    GR_HD void run(const Pack<boolean, V>& from, Pack<boolean, V>& to) {
#pragma unroll
        for (int w = 0; w < V / 4; w++) {
            const u32 tops = zeros<1>(((const u32*)&from)[w]);  // the top bit of every zero byte
            const u32 own = (All ? tops : ~tops) >> 7 & 0x01010101u;
            found |= own * 0x01010101u;  // each byte's own and all before it, counted: 4 at most
            const u32 seen = (found | found >> 1 | found >> 2) & 0x01010101u;
            ((u32*)&to)[w] = All ? seen ^ 0x01010101u : seen;
            found = __byte_perm(seen, 0, 0x3333);
        }
    }
};
template <int V> struct PackScan<Any<boolean>, Final<Any<boolean>, boolean>, V> : LogicScan<false, V> {
    using LogicScan<false, V>::LogicScan;
};
template <int V> struct PackScan<All<boolean>, Final<All<boolean>, boolean>, V> : LogicScan<true, V> {
    using LogicScan<true, V>::LogicScan;
};
