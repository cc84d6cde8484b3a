"""What goes wrong by the user's hand: one clear sentence, shown without a traceback."""


class UserError(Exception):
    """Bad input: says what is wrong, where, and what to do. The CLI prints it and exits 2."""


class DensityError(UserError):
    """The transition has no density by the rules of `ilbo.density`."""
