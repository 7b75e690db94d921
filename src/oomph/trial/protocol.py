"""The order of trials: which setting is tried next, and what follows from the answers. Runs nothing itself.

docs/decisions/0018-bisecting.md argues the order. Every trial is compared with one earlier trial (`against`), from
which it differs in one variable; that is the trial before it, but after a check that failed: then the search goes back
to the setting that fitted, which is known and not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from oomph.trial.leak import grows, leak_of
from oomph.trial.model import TrialOutcome, TrialResult, Value, Variable, shown
from oomph.trial.pivot import pivot, trials_left

Setting = Mapping[str, Value]
#: predict(variable, results by place in its values) -> the place of the largest value that should fit, or None.
Predict = Callable[[Variable, Mapping[int, TrialResult]], "int | None"]


class Verdict(str, Enum):
    """What the search came to. `cause`: one variable alone decides; `together`: several have to give way at the same
    time; `leak`: memory grows step by step, whatever the setting; `passes`: the setting as given does not fail;
    `nothing_fits`: not even everything at its least; `unknown`: could not be told."""

    CAUSE = "cause"
    TOGETHER = "together"
    LEAK = "leak"
    PASSES = "passes"
    NOTHING_FITS = "nothing_fits"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Ask:
    """A trial that is wanted. `against` is the setting that it is compared with (None: the first), from which it
    differs in `variable` alone. `why` is what it is for: "given", "least", "next", "search", "back"."""

    setting: Setting
    against: Setting | None
    variable: str
    why: str


@dataclass(frozen=True)
class Limit:
    """What is known of one variable: `largest` fits (as given, or found), `fails` is the least value above it that
    was tried and fails; `known`: it was looked for. `at` is what the other variables had then."""

    variable: str
    largest: Value | None
    fails: Value | None
    known: bool
    at: Setting = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """The end of a search. `causes` are the variables by name, `setting` fits (None: none was found that does)."""

    verdict: Verdict
    why: str
    causes: tuple[str, ...] = ()
    setting: Setting | None = None
    limits: tuple[Limit, ...] = ()
    notes: tuple[str, ...] = ()


Trials = Generator[Ask, TrialResult, Found]
Part = Generator[Ask, TrialResult, "_Tried"]


@dataclass
class _Tried:
    """The first round over one variable: where it stands afterwards, and whether it fits there (None: not told)."""

    place: int
    fits: bool | None
    result: TrialResult | None = None
    fails: int | None = None


def isolate(variables: Sequence[Variable], predict: Predict | None = None) -> Trials:
    """Asks for trials until the cause is alone. Send the result of each."""
    return _Search(variables, predict or (lambda _variable, _known: None)).run()


class _Search:
    def __init__(self, variables: Sequence[Variable], predict: Predict) -> None:
        self.variables = tuple(variables)
        self.predict = predict
        self.given = {one.name: one.values[0] for one in variables}
        #: What the next trial is compared with, and its setting.
        self.base: dict[str, Value] = dict(self.given)
        self.notes: list[str] = []
        self.limits: dict[str, Limit] = {}
        self.given_result: TrialResult | None = None

    def run(self) -> Trials:
        first = yield Ask(dict(self.given), None, "", "given")
        self.given_result = first
        if first.outcome is TrialOutcome.FITS:
            return self._found(
                Verdict.PASSES, f"The setting as given does not fail: {first.why}.", setting=self.given
            )
        if first.outcome is TrialOutcome.HUNG:
            return self._found(
                Verdict.UNKNOWN,
                f"The setting as given did not run out of device memory in the time that a trial has ({first.why}): "
                "give more with --timeout.",
            )
        if first.outcome is not TrialOutcome.OOM:
            return self._found(
                Verdict.UNKNOWN,
                f"The setting as given does not fail for lack of device memory ({first.outcome}: {first.why}): there "
                "is nothing to bisect.",
            )
        for number, variable in enumerate(self.variables):
            tried = yield from self._round(variable)
            if number == 0 and tried.result is not None:
                leak = leak_of(first, tried.result, variable)
                if leak is not None:
                    return self._found(Verdict.LEAK, leak)
                if grows(first) is not None:
                    self.notes.append(
                        f"Memory grew step by step as given, and did not with {variable.name}="
                        f"{variable.values[tried.place]}: what grows depends on {variable.name}."
                    )
            if tried.fits is None:
                return self._found(
                    Verdict.UNKNOWN,
                    f"No value of {variable.name} that was tried told whether it fits: see the trials.",
                )
            if tried.fits:
                return (yield from self._isolated(number, tried))
            self.base[variable.name] = variable.values[tried.place]
        what = ", ".join(f"{name}={shown(value)}" for name, value in self.base.items())
        return self._found(
            Verdict.NOTHING_FITS,
            f"Memory runs out even with every variable at its least ({what}): none of them is enough of a cause. What "
            "is left is what does not depend on them: weights, gradients, optimizer states, or another variable.",
        )

    # -- the first round: does a variable matter at all ------------------------------------------------------------

    def _round(self, variable: Variable) -> Part:
        """To its least, where memory falls along the values; else value by value."""
        if variable.ordered:
            return (yield from self._least(variable))
        failed: int | None = None
        result: TrialResult | None = None
        for place in range(1, len(variable.values)):
            answer = yield self._ask(variable, place, "next")
            if answer.outcome is TrialOutcome.FITS:
                return _Tried(place, True, answer, 0 if failed is None else failed)
            if answer.outcome is TrialOutcome.OOM:
                failed, result = place, answer
                self.base[variable.name] = variable.values[place]
            else:
                self._untold(variable, place, answer)
        self.base[variable.name] = variable.values[failed or 0]
        return _Tried(failed or 0, None if failed is None else False, result)

    def _least(self, variable: Variable) -> Part:
        """The least value; where that tells nothing (a batch of 1 and batch norm), the one above it."""
        last = len(variable.values) - 1
        for place in range(last, max(last - 2, 0), -1):
            answer = yield self._ask(variable, place, "least")
            if answer.outcome.tells:
                return _Tried(place, answer.outcome is TrialOutcome.FITS, answer)
            self._untold(variable, place, answer)
        return _Tried(last, None)

    # -- it fits: which variables are needed for that, and how far each has to go ----------------------------------

    def _isolated(self, number: int, tried: _Tried) -> Trials:
        variable = self.variables[number]
        self.base[variable.name] = variable.values[tried.place]
        result = tried.result
        needed: list[Variable] = []
        unclear: list[Variable] = []
        for earlier in self.variables[:number]:
            if self.base[earlier.name] == earlier.values[0]:
                continue
            answer = yield self._ask(earlier, 0, "back")
            if answer.outcome is TrialOutcome.FITS:
                self.base[earlier.name], result = earlier.values[0], answer
            elif answer.outcome is TrialOutcome.OOM:
                needed.append(earlier)
            else:
                unclear.append(earlier)
                self._untold(earlier, 0, answer)
        if variable.ordered:
            result = yield from self._largest(variable, 0, tried.place, result)
        else:
            self._limit(variable, tried.place, tried.fails, known=True)
        for earlier in needed:
            place = earlier.values.index(self.base[earlier.name])
            if earlier.ordered:
                result = yield from self._largest(earlier, 0, place, result)
            else:
                self._limit(earlier, place, None, known=False)
        return self._concluded(variable, needed, unclear)

    def _concluded(self, variable: Variable, needed: list[Variable], unclear: list[Variable]) -> Found:
        causes = (*(one.name for one in needed), variable.name)
        setting = ", ".join(f"{name}={shown(self.base[name])}" for name in causes)
        if unclear:
            more = ", ".join(f"{one.name}={shown(self.base[one.name])}" for one in unclear)
            return self._found(
                Verdict.UNKNOWN,
                f"{setting} fits with {more}; whether {_listed([one.name for one in unclear])} had to change, too, "
                "could not be told.",
                causes,
                dict(self.base),
            )
        if needed:
            return self._found(
                Verdict.TOGETHER,
                f"{_listed(causes)} have to give way together: {setting} fits, and it fails with any one of them as "
                "given.",
                causes,
                dict(self.base),
            )
        others = [one.name for one in self.variables if one is not variable]
        rest = f" with {_listed(others)} as given" if others else ""
        return self._found(
            Verdict.CAUSE, f"{variable.name} alone decides: {setting} fits{rest}.", causes, dict(self.base)
        )

    def _largest(
        self, variable: Variable, low: int, high: int, result: TrialResult | None
    ) -> Generator[Ask, TrialResult, TrialResult | None]:
        """Between `low`, which fails, and `high`, which fits with `result` (places in `values`): halving, at the
        predicted limit first. The base has the largest that fits afterwards; its result comes back."""
        known: dict[int, TrialResult] = {} if result is None else {high: result}
        if self.given_result is not None and self._with(variable, 0) == self.given:
            known[0] = self.given_result  # the phases that did not fail in it were measured
        silent: set[int] = set()
        budget: int | None = None
        failed_at: int | None = low
        while high - low > 1:
            guess = self.predict(variable, known)
            if budget is None:
                budget = trials_left(high - low) + (guess is not None)
            place = pivot(low, high, guess, budget, silent)
            if place is None:
                self.notes.append(
                    f"Between {variable.name}={variable.values[high]} and {variable.values[low]} no trial told whether "
                    "it fits."
                )
                break
            answer = yield self._ask(variable, place, "search")
            budget -= 1
            if answer.outcome is TrialOutcome.FITS:
                high, known[place] = place, answer
                self.base[variable.name] = variable.values[place]
            elif answer.outcome is TrialOutcome.OOM:
                low = failed_at = place
                known[place] = answer
            else:
                silent.add(place)
                budget += 1
                self._untold(variable, place, answer)
        self._limit(variable, high, failed_at, known=True)
        return known.get(high)

    # -- small things ----------------------------------------------------------------------------------------------

    def _ask(self, variable: Variable, place: int, why: str) -> Ask:
        return Ask(self._with(variable, place), dict(self.base), variable.name, why)

    def _with(self, variable: Variable, place: int) -> dict[str, Value]:
        return {**self.base, variable.name: variable.values[place]}

    def _untold(self, variable: Variable, place: int, answer: TrialResult) -> None:
        self.notes.append(
            f"{variable.name}={shown(variable.values[place])}: could not tell, the trial ended otherwise "
            f"({answer.outcome}: {answer.why})."
        )

    def _limit(self, variable: Variable, place: int, fails: int | None, *, known: bool) -> None:
        others = {name: value for name, value in self.base.items() if name != variable.name}
        self.limits[variable.name] = Limit(
            variable.name,
            variable.values[place],
            None if fails is None else variable.values[fails],
            known,
            others,
        )

    def _found(
        self,
        verdict: Verdict,
        why: str,
        causes: tuple[str, ...] = (),
        setting: Setting | None = None,
    ) -> Found:
        limits = []
        for one in self.variables:
            if one.name in self.limits:
                limits.append(self.limits[one.name])
            elif setting is not None:
                limits.append(Limit(one.name, setting[one.name], None, known=False))
            else:
                limits.append(Limit(one.name, None, None, known=False))
        return Found(verdict, why, causes, setting, tuple(limits), tuple(self.notes))


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
