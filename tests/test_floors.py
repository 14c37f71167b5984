"""Imports go down only: each module may import the floors below its own, and its neighbours on the same floor, without
circles."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "gpureduce_dask"

# From the ground up. A name is a module or a folder of modules; the package itself stands above the public functions.
FLOORS = [
    {"errors", "configuration", "dtypes", "history", "parameters", "public"},
    {"operators"},
    {"place", "strides", "labels"},
    {"expressions"},
    {"host", "device"},
    {"chunk", "chunk_groups"},
    {"planner"},
    {"distributed"},
    {"graph"},
    {"integrations", "steps"},
    {"api", "auto", "cluster"},
    {""},
    {"tools", "xarray"},
    {"__main__"},
]
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}
MODULES = sorted(PACKAGE.rglob("*.py"))


def unit(path: Path) -> str:
    """The module or folder of modules that a file is part of; the package's own ``__init__`` is ''."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def imported_units(path: Path) -> set[str]:
    """Units that a file imports, at its top or within a function."""
    package = ["gpureduce_dask", *path.relative_to(PACKAGE).parts[:-1]]
    names = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names += [f"{module}.{alias.name}" for alias in node.names]
    inside = [name.split(".")[1:] for name in names if name.split(".")[0] == "gpureduce_dask"]
    # A name that is no unit is one of the package's public names.
    return {parts[0] if parts and parts[0] in FLOOR_OF else "" for parts in inside}


def test_every_module_has_a_floor():
    unknown = {unit(path) for path in MODULES} - set(FLOOR_OF)
    assert not unknown, f"say in FLOORS where these stand: {sorted(unknown)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path):
    own = unit(path)
    above = {name for name in imported_units(path) if FLOOR_OF[name] > FLOOR_OF[own]}
    assert not above, f"{own or 'the package'} imports from above: {sorted(above)}"


def test_no_module_is_imported_by_what_it_imports():
    """At the top of modules: a function may import what stands beside it and is imported later."""
    names = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in MODULES}
    needs = {name: imported_modules(path, names) for name, path in names.items() if not name.endswith("__init__")}
    assert len(needs["graph.reduce"]) > 10
    list(TopologicalSorter(needs).static_order())  # raises where there is a circle, and names it


def imported_modules(path: Path, names: dict[str, Path]) -> set[str]:
    """Modules of the package that a file imports as it is imported itself."""
    folder = path.relative_to(PACKAGE).parts[:-1]
    found = set()
    for node in ast.parse(path.read_text(), str(path)).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*folder[: len(folder) - node.level + 1], *([node.module] if node.module else [])]
            found |= {".".join([*base, alias.name]) for alias in node.names} | {".".join(base)}
    return found & names.keys()


def test_the_walk_sees_relative_absolute_and_nested_imports(tmp_path, monkeypatch):
    folder = tmp_path / "chunk"
    folder.mkdir()
    module = folder / "host.py"
    module.write_text(
        "from ..graph import reduce\n"
        "from . import place\n"
        "def f():\n"
        "    from gpureduce_dask.tools.cli import main\n"
        "    import gpureduce_dask as gr\n"
    )
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    assert imported_units(module) == {"graph", "chunk", "tools", ""}


def test_kernels_hold_no_python():
    assert not list((PACKAGE.parent / "kernels").rglob("*.py"))
