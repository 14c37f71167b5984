// Rows of a strip of columns, on their way through shared memory.
#pragma once
#include "../core/copy.cuh"
#include "../core/scan_task.cuh"
#include "../core/shared.cuh"
#include "warp_share.cuh"

// Goes down one column of rows in shared memory. Positions are bytes from the start of shared memory.
struct ColumnCursor {
    u32 at;
    i32 pitch;
    u32 phase, phase_step;
    i32 column_stride;  // bytes to a lane's next column
    i32 more;           // how many of its columns behind the first exist
    template <bool PhaseVaries> GR_HD const u8* next() {
        const u32 now = at + (PhaseVaries ? phase : 0);
        at += pitch;
        if (PhaseVaries) phase = (phase + phase_step) & 15;
        return GR_SHARED + now;
    }
    // Bytes from a lane's first column to another, or to the last that exists: no byte is read that may still be copied.
    GR_HD i32 next_column(int j) const { return (j < more ? j : more) * column_stride; }
};

// All lanes of a warp call. Writes bytes that lie one after another, from shared memory, where they lie at the same address modulo
// 16: whole packs of 16, and at either end a byte a lane.
GR_HD void drain_bytes(u32 share, u8* begin, u32 bytes) {
    const u32 phase = (u32)((u64)begin % 16), end = phase + bytes, lane = threadIdx.x % 32;
    const u32 low = (phase + 15) / 16 * 16, high = end / 16 * 16;  // of whole packs, counted from where a pack begins
    u8* const to = begin - phase;
#pragma unroll 4
    for (u32 at = low + lane * 16; at < high; at += 512) __stcs((uint4*)(to + at), *(const uint4*)(GR_SHARED + share + at));
    const bool is_tail = lane >= 16;
    const u32 at = is_tail ? high + lane - 16 : lane;
    if (is_tail ? at >= low && at < end : at >= phase && at < low && at < end) to[at] = GR_SHARED[share + at];
}

// Rows in memory, the first of which lies at `from`, and their copies in shared memory from `share` on.
struct RowStaging {
    const u8* from;
    u32 rows, bytes;  // of a row
    u32 share;

    // Bytes in memory from the first row to the last.
    GR_HD i64 reach(const RowLayout& layout) const { return (i64)(rows - 1) * layout.step; }
    // The lowest byte of all rows in memory.
    GR_HD const u8* lowest(const RowLayout& layout) const { return layout.step < 0 ? from + reach(layout) : from; }

    // Bytes by which a row lies behind a multiple of 16 in memory.
    GR_HD u32 phase(const RowLayout& layout, u32 row) const { return ((u32)(u64)from + row * (u32)layout.step) & 15; }
    // Where a row begins in shared memory.
    GR_HD u32 place(const RowLayout& layout, u32 row) const {
        if (!layout.joined) return share + row * (u32)layout.pitch + phase(layout, row);
        const u32 last = layout.step < 0 ? rows - 1 : 0;  // the lowest row
        return share + phase(layout, last) + (row - last) * (u32)layout.step;
    }
    // The cursor from a column of row `first` on. Where all rows have one phase, it is part of the position.
    GR_HD ColumnCursor cursor(const RowLayout& layout, u32 first, u32 column, i32 columns, i32 more) const {
        const u32 at = place(layout, first) + column * (u32)layout.column_step, phase_step = (u32)layout.phase_step;
        const i32 column_stride = columns * (i32)layout.column_step;  // 32 bits are enough here
        if (layout.joined || phase_step == 0)
            return {at, (i32)(layout.joined ? layout.step : layout.pitch), 0, 0, column_stride, more};
        return {at - phase(layout, first), (i32)layout.pitch, phase(layout, first), phase_step, column_stride, more};
    }

