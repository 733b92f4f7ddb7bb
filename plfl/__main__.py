"""`python -m plfl` is the `plfl` command."""

import sys

from plfl.cli import main

sys.exit(main())
