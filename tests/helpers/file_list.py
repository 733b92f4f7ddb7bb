"""The last section of docs/architecture.md: what each file of plfl is, in the first sentence of its
docstring, and the names that it defines for others.

    python -m tests.helpers.file_list
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
HEADING = "## Every file\n"
INTRODUCTION = """
The first sentence of each file's docstring, and the classes and functions that it defines for other
files, written by `python -m tests.helpers.file_list`.
"""


def written() -> str:
    """The section as the page has it."""
    return PAGE.read_text("utf-8").partition(HEADING)[2]


def section() -> str:
    """The section as the docstrings have it."""
    return INTRODUCTION + "".join(_lines())


def _lines() -> Iterator[str]:
    files = sorted((ROOT / "plfl").rglob("*.py"), key=lambda path: (path.parent.parts, path.name))
    for path in files:
        if path.name == "__init__.py":
            yield f"\n`{path.parent.relative_to(ROOT)}/`: {_sentence(path)}\n\n"
        else:
            names = ", ".join(f"`{name}`" for name in _public_names(path))
            yield _bullet(f"`{path.stem}`: {_sentence(path)} {names}".rstrip())


def _public_names(path: Path) -> list[str]:
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.parse(path.read_text("utf-8")).body
    names = [node.name for node in nodes if isinstance(node, definitions)]
    return [name for name in names if not name.startswith("_")]


def _sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"(?<=\.)(?<!al\.)\s", paragraph, maxsplit=1)[0]


def _bullet(text: str) -> str:
    return (
        textwrap.fill(
            text, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )
        + "\n"
    )


if __name__ == "__main__":
    before = PAGE.read_text("utf-8").partition(HEADING)[0].rstrip()
    PAGE.write_text(f"{before}\n\n{HEADING}{section()}", "utf-8")
