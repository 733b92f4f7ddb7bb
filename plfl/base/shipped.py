"""Files that come with the package besides Python: the workflow, the ready-made studies, the
guides.

A clone has them at its root. A wheel has them in `plfl/shipped/`, arranged in the same way by
`setup.py`, so that relative paths are the same.
"""

import re
from pathlib import Path

from plfl.base.errors import PlflError, Problem, suggest_name
from plfl.base.files import write_new_text

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
"""The folder `plfl` with the code."""
PAPER = "paper"
"""The name of `config.yaml`, the paper's study, among the ready-made studies."""


def root() -> Path:
    """The folder that holds `Snakefile`, `config.yaml`, `config/`, `workflow/` and `docs/`."""
    installed = PACKAGE_ROOT / "shipped"
    return installed if installed.is_dir() else PACKAGE_ROOT.parent


def main_snakefile() -> Path:
    """The workflow, with the profiles beside it."""
    return root() / "Snakefile"


def snakefile() -> str:
    """The path of the rules, for the module of another workflow (docs/workflow.md).

    >>> import plfl
    >>> Path(plfl.snakefile()).name
    'Snakefile'
    """
    return str(root() / "workflow" / "Snakefile")


def studies() -> dict[str, Path]:
    """The ready-made studies by name, the paper's first."""
    paths_by_name = {path.stem: path for path in sorted((root() / "config").glob("*.yaml"))}
    return {PAPER: root() / "config.yaml", **paths_by_name}


def about(name: str) -> str:
    """What a ready-made study is for: the first sentence of its file."""
    text = studies()[name].read_text(encoding="utf-8").replace("config.yaml", f"{PAPER}.yaml")
    paragraph = text.partition("\n#\n")[0].replace("\n#", "").removeprefix("# ")
    sentence = re.split(r"(?<=[.?])\s|:\s", paragraph)[0].rstrip(".")
    return re.sub(r" \(docs/.*?\)", "", sentence)


def write_study(name: str, folder: Path) -> Path:
    """Write a ready-made study into a folder, with paths and commands that are valid there.
    PlflError: there is no such study, its file exists already, or it cannot be written."""
    if name not in studies():
        hint = suggest_name(name, studies())
        raise PlflError(
            Problem("", f"there is no ready-made study {name!r}{hint}", "`plfl init` lists them")
        )
    text = _adapt_study(studies()[name].read_text(encoding="utf-8"))
    return write_new(folder / f"{name}.yaml", text)


def write_new(path: Path, text: str) -> Path:
    """Write the file of a study, whole; never overwrite a file."""
    try:
        write_new_text(path, text)
    except FileExistsError:
        raise PlflError(Problem(path, "exists already", "rename or remove it first")) from None
    except OSError as error:
        raise PlflError(Problem(path, str(error.strerror), "choose another folder")) from None
    return path


def _adapt_study(text: str) -> str:
    """The text of a ready-made study, adapted to a folder of the user."""
    for pattern, replacement in (
        (r"^# +make .*\n", ""),
        (r"snakemake --cores all --configfile ", "plfl study "),
        (r"snakemake --cores all", "plfl study config.yaml"),
        (r"(?<![\w/])config/([\w-]+\.yaml)", r"\1"),
        (r"(?<![\w/])config\.yaml", f"{PAPER}.yaml"),
        (r"\$schema=[./]*(workflow/\S+)", rf"$schema={root()}/\1"),
        (r"(?<![\w/])docs/([\w-]+\.md)", rf"{root()}/docs/\1"),
    ):
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text
