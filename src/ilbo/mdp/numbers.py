"""Figures as text."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """As in tables: whole from 1,000 on, two decimals below, a true minus sign.

    >>> number(-482869.6), number(-78.614)
    ('−482,870', '−78.61')
    """
    return f"{value:,.{0 if abs(value) >= 1000 else 2}f}".replace("-", "−").replace("inf", "∞")


def interval(low: float, high: float) -> str:
    return f"[{number(low)}, {number(high)}]"


def precise(value: float) -> str:
    """As on a terminal: two decimals, and a minus sign that other programs read.

    >>> precise(-482869.6)
    '-482,869.60'
    """
    return f"{value:,.2f}"


def precise_interval(low: float, high: float) -> str:
    return f"[{precise(low)}, {precise(high)}]"


def with_error(value: float, error: float) -> str:
    """With two figures of its standard error, and two decimals at least.

    >>> with_error(-1.69721, 0.00085), with_error(-2110.0, 12.3)
    ('-1.69721 ± 0.00085', '-2,110.00 ± 12.30')
    """
    small = 0 < error < 0.1
    digits = min(1 - math.floor(math.log10(error)), 8) if small else 2
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"
