"""Figures as text."""

from __future__ import annotations


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
