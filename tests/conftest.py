"""What tests of several rooms share."""

import os

# Every worker of pytest-xdist would start a thread for every core. Threads that wait for a core
# spin: small matrices then cost several times as much processor time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# How long an example takes is up to the machine, which others may keep busy.
settings.register_profile("plfl", deadline=None)
settings.load_profile("plfl")
