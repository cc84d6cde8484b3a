"""What checks arguments and results against their annotations in the tests."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
"""As mypy does, takes an int where a float is asked for."""
