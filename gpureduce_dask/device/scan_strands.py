"""How a scan of lines that lie side by side is cut where one row follows another in memory: strands of columns."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from . import scan_allies, scan_dense, scan_lanes
from .scan_dense import LANES, NOTES, PACK, SLOTS, Dense, Tiles
from .scan_task import LAG, SECTOR, Operands, Operator, Plan, flag
from .tuning import PROCESSORS

# Bytes of a row, at most. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy as strands and in strips: sums of float32
# down (n, 5) 0.85 and 0.55, (n, 16) 0.87 and 0.70, (n, 33) 0.79 and 0.55, (n, 65) 0.72 and 0.57, (n, 100) 0.64 and
# 0.71; maxima down (n, 5) 0.91 and 0.60, (n, 33) 0.76 and 0.71, (n, 65) 0.63 and 0.70; sums of float64, whose states
# are pairs, down (n, 32) 0.76 and 0.71, (n, 33) 0.56 and 0.58. Rows of whole sectors are better off in strips from 128
# bytes on: sums of float32 down (n, 24) 0.85 and 0.84, (n, 32) 0.85 and 0.90; but maxima down (n, 32) 0.94 and 0.90.
MOST, MOST_OF_EXTREMES, MOST_OF_PAIRS = 320, 160, 256
WHOLE_SECTORS = 128
# Rows of a plane. Shorter ones, where they are not taken by planes (scan_planes.py), are taken by a thread a line, but
# of planes of few bytes a row: (n, 12, 5) along its middle axis as strands and by threads 0.55 and 0.45, (n, 100, 2)
# 0.61 and 0.20; but (n, 7, 5) 0.31 and 0.46, (n, 64, 16) 0.70 and 1.01.
SHORTEST, SHORTEST_OF_FEW, FEW = 256, 12, 32
# Gangs of a block, and warps of each; those behind for little shared memory.
GANGS = ((14, 1), (12, 1), (4, 3), (3, 4), (2, 7), (2, 6), (3, 5), (1, 13), (4, 1), (2, 2), (2, 1), (1, 1))
# Sums of 16-bit floats, where a lane takes one column or columns are few: they wait for their arithmetic, and more
# warps wait together. Down (n, 9), (n, 16), (n, 24), (n, 33), (n, 65) 0.66, 0.74, 0.72, 0.60, 0.54 of a copy with those
# above and 0.75, 0.77, 0.73, 0.69, 0.62; but two columns a lane down (n, 50), (n, 100) 0.72, 0.65 and 0.65, 0.56.
GANGS_OF_NARROW = ((2, 8), *GANGS[-3:])
# Where posts are looked for at once, the fewest teams that leave few lanes idle, since what they note is folded before
# their tile's post: sums of float32 down (n, 16) 0.97 with two gangs of six warps and 0.96 with twelve of one, (n, 33)
# 0.92 and, with four of three, 0.89; (n, 65), (n, 100) 0.89, 0.86 and, with two of seven, 0.90, 0.89.
GANGS_AT_ONCE = ((2, 6), (2, 7))
# Two of seven, as above, float64 down (n, 16), (n, 32) 0.92, 0.90 and 0.84, 0.81. One of twelve where it leaves fewer
# lanes idle: down (n, 33), (n, 40) 0.81, 0.80 and 0.84, 0.83, but (n, 48), (n, 64) 0.88, 0.87 and 0.87, 0.86.
GANGS_OF_PAIRS = ((2, 6), (1, 12))
GANGS_OF_MEANS = ((2, 6),)  # down (n, 33), (n, 48) 0.75, 0.81 and, with one of twelve, 0.71, 0.73
# Variances down (n, 33), (n, 48) with two of six 0.62, 0.64 and 0.64, 0.65; of more columns, for which more warps look
# back, down (n, 65), (n, 80) with two of four 0.48, 0.52 and with one of eight 0.57, 0.62.
GANGS_OF_SPREADS, GANGS_OF_WIDE_SPREADS = ((1, 12),), ((1, 8),)
GANGS_OF_FEW, FEW_COLUMNS = ((12, 1),), 8  # down (n, 5), (n, 8) 0.94, 0.96, and with two of six 0.84, 0.95
# Those that look back among them: of more, each has too few registers.
MOST_WARPS, MOST_OF_NARROW, MOST_AT_ONCE = 20, 24, 24
ENOUGH = 12  # warps that scan: fewer only where more do not fit
TILE = 128 << 10  # bytes of a tile, read and written, at most
TILES = 512  # at least, if that leaves strands some rows
FEWEST = 4  # rows of a strand
WORD = 4  # bytes that a lane takes at once of narrow elements
WIDEST = 128  # columns
SEVERAL, LOOKERS = 8, 4  # columns of a warp that looks back, where so many warps are enough: lanes share their posts
LOOKERS_OF_SPREADS = 8
LARGE = 16  # bytes of a state: of larger ones a lane that looks back has too few registers
FEW_CHAINS = PROCESSORS // 2
# Columns from which on posts are looked for at once (chained_look_back.cuh): of sums of float32; of pairs; of narrow
# elements; and of all else with small states. H200, CUDA 13.0, 4 GiB, 2026-11, shares of a copy by steps of eight or
# sixteen (or in strips) and at once: sums of float32 down (n, 5), (n, 12), (n, 24), (n, 32), (n, 33), (n, 48), (n, 63),
# (n, 65), (n, 100) 0.93, 0.85, 0.89, 0.93, 0.75, 0.85, 0.77, 0.75, 0.74 and 0.94, 0.97, 0.96, 0.96, 0.93, 0.94, 0.92,
# 0.90, 0.89, (n, 128) 0.91 and 0.92; maxima down (n, 8), (n, 16), (n, 33), (n, 65), (n, 100) 0.99, 0.99, 0.81, 0.73,
# 0.83 and 0.98, 0.98, 0.91, 0.92, 0.90; of float64 down (n, 3), (n, 8), (n, 16), (n, 32), (n, 33), (n, 48), (n, 64)
# 0.80, 0.84, 0.87, 0.74, 0.60, 0.80, 0.84 and 0.79, 0.89, 0.92, 0.90, 0.81, 0.89, 0.87; of int64 down (n, 16), (n, 33)
# 0.99, 0.75 and 0.98, 0.93; of float16 down (n, 16), (n, 33), (n, 50) 0.77, 0.70, 0.73 and 0.86, 0.70, 0.81; maxima of
# uint8 down (n, 12), (n, 33), (n, 100) 0.74, 0.51, 0.62 and 0.77, 0.51, 0.84.
AT_ONCE_OF_SUMS, AT_ONCE_OF_PAIRS, AT_ONCE_OF_NARROW, AT_ONCE = 5, 8, 12, 17
# Means and variances of float32, whose posts leave out how many elements they are of. By steps or in strips, and at
# once: means down (n, 5), (n, 8), (n, 16), (n, 24), (n, 32), (n, 33), (n, 48), (n, 65), (n, 80), (n, 127) 0.78, 0.80,
# 0.81, 0.79, 0.79, 0.60, 0.70, 0.59, 0.71, 0.68 and 0.70, 0.81, 0.83, 0.84, 0.84, 0.75, 0.81, 0.69, 0.74, 0.74, but
# (n, 64) in strips 0.83 and 0.81; variances down (n, 5), (n, 8), (n, 16), (n, 32), (n, 33), (n, 64), (n, 65),
# (n, 100), (n, 127) 0.59, 0.58, 0.50, 0.48, 0.33, 0.62, 0.43, 0.50, 0.51 and 0.57, 0.64, 0.70, 0.64, 0.64, 0.63,
# 0.57, 0.55, 0.60; deviations down (n, 16), (n, 33) 0.45, 0.32 and 0.66, 0.57.
AT_ONCE_OF_COUNTED = 8
SHORT_POSTS = {"Mean<Value<f32, f64>, f64>": 8, "Var<f32, false>": 16, "Std<f32, false>": 16}
# Of results that are wider than elements: int32 to int64 down (n, 17), (n, 33) 0.86, 0.76 by steps and 0.85, 0.86 at
# once; uint8 to uint64 down (n, 33) 0.85 and 0.84.
AT_ONCE_OF_WIDENED = 33
# Columns up to which whole rows are taken, of whole sectors too: of words; of their extremes; of pairs; of eight bytes.
# Maxima of float32 down (n, 120) 0.94 in strips and 0.94, but more is zeroed; int64 down (n, 64) 1.01 and 0.94.
MOST_OF_WORDS, MOST_OF_WORD_EXTREMES, MOST_AT_ONCE_OF_PAIRS, MOST_OF_EIGHTS = 127, 95, 64, 63
LINE = 128  # bytes of memory: those of a warp's posts are whole ones. Down (n, 100) 0.78 where they are not, else 0.83
LONG, SHORT = 16, 8  # tiles of a stretch: the more the fewer registers are left
MANY_CHAINS = False  # more of them have not been measured yet: they stay in strips
APART = 8  # tiles of a plane from which on planes are chains of their own
# Wider rows of words and no whole sectors, which strips would share, are taken whole too; more warps look back. Sums of
# float32 down (n, 129), (n, 193) in strips 0.56, 0.65 and so 0.81, 0.77; maxima 0.71, 0.73 and 0.85, 0.82.
WIDEST_ASKEW, GANGS_ASKEW, LOOKERS_ASKEW, WARPS_ASKEW = 224, ((3, 5), (2, 7)), 7, 28
# What an element costs: to fold and to write it, eight rows together, four, and each of those left.
BATCH, HALF, SINGLE = 8, 0.75, 0.65
# And a state that is noted for those that look back, by as many of their lanes as share a column: sums of float32 down
# (n, 5) by gangs of four warps, which note 75 teams, and of one 0.83 and 0.90.
NOTED = 0.5


@dataclass(frozen=True)
class _Look:
    """How it is found what comes before a tile."""

    lookers: int  # warps
    stretch: int = 0  # tiles of one, where posts are looked for at once (kernels/scan/chained_look_back.cuh)
    slots: int = 0
    post_bytes: int = 0
    wide: int = 0  # posts of a tile

    @property
    def template(self) -> tuple[str, ...]:
        return (str(self.stretch), str(self.slots)) if self.stretch else ()


@dataclass(frozen=True)
class _Cut:
    gangs: int
    warps: int  # of each
    teams: int  # of all
    rows: int
    shared_bytes: int


def plan(
    op: Operator, arrays: Operands, exclusive: bool, reverse: bool, limit: int, processors: int, clusters: bool
) -> Plan | None:
    """The launch, where rows lie one after another in both arrays; None where they do not, or columns are many."""
    dense = scan_dense.found(op, arrays)
    if dense is None:
        return None
    if clusters and (allied := scan_allies.plan(op, dense, exclusive, reverse, limit, processors)):
        return allied
    look = _look(op, dense)
    if not _pays(op, dense, look):
        return None
    together = max(1, WORD // dense.sizes[0])
    while dense.width % together or together * max(dense.sizes) > PACK or dense.lead % together:
        together //= 2
    if look.lookers > 2 and op.state_bytes > LARGE and not look.stretch:
        return None
    cut = _cut(op, dense, together, look, limit, _gangs(op, dense, together, look))
    cut = cut or _cut(op, dense, together, look, limit, GANGS)  # of little shared memory
    if cut is None:
        return None
    joined = dense.count > 1 and dense.length < APART * cut.teams * cut.rows
    if joined and not dense.follows:
        return None
    anchored = joined or dense.count < FEW_CHAINS
    if not anchored and not MANY_CHAINS:
        return None
    numbers = (cut.gangs, cut.warps, together, look.lookers)
    flags = (flag(anchored), flag(joined), flag(exclusive))
    kernel = f"scan_contiguous_columns<{', '.join((op.type, op.emits, *map(str, numbers), *flags, *look.template))}>"
    posted, warps = op.flow_bytes if joined else op.state_bytes, cut.gangs * cut.warps + LAG * look.lookers
    tiles = Tiles(
        *(cut.teams, cut.rows, warps, cut.shared_bytes, joined, posted, anchored),
        *(look.stretch, look.wide * look.post_bytes),
    )
    return scan_dense.launch(op, dense, kernel, tiles, reverse, processors)


def _look(op: Operator, dense: Dense) -> _Look:
    """Who looks back, and whether at once: where states are short enough to be read all together."""
    width, sums = dense.width, scan_lanes.adds_floats(op)
    of_pairs = scan_lanes.adds_pairs(op)
    steps = _Look(min(LOOKERS, -(-width // SEVERAL)))
    fewest = AT_ONCE_OF_PAIRS if of_pairs else AT_ONCE_OF_NARROW if dense.sizes[0] < WORD else AT_ONCE
    if sums and dense.sizes[0] == WORD:
        fewest = AT_ONCE_OF_SUMS
    short = _short(op, dense)
    if short:
        fewest = AT_ONCE_OF_COUNTED
    if dense.sizes[0] != dense.sizes[1]:
        fewest = AT_ONCE_OF_WIDENED if dense.sizes[0] == WORD else WIDEST + 1
    if dense.count > 1 or width < fewest or (op.state_bytes > 8 and not of_pairs and not short):
        return steps
    nbytes = short or (8 if sums or op.state_bytes <= WORD else 16)  # of a post
    per = LINE // nbytes  # columns of a warp
    stretch = LONG if nbytes == 8 and width <= LOOKERS * per else SHORT
    if width > (LOOKERS if nbytes == 8 else 2) * per:
        per *= 2
    lookers = -(-width // per)
    # As wide as all these warps take, though more is zeroed: where as few lines as columns fill, sums of float32 down
    # (n, 65), (n, 100) 0.90, 0.89 and 0.89, 0.88, of int64 down (n, 33) 0.93 and 0.91.
    most = LOOKERS_OF_SPREADS if short == 16 else LOOKERS_ASKEW if _is_askew(op, dense) else LOOKERS
    return steps if lookers > most else _Look(lookers, stretch, stretch * per // LANES, nbytes, per * lookers)


def _is_askew(op: Operator, dense: Dense) -> bool:
    """True of rows that are wider than others, and no whole sectors."""
    askew = dense.sizes == (WORD, WORD) and dense.width * WORD % SECTOR != 0 and op.state_bytes <= 8
    return askew and WIDEST < dense.width <= WIDEST_ASKEW


def _short(op: Operator, dense: Dense) -> int:
    """Bytes of a post that leaves out how many elements it is of (chained_look_back.cuh); 0 of other operators."""
    return SHORT_POSTS.get(op.type, 0) if dense.sizes == (WORD, WORD) else 0


def _pays(op: Operator, dense: Dense, look: _Look) -> bool:
    """False where other kernels are faster."""
    if dense.width > WIDEST and not (look.stretch and _is_askew(op, dense)):
        return False
    read, row = dense.width * dense.sizes[0], dense.width * max(dense.sizes)
    if dense.length < (SHORTEST_OF_FEW if dense.count > 1 and read <= FEW else SHORTEST):
        return False
    if dense.width > WIDEST:
        return True
    if look.stretch and dense.sizes == (WORD, WORD):
        most = MOST_OF_WORD_EXTREMES if op.type.startswith("MinMax<") and row % SECTOR == 0 else MOST_OF_WORDS
        if op.type.startswith("Mean<") and row % LINE == 0:
            most = LANES
        return dense.width <= most
    if look.stretch and dense.sizes[0] == 8:
        return dense.width <= (MOST_AT_ONCE_OF_PAIRS if op.state_bytes > 8 else MOST_OF_EIGHTS)
    if dense.sizes[0] == 8:
        return read <= MOST_OF_PAIRS
    if row % SECTOR == 0 and row >= WHOLE_SECTORS:
        return op.type.startswith("MinMax<") and row == WHOLE_SECTORS and dense.sizes[0] == WORD
    return read <= (MOST_OF_EXTREMES if op.type.startswith("MinMax<") else MOST)


def _gangs(op: Operator, dense: Dense, together: int, look: _Look) -> tuple[tuple[int, int], ...]:
    if dense.width > WIDEST:
        return GANGS_ASKEW
    if look.stretch:
        if op.type.startswith("Mean<"):
            return GANGS_OF_MEANS
        if look.lookers > LOOKERS:
            return GANGS_OF_WIDE_SPREADS
        if op.state_bytes > 8:
            return GANGS_OF_SPREADS if _short(op, dense) and dense.width > LANES else GANGS_OF_PAIRS
        return GANGS_OF_FEW if dense.width <= FEW_COLUMNS else GANGS_AT_ONCE
    narrow = dense.sizes[0] == 2 and scan_lanes.adds_floats(op) and (together == 1 or dense.width <= LANES)
    return GANGS_OF_NARROW if narrow else GANGS


def _cut(
    op: Operator, dense: Dense, together: int, look: _Look, limit: int, shapes: tuple[tuple[int, int], ...]
) -> _Cut | None:
    """Warps, and teams and rows of a tile: those that leave few lanes idle, in different banks."""
    best, cut = math.inf, None
    width, size = dense.width, dense.sizes[0]
    most_warps = MOST_OF_NARROW if shapes is GANGS_OF_NARROW else MOST_WARPS
    if look.stretch:
        most_warps = WARPS_ASKEW if width > WIDEST else MOST_AT_ONCE
    for gangs, warps in shapes:
        if cut and gangs * warps < ENOUGH:
            break
        if gangs * warps + LAG * look.lookers > most_warps:
            continue
        lanes = LANES * warps * together  # columns that a gang has lanes for
        notes = SLOTS * gangs * lanes * op.flow_bytes + NOTES
        most = min((limit - notes) // dense.bytes_each, TILE // sum(dense.sizes))
        most = min(most, max(gangs * lanes * 2 * FEWEST, dense.count * dense.length * width // TILES)) // gangs
        for teams in range(lanes // width, lanes // width * 7 // 8, -1):
            highest = most // (teams * width)
            for rows in range(highest, highest * 2 // 3, -1):
                if teams * rows * width % (PACK // min(dense.sizes)) or rows < min(FEWEST, warps):
                    continue
                steps = rows // BATCH + rows % BATCH // 4 * HALF + rows % 4 * SINGLE
                clashes = _clashes(rows * width % (256 // together), width, together, size)
                cost = lanes / (teams * width) * (5 + 3 * clashes + 4 * steps * BATCH / rows)
                cost += 6 * most / (teams * rows * width) + 0.15 * warps + 0.2 * abs(gangs * warps - 14)
                cost += NOTED * (gangs if warps == 1 else gangs * teams) / max(1, LANES * look.lookers // width)
                if cost < best:
                    nbytes = gangs * teams * rows * width * dense.bytes_each + notes
                    best, cut = cost, _Cut(gangs, warps, gangs * teams, rows, nbytes)
    return cut


@functools.lru_cache(maxsize=4096)
def _clashes(apart: int, width: int, together: int, size: int) -> float:
    """Accesses to shared memory for one of a warp, on average over some, teams being so many elements apart."""
    each = max(1, together * size // 4)  # words of a lane: as many lanes fewer are served at once
    worst = []
    for begin in range(0, 4 * LANES, LANES // each):
        banks: dict[int, set[int]] = {}
        for lane in range(begin, begin + LANES // each):
            team, column = divmod(lane * together, width)
            word = (team * apart + column) * size // 4
            banks.setdefault(word // each % (LANES // each), set()).add(team * LANES**3 + word)
        worst.append(max(map(len, banks.values())))
    return sum(worst) / len(worst)
