// Rows of a strip of columns, on their way through shared memory.
#pragma once
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

// Rows in memory, the first of which lies at `from`, and their copies in shared memory from `share` on.
struct RowStaging {
    const u8* from;
    u32 rows, bytes;  // of a row
    u32 share;

    // Bytes in memory from the first row to the last.
    GR_HD i64 reach(const RowLayout& layout) const { return (i64)(rows - 1) * layout.step; }
    // The lowest byte of all rows in memory.
    GR_HD const u8* lowest(const RowLayout& layout) const { return layout.step < 0 ? from + reach(layout) : from; }

    // The cursor from a column of row `first` on. Where all rows have one phase, it is part of the position.
    GR_HD ColumnCursor cursor(const RowLayout& layout, u32 first, u32 column, i32 columns, i32 more) const {
        const i32 step = (i32)layout.step, column_stride = columns * (i32)layout.column_step;  // 32 bits are enough here
        const u32 byte = column * (u32)layout.column_step;
        if (layout.joined) {
            const i32 up = step < 0 ? (i32)(rows - 1) * -step : 0;  // bytes from the lowest row to the first
            const u32 phase = ((u32)(u64)from - (u32)up) & 15;
            return {share + phase + (u32)(up + (i32)first * step) + byte, step, 0, 0, column_stride, more};
        }
        const u32 phase = ((u32)(u64)from + first * (u32)step) & 15, phase_step = (u32)layout.phase_step;
        return {share + first * (u32)layout.pitch + byte + (phase_step ? 0 : phase), (i32)layout.pitch,
                phase_step ? phase : 0, phase_step, column_stride, more};
    }

    // All lanes of a warp call. `first` is the operand's first element. Even: rows that lie alike are copied in fewer steps.
    template <bool Even = false> GR_HD void fetch(const RowLayout& layout, const u8* first) const {
        if (rows == 0) return;
        const u8 *begin = lowest(layout), *end = begin + (layout.step < 0 ? -reach(layout) : reach(layout)) + bytes;
        const u8 *low = first + layout.low, *high = first + layout.high;
        const bool inside = begin - low >= 15 && high - end >= 15;
        if (layout.joined) {
            if (inside) fetch_joined<true>(begin, end, low, high);
            else fetch_joined<false>(begin, end, low, high);
        } else {
            if (inside) fetch_rows<true, Even>(layout, low, high);
            else fetch_rows<false, false>(layout, low, high);
        }
    }
    template <bool Inside> GR_HD void fetch_joined(const u8* begin, const u8* end, const u8* low, const u8* high) const {
        const u32 phase = (u32)((u64)begin % 16), lane = threadIdx.x % 32;
        const u8* pack = begin - phase + lane * 16;
        u32 to = share + lane * 16;
#pragma unroll 4
        for (i32 left = (i32)(end - pack); left > 0; left -= 512, pack += 512, to += 512)
            fetch_pack<Inside>(to, pack, begin, end, low, high);
    }
    template <bool Inside, bool Even> GR_HD void fetch_rows(const RowLayout& layout, const u8* low, const u8* high) const {
        const u32 packs = (u32)layout.pitch / 16, hop = (u32)layout.hop, skip = 32 - hop * packs;
        if (Even && skip == 0 && layout.phase_step == 0) fetch_even(layout, packs, hop);
        else if (skip == 0) fetch_any<Inside, false>(layout, low, high, packs, hop, 0);
        else fetch_any<Inside, true>(layout, low, high, packs, hop, skip);
    }
    // Where rows lie alike, a lane has the same pack of every `hop`-th row.
    GR_HD void fetch_even(const RowLayout& layout, u32 packs, u32 hop) const {
        const u32 lane = threadIdx.x % 32, row = lane * (u32)layout.inverse >> 16, pack = lane - row * packs;
        const u8* at = from + (i64)row * layout.step;
        const u32 phase = (u32)((u64)at % 16);
        if (pack * 16 >= phase + bytes) return;
        at += (i64)(pack * 16) - (i64)phase;
        u8* to = GR_SHARED + share + lane * 16;
        const i64 ahead = (i64)hop * layout.step;
#pragma unroll 4
        for (i32 left = (i32)(rows - row); left > 0; left -= hop, at += ahead, to += 512) copy_async(to, at);
    }
    // From a lane's pack to its next one there are `hop` rows and `skip` packs.
    template <bool Inside, bool Skips>
    GR_HD void fetch_any(const RowLayout& layout, const u8* low, const u8* high, u32 packs, u32 hop, u32 skip) const {
        const u32 lane = threadIdx.x % 32, row = lane * (u32)layout.inverse >> 16;
        const i64 ahead = (i64)hop * layout.step;
        i32 left = (i32)rows - (i32)row;
        u32 pack = lane - row * packs, to = share + lane * 16;
        const u8* begin = from + (i64)row * layout.step;
#pragma unroll 4
        for (; left > 0; to += 512) {
            const u32 phase = (u32)((u64)begin % 16);
            if (pack * 16 < phase + bytes) fetch_pack<Inside>(to, begin - phase + pack * 16, begin, begin + bytes, low, high);
            const bool wraps = Skips && pack + skip >= packs;
            begin += ahead + (wraps ? layout.step : 0);
            left -= hop + wraps;
            if (Skips) pack += skip - (wraps ? packs : 0);
        }
    }
    // Any lane calls. Copies 16 aligned bytes where the operand owns them all, else those from `begin` to `end`.
    template <bool Inside>
    static GR_HD void fetch_pack(u32 to, const u8* pack, const u8* begin, const u8* end, const u8* low, const u8* high) {
        if (Inside || (pack >= low && pack + 16 <= high)) copy_async(GR_SHARED + to, pack);
        else
#pragma unroll 1
            for (int i = 0; i < 16; i++)
                if (pack + i >= begin && pack + i < end) GR_SHARED[to + i] = pack[i];
    }
};
