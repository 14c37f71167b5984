"""The kernels' text: found beside the package or in it, and flattened into one translation unit.

Flattened because a compile cache keyed by source text must see a changed header. Each file is included once, in
the order of its first ``#include``; ``#line`` keeps compiler messages pointing at the file they speak of.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

_INCLUDE = re.compile(r'^#include "([^"]+)"\s*$')
_ROOTS = (Path(__file__).parent.parent / "_kernels", Path(__file__).parent.parent.parent / "kernels")


def kernels_folder() -> Path:
    """The folder of CUDA sources: shipped inside a wheel, or at the top of a checkout."""
    for root in _ROOTS:
        if (root / "reduce.cuh").is_file():
            return root
    raise FileNotFoundError(f"no CUDA sources in {' or '.join(map(str, _ROOTS))}; reinstall gpureduce-dask")


def flatten(top: str, root: Path) -> str:
    """``root/top`` with every file it includes put in its place, each once."""
    seen: set[Path] = set()

    def text_of(path: Path) -> list[str]:
        if path in seen:
            return []
        seen.add(path)
        name = path.relative_to(root).as_posix()
        lines = [f'#line 1 "{name}"']
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.strip() == "#pragma once":
                lines.append("")
            elif found := _INCLUDE.match(line):
                lines += text_of((path.parent / found[1]).resolve())
                lines.append(f'#line {number + 1} "{name}"')
            else:
                lines.append(line)
        return lines

    root = root.resolve()
    return "\n".join(text_of(root / top)) + "\n"


@functools.cache
def source(top: str = "reduce.cuh") -> str:
    """The flattened text of a top file of the shipped kernels."""
    return flatten(top, kernels_folder())
