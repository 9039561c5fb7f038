"""Sphinx's settings for the site. What it reads is laid out by `assemble.py`; `make site` runs both."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # autodoc imports the references, and Sphinx our extensions

from website.address import address, repository  # noqa: E402

# The course's repository on GitHub, as OWNER/NAME. The links to Colab, Codespaces and the sources come
# from it, and without it are not there.
REPOSITORY = os.environ.get("SITE_REPOSITORY") or repository(address())
if REPOSITORY and not re.fullmatch(r"[\w.-]+/[\w.-]+", REPOSITORY):
    raise ValueError(f"SITE_REPOSITORY is OWNER/NAME, such as ada/course, and not {REPOSITORY!r}")

project = "Transformers from scratch"
html_baseurl = address()
html_title = project
language = "en"
smartquotes_action = "D"  # dashes are made of hyphens; quotes are what the authors typed
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "website.mathml",
    "website.reference",
    "website.search",
]
suppress_warnings = [
    "toc.not_included"
]  # a text that another has a link to is a page, in the menu or not
exclude_patterns = ["README.md", "_*"]  # included by pages, or handed out as they are

# Lessons: as they were executed.
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the {type}"
nb_code_prompt_hide = "Hide the {type}"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

# The reference: in the order of the files.
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
autodoc_mock_imports = ["triton"]  # it comes with torch for CUDA alone
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
nitpicky = True
nitpick_ignore = [("py:class", "variants.parallelism.Result")]  # a type variable
nitpick_ignore_regex = [("py:.*", r"(?!implementation|numpy_reference|variants).*")]

html_theme = "pydata_sphinx_theme"
html_static_path = ["static", "../explorer/font"]
html_favicon = "../explorer/favicon.svg"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_css_files = ["site.css"]
html_js_files = ["site.js"]
templates_path = ["templates"]

html_copy_source = False
html_show_sourcelink = False
html_context = {"repository": REPOSITORY, "default_mode": "auto"}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "back_to_top_button": False,
    "show_toc_level": 1,
    "article_header_end": ["open-lesson"],
    "footer_start": [],
    "footer_end": [],
    "icon_links": (
        [
            {
                "name": "Source on GitHub",
                "url": f"https://github.com/{REPOSITORY}",
                "icon": "fa-brands fa-github",
            }
        ]
        if REPOSITORY
        else []
    ),
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {
    page: []
    for page in ("index", "docs/*", "docs/decisions/*", "commands", "explorer", "CONTRIBUTING")
}


def setup(app) -> None:
    """Copy the notebooks and stubs, unchanged, beside the pages."""
    app.connect(
        "config-inited",
        lambda app, config: config.html_extra_path.append(str(app.srcdir / "_extra")),
    )
