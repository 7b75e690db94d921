"""The checks, one a file, in the order in which they are answered: the order of a run's life."""

from __future__ import annotations

from oomph.diagnose.verify.checks.base import Check
from oomph.diagnose.verify.checks.evaluation import Evaluation
from oomph.diagnose.verify.checks.first_step import FirstStep
from oomph.diagnose.verify.checks.growth import Growth
from oomph.diagnose.verify.checks.headroom_first import HeadroomFirst
from oomph.diagnose.verify.checks.headroom_peak import Headroom
from oomph.diagnose.verify.checks.limits import Limits
from oomph.diagnose.verify.checks.prediction import WithinPrediction
from oomph.diagnose.verify.checks.ranks import Ranks
from oomph.diagnose.verify.checks.retries import Retries

CHECKS: tuple[Check, ...] = (
    FirstStep(),
    HeadroomFirst(),
    Headroom(),
    Limits(),
    Retries(),
    Growth(),
    Evaluation(),
    Ranks(),
    WithinPrediction(),
)
NAMES = tuple(check.name for check in CHECKS)
