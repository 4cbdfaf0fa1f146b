"""The errors that a command reports as one sentence, without a traceback."""


class UserError(Exception):
    """Something that the user can mend: the message names the thing and the mend.

    Every `nbkit` command prints the message of a `UserError` on one line and exits with status 1.
    """
