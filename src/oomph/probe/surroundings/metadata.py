"""The clouds' metadata servers, for who asks for them (`--ask-cloud`). They answer at a link-local address, which no
router passes on: the question does not leave the machine's own host.

Sources: Google "View and query VM metadata" (Metadata-Flavor), AWS "Use IMDSv2" (a token by PUT), Azure "Instance
Metadata Service" (Metadata: true).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from oomph.probe.surroundings.seen import Seen, Untold

#: RFC 3927. All three clouds have it.
ADDRESS = "169.254.169.254"
_TIMEOUT_S = 1.0
_LARGEST = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,60}\Z")


class Server(Protocol):
    """Who answers at the metadata server's address."""

    def ask(self, method: str, path: str, headers: Mapping[str, str]) -> str | None:
        """The answer's text; None where nobody answers, or not with 200."""


class LinkLocal:
    """The real one: plain HTTP to `ADDRESS`, no proxy, one second for each question."""

    def ask(self, method: str, path: str, headers: Mapping[str, str]) -> str | None:
        import http.client

        connection = http.client.HTTPConnection(ADDRESS, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            text = answer.read(_LARGEST).decode("utf-8", "replace")
            return text if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def machine_type(provider: str = "", server: Server | None = None) -> tuple[str, Seen[str]] | Untold:
    """The cloud and its name for this machine. `provider`, where it is known, is the only one that is asked."""
    asked = server or LinkLocal()
    clouds = {"Google Cloud": _google, "AWS": _aws, "Azure": _azure}
    for name, ask in clouds.items():
        if provider in clouds and provider != name:
            continue
        found = ask(asked)
        if found is not None and _NAME.match(found):
            return name, Seen(found, f"metadata server ({ADDRESS})", found)
    return Untold(f"no metadata server answered at {ADDRESS}")


def _google(server: Server) -> str | None:
    """As "projects/NUMBER/machineTypes/a2-highgpu-8g"."""
    text = server.ask("GET", "/computeMetadata/v1/instance/machine-type", {"Metadata-Flavor": "Google"})
    return text.strip().rpartition("/")[2] if text and "/machineTypes/" in text else None


def _aws(server: Server) -> str | None:
    token = server.ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    if not token:
        return None
    text = server.ask("GET", "/latest/meta-data/instance-type", {"X-aws-ec2-metadata-token": token.strip()})
    return text.strip() if text else None


def _azure(server: Server) -> str | None:
    path = "/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text"
    text = server.ask("GET", path, {"Metadata": "true"})
    return text.strip() if text else None
