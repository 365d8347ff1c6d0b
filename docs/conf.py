"""How Sphinx builds the site: `make docs`, or `sphinx-build -W --keep-going -n -c docs . build/site`.

The source folder is the repository itself, so that the links between README, docs and recipes are the same on the site
and where the repository is read.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

from corpo_rl import __version__

project = "corpo-rl"
author = "The corpo-rl authors"
copyright = "The corpo-rl authors, Apache-2.0"
version = release = __version__

root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**", "recipes/*/*.md"]
exclude_patterns = [".*", "**/.*", "build", "runs", "src", "tests", "shared", "docs/_static", "docs/_templates"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docs_autodoc", "docs_commands"]
default_role = "code"  # as docstrings mean single backticks
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_mock_imports = ["verl"]  # it lives in an environment of its own
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!corpo_rl\.).*")]  # other packages' names: finding their pages takes a network
nb_execution_mode = "off"  # their outputs are kept in the notebooks, and a test runs them
myst_heading_anchors = 4
highlight_language = "text"

html_theme = "furo"
html_title = "corpo-rl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_additional_pages = {"index": "to-docs.html"}
html_copy_source = False
