"""`python -m plfl` is the `plfl` command."""

import sys

from plfl.cli.main import main

sys.exit(main())
