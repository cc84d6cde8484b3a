"""A training run on disk: its folder, checkpoint, settings and result."""
