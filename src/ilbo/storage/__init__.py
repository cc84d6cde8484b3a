"""Bytes on disk: atomic files, arrays, policy files, compiled programs, the environment."""
