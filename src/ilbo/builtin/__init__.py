"""The problems that come with the package: those of the paper, and generated chains."""
