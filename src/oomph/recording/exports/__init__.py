"""Where recorded runs go beside their directory: Prometheus, TensorBoard, MLflow. Each is an extra of oomph's.

A place is written as text: "prometheus:FILE.prom" (a file for node_exporter's textfile collector), "prometheus::9400"
(HTTP on loopback; rank N of a host answers on 9400 + N), "tensorboard:FOLDER", "mlflow:URI" ("mlflow:" for the tracking
server and the run that the script uses), "copy:URL" (the run directory itself, by fsspec).

    listeners(["tensorboard:runs/tb"])    for a recorder: hear of every record while the job runs
    export(run_data, "prometheus:x.prom") a run that is over
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.evidence.run.data import RunData
    from oomph.recording.listeners import Listener

__all__ = ["export", "listeners"]


def listeners(places: Sequence[str]) -> list[Listener]:
    """A listener for each place. Raises UsageError for a place that is none, and where an extra is not installed."""
    return [_listener(place) for place in places]


def export(data: RunData, place: str) -> None:
    """Exports a run that is over. Raises UsageError as `listeners`, and OSError where it cannot be written."""
    kind, target = _split(place)
    if kind == "copy":
        from oomph.recording.store.mirror import copy

        copy(data.path, target + data.path.rstrip("/").rpartition("/")[2] if target.endswith("/") else target)
    elif kind == "prometheus":
        if target.startswith(":"):
            raise UsageError(f"{place}: a run that is over is exported to a file, not served")
        from oomph.recording.exports.finished import metrics_of
        from oomph.recording.exports.textfile import write

        write(metrics_of(data), target)
    elif kind == "tensorboard":
        from oomph.recording.exports.finished import play
        from oomph.recording.exports.tensorboard import TensorBoard

        play(data, lambda: TensorBoard(target))
    else:
        from oomph.recording.exports.mlflow import export_run

        export_run(data, target)


def _listener(place: str) -> Listener:
    kind, target = _split(place)
    if kind == "copy":
        from oomph.recording.exports.copying import Copy

        return Copy(target)
    if kind == "prometheus" and target.startswith(":"):
        from oomph.recording.exports.http import PrometheusServer

        port = target[1:]
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise UsageError(f"{place}: give a port, as in prometheus::9400")
        return PrometheusServer(int(port))
    if kind == "prometheus":
        from oomph.recording.exports.textfile import PrometheusFile

        return PrometheusFile(target)
    if kind == "tensorboard":
        from oomph.recording.exports.tensorboard import TensorBoard

        return TensorBoard(target)
    from oomph.recording.exports.mlflow import Mlflow

    return Mlflow(target)


def _split(place: str) -> tuple[str, str]:
    kind, colon, target = place.partition(":")
    if (
        kind not in ("prometheus", "tensorboard", "mlflow", "copy")
        or not colon
        or (not target and kind != "mlflow")
    ):
        raise UsageError(
            f"{place[:80]!r} is no place to export to: give prometheus:FILE, prometheus::PORT, tensorboard:FOLDER, "
            "mlflow:URI or copy:URL"
        )
    return kind, target
