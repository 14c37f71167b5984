"""Configuration of the documentation site: ``python -m sphinx -W -b html docs docs/_build/html``."""

import inspect
import os
import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
# Workers that an example starts import the package too, from this tree.
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))

import gpureduce_dask  # noqa: E402

project = "gpureduce_dask"
author = copyright = "gpureduce_dask developers"
version = release = gpureduce_dask.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "py:obj"

# Pages link to headings of others, and a heading that is gone is a warning.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # numpydoc's sections say them
autodoc_member_order = "bysource"
add_module_names = False
numpydoc_show_class_members = False
numpydoc_use_plots = False

# A name that leads nowhere is a warning, but for two kinds that have no page.
nitpicky = True
PUBLIC = [getattr(module, name) for module in (gpureduce_dask, gpureduce_dask.cluster) for name in module.__all__]
# Parameters, which docstrings have between single backquotes as numpydoc asks for.
nitpick_ignore = sorted(
    {("py:obj", name) for each in PUBLIC if callable(each) for name in inspect.signature(each).parameters}
)
nitpick_ignore_regex = [("py:class", r"numpy\..*")]  # bases of errors: the build has no network to find NumPy's pages

html_theme = "pydata_sphinx_theme"
html_title = f"gpureduce_dask {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {page: [] for page in ("index", "comparison", "changelog")}  # which have no pages below them
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "gpureduce_dask"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "reset_argv": "figures.arguments",  # by its name, so that it is pickled
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "default_thumb_file": str(HERE / "_static" / "chunks.svg"),  # with -D plot_gallery=0, where none is run
    "plot_gallery": "True",
}
# plt.show() where there is no screen.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def escape_stars(app, what, name, obj, options, lines):
    """Types of parameters as ``callable(*dtypes)`` are no emphasis: numpydoc hands them on as they are."""
    for i, line in enumerate(lines):
        name, colon, kind = line.partition(" : ")
        if colon and re.match(r"[\w*\\]", name):
            lines[i] = name + colon + re.sub(r"(?<!\\)\*", r"\\*", kind)


def read_ladder(app, docname, source):
    """The page of the ladder is the README of its folder, whose links to files of that folder lead there."""
    if docname == "contributing/ladder":
        readme = HERE.parent / "kernels" / "history" / "README.md"
        app.env.note_dependency(str(readme))
        source[0] = re.sub(r"\]\((?=\w+\.cuh)", "](../../kernels/history/", readme.read_text())


def find_public(app, env, node, contnode):
    """Docstrings of classes name public functions as their modules know them; the pages are of the package's names."""
    name = f"gpureduce_dask.{node.get('reftarget')}"
    if node.get("refdomain") != "py" or name not in env.domains.python_domain.objects:
        return None
    where = node["refdoc"], app.builder, node["reftype"], name
    return env.domains.python_domain.resolve_xref(env, *where, node, contnode)


def setup(app):
    app.connect("missing-reference", find_public)
    app.connect("autodoc-process-docstring", escape_stars, priority=400)  # before numpydoc's
    app.connect("source-read", read_ladder)
