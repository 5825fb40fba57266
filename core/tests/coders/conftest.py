"""Property tests here are bounded by their number of examples, not by the clock."""

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
