from __future__ import annotations

import importlib.metadata
from typing import get_type_hints

import pytest

import oomph
from oomph.errors import InputError, OomphError, UsageError

#: What users may import from `oomph`. A name that is added or dropped here is a line in CHANGELOG.md.
PUBLIC = {"Diagnosis", "OomphError", "__version__", "explain"}


def test_the_public_names():
    assert set(oomph.__all__) == PUBLIC
    assert set(dir(oomph)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_can_be_imported_and_says_what_it_is(name):
    thing = getattr(oomph, name)
    assert name == "__version__" or thing.__doc__


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'oomph' has no attribute 'diagnose_everything'"):
        oomph.diagnose_everything  # noqa: B018 - the access is the test


def test_the_version_is_the_installed_one():
    assert importlib.metadata.version("oomph") == oomph.__version__


def test_explain_is_typed():
    import inspect

    from oomph.diagnose.model import Diagnosis

    parameters = inspect.signature(oomph.explain).parameters
    assert next(iter(parameters)) == "paths"
    assert all(parameter.annotation is not inspect.Parameter.empty for parameter in parameters.values())
    assert get_type_hints(oomph.explain)["return"] is Diagnosis


@pytest.mark.parametrize("error", [InputError, UsageError])
def test_errors_share_a_base_and_an_exit_code(error):
    assert issubclass(error, OomphError)
    assert error("sentence").exit_code == 2


def test_the_library_prints_nothing(root, capfd):
    oomph.explain([str(root / "examples" / "ddp-backward.log")])
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
