"""The clouds' metadata servers, by a fake that answers as their documentation says."""

from __future__ import annotations

import http.client

import pytest

from oomph.probe.surroundings import metadata
from oomph.probe.surroundings.seen import Untold


class Fake:
    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def ask(self, method, path, headers):
        self.asked.append((method, path, dict(headers)))
        return self.answers.get(path)


GOOGLE = {"/computeMetadata/v1/instance/machine-type": "projects/123456/machineTypes/a2-highgpu-8g"}
AWS = {"/latest/api/token": "AQAEAL==", "/latest/meta-data/instance-type": "p5.48xlarge"}
AZURE = {"/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text": "Standard_ND96asr_v4"}


@pytest.mark.parametrize(
    ("answers", "cloud", "name"),
    [
        (GOOGLE, "Google Cloud", "a2-highgpu-8g"),
        (AWS, "AWS", "p5.48xlarge"),
        (AZURE, "Azure", "Standard_ND96asr_v4"),
    ],
)
def test_each_cloud(answers, cloud, name):
    told = metadata.machine_type("", Fake(answers))
    assert not isinstance(told, Untold)
    assert (told[0], told[1].value) == (cloud, name)
    # A known provider alone is asked.
    fake = Fake(answers)
    assert not isinstance(metadata.machine_type(cloud, fake), Untold)
    assert {path for _, path, _ in fake.asked} == set(answers)


def test_headers():
    fake = Fake(AWS)
    metadata.machine_type("AWS", fake)
    assert fake.asked[0] == ("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    assert fake.asked[1][2] == {"X-aws-ec2-metadata-token": "AQAEAL=="}
    fake = Fake(GOOGLE)
    metadata.machine_type("Google Cloud", fake)
    assert fake.asked[0][2] == {"Metadata-Flavor": "Google"}


@pytest.mark.parametrize("text", ["", "<html>captive portal</html>", "x" * 200])
def test_nonsense_is_no_answer(text):
    answers = dict.fromkeys([*GOOGLE, *AWS, *AZURE], text)
    assert isinstance(metadata.machine_type("", Fake(answers)), Untold)


def test_nobody_answers(monkeypatch):
    asked = []

    class Connection:
        def __init__(self, host, timeout):
            asked.append((host, timeout))

        def request(self, *_, **__):
            raise TimeoutError

        def close(self):
            pass

    monkeypatch.setattr(http.client, "HTTPConnection", Connection)
    told = metadata.machine_type()
    assert isinstance(told, Untold)
    assert set(asked) == {("169.254.169.254", 1.0)}
