"""Every error that oomph raises on purpose.

    OomphError              a sentence for the user; the command line prints it and exits with `exit_code`
      InputError            a file, a folder or stdin from which nothing can be read
      UsageError            an option or a value that makes no sense

The text of each says what to do next. Findings are never exceptions: numbers that contradict each other are
reported, not raised.
"""

from __future__ import annotations


class OomphError(Exception):
    """Base class. `exit_code` is what the command line returns (2: the command could not do its work)."""

    exit_code = 2


class InputError(OomphError):
    """The input does not exist, is empty, or nothing in it can be read."""


class UsageError(OomphError):
    """The request itself is wrong: an unknown rule code, a bad option value."""
