"""Helpers of the tests of formats: tables as JSON text."""

from __future__ import annotations

import json

from oomph.job.importers import merge, read


def job(table, **gpus):
    """The job that a table describes."""
    return merge(read(json.dumps(table)), **gpus)[0]


def refused(table):
    """What a table asks for and a job cannot say, as one text."""
    return " ".join(read(json.dumps(table)).unsupported)


def unknown(table):
    """The keys of a table that are not known, as one text."""
    return " ".join(read(json.dumps(table)).unknown)
