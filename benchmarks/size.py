"""`make size`: lines of code by folder, and words of prose."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = {".py", ".cpp", ".h", ".js", ".mjs", ".jinja", ".css", ".smk", ".toml", ".sh"}
FOLDERS = ("plfl", "plfl_images", "plfl_reproductions", "workflow", "benchmarks", "tests")


def main() -> None:
    """Print one line per folder, then all but the tests, then the pages, without those that are
    generated."""
    git = ("git", "-C", str(ROOT), "ls-files")
    listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [path for path in map(ROOT.joinpath, listed) if path.is_file()]
    total = 0
    for folder in FOLDERS:
        inside = [p for p in files if p.is_relative_to(ROOT / folder) and p.suffix in CODE]
        lines = sum(len(_text(path).splitlines()) for path in inside)
        total += lines if folder != "tests" else 0
        print(f"{folder:20} {lines:7,} lines in {len(inside):4} files")
    print(f"{'all but tests':20} {total:7,} lines")
    pages = [
        path
        for path in files
        if path.suffix == ".md"
        and path.name != "configuration.md"
        and not path.is_relative_to(ROOT / "tests")
    ]
    words = sum(len(_text(page).split()) for page in pages)
    print(f"{'prose':20} {words:7,} words in {len(pages):4} pages")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    main()
