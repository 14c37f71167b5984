"""Which interfaces of dask and distributed the package uses that their documentation does not have.

``python tests/private_interfaces.py`` writes those of the one module that may use them into
docs/contributing/layout.md, and prints any other.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "gpureduce_dask"
PAGE = PACKAGE.parent / "docs" / "contributing" / "layout.md"
MODULE = PACKAGE / "distributed" / "private.py"
UPSTREAMS = {"dask", "distributed"}
TOOLS = {"tools"}  # which only measure and report

# What is documented, or named in the docstring of what is: https://docs.dask.org, https://distributed.dask.org.
DOCUMENTED = frozenset(
    """
    dask dask.array dask.base dask.base.clone_key dask.base.compute dask.base.is_dask_collection
    dask.base.tokenize dask.array.reductions dask.array.reductions.cumreduction dask.array.stats dask.delayed.delayed
    dask.highlevelgraph.HighLevelGraph dask.highlevelgraph.Layer dask.highlevelgraph.MaterializedLayer
    dask.array.core.Array dask.array.core dask.array.creation dask.array.optimization.optimize dask.array.routines
    dask.array.wrap dask.system.CPU_COUNT dask.utils.funcname dask.utils.parse_bytes dask.array.optimize
    distributed distributed.CancelledError distributed.Client distributed.LocalCluster distributed.Nanny
    distributed.Reschedule distributed.WorkerPlugin distributed.get_client distributed.get_worker distributed.wait
    """.split()
)
# Python's, the tracer's own, and one of NAMES
OURS = frozenset({"_asdict", "_replace", "_getframe", "_number", "_tape", "_meta"})
# What every expression has, where it is made one: of those of EXPRESSIONS, as ``_meta`` is of an array.
EXPRESSION_FILES = {"graph/array_expressions.py", "api/explain.py"}
OF_EXPRESSIONS = frozenset("._name ._layer ._parameters ._expr ._replace_expr".split())


def imports(tree: ast.AST) -> Iterator[str]:
    """What a file imports of dask and distributed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] in UPSTREAMS)


def private_attributes(tree: ast.AST) -> Iterator[str]:
    """Attributes with an underscore, of anything but the object itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            is_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not is_self and node.attr not in OURS:
                yield f".{node.attr}"


def elsewhere(package: Path = PACKAGE, module: Path = MODULE) -> dict[str, set[str]]:
    """Private interfaces by the files outside of the one module that use them."""
    found = defaultdict(set)
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        if path == module or place.parts[0] in TOOLS:
            continue
        tree = ast.parse(path.read_text())
        known = OF_EXPRESSIONS if str(place) in EXPRESSION_FILES else frozenset()
        for name in (*(n for n in imports(tree) if n not in DOCUMENTED), *private_attributes(tree)):
            if name not in known:
                found[name].add(str(place))
    return dict(found)


def page(text: str) -> str:
    """The page on the package's layout with its list of private interfaces as they are now."""
    from gpureduce_dask.distributed.private import EXPRESSIONS, NAMES

    lines = ["", f"{len(NAMES)} for graph-based arrays and clusters:", ""]
    lines += [f"- `{name}`: {use}" for name, use in NAMES.items()]
    lines += ["", f"{len(EXPRESSIONS)} more for arrays that are expressions:", ""]
    lines += [f"- `{name}`: {use}" for name, use in EXPRESSIONS.items()]
    before, rest = text.split("<!-- private -->")
    return "\n".join(
        [f"{before}<!-- private -->", *lines, "", f"<!-- /private -->{rest.split('<!-- /private -->')[1]}"]
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    others = elsewhere()
    print(f"{PAGE.name} has those of {MODULE.name}; {len(others)} elsewhere")
    for name, files in others.items():
        print(f"  {name}: {', '.join(sorted(files))}")
