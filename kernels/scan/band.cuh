// Rows of a strip of columns, on their way through shared memory.
#pragma once
#include "../core/copy.cuh"
#include "../core/scan_task.cuh"
#include "../core/shared.cuh"
#include "share.cuh"

// Walks down one column of rows in shared memory. Places there are bytes from its start.
struct Track {
    u32 at;
    i32 pitch;
    u32 phase, turn;
    template <bool Turning> GR_HD const u8* next() {
        const u32 now = at + (Turning ? phase : 0);
        at += pitch;
        if (Turning) phase = (phase + turn) & 15;
        return GR_SHARED + now;
    }
};

// Rows of which the first lies at `from`, in memory and, from `share` on, in shared memory.
struct Band {
    const u8* from;
    u32 rows, bytes;  // of a row
    u32 share;

    // From the first of all rows in memory to the last.
    GR_HD i64 reach(const Bands& bands) const { return (i64)(rows - 1) * bands.step; }
    // In order of memory, the first byte of all rows.
    GR_HD const u8* lowest(const Bands& bands) const { return bands.step < 0 ? from + reach(bands) : from; }

    // From row `first` on, at a byte of it. Where rows turn not, their phase is part of the place.
    GR_HD Track track(const Bands& bands, u32 first, u32 byte) const {
        const i32 step = (i32)bands.step;  // what matters of it here
        if (bands.joined) {
            const i32 up = step < 0 ? (i32)(rows - 1) * -step : 0;  // of the first row, above the lowest
            const u32 phase = ((u32)(u64)from - (u32)up) & 15;
            return {share + phase + (u32)(up + (i32)first * step) + byte, step, 0, 0};
        }
        const u32 phase = ((u32)(u64)from + first * (u32)step) & 15, turn = (u32)bands.turn;
        return {share + first * (u32)bands.pitch + byte + (turn ? 0 : phase), (i32)bands.pitch, phase, turn};
    }

    // All lanes of a warp call. `first` is the operand's first element.
    GR_HD void fetch(const Bands& bands, const u8* first) const {
        if (rows == 0) return;
        const u8 *begin = lowest(bands), *end = begin + (bands.step < 0 ? -reach(bands) : reach(bands)) + bytes;
        const u8 *low = first + bands.low, *high = first + bands.high;
        const bool inside = begin - low >= 15 && high - end >= 15;
        if (bands.joined) {
            if (inside) fetch_joined<true>(begin, end, low, high);
            else fetch_joined<false>(begin, end, low, high);
        } else {
            if (inside) fetch_rows<true>(bands, low, high);
            else fetch_rows<false>(bands, low, high);
        }
    }
    template <bool Inside> GR_HD void fetch_joined(const u8* begin, const u8* end, const u8* low, const u8* high) const {
        const u32 phase = (u32)((u64)begin % 16), lane = threadIdx.x % 32;
        const u8* pack = begin - phase + lane * 16;
        u32 to = share + lane * 16;
#pragma unroll 4
        for (i32 left = (i32)(end - pack); left > 0; left -= 512) {
            fetch_pack<Inside>(to, pack, begin, end, low, high);
            pack += 512;
            to += 512;
        }
    }
    template <bool Inside> GR_HD void fetch_rows(const Bands& bands, const u8* low, const u8* high) const {
        const u32 lane = threadIdx.x % 32, team = (u32)bands.team, row = lane >> team, pack = (lane & ((1u << team) - 1)) * 16;
        const u32 rows_at_once = 32u >> team;
        const u8* begin = from + (i64)row * bands.step;
        u32 to = share + row * (u32)bands.pitch + pack;
#pragma unroll 4
        for (i32 left = (i32)rows - (i32)row; left > 0; left -= rows_at_once) {
            const u32 phase = (u32)((u64)begin % 16);
            if (pack < phase + bytes) fetch_pack<Inside>(to, begin - phase + pack, begin, begin + bytes, low, high);
            begin += (i64)rows_at_once * bands.step;
            to += rows_at_once * (u32)bands.pitch;
        }
    }
    // One lane calls. Copies aligned 16 bytes where the operand owns them all; of others those from `begin` to `end`.
    template <bool Inside>
    static GR_HD void fetch_pack(u32 to, const u8* pack, const u8* begin, const u8* end, const u8* low, const u8* high) {
        if (Inside || (pack >= low && pack + 16 <= high)) copy_async(GR_SHARED + to, pack);
        else
#pragma unroll 1
            for (int i = 0; i < 16; i++)
                if (pack + i >= begin && pack + i < end) GR_SHARED[to + i] = pack[i];
    }
};

// All lanes of a warp call. Writes bytes that lie one after another, those of shared memory where the address modulo 16 has them.
GR_HD void drain_bytes(u32 share, u8* begin, u32 bytes) {
    const u8* end = begin + bytes;
    const u32 lane = threadIdx.x % 32;
    u8* pack = begin - (u64)begin % 16 + lane * 16;
    for (u32 from = share + lane * 16; pack < end; pack += 512, from += 512) {
        if (pack >= begin && pack + 16 <= end) __stcs((uint4*)pack, *(const uint4*)(GR_SHARED + from));
        else
#pragma unroll 1
            for (int i = 0; i < 16; i++)
                if (pack + i >= begin && pack + i < end) pack[i] = GR_SHARED[from + i];
    }
}
