"""Runs a script of reproductions/ in a library's folder, with stubs for packages that are missing.

python -m benchmarks.conformance.reproduce LIBRARY FOLDER SCRIPT
"""

import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

SCRIPTS = Path(__file__).parent / "reproductions"


def main(module: str, folder: str, script: str) -> None:
    """Run the script as `python SCRIPT` would in the folder that it names."""
    import_module(f"benchmarks.conformance.{module}").set_up(Path(folder).resolve())
    os.chdir(sys.path[0])
    runpy.run_path(str(SCRIPTS / script))


if __name__ == "__main__":
    main(*sys.argv[1:])
