"""Moves the clock of a process and of its SuperNode by `SHIFT` seconds, and has the SuperNode ask
for messages twice in a second instead of every three seconds, if this folder is in PYTHONPATH."""

import os
import sys
import time
from datetime import timedelta

SHIFT = float(os.environ.get("SHIFT", "0"))
_time, _sleep = time.time, time.sleep
time.time = lambda: _time() + SHIFT
if any(word.endswith("flower-supernode") for word in sys.orig_argv):
    from flwr.supercore import date

    _now = date.now
    date.now = lambda: _now() + timedelta(seconds=SHIFT)
    time.sleep = lambda seconds: _sleep(min(float(seconds), 0.5))
