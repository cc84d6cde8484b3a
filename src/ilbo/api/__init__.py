"""What Python code calls to do as the command line does: runs in folders, with kept programs."""
