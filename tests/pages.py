"""The README and the pages of the site, as tests read them."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = ("_build", "gallery", "generated")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    if not set(GENERATED) & set(path.relative_to(ROOT).parts)
}
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$", re.M)


def blocks(text: str) -> list[str]:
    """The Python of a page, without blocks that say before them why they are not run, or, in the README, need CuPy."""
    found = re.findall(r"(^[^\n]*\n)^```python\n(.*?)^```", text, re.S | re.M)
    return [code for before, code in found if not NOT_RUN.match(before) and not code.startswith("import cupy,")]


def between(page: str, name: str) -> str:
    """What stands between two marks of a page."""
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", PAGES[page], re.S)[1]


def sections(text: str) -> list[list[str]]:
    """The cells of the rows of all tables of a page."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows]
