"""Runs on S3: a real server of its protocol on loopback."""

from __future__ import annotations

import pytest

from oomph.recording.store import Store
from oomph.recording.store.mirror import copy
from tests.recording_store.fakes import write_run


@pytest.fixture
def bucket(monkeypatch):
    """A server that knows one bucket; its URL is told to boto by the environment."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    system.mkdir("bucket")
    yield "s3://bucket"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.mark.filterwarnings("ignore")  # boto's, aiohttp's and flask's own
def test_runs_on_s3(bucket, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    caplog.set_level("WARNING")
    path = tmp_path
    for number in range(2):
        path = write_run(tmp_path / "runs", number, fails_at=1 if number else None)
        copy(str(path), f"{bucket}/runs/{path.name}")
    with Store([f"{bucket}/runs"]) as store:
        assert [row.outcome for row in store.rows()] == ["oom", "completed"]
        facts, data = store.read("last-failed")
        assert facts.path == f"{bucket}/runs/{path.name}"
        assert data.ranks[0].ooms[0].request_bytes == 512 << 20
