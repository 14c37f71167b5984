"""Numbers found by measurement, with where they were found. None depends on the GPU at hand: how elements are
assigned to partials follows from shape and dtype alone, so that a chunk gives the same bits on every device."""

THREADS = 256  # a block everywhere; H200, read-only probe: 264x1024 and 4224x256 read fastest, 2026-11
BLOCKS = 8448  # over a few long rows: H200, 4 GiB, 2026-11: sum float32 8448: 0.98 R, 4224: 0.97; 2112: 0.96
HEAVY_BLOCKS = 2112  # for states of HEAVY_STATE_BYTES: var float32 8448: 0.976 R, 2112: 0.986; moments 0.962, 0.975
ROW_BLOCKS = 33792  # over rows of their own: float32, 1024 a row: argmax 0.95 R, a block a row 0.88; 32768 a row: 1.00
EVEN_ROW_BLOCKS = 1 << 24  # one tile a warp, unless the state is heavy: sum of 32 a row 0.937 R, 8448 blocks: 0.923
GRID = 4224  # blocks that go round over many rows or cells
ONE_WAVE = 1056  # blocks that such a GPU holds at once: below this, more blocks beat more work a block
TILES_PER_WARP = 4  # above one wave: tiles that make a warp's start-up and its last fold small
ROW_ITEMS = 8  # 16-byte loads in flight a thread; half of that for states of HEAVY_STATE_BYTES
HEAVY_STATE_BYTES = 24
SHORT_ROW_SLOTS = 2048  # vectors in a row below which a team of lanes, not a block, takes it
SHORT_ROW_BATCH = 4  # rows a team loads before it reduces the first
EVEN_ROW_BATCH = 8  # (4 for states above 8 bytes) rows a team loads and reduces together where each is one load a lane
EVEN_ROW_ITEMS = 4  # loads a lane of such a row, at most
STAGED_ROW_BYTES = 64  # rows of fewer bytes, and few elements, go through shared memory to a thread each,
TEAM_ROW_BYTES = 2049  # and those of fewer than these to a team of lanes
TEAM_ROW_WORDS = 16  # elements, or words of narrow ones, for each lane of it: sum of 33 float32 a row 0.92 R, 8: 0.75
STAGED_TILE_BYTES = 18432  # H200, 3 float32 a row: 0.97 R; 12288: var 0.96, 36864: 0.97; 2 a row: 0.95, 0.96, 0.95
UNROLLED_ROW = 16  # elements of such a row: they are taken in without a loop
TEAM_TILE_BYTES = 24576  # the same for teams: sum of 127 float32 a row 0.90 R, 18432: 0.81
COLUMN_STATE_BYTES = 64  # of states a thread keeps, which bounds the columns it owns
NARROW_STATE_BYTES = 192  # the same for moments of float16 and bfloat16: var of 8 columns 0.93 R, of 2 0.90
COLUMN_LOAD_BYTES = 128  # in flight a thread; half of that for states of HEAVY_STATE_BYTES, unless of narrow floats
MOST_TAKEN = 1 << 16  # elements of a column that one thread takes: what 32 bits hold of the squares of bytes
CACHE_LINE = 128  # bytes: a warp's load from within one takes more of L2's bandwidth than there is to spare
FLAT_SLOTS = 32  # lines of fewer vectors are laid end to end
FLAT_BLOCKS = 2112  # over lines laid end to end; a quarter where no vector straddles two: 0.96-0.97 R, else 0.93-0.96
COLUMN_BLOCKS = 8448  # over tiles of columns, each of which publishes its states:
COLUMN_PARTIAL_BYTES = 4 << 20  # of them, twice that for elements of 1 or 2 bytes: var float32 0.974 R, 16 MiB: 0.931
CHAIN = 48  # partials that a thread of the last block folds one after another: argmax of 2^20 x 1024 0.98 R, 128: 0.955
HEAVY_CHAIN = 16  # the same for states of HEAVY_STATE_BYTES: var 0.98 R, 48: 0.915
COLUMN_WIDTH = 32  # threads across a tile of columns where there are runs enough to fill a block
