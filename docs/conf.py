"""Settings of the documentation: ``uv run sphinx-build -W docs docs/_build/html``."""

import tenure

project = "Tenure"
project_copyright = "The Tenure authors"
version = release = tenure.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
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
