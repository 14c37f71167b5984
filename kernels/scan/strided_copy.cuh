// Copies of lines that do not lie one after another in memory, or not at the alignment of the others, into shared memory and out of
// it: whole packs of a contiguous span at any alignment, packs of every second or third element, else unit by unit.
#pragma once
#include "warp_share.cuh"

// The 16 bytes from byte `by` on of two packs one after another, a funnel shift by whole elements.
template <int Size> GR_HD uint4 shifted(uint4 one, uint4 two, u32 by) {
    const u32 all[8] = {one.x, one.y, one.z, one.w, two.x, two.y, two.z, two.w};
    u32 pairs[6], words[5], out[4];
    unrolled<6>([&](int i) { pairs[i] = by & 8 ? all[i + 2] : all[i]; });
    unrolled<5>([&](int i) { words[i] = by & 4 ? pairs[i + 1] : pairs[i]; });
    unrolled<4>([&](int i) { out[i] = Size >= 4 ? words[i] : (u32)((words[i] | (u64)words[i + 1] << 32) >> (by % 4 * 8)); });
    return make_uint4(out[0], out[1], out[2], out[3]);
}

const u32 SATURATED = 1u << 31;  // in place of any number larger than a share
GR_HD u32 saturated(u64 count) { return count < SATURATED ? (u32)count : SATURATED; }

// An element's line, and its place in the line.
struct Element {
    u64 line;
    i64 in_line;
};

// The first element of a share, and how the share's lines lie.
template <int Elements> struct ShareStart {
    u64 line, in_line;
    Offset here, step, pitch;  // where its line begins; bytes from one element to the next, and from one of the share's lines
    bool inner, evenly;        // no line begins or ends in the share; its lines lie evenly apart
    bool among;                // so do all lines, and elements come before and behind it
    GR_HD ShareStart(const Scan& task, i64 first) : step{task.step_a, task.step_b, task.step_out} {
        const u64 at = first > (i64)task.lead ? (u64)first - task.lead : 0, dims = task.line.count;
        line = task.lines == 1 ? 0 : task.length > 1 ? task.by_length.of(at) : at;
        in_line = at - line * task.length;
        here = task.line.at(line);
        const Stride& last_dim = task.line.dim[dims - 1];
        pitch = {last_dim.a, last_dim.b, last_dim.c};
        evenly = first >= (i64)task.lead && first + Elements <= (i64)task.positions;  // all of its positions are elements
        inner = evenly && in_line > 0 && task.length > in_line + Elements;
        among = evenly && dims == 1 && at > 0 && at + Elements < task.positions - task.lead;
        if (!evenly || dims == 1) return;
        const u64 last = task.length > 1 ? task.by_length.of(at + Elements - 1) : at + Elements - 1;
        if (last == line + 1) {  // of two lines the second may lie anywhere
            const Offset next = task.line.at(last);
            pitch = {next.a - here.a, next.b - here.b, next.c - here.c};
        } else {
            evenly = last_dim.div.of(line) == last_dim.div.of(last);
        }
    }
};

// A word of every so many elements of words one after another, from byte Offset on.
template <int Size, int Apart, int Offset> GR_HD u32 picked(const u32* words) {
    const auto half_from = [=](int byte) {  // two of its bytes
        const int one = Offset + byte * Apart, two = Size == 1 ? one + Apart : one + 1;  // where they lie
        return __byte_perm(words[one / 4], words[two / 4], one % 4 | (4 + two % 4) << 4);
    };
    return __byte_perm(half_from(0), half_from(2), 0x5410);
}

