"""Write where the site is published into README's first line: `python -m website.address`.

The one setting is `address` under `[tool.site]` in pyproject.toml. It is empty until the site is published:
until then there is no such line, and README says only how to build the site.
"""

from __future__ import annotations

import tomllib

from course.curriculum import ROOT

README = ROOT / "README.md"
END = "<!-- website/address.py -->"


def address() -> str:
    """The address, or nothing."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: str = settings["tool"]["site"]["address"]
    return found


def with_address(readme: str, address: str) -> str:
    """The README with a link to the address below its title."""
    title, rest = readme.split("\n", 1)
    link = f"**[Read the course as a site]({address})**\n" if address else ""
    return f"{title}\n\n{link}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    README.write_text(with_address(text, address()), encoding="utf-8")
