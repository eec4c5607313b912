"""Settings of the documentation: ``uv run sphinx-build -W docs docs/_build/html``."""

import sys
from pathlib import Path

import tenure

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the extensions in docs/_ext
project = "Tenure"
project_copyright = "The Tenure authors"
version = release = tenure.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "docs._ext.machines", "docs._ext.records"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "Tenure"
