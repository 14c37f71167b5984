"""The README is true: its commands, its code, its tables and its links. Of the other pages see test_docs.py."""

import re
import subprocess
import sys

from pages import PAGES, ROOT, blocks

README = PAGES["README.md"]


SITE = 'pip install -e ".[docs]" && python -m sphinx -W -b html docs docs/_build/html'


def test_set_up_is_one_command_each():
    commands = [line for line in README.splitlines() if line.startswith("pip install")]
    assert commands == [
        'pip install -e ".[demo]" && python -m gpureduce_dask demo',
        'pip install -e ".[test]" && pytest',
        SITE,
    ]


def test_one_command_builds_the_site_wherever_it_is_named():
    pages = ["README.md", "docs/contributing/index.md", "docs/contributing/site.md"]
    assert [page for page in pages if SITE in PAGES[page].splitlines()] == pages
    others = [line for text in PAGES.values() for line in text.splitlines() if line.startswith("python -m sphinx")]
    assert not others


def test_it_is_short():
    assert len(README.splitlines()) <= 200


def test_code_runs():
    """All but the first block, whose data is the reader's, one after the other, in a process of its own."""
    found = blocks(README)
    assert len(found) == 5
    done = subprocess.run([sys.executable, "-c", "\n".join(found)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("plan of std, axis=0")
    [explained] = re.findall(r"explain\(warmth\)\)  # (.*)", README)
    assert done.stdout.splitlines()[-1] == explained


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)", README)
    assert len(links) > 15
    assert not [link for link in links if "://" not in link and not (ROOT / link).exists()]


def test_extras_are_those_of_the_project():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set(re.findall(r"\.\[(\w+)\]", README)) | set(
        re.findall(r"^The extras `(\w+)`, `(\w+)` and `(\w+)`", README, re.M)[0]
    )
    assert named == set(extras)
