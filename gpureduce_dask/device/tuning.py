"""Numbers found by measurement, with where they were found. None depends on the GPU at hand: how elements are
assigned to partials follows from shape and dtype alone, so that a chunk gives the same bits on every device."""

THREADS = 256  # a block everywhere; H200, read-only probe: 264x1024 and 4224x256 read fastest, 2026-11
BLOCKS = 8448  # of a full grid: H200, sum float32, 4 GiB: 945 us with 8 loads in flight; 4224: 957; 33792: 966
GRID = 4224  # blocks that go round over many rows or cells
ONE_WAVE = 1056  # blocks that such a GPU holds at once: below this, more blocks beat more work a block
TILES_PER_WARP = 4  # above one wave: tiles that make a warp's start-up and its last fold small
ROW_ITEMS = 8  # 16-byte loads in flight a thread; half of that for states of HEAVY_STATE_BYTES
HEAVY_STATE_BYTES = 24
SHORT_ROW_SLOTS = 2048  # vectors in a row below which a team of lanes, not a block, takes it
SHORT_ROW_BATCH = 4  # rows a team loads before it reduces the first
EVEN_ROW_BATCH = 8  # (4 for states above 8 bytes) rows a team loads and reduces together where each is one load a lane
STAGED_ROW_BYTES = 64  # rows of fewer bytes at no alignment go through shared memory
STAGED_TILE_BYTES = 24576
COLUMN_STATE_BYTES = 64  # of states a thread keeps, which bounds the columns it owns
COLUMN_LOAD_BYTES = 128  # in flight a thread; half of that for states of HEAVY_STATE_BYTES
MOST_TAKEN = 1 << 23  # elements of a column that one thread takes: what 32-bit counts of it hold
FLAT_SLOTS = 32  # lines of fewer vectors are laid end to end
FLAT_BLOCKS = 2112  # blocks over lines laid end to end
COLUMN_BLOCKS = 4224  # blocks over tiles of columns: each publishes a tile of states
COLUMN_WIDTH = 32  # threads across a tile of columns where there are runs enough to fill a block
