"""The `ilbo` command."""
