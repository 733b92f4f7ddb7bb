"""`make address REPOSITORY=ACCOUNT/NAME`: write the repository's public address into its files.

`release/address.txt` names the account and the repository on GitHub that the files have now, a
placeholder until the owner has chosen. A second run moves on, for example after a transfer.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "release/address.txt"
REPOSITORY = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*/[\w.-]*[\w-]")
"""An account and a repository that GitHub accepts."""


def current(root: Path = ROOT) -> str:
    """The account and the repository that the files name, such as `OWNER/plfl`."""
    return (root / ADDRESS).read_text(encoding="utf-8").strip()


def forms(repository: str) -> dict[str, str]:
    """What stands in the files for a repository: on GitHub, as a container image, which has a name
    in small letters, and as a site of GitHub Pages."""
    account, name = repository.split("/")
    return {
        "image": f"ghcr.io/{repository.lower()}",
        "site": f"{account.lower()}.github.io/{name}",
        "repository": repository,
    }


def replace(text: str, old: str, new: str) -> str:
    """The text with the repository `new` in place of `old`, in each of its forms."""
    for kind, written in forms(old).items():
        pattern = rf"(?<![\w.-]){re.escape(written)}(?![\w-])"
        text = re.sub(pattern, lambda _, kind=kind: forms(new)[kind], text)
    return text


def fill(repository: str, root: Path = ROOT) -> list[str]:
    """Write the repository into all files that git knows; return the names of those that changed.
    ValueError: it is no name of a repository. OSError: a file cannot be written."""
    if not REPOSITORY.fullmatch(repository):
        raise ValueError(f"{repository!r}: give ACCOUNT/NAME, as in github.com/ACCOUNT/NAME")
    git = ("git", "-C", str(root), "ls-files", "-z")
    names = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
    old, changed = current(root), []
    for name in filter(None, names):
        path = root / name
        try:
            text = path.read_bytes().decode()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # pictures, files that were deleted, links to folders
        if (filled := replace(text, old, repository)) != text:
            path.write_bytes(filled.encode())
            changed.append(name)
    return changed


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python release/address.py ACCOUNT/NAME")
    try:
        print("\n".join(fill(sys.argv[1])))
    except ValueError as error:
        sys.exit(str(error))
