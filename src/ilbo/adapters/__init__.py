"""Policies and problems in the shapes that other libraries expect; each module needs its extra."""
