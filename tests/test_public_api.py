from __future__ import annotations

import importlib.metadata
from typing import get_type_hints

import pytest

import oomph
from oomph.errors import InputError, OomphError, UsageError

#: What users may import from `oomph`. A name that is added or dropped here is a line in CHANGELOG.md.
PUBLIC = {
    "Checkup",
    "Diagnosis",
    "Job",
    "OomphError",
    "Plan",
    "SnapshotReport",
    "__version__",
    "doctor",
    "explain",
    "plan",
    "record",
    "snapshot",
    "trace",
}


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
    from oomph.job.model import Job

    parameters = inspect.signature(oomph.explain).parameters
    assert next(iter(parameters)) == "paths"
    assert all(parameter.annotation is not inspect.Parameter.empty for parameter in parameters.values())
    # A job's types are loaded by who has one, and those of a diagnosis by who makes one.
    types = {"Job": Job, "Diagnosis": Diagnosis}
    assert get_type_hints(oomph.explain, localns=types)["return"] is Diagnosis


def test_snapshot_says_what_a_file_says(tmp_path):
    import pickle

    from oomph.diagnose.snapshot.model import SnapshotReport
    from oomph.units import MIB
    from tests.cli.snapshots import job

    path = tmp_path / "oom.pickle"
    path.write_bytes(pickle.dumps(job()))
    report = oomph.snapshot(path)
    assert isinstance(report, SnapshotReport)
    device = report.devices[report.shown]
    assert device.failure is not None
    assert device.failure.request_bytes == 64 * MIB
    assert report.exit_code == 1
    other = oomph.snapshot(str(path), at="3", capacity_bytes=1 << 30, what_if=["all"], ignore=["OOM"])
    assert other.devices[0].moment.position == 3
    assert other.findings == ()
    assert other.devices[0].what_if is not None
    with pytest.raises(InputError, match="nothing"):
        oomph.snapshot(tmp_path / "nothing.pickle")
    with pytest.raises(UsageError, match="--device 3"):
        oomph.snapshot(path, device=3)


@pytest.mark.parametrize("error", [InputError, UsageError])
def test_errors_share_a_base_and_an_exit_code(error):
    assert issubclass(error, OomphError)
    assert error("sentence").exit_code == 2


def test_the_library_prints_nothing(root, capfd):
    oomph.explain([str(root / "examples" / "ddp-backward.log")])
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
