"""The tables of measured meters that the map and the frozen tasks read, from the public originals.

    python -m benchmarks.originals ORIGINALS [DATA]

ORIGINALS is a folder with what is downloaded from the places in docs/measured-meters.md; DATA,
`data` by default, is the folder for the tables. `plfl.outside.recipes` lists the originals and has
the rules by which meters are kept. `plfl data fetch TASK` downloads those of a task.
"""

import sys
from pathlib import Path

from plfl.outside.recipes import main

if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(*sys.argv[2:] or ["data"])))
