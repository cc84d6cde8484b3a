"""A bar for notebooks, where ipywidgets is there."""

from __future__ import annotations

import sys
from typing import Any


def widget(title: str, total: float) -> Widget | None:
    """A bar where the process is a notebook's and ipywidgets can be imported; None elsewhere."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell else None
    if getattr(running, "kernel", None) is None:
        return None
    try:
        import ipywidgets
        from IPython.display import display
    except ImportError:
        return None
    return Widget(ipywidgets, display, title, total)


class Widget:
    """Title, bar and news side by side."""

    def __init__(self, widgets: Any, display: Any, title: str, total: float):
        self.bar = widgets.FloatProgress(min=0.0, max=float(total))
        self.news = widgets.Label("compiling ...")
        self._display, self._row = (
            display,
            widgets.HBox([widgets.Label(title), self.bar, self.news]),
        )

    def show(self) -> None:
        self._display(self._row)

    def update(self, reached: float, news: str) -> None:
        self.bar.value, self.news.value = float(reached), news
