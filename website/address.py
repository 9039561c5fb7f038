"""Write where the course is published into README: `python -m website.address`.

The one setting is `address` under `[tool.site]` in pyproject.toml: where the site is published. It contains
the repository's name on GitHub. While it is empty, README has no links to either, and no place to clone.
"""

from __future__ import annotations

import re
import tomllib

from course.curriculum import DAYS, ROOT

README = ROOT / "README.md"
END = "<!-- website/address.py -->"
CLONE = re.compile(r"^git clone \S.*?(?= transformers )", re.MULTILINE)


def address() -> str:
    """The address, or nothing."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    value: str = settings["tool"]["site"]["address"]
    return value


def repository(address: str) -> str:
    """OWNER/NAME on GitHub, of what GitHub Pages publishes at an address; nothing for any other address."""
    match = re.fullmatch(r"https://([\w-]+)\.github\.io/([\w.-]+)/?", address)
    return f"{match[1]}/{match[2]}" if match else ""


def with_address(readme: str, address: str) -> str:
    """The README with its links and badges below the title, and the place from which it is cloned."""
    title, rest = readme.split("\n", 1)
    name = repository(address)
    links = f"**[Read the course as a site]({address})**\n" if address else ""
    if name:
        lesson = f"{name}/blob/colab/lessons/{DAYS[0].lesson.name}"
        links += (
            "[![Open in GitHub Codespaces](https://github.com/codespaces/badge.svg)]"
            f"(https://codespaces.new/{name})\n"
            "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
            f"(https://colab.research.google.com/github/{lesson})\n"
            f"[![License](https://img.shields.io/github/license/{name})](LICENSE)\n"
            f"[![Stars](https://img.shields.io/github/stars/{name})](https://github.com/{name})\n"
        )
    cloned = f"git clone https://github.com/{name}" if name else "git clone <this repository>"
    return f"{title}\n\n{links}{END}{CLONE.sub(cloned, rest.partition(END)[2])}"


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    README.write_text(with_address(text, address()), encoding="utf-8")
