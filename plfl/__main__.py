"""The `plfl` command, also as `python -m plfl`. Ctrl-C ends it quietly even while it starts."""

import sys

from plfl.base.errors import PlflError
from plfl.base.interrupts import exit_on_ctrl_c, raising_on_ctrl_c


def main() -> int:
    """Run the command on the arguments of this process and return its exit status."""
    exit_on_ctrl_c()
    try:
        from plfl.cli.main import main as run
    except PlflError as error:  # an installed package brings a file that is broken
        print(f"plfl: {error}", file=sys.stderr)
        return 2

    with raising_on_ctrl_c():
        return run()


if __name__ == "__main__":
    sys.exit(main())
