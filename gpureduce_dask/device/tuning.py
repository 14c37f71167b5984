"""Numbers found by measurement, with where they were found. None depends on the GPU at hand: how elements are
assigned to partials follows from shape and dtype alone, so that a chunk gives the same bits on every device."""

THREADS = 256  # a block everywhere; H200, read-only probe: 264x1024 and 4224x256 read fastest, 2026-11
BLOCKS = 4224  # blocks of a full grid: 32 a multiprocessor on 132 of them, four waves of 8
ONE_WAVE = 1056  # blocks that such a GPU holds at once: below this, more blocks beat more work a block
TILES_PER_WARP = 4  # above one wave: tiles that make a warp's start-up and its last fold small
ROW_ITEMS = 4  # 16-byte loads in flight a thread: 64 KiB a multiprocessor at 1024 threads
SHORT_ROW_SLOTS = 2048  # vectors in a row below which a team of lanes, not a block, takes it
SHORT_ROW_BATCH = 4  # rows a team loads before it reduces the first
STAGED_ROW_BYTES = 64  # rows of fewer bytes at no alignment go through shared memory
STAGED_TILE_BYTES = 16384
COLUMN_STATE_BYTES = 128  # of states a thread keeps, which bounds the columns it owns
COLUMN_LOAD_BYTES = 64  # in flight a thread
FLAT_SLOTS = 32  # lines of fewer vectors are laid end to end