// A share whose elements of an operand lie one after another in memory, at whatever alignment, or every second or third of elements
// of one or two bytes. Aligned packs of memory are copied to shared memory; the first and the last, of which the share has a part
// each, to one place. Once all are there, they are shifted to the alignment of shared memory. Or those elements are picked that are
// the operand's: of wider ones asynchronous copies of each are faster.
template <int Elements, int Size> struct SteppedSpan {
    static const int packs = Elements * Size / 16, each = 16 / Size;
    u32 apart;       // elements from one to the next; 0: the share is no such one
    u32 phase;       // bytes of the first pack that lie before the share
    const u8* base;  // where the first pack lies

    // `line`: where the share's line begins in the operand, whose elements are `step` bytes apart, and lines of `length` of them
    // `pitch`. Elements come before and behind the share's, so that all of its packs are the operand's.
    GR_HD SteppedSpan(const ShareStart<Elements>& start, const u8* line, i64 step, i64 length, i64 pitch) : apart(0) {
        const u8* element = line + (i64)start.in_line * step;
        phase = (u32)((u64)element % 16);
        base = element - phase;
        const bool together = start.inner || (start.among && length * step == pitch);
        for (int n = 1; n <= (Size <= 2 ? 3 : 1); n++)
            if (together && step == n * Size && (n == 1 || phase < n * Size)) apart = n;
    }
    // All lanes of a warp call. Returns by how many bytes elements are shifted in shared memory.
    GR_HD u32 fetch(u8* to) const {
        if constexpr (Size <= 2)
            if (apart > 1) return apart == 2 ? fetch_picked<2, 0>(to) : fetch_picked<3, 0>(to);
        const int lane = threadIdx.x % 32;
        const u8* from = base + lane * 16;
        unrolled<(packs + 31) / 32>([&](int k) {
            const int pack = k * 32 + lane;
            if ((packs % 32 == 0 || pack < packs) && (pack > 0 || phase == 0)) copy_async(to + pack * 16, from);
            from += 32 * 16;
        });
        if (phase == 0 || lane >= each) return phase;
        const u32 byte = lane * Size;  // in a pack: elements of the first, and of the one behind the last
        copy_word<Size>(to + byte, base + byte + (byte >= phase ? 0 : packs * 16));
        return phase;
    }
    template <int Apart, int Offset> GR_HD u32 fetch_picked(u8* to) const {
        if constexpr (Offset + Size < Apart * Size)
            if (phase != Offset) return fetch_picked<Apart, Offset + Size>(to);
        const int lane = threadIdx.x % 32;
        const u8* from = base + lane * 16 * Apart;
#pragma unroll 2
        for (int pack = lane; pack < packs; pack += 32, from += 32 * 16 * Apart) {
            u32 words[4 * Apart];
            unrolled<Apart>([&](int i) {
                const Pack<u32, 4> four = take_pack<u32, 4>(from + 16 * i);
                unrolled<4>([&](int w) { words[4 * i + w] = four.at[w]; });
            });
            Pack<u32, 4> out;
            unrolled<4>([&](int i) { out.at[i] = picked<Size, Apart, Offset>(words + i * Apart); });
            put_pack<u32, 4>(to + pack * 16, out);
        }
        return 0;
    }
    // All lanes of a warp call, once the copies have arrived. Shifts the share to the alignment of shared memory.
    static GR_HD void realign(u8* share, u32 phase) {
        uint4* const at = (uint4*)share;
        const int lane = threadIdx.x % 32;
        const uint4 first = at[0];
        const int rounds = (packs + 31) / 32, batch = rounds % 3 == 0 ? 3 : rounds > 1 ? 2 : 1;
#pragma unroll 1
        for (int round = 0; round < rounds; round += batch) {
            uint4 one[batch], two[batch];
            unrolled<batch>([&](int i) {
                const int pack = (round + i) * 32 + lane;
                one[i] = at[pack < packs ? pack : 0];
                two[i] = pack + 1 < packs ? at[pack + 1] : first;
            });
            __syncwarp();
            unrolled<batch>([&](int i) {
                const int pack = (round + i) * 32 + lane;
                if (pack < packs) at[pack] = shifted<Size>(one[i], two[i], phase);
            });
        }
        __syncwarp();
    }
};

// Below, shares are copied by copy units: elements that lie together in memory, as many as are aligned wherever lines begin.

// Finds the copy units, of E elements each, of a share from position `first` on.
template <int Elements, int E> struct CopyUnits {
    static const int rounds = (Elements / E + 31) / 32;  // rounds of the warp in which all units are taken, one a lane
    const Scan& task;
    const ShareStart<Elements>& start;
    i64 first, begin;  // the first position of the share; that of its first element
    GR_HD CopyUnits(const Scan& scan, i64 from, const ShareStart<Elements>& at)
        : task(scan), start(at), first(from), begin(from > (i64)scan.lead ? from : (i64)scan.lead) {}
    // True where this lane has a unit in a round.
    GR_HD bool has(int round) const {
        const int all = Elements / E;
        return all % 32 == 0 ? round < rounds : round * 32 + (int)threadIdx.x % 32 < all;
    }
    // Finds this lane's unit of a round: elements from the share's start, or -1 where there is none.
    GR_HD int find(int round, Element& element) const {
        const int at = (round * 32 + (int)threadIdx.x % 32) * E;
        const i64 position = first + at;
        if (at >= Elements || position < (i64)task.lead || position >= (i64)task.positions) return -1;
        const u32 on = (u32)(position - begin);
        if (task.length >> 30) {  // longer than any share
            const u64 place = start.in_line + on;
            element = place < task.length ? Element{start.line, (i64)place} : Element{start.line + 1, (i64)(place - task.length)};
        } else {
            const u32 place = (u32)start.in_line + on, lines = (u32)((u64)place * task.magic >> task.shift);
            element = {start.line + lines, (i64)(place - lines * (u32)task.length)};
        }
        return at;
    }
};

