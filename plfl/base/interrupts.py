"""What Ctrl-C (SIGINT) does to a process: nothing to see while it starts, an exception later.

Python answers Ctrl-C during an import with a traceback. Therefore each process that plfl starts
calls `exit_on_ctrl_c` before it imports anything heavy, and runs its main part in
`raising_on_ctrl_c`.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def exit_on_ctrl_c() -> None:
    """Have Ctrl-C end this process at once without output; shells report status 130. A process that
    ignores Ctrl-C, such as one in the background of a shell, still does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_on_ctrl_c() -> None:
    """Have Ctrl-C raise KeyboardInterrupt again after `exit_on_ctrl_c`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def raising_on_ctrl_c() -> Iterator[None]:
    """As `raise_on_ctrl_c`, during the block."""
    handler = signal.getsignal(signal.SIGINT)
    raise_on_ctrl_c()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
