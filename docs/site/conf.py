"""Settings of `make docs`: Sphinx, with MyST for Markdown and the theme Furo."""

import tomllib
from pathlib import Path
from typing import Any

_PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]

project = "Thalweg"
author = "the Thalweg contributors"
version = release = _PROJECT["version"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"

myst_enable_extensions = ["colon_fence", "fieldlist"]
myst_heading_anchors = 3  # Links to headings, as in the repository's own view of the guides.

smartquotes_action = "D"  # Dashes only: quotes in docstrings are those of Python.

html_theme = "furo"
html_title = "Thalweg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
add_function_parentheses = False

_trees: dict[tuple[str, str], str] = {}


def _share_tree(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Makes the navigation of pages that are not part of it once per folder: it is most of the time of a page."""
    if "orphan" not in app.env.metadata.get(pagename, {}):
        return
    render = context["toctree"]

    def shared(**options: Any) -> str:
        key = pagename.rpartition("/")[0], repr(sorted(options.items()))
        if key not in _trees:
            _trees[key] = str(render(**options))
        return _trees[key]

    context["toctree"] = shared


def setup(app: Any) -> None:
    """Called by Sphinx: registers a handler that comes before the theme's own."""
    app.connect("html-page-context", _share_tree, priority=400)
