"""Torture: kills, full disks, two processes at once and mutated inputs by the thousand."""
