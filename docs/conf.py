"""Settings of the documentation: `sphinx-build -W -n docs docs/_build/html`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import fastsvm

project, author, version = "fastsvm", "The fastsvm developers", fastsvm.__version__
release, copyright, language = version, f"2026, {author}", "en"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxarg.ext",
    "docstrings",
    "house",
    "mathml",
    "source_links",
]
exclude_patterns = ["_build", "_ext", "examples"]
templates_path = ["_templates"]
nitpicky = True

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

html_math_renderer = "mathml"
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("matplotlib", "gallery_style.apply"),
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "min_reported_time": 1_000,
    "doc_module": ("fastsvm",),
    "backreferences_dir": None,
}

html_theme = "pydata_sphinx_theme"
html_title = f"fastsvm {version}"
# These pages have no pages below them, so a list of those would be empty.
html_sidebars = {name: [] for name in ("start", "when_not", "troubleshooting", "benchmarks", "changelog")}
html_static_path = ["_static"]
html_css_files = ["fastsvm.css"]
html_show_sourcelink = False
html_theme_options = {
    "github_url": "https://github.com/fastsvm/fastsvm",
    "header_links_before_dropdown": 4,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "use_edit_page_button": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
