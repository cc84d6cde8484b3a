"""`ilbo tune`: settings for one problem, found by trials."""
