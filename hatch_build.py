"""A build hook: compiles the host loops where there is a C compiler. Without them NumPy does the work, more slowly."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).parent / "kernels" / "host"
OPTIONS = ("-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-shared")


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        library = compiled()
        if library is None:
            return
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        if version != "editable":
            build_data["force_include"][str(library)] = f"gpureduce_dask/_kernels/host/{library.name}"


def compiled() -> Path | None:
    """The library, named after its texts and the platform, so that none is taken for another; None if none was made."""
    digest = hashlib.sha256(b"".join(text.read_bytes() for text in sorted(FOLDER.glob("*.[ch]")))).hexdigest()[:12]
    library = FOLDER / f"loops-{digest}-{sysconfig.get_platform()}.so"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    texts = [str(text) for text in sorted(FOLDER.glob("*.c"))]
    new = library.with_suffix(f".{os.getpid()}")  # moved into place whole: builds may run side by side
    try:
        subprocess.run([*compiler, *OPTIONS, "-o", str(new), *texts], check=True, capture_output=True, text=True)
        new.replace(library)
    except (OSError, subprocess.CalledProcessError) as error:
        told = "\n".join((getattr(error, "stderr", None) or str(error)).splitlines()[:10])
        print(f"gpureduce-dask: no compiled host loops, NumPy stands in for them: {told}", file=sys.stderr)
        return None
    return library
