"""Numbers found by measurement, with where they were found. None depends on the GPU at hand: how elements are
assigned to partials follows from shape and dtype alone, so that a chunk gives the same bits on every device."""

THREADS = 256  # a block everywhere; H200, read-only probe: 264x1024 and 4224x256 read fastest, 2026-11
BLOCKS = 8448  # over a few long rows: H200, 4 GiB, 2026-11: sum float32 8448: 0.98 R, 4224: 0.97; 2112: 0.96
HEAVY_BLOCKS = 2112  # for states of HEAVY_STATE_BYTES: var float32 8448: 0.976 R, 2112: 0.986; moments 0.962, 0.975
NARROW_HEAVY_BLOCKS = 3168  # for those of float16 and bfloat16: var bfloat16 0.949 R, 2112: 0.935, 4224: 0.942
PAIR_BLOCKS = 1584  # for sums of two words: nansum float64 0.985 R, 8448: 0.967; complex128 0.990, 0.979
ROW_BLOCKS = 33792  # over rows of their own: float32, 1024 a row: argmax 0.95 R, a block a row 0.88; 32768 a row: 1.00
GRID = 4224  # blocks that go round over many rows or cells
FEW_BLOCKS = 264  # two an SM: below this, more blocks beat more work a block. Sum float32 of 64 MiB 0.84 R, 1056: 0.78;
# var 0.76, 0.67; of 16 MiB 0.62, 0.50; (4096, 4096) down columns sum 0.80, 0.64, var 0.72, 0.51; of 256 MiB 0.94, 0.85.
# Twice as many for moments down columns whose threads have few bytes in flight: 0.97 to 1.05 times as long (H200)
TILES_PER_WARP = 16  # above that: sum float32 of 256 MiB 0.93 R, 4: 0.91; argmax 0.94, 0.89; max float16 0.95, 0.92
ONE_WAVE = 1056  # blocks over columns that are never too many, however much they publish
COLUMN_TILES = 264  # tiles as wide as a block, from which on no block goes down one: its fold costs more than rows do.
# Nine random layouts 1.8 times as fast as without
TALL_RUNS = 512  # elements of a column, from which on blocks go down it all the same. (1024, 1048576) float32, an H200:
# sum 954 us, by tiles as wide as a block 1029; var 1035, 1186; max 944, 976; sum of float64 948, 995; argmax of int8
# 1102, 1063
# Moments of columns whose threads have their rows in so few rounds of loads need no more threads than make such a share
# of FEW_BLOCKS: kurtosis of uint8 along 64 rows of (736, 64, 88) has, of a thread of eight rows, 220 instructions for
# these and 1,300 to bring its states together with others'. H200: 13.0 us, so 9.7; skew of int16 19.4 and 15.4.
FEW_ROUNDS, FEW_STATES, EVEN_TILES = 4, 8, 0.9
TICKETS = 288 << 10  # words, all zero, that a stream's launches share: 264 blocks can publish 256 columns of 8 bytes
POLLED_GROUPS = 16  # groups of blocks of which one waits for the others: fewer than any GPU has room for at a time,
POLLED_BLOCKS = 1056  # and so many blocks. Sums of 4 MiB 5.3 us, by a ticket 6.8; of 64 MiB 25.2 and 26.6 (an H100)
# A long row's tiles are loaded ahead, by whole waves of FEW_BLOCKS blocks. Twenty operators, H200, 2026-11-27, beside
# tiles one by one: 1.04 times as fast at 16, 64 and 256 MiB, 1.01 at 1 GiB; by 16 tiles a wave 1.02 at 256 MiB.
WAVE_TILES = 32  # tiles of a warp in each wave, about
EVEN_WAVE = 0.97  # the least share of the blocks of such waves that rows have to be cut into
MOST_EVEN = 1056  # blocks, at most
# Slots of a thread, above which tiles of float products have eight loads, as others have. Of fewer the arithmetic of
# the last tile counts: 64 MiB by eight 1.05 times as long (H200). Of moments tiles have eight: var float32 65.9 us, by
# four 71.6.
AHEAD_SLOTS = 64
ROW_ITEMS = 8  # 16-byte loads in flight a thread; half of that for states of HEAVY_STATE_BYTES, and sums of elements of
# two bytes: 64 MiB on an H100, 2026-11-27, sum of int16 0.84 of a read, by 8 0.72; of int8 256 MiB on an H200 69 us, 64
SHORT_ROW_BYTES = 64  # in flight a thread, of rows that have a sub-warp each, and four loads: 64 MiB in rows of 16 KiB,
# H200, 2026-11-30, sum of float64 20.5 us, 128 bytes: 22.5; argmin of uint8 22.3, 25.1; 28 such: 0.98, at most 1.03
PAIR_ITEMS = 6  # where half of that would be 4, for sums of two words: mean float64 0.989 R, 4: 0.965; complex128 alike
HEAVY_STATE_BYTES = 24
SUBWARP_ROW_SLOTS = 16384  # vectors in a row, up to which a sub-warp may take it
SHORT_ROW_SLOTS_A_LANE = 8  # so that few lanes fold: 1.1 to 3.6 times as fast as with 1 over four random layouts
STOPPING_ITEMS = 4  # loads in flight of an operator that stops at the first element that decides: 22 us, 16: 44;
STOPPING_RUNS = 64  # of so few elements a column
WARP_ROW_SLOTS = 1024  # of a row in element order, up to which a warp takes it, where there are rows enough
TILE_ITEMS = 1, 2, 3, 4, 6, 8, 12, 16  # loads in flight a lane of tiles of lines, and what fewer of them cost: so many
LOAD_LATENCY = 0.5  # more would take as long as one
END_SLOTS = 8  # that the two ends of a line take the time of, which begins at any alignment
SHORT_ROW_BATCH = 4  # rows a sub-warp loads before it reduces the first
STAGED_ROW_BYTES = 64  # rows of fewer bytes, and few elements, may go through shared memory to a thread each
STAGED_TILE_BYTES = 18432  # H200, 3 float32 a row: 0.97 R; 12288: var 0.96, 36864: 0.97; 2 a row: 0.95, 0.96, 0.95
ROWS_TAKEN = 48  # elements of such rows, at most, that a thread takes at once; a quarter of that of heavy operators
ROWS_STORED = 16  # bytes of their results, at most: argmax of five uint8 a row, by eight or four 76 and 57 us, one 50
STAGED_SLOT_BYTES = 8  # of columns that a thread takes of lines of bytes which blocks copy as they lie
STAGED_LINES = 8  # of those, that are copied together
STAGED_LINES_MOST = 32  # H200, var of 16 lines of bool 124 us, by columns 268; of more lines 1.1 to 1.2 times as long
UNROLLED_ROW = 16  # elements of such a row: they are taken in without a loop
SUBWARP_THREADS = 128  # argmax of 127 float16 a row 0.95 R, 256: 0.87; of 256 float32: var 0.97, 64: 0.96
SUBWARP_TILE_BYTES = 49008  # at most, with as few lanes a row as that allows: var of 127 float32 0.96 R; 24 KiB: 0.76
SUBWARP_TILE_LEAST = 24576  # of a tile: blocks of 16 bytes a row cost more to start than to run; 16, 32 KiB: alike
RUN_TILES_BYTES = 65536  # of the two tiles of several runs, at most: what a block may have on every GPU
RUN_TILE_BYTES = 8192  # of the rows of one run, at most, with as few lanes a row as that allows
SUBWARP_SLOT_BYTES = 128  # rows of narrow elements below: 40 uint8 a row 0.97 R in slots of 8 bytes, of 16 0.63
ROWS_APART = 3  # times as far apart as they are long, that rows may be which blocks copy with what lies between them
PLANE_BYTES = 512  # of rows at one distance, at least, where they do not all lie so
TILE_MARGIN = 144  # bytes: what a tile has of the cache line before it, and of 16 bytes behind it
COLUMN_STATE_BYTES = 64  # of states a thread keeps, which bounds the columns it owns
NARROW_STATE_BYTES = 192  # the same for moments of float16 and bfloat16: var of 8 columns 0.93 R, of 2 0.90
APART_BYTES = 128  # of states a thread that lie a place apart in shared memory, as kernels/grid/columns.cuh has it
COLUMN_LOAD_BYTES = 128  # in flight a thread; half of that for states of HEAVY_STATE_BYTES, unless of narrow floats
MOST_TAKEN = 1 << 16  # elements of a column that one thread takes: 32 bits hold their squares of bytes, 16 their places
SECTOR = 32  # bytes of memory that are read or written together, at least
CACHE_LINE = 128  # bytes: a warp's load from within one takes more of L2's bandwidth than there is to spare
FLAT_BLOCKS = 2112  # over 4 GiB of lines laid end to end; a quarter where no vector straddles two: 0.96-0.97 R, else
# 0.93-0.96. Of at most FLAT_READ bytes a quarter too, as each block folds its periods: seven columns of int8 of 256 MiB
# took 106 us, and by 522 blocks of columns end to end 79
FLAT_READ = 2 << 30
COLUMN_BLOCKS = 8448  # over tiles of columns, each of which publishes its states:
COLUMN_PARTIAL_BYTES = 4 << 20  # of them, twice that for elements of 1 or 2 bytes: var float32 0.974 R, 16 MiB: 0.931
CHAIN = 48  # partials that a thread of the last block folds one after another: argmax of 2^20 x 1024 0.98 R, 128: 0.955
HEAVY_CHAIN = 16  # the same for states of HEAVY_STATE_BYTES: var 0.98 R, 48: 0.915
CROWDED_STATE_BYTES = 256  # of crowded operators (products, weighted means): five statistics 0.976 R, 192: 0.90
CROWDED_ITEMS = {1: 16, 2: 8, 4: 8}  # loads in flight a thread, by its columns: 0.92 R, 4: 0.86
CROWDED_BLOCKS = {1: 4, 2: 3, 4: 2}  # that share an SM, as kernels/grid/columns.cuh has it
CROWDED_ROWS = 320  # that their blocks could read in the time they take to end; so they come in few waves of
PROCESSORS = 132  # SMs of an H200: five statistics 978 us in one wave, 1001 in three; of 4096 x 4096 61 us, 91 in many.
# Chunks are cut for as many on any GPU, so that bits stay; how many blocks a launch has, the GPU at hand says.
COLUMN_WIDTH = 32  # threads across a tile of columns where there are runs enough to fill a block
# Of states that one block folds for the others. Of more, tiles are narrower, down to rows of a cache line, so that more
# blocks fold; of LONG_FOLD_BYTES a launch of its own does. H200, any of uint64 (8192, 64) down columns by tiles of 32
# threads 13.6 us, of 8 7.5; mean complex128 (65536, 64) 44, 24; (4096, 4096) alike.
FOLDED_BYTES, LONG_FOLD_BYTES = 24 << 10, 64 << 10
FOLDED_OF = 64 << 20  # bytes that are read, of so many of which FOLDED_BYTES are little; of more, as much more
NARROW_TILES_READ = 256 << 20  # bytes, of which a fold is a part of the time; of more, narrow tiles were not timed
STATES_A_READ = 32  # times as many bytes are read as those of states of lines end to end, at least
MOST_APART = 2  # times as far apart as they are long, that such lines may be