// The addresses of a lane's units, 32 units apart, where lines lie evenly apart.
struct UnitCursor {
    u8* at;
    i64 ahead, wrap;         // bytes to the next unit; bytes more where a line ends before it
    u32 left, rest, length;  // elements to the line's end; elements to the next unit, less whole lines; elements of a line
    GR_HD u8* next() {
        u8* now = at;
        const bool ends = left <= rest;
        at += ends ? ahead + wrap : ahead;
        left += (ends ? length : 0) - rest;
        return now;
    }
};

// All lanes of a warp call, with a cursor each. Copies a share's units into shared memory.
template <int Unit, class Units> GR_HD void fetch_each(const Units& units, UnitCursor cursor, u8* to) {
    typedef typename Word<Unit>::type W;
    const int batch = Unit < 4 ? 10 : 1, together = Unit < 4 ? 1 : 4;  // batch: loads in flight, where they are not asynchronous
    u8* const target = to + threadIdx.x % 32 * Unit;
#pragma unroll together
    for (int round = 0; round < units.rounds; round += batch) {
        W words[batch];
#pragma unroll
        for (int i = 0; i < batch; i++) {
            if (!units.has(round + i)) break;
            if constexpr (Unit >= 4) copy_async<Unit>(target + round * 32 * Unit, cursor.next());
            else words[i] = *(const W*)cursor.next();
        }
        if constexpr (Unit < 4)
            unrolled<batch>([&](int i) { if (units.has(round + i)) *(W*)(target + (round + i) * 32 * Unit) = words[i]; });
    }
}

// All lanes of a warp call, for a share whose lines lie anywhere. For each of a lane's units calls copy(elements from the share's
// start, bytes from the array's first element).
template <i64 Offset::*Of, class Units, class Copy> GR_HD void for_each_unit(const Units& units, Copy copy) {
    Element element = {};
#pragma unroll 1
    for (int round = 0; round < units.rounds; round++) {
        const int at = units.find(round, element);
        if (at >= 0) copy(at, units.task.line.at(element.line).*Of + element.in_line * (units.start.step.*Of));
    }
}
// The cursor of this lane's units; 32 units have `hop` elements.
template <i64 Offset::*Of, class Units> GR_HD UnitCursor cursor_of(const Units& units, u8* first, u32 hop) {
    const Scan& task = units.task;
    const i64 step = units.start.step.*Of, pitch = units.start.pitch.*Of;
    Element element = {};
    units.find(0, element);
    const u32 lines = task.length >> 30 ? 0 : (u32)((u64)hop * task.magic >> task.shift), rest = hop - lines * (u32)task.length;
    return {first + units.start.here.*Of + (i64)(element.line - units.start.line) * pitch + element.in_line * step,
            (i64)lines * pitch + (i64)rest * step, pitch - (i64)task.length * step,
            saturated(task.length - (u64)element.in_line), rest, saturated(task.length)};
}

// All lanes of a warp call. Copies a share's elements of an operand, whose first one is `from`, into shared memory. Returns by how
// many bytes they are shifted there.
template <i64 Offset::*Of, int Size, int Unit = 16, int Elements>
GR_HD u32 fetch_units(const Scan& task, u64 unit, u8* to, const u8* from, i64 first, const ShareStart<Elements>& start) {
    if constexpr (Unit == 16) if (unit != 16) {
        const SteppedSpan<Elements, Size> span(start, from + start.here.*Of, start.step.*Of, (i64)task.length, start.pitch.*Of);
        if (span.apart) return span.fetch(to);
    }
    if constexpr (Unit > Size)
        if (unit != Unit) return fetch_units<Of, Size, Unit / 2>(task, unit, to, from, first, start);
    const CopyUnits<Elements, Unit / Size> units(task, first, start);
    if (start.evenly) {
        fetch_each<Unit>(units, cursor_of<Of>(units, (u8*)from, 32 * Unit / Size), to);
        return 0;
    }
    for_each_unit<Of>(units, [&](int at, i64 offset) { copy_word<Unit>(to + at * Size, from + offset); });
    return 0;
}

// All lanes of a warp call. Copies a share's results out of shared memory.
template <int Elements, int Size, int Unit = 16>
GR_HD void drain_units(const Scan& task, u64 unit, const u8* from, u8* to, i64 first, const ShareStart<Elements>& start) {
    if constexpr (Unit > Size)
        if (unit != Unit) return drain_units<Elements, Size, Unit / 2>(task, unit, from, to, first, start);
    typedef typename Word<Unit>::type W;
    const CopyUnits<Elements, Unit / Size> units(task, first, start);
    const auto copy = [&](int at, i64 offset) { __stcs((W*)(to + offset), *(const W*)(from + at * Size)); };
    if (!start.evenly) return for_each_unit<&Offset::c>(units, copy);
    UnitCursor hops = cursor_of<&Offset::c>(units, to, 32 * Unit / Size);
#pragma unroll 2
    for (int round = 0; round < units.rounds; round++)
        if (units.has(round)) __stcs((W*)hops.next(), *(const W*)(from + (round * 32 + threadIdx.x % 32) * Unit));
}
