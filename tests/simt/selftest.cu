// Small kernels that the shim is tried on: each uses one thing the reduction kernels rely on.

typedef unsigned long long u64;

struct SumTask {
    const int* in;
    int* out;
    int* partials;
    unsigned* ticket;
    u64 size;
};

inline int own_sum(const SumTask& task) {
    int sum = 0;
    for (u64 i = blockIdx.x * blockDim.x + threadIdx.x; i < task.size; i += gridDim.x * blockDim.x) sum += task.in[i];
    return sum;
}

// All threads call. A tree in shared memory. Result valid in thread 0. Uses one int a thread.
inline int tree_sum(int sum) {
    int* each = (int*)GR_SHARED;
    each[threadIdx.x] = sum;
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();  // tree
        if (threadIdx.x < half) each[threadIdx.x] += each[threadIdx.x + half];
    }
    return each[0];
}

// Grid: one block a part of the elements; out[block] is its sum.
__global__ void tree_blocks(const SumTask task) {
    int sum = tree_sum(own_sum(task));
    if (threadIdx.x == 0) task.out[blockIdx.x] = sum;
}

// The same through warp shuffles, the warps' sums through shared memory.
__global__ void shuffle_blocks(const SumTask task) {
    int* each = (int*)GR_SHARED;
    int sum = own_sum(task);
    for (int down = 16; down; down /= 2) sum += __shfl_down_sync(0xffffffffu, sum, down, 32);
    if (threadIdx.x % 32 == 0) each[threadIdx.x / 32] = sum;
    __syncthreads();  // publish
    int total = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) total += each[w];
    __syncthreads();  // reuse
    each[threadIdx.x] = total + (int)threadIdx.x;
    if (threadIdx.x == 0) task.out[blockIdx.x] = total;
}

// One launch: the last block to arrive adds up what all blocks have published.
__global__ void ticket_sum(const SumTask task) {
    unsigned* last = (unsigned*)(GR_SHARED + 4 * blockDim.x);
    int sum = tree_sum(own_sum(task));
    if (threadIdx.x == 0) {
        simt::store(task.partials + blockIdx.x, &sum, sizeof sum);
        __threadfence();  // release
        *last = atomicAdd(task.ticket, 1u) == gridDim.x - 1;
        __threadfence();  // acquire
    }
    __syncthreads();  // decide
    if (!*last) return;
    sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
        int partial;
        simt::load(&partial, task.partials + i, sizeof partial);
        sum += partial;
    }
    sum = tree_sum(sum);
    if (threadIdx.x == 0) {
        *task.out = sum;
        *task.ticket = 0;
    }
}

// Every thread publishes, thread 0 alone fences for the block that the barrier has joined.
__global__ void joint_publish(const SumTask task) {
    unsigned* last = (unsigned*)GR_SHARED;
    int sum = own_sum(task);
    simt::store(task.partials + blockIdx.x * blockDim.x + threadIdx.x, &sum, sizeof sum);
    __syncthreads();  // all stored
    if (threadIdx.x == 0) {
        __threadfence();  // joint release
        *last = atomicAdd(task.ticket, 1u) == gridDim.x - 1;
        __threadfence();  // joint acquire
    }
    __syncthreads();  // joint decide
    if (!*last) return;
    for (unsigned i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x) {
        int partial;
        simt::load(&partial, task.partials + i, sizeof partial);
        atomicAdd(task.out, partial);
    }
    if (threadIdx.x == 0) *task.ticket = 0;
}

struct alignas(16) Tile {
    unsigned low, mark, high, again;  // the sum up to here, once the launch's number stands beside either half
};

struct ScanTask {
    const int* in;
    u64* out;
    Tile* tiles;
    unsigned* counter;
    u64 launch;
};

// An inclusive scan of one element a thread. A block waits for the tile before its own; tiles are numbered in the
// order that blocks start.
__global__ void look_back(const ScanTask task) {
    u64* each = (u64*)GR_SHARED;
    unsigned* number = (unsigned*)(each + blockDim.x + 1);
    if (threadIdx.x == 0) *number = atomicAdd(task.counter, 1u);
    __syncthreads();  // number
    const unsigned tile = *number;
    each[threadIdx.x + 1] = (u64)task.in[tile * blockDim.x + threadIdx.x];
    __syncthreads();  // elements
    if (threadIdx.x == 0) {
        const unsigned mark = (unsigned)task.launch + 1;
        Tile before = {};
        while (tile && (before.mark != mark || before.again != mark)) simt::load_relaxed(&before, task.tiles + tile - 1, 16);
        u64 sum = each[0] = (u64)before.high << 32 | before.low;
        for (unsigned i = 1; i <= blockDim.x; i++) sum += each[i];
        Tile mine = {(unsigned)sum, mark, (unsigned)(sum >> 32), mark};
        simt::store_relaxed(task.tiles + tile, &mine, 16);
    }
    __syncthreads();  // base
    u64 sum = each[0];
    for (unsigned i = 0; i <= threadIdx.x; i++) sum += each[i + 1];
    task.out[tile * blockDim.x + threadIdx.x] = sum;
}

struct LaneTask {
    const double* in;
    double* doubles;
    int* ints;
};

// What each collective gives each lane, for the test to compare with the rule.
__global__ void lanes(const LaneTask task) {
    const int lane = (int)threadIdx.x, width = 8;
    const double x = task.in[lane];
    task.doubles[lane] = __shfl_down_sync(0xffffffffu, x, 3, width);
    task.doubles[32 + lane] = __shfl_up_sync(0xffffffffu, x, 3, width);
    task.doubles[64 + lane] = __shfl_xor_sync(0xffffffffu, x, 5, 32);
    task.doubles[96 + lane] = __shfl_sync(0xffffffffu, x, lane + 3, width);
    task.ints[lane] = (int)__ballot_sync(0xffffffffu, lane % 3 == 0);
    task.ints[32 + lane] = __any_sync(0xffffffffu, lane == 7) + 2 * __all_sync(0xffffffffu, lane < 31);
    if (lane < 5) {  // a part of the warp by itself
        double* each = (double*)GR_SHARED;
        each[lane] = x;
        __syncwarp(31u);  // part
        task.doubles[128 + lane] = each[4 - lane];
    }
}

// Two tiles of shared memory: the next tile is copied while this one is added up.
__global__ void staged_sum(const SumTask task) {
    const unsigned stride = gridDim.x * blockDim.x * 4;
    int* tiles = (int*)GR_SHARED;
    int sum = 0;
    unsigned first = blockIdx.x * blockDim.x * 4, turn = 0;
    simt::copy_async(tiles + 4 * threadIdx.x, task.in + first + 4 * threadIdx.x, 16);
    simt::commit_copies();
    for (; first < task.size; first += stride, turn ^= 1) {
        if (first + stride < task.size)
            simt::copy_async(tiles + (4 * blockDim.x) * (turn ^ 1) + 4 * threadIdx.x,
                             task.in + first + stride + 4 * threadIdx.x, 16);
        simt::commit_copies();
        simt::wait_copies(1);
        __syncthreads();  // tile copied
        for (unsigned i = 0; i < 4; i++) sum += tiles[(4 * blockDim.x) * turn + blockDim.x * i + threadIdx.x];
        __syncthreads();  // tile used
    }
    sum = tree_sum(sum);
    if (threadIdx.x == 0) task.out[blockIdx.x] = sum;
}
