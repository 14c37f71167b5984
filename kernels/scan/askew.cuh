// Elements that lie one after another in memory, but not at the alignment of results, or backwards: copied by whole packs of
// memory, which then lie askew in a share.
#pragma once
#include "../core/copy.cuh"
#include "../core/line.cuh"
#include "../core/scan_task.cuh"
#include "share.cuh"

// Elements of a pack of 16 bytes the other way round.
template <int Size> GR_HD uint4 flipped(uint4 pack) {
    if (Size == 16) return pack;
    if (Size == 8) return make_uint4(pack.z, pack.w, pack.x, pack.y);
    const u32 order = Size == 4 ? 0x3210 : Size == 2 ? 0x1032 : 0x0123;
    return make_uint4(__byte_perm(pack.w, 0, order), __byte_perm(pack.z, 0, order), __byte_perm(pack.y, 0, order),
                      __byte_perm(pack.x, 0, order));
}
// Of two packs one after another the 16 bytes from `by` on, whole elements.
template <int Size> GR_HD uint4 shifted(uint4 one, uint4 two, u32 by) {
    const u32 all[8] = {one.x, one.y, one.z, one.w, two.x, two.y, two.z, two.w};
    u32 pairs[6], words[5], out[4];
#pragma unroll
    for (int i = 0; i < 6; i++) pairs[i] = by & 8 ? all[i + 2] : all[i];
#pragma unroll
    for (int i = 0; i < 5; i++) words[i] = by & 4 ? pairs[i + 1] : pairs[i];
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = Size >= 4 ? words[i] : (u32)((words[i] | (u64)words[i + 1] << 32) >> (by % 4 * 8));
    return make_uint4(out[0], out[1], out[2], out[3]);
}

const u32 BACKWARDS = 16;

// A share whose elements of an operand lie one after another in memory, forwards or backwards, at whatever alignment. Packs
// of memory are copied to where they stand in the order of positions; the first and the last, of which the share has a part
// each, to one place. Once all are there, they are shifted to the alignment of shared memory, or read as they lie.
template <bool Second, int Elements, int Size> struct Solid {
    static const int packs = Elements * Size / 16, each = 16 / Size;
    bool is_solid, backwards;
    u32 phase;       // bytes of the first pack, in the order of positions, that lie before the share
    const u8* base;  // of the first pack

    // `from` is the operand's first element.
    template <class Start> GR_HD Solid(const Scan& task, const u8* from, const Start& start) : is_solid(false) {
        const i64 step = Second ? task.step_b : task.step_a;
        if (step != Size && step != -Size) return;
        if (task.length < Elements || !start.whole) return;
        if (start.in_line == 0 || task.length - start.in_line <= Elements) return;  // no line begins or ends here, whichever the order
        is_solid = true;
        backwards = step < 0;
        const u8* element = from + (Second ? start.here.b : start.here.a) + (i64)start.in_line * step + (backwards ? Size : 0);
        phase = (u32)((u64)element % 16);
        base = element - phase;
        if (backwards) {
            base -= phase ? 0 : 16;
            phase = (16 - phase) % 16;
        }
    }
    // All lanes of a warp call.
    GR_HD void fetch(u8* to) const {
        const int lane = threadIdx.x % 32;
        const i64 ahead = backwards ? -16 : 16;
        const u8* from = base + lane * ahead;
#pragma unroll
        for (int k = 0; k < (packs + 31) / 32; k++) {
            const int pack = k * 32 + lane;
            if ((packs % 32 == 0 || pack < packs) && (pack > 0 || phase == 0)) copy_async(to + pack * 16, from);
            from += 32 * ahead;
        }
        if (phase == 0 || lane >= each) return;
        const u32 byte = lane * Size;  // of a pack: elements of the first, and of that behind the last
        const u8* source = base + byte + ((backwards ? byte < 16 - phase : byte >= phase) ? 0 : packs * ahead);
        if constexpr (Size >= 4) copy_async<Size>(to + byte, source);
        else *(typename Word<Size>::type*)(to + byte) = *(const typename Word<Size>::type*)source;
    }
    // All lanes of a warp call, when the copies are there.
    static GR_HD void straighten(u8* share, u32 askew) {
        const u32 phase = askew % 16;
        const bool backwards = askew & BACKWARDS;
        uint4* const at = (uint4*)share;
        const int lane = threadIdx.x % 32;
        const uint4 first = at[0];
        const int rounds = (packs + 31) / 32, batch = rounds % 3 == 0 ? 3 : rounds > 1 ? 2 : 1;
#pragma unroll 1
        for (int round = 0; round < rounds; round += batch) {
            uint4 one[batch], two[batch];
#pragma unroll
            for (int i = 0; i < batch; i++) {
                const int pack = (round + i) * 32 + lane;
                one[i] = at[pack < packs ? pack : 0];
                two[i] = pack + 1 < packs ? at[pack + 1] : first;
                if (backwards) one[i] = flipped<Size>(one[i]), two[i] = flipped<Size>(two[i]);
            }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < batch; i++) {
                const int pack = (round + i) * 32 + lane;
                if (pack < packs) at[pack] = shifted<Size>(one[i], two[i], phase);
            }
        }
        __syncwarp();
    }
};

