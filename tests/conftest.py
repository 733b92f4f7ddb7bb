"""What tests of several rooms share."""

from hypothesis import settings

# How long an example takes is up to the machine, which others may keep busy.
settings.register_profile("plfl", deadline=None)
settings.load_profile("plfl")
