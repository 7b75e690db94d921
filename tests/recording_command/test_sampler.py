"""Which readings of the GPUs are written."""

from __future__ import annotations

import threading

import msgspec

from oomph.evidence.run.model import GpuSample
from oomph.probe.model import Gpu, Host, Process
from oomph.recording.command.sampler import AT_LEAST_EVERY, CROWDED, Changes, Sampler, Strangers

GIB = 1 << 30


def sample(clock: float, used: int | None = GIB, *, pids=(7,), host: Host | None = None) -> GpuSample:
    processes = tuple(Process(pid, GIB) for pid in pids)
    return GpuSample(
        clock, clock, (Gpu(0, used_bytes=used, capacity_bytes=80 * GIB, processes=processes),), host
    )


def test_equal_readings_are_written_once_a_minute():
    changes = Changes()
    written = [second for second in range(600) if changes.worth(sample(float(second)))]
    assert written == [int(AT_LEAST_EVERY) * number for number in range(10)]


def test_what_is_a_change():
    changes = Changes()
    assert changes.worth(sample(0.0))
    assert not changes.worth(sample(1.0, GIB + (1 << 20)))
    assert changes.worth(sample(2.0, GIB + (40 << 20))), "a new peak"
    assert not changes.worth(sample(3.0, GIB - (100 << 20))), "within half a percent of the card below"
    assert changes.worth(sample(4.0, GIB - (500 << 20)))
    assert changes.worth(sample(5.0, GIB - (500 << 20), pids=(7, 8))), "somebody came"
    assert changes.worth(sample(6.0, GIB - (500 << 20), pids=(8,))), "somebody went"
    assert changes.worth(sample(7.0, None, pids=(8,)))
    assert not changes.worth(sample(8.0, None, pids=(8,)))


def test_main_memory_counts_too():
    changes = Changes()
    assert changes.worth(
        sample(0.0, host=Host(rss_bytes=GIB, total_bytes=64 * GIB, available_bytes=60 * GIB))
    )
    assert not changes.worth(
        sample(1.0, host=Host(rss_bytes=GIB + 9, total_bytes=64 * GIB, available_bytes=60 * GIB))
    )
    assert changes.worth(
        sample(2.0, host=Host(rss_bytes=2 * GIB, total_bytes=64 * GIB, available_bytes=59 * GIB))
    )


def test_a_run_of_weeks_takes_larger_changes_as_it_goes_on():
    changes = Changes()
    count = 0
    for second in range(14 * 24 * 3600):
        # Up and down by two gigabytes each second, as a training job may be seen to do.
        count += changes.worth(sample(float(second), (20 + 2 * (second % 2)) * GIB))
    assert CROWDED < count < 6 * CROWDED


class FakeMachine:
    def __init__(self, fail_after: int = 10**9) -> None:
        self.asked = 0
        self.fail_after = fail_after
        self.enough = threading.Event()

    def gpus(self, ours=()):
        self.asked += 1
        if self.asked > 3:
            self.enough.set()
        if self.asked > self.fail_after:
            raise RuntimeError("NVML: GPU is lost")
        return (Gpu(0, used_bytes=self.asked * GIB, processes=(Process(5, GIB, ours=5 in ours),)),)

    def host(self, pids=()):
        return Host(rss_bytes=1)

    def source(self):
        return "nvml"

    def why(self):
        return ""


def run(tmp_path, machine):
    said: list[str] = []
    sampler = Sampler(machine, tmp_path, "node1", 0.01, [5], said.append)
    sampler.start()
    assert machine.enough.wait(20)
    sampler.finish()
    return said


def test_samples_are_written_with_the_job_s_own_processes_marked(tmp_path):
    assert run(tmp_path, FakeMachine()) == []
    lines = (tmp_path / "gpus/node1.jsonl").read_bytes().splitlines()
    first = msgspec.json.decode(lines[0], type=GpuSample)
    assert len(lines) >= 3
    assert (first.source, first.gpus[0].processes[0].ours, first.host) == ("nvml", True, Host(rss_bytes=1))


def test_a_driver_that_fails_is_said_once(tmp_path):
    said = run(tmp_path, FakeMachine(fail_after=1))
    assert len(said) == 1
    assert "GPU is lost" in said[0]


def test_a_folder_that_takes_nothing_is_said_once(tmp_path):
    (tmp_path / "gpus").write_text("a file where the folder belongs")
    assert len(run(tmp_path, FakeMachine())) == 1


def cards(*processes: Process) -> tuple[Gpu, ...]:
    return (Gpu(0), Gpu(1, processes=processes))


def test_strangers_that_come_to_the_job_s_card_are_named_once():
    ours = Process(1, GIB, "python", ours=True)
    there, came, small = Process(2, GIB, "Xorg"), Process(3, 4 * GIB, "jupyter"), Process(4, 1 << 20, "small")
    strangers = Strangers()
    assert strangers.came(cards(ours, there)) == []
    assert strangers.came(cards(ours, there, small)) == []
    (said,) = strangers.came(cards(ours, there, small, came))
    assert "jupyter (process 3)" in said
    assert "GPU 1" in said
    assert "4.00 GiB" in said
    assert strangers.came(cards(ours, there, came)) == []


def test_strangers_on_another_s_card_are_their_own_business():
    strangers = Strangers()
    strangers.came(cards())
    assert strangers.came(cards(Process(3, 4 * GIB, "jupyter"))) == []