// How a share lies: as it should; moved on by so many elements; or those backwards. `Lie` numbers the ways, for packs of V.
template <int V> GR_HD u32 lie_of(u32 askew, int size) { return askew % 16 / size + (askew & BACKWARDS ? V : 0); }

// A run of packs of T, taken one after another in the order of a scan. `first` is where the first one stands, `last` what stands
// behind the run.
template <class T, int V, int Lie, bool Reverse> struct AskewRun {
    static const bool backwards = Lie >= V;
    static const int shift = Lie % V;
    uint4 held;  // the pack that two ask for: the one before, or with Reverse the one after
    uint4 behind;
    static GR_HD uint4 at(const u8* from) {
        const uint4 pack = *(const uint4*)from;
        return backwards ? flipped<sizeof(T)>(pack) : pack;
    }
    GR_HD AskewRun(const u8* first, const u8* last) : held(at(first)), behind(at(last)) {
        if (Reverse) held = behind;
    }
    // The pack at `from`, after that which was taken before.
    GR_HD Pack<T, V> next(const u8* from, bool is_last) {
        Shared<T, V> both;
        if (Reverse) {
            const uint4 pack = at(from);
            both.word = shifted<sizeof(T)>(pack, held, shift * sizeof(T));
            held = pack;
        } else {
            const uint4 pack = is_last ? behind : at(from + 16);
            both.word = shifted<sizeof(T)>(held, pack, shift * sizeof(T));
            held = pack;
        }
        return both.pack;
    }
};

// This lane's packs, one after another: as they should lie, or askew. All lanes of a warp call the constructors.
template <class Work> struct StraightPacks {
    const Work& work;
    const u8 *const a, *const b;
    GR_HD StraightPacks(const Work& run) : work(run), a(run.a), b(run.b) {}
    GR_HD Pack<typename Work::In, Work::V> next(int k) const {
        return Taken<typename Work::In, Work::V>::of(a, b, work.pack_of(k));
    }
};
template <class Work, int Lie, int Run, bool Reverse> struct AskewPacks {
    typedef typename Work::In In;
    typedef typename Work::Share Share;
    const Work& work;
    const u8* const a;
    AskewRun<In, Work::V, Lie, Reverse> run;
    GR_HD AskewPacks(const Work& lane)
        : work(lane), a(lane.a),
          run(a + lane.pack_of(0) * Share::size_a, a + (lane.run_of() + 1) * Share::run % Share::elements * Share::size_a) {}
    GR_HD Pack<In, Work::V> next(int k) { return run.next(a + work.pack_of(k) * Share::size_a, k + 1 == Run); }
};
