"""Errors that stop the build."""


class ContentError(Exception):
    """A page holds something that cannot be rendered; the message says what and how to mend it."""


class BuildError(Exception):
    """The site cannot be written; the message lists every fault that was found."""