    // All lanes of a warp call. `first` is the operand's first element. Even: rows that lie alike are copied in fewer steps.
    // Kernels that look back are faster without: H200, sums down (32768, 32767) 0.92 of a copy and 0.93.
    template <bool Even = false> GR_HD void fetch(const RowLayout& layout, const u8* first) const {
        if (rows == 0) return;
        const u8 *begin = lowest(layout), *end = begin + (layout.step < 0 ? -reach(layout) : reach(layout)) + bytes;
        const u8 *low = first + layout.low, *high = first + layout.high;
        const bool inside = begin - low >= 15 && high - end >= 15;
        if (inside) fetch_packs_of<true, Even>(layout, begin, end, low, high);
        else fetch_packs_of<false, false>(layout, begin, end, low, high);
    }
    template <bool Inside, bool Even>
    GR_HD void fetch_packs_of(const RowLayout& layout, const u8* begin, const u8* end, const u8* low, const u8* high) const {
        const auto fetch = [&](u32 to, const u8* row, u32, u32 at) { fetch_pack<Inside>(to, row + at, low, high); };
        if (layout.joined) {
            u32 at = threadIdx.x % 32 * 16;
            begin -= (u64)begin % 16;
#pragma unroll 4
            for (i32 left = (i32)(end - begin - at); left > 0; left -= 512, at += 512) fetch(share + at, begin, 0, at);
        } else if ((u32)layout.hop * (u32)layout.pitch != 32 * 16) {
            each_pack<true>(layout, fetch);
        } else if (Even && layout.phase_step == 0) {
            fetch_even(layout);
        } else {
            each_pack<false>(layout, fetch);
        }
    }
    // Where rows lie alike, a lane has the same pack of every `hop`-th row.
    GR_HD void fetch_even(const RowLayout& layout) const {
        const u32 packs = (u32)layout.pitch / 16, hop = (u32)layout.hop;
        const u32 lane = threadIdx.x % 32, row = lane * (u32)layout.inverse >> 16, pack = lane - row * packs;
        const u8* at = from + (i64)row * layout.step;
        const u32 phase = (u32)((u64)at % 16);
        if (pack * 16 >= phase + bytes) return;
        at += (i64)(pack * 16) - (i64)phase;
        u8* to = GR_SHARED + share + lane * 16;
        const i64 ahead = (i64)hop * layout.step;
#pragma unroll 4
        for (i32 left = (i32)(rows - row); left > 0; left -= hop) {
            copy_async(to, at);
            at += ahead;
            to += 512;
        }
    }
    // All lanes of a warp call. Calls visit(place in shared memory, the row's first pack in memory, its phase, bytes from there) for
    // each pack of each row. From a lane's pack to its next one there are `hop` rows and, where it Skips, some packs.
    template <bool Skips, class Visit> GR_HD void each_pack(const RowLayout& layout, const Visit& visit) const {
        const u32 packs = (u32)layout.pitch / 16, hop = (u32)layout.hop, skip = 32 - hop * packs;
        const u32 lane = threadIdx.x % 32, row = lane * (u32)layout.inverse >> 16;
        const i64 ahead = (i64)hop * layout.step;
        i32 left = (i32)rows - (i32)row;
        u32 pack = lane - row * packs, to = share + lane * 16;
        const u8* begin = from + (i64)row * layout.step;
#pragma unroll 4
        for (; left > 0; to += 512) {
            const u32 phase = (u32)((u64)begin % 16);
            if (pack * 16 < phase + bytes) visit(to, begin - phase, phase, pack * 16);
            const bool wraps = Skips && pack + skip >= packs;
            begin += ahead + (wraps ? layout.step : 0);
            left -= hop + wraps;
            if (Skips) pack += skip - (wraps ? packs : 0);
        }
    }
    // Any lane calls. Copies 16 aligned bytes, of which the operand owns those from `low` to below `high`.
    template <bool Inside> static GR_HD void fetch_pack(u32 to, const u8* pack, const u8* low, const u8* high) {
        if (Inside || (pack >= low && pack + 16 <= high)) copy_async(GR_SHARED + to, pack);
        else
#pragma unroll 1
            for (int i = 0; i < 16; i++)
                if (pack + i >= low && pack + i < high) GR_SHARED[to + i] = pack[i];
    }
    // All lanes of a warp call. Writes rows of results, of elements of so many bytes, up to the last that the array owns.
    template <int Size> GR_HD void drain(const RowLayout& layout, const u8* first) const {
        typedef typename Word<Size>::type W;
        const i64 all = reach(layout) + bytes, owned = first + layout.high - from;
        if (layout.joined) return drain_bytes(share, (u8*)from, (u32)(all < owned ? all : owned));
        each_pack<true>(layout, [&](u32 place, const u8* begin, u32 phase, u32 at) {
            u8* const to = (u8*)begin + at;
            const u32 low = at < phase ? phase - at : 0;
            i32 end = (i32)(phase + bytes - at);
            if (all > owned && to + end > from + owned) end = (i32)(from + owned - to);
            if (low == 0 && end >= 16) return __stcs((uint4*)to, *(const uint4*)(GR_SHARED + place));
#pragma unroll 1
            for (i32 byte = (i32)low; byte < 16 && byte < end; byte += Size)
                *(W*)(to + byte) = *(const W*)(GR_SHARED + place + byte);
        });
    }
};
