"""Settings that all tests share."""

from hypothesis import settings

# Compilation makes the first example slow; the same examples each time make failures repeatable.
settings.register_profile("ilbo", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("ilbo")
