"""Real values of small fake tensors, where they came from real data.

Masks, lengths, labels and counters decide what a program does: `mask.all()`, `labels != -100`, `nonzero`. They are
small, and most come from the CPU, where the data loader made them for real. So such a tensor keeps a real copy beside
it, operators on tensors that all have one are really computed too, and what is read is what a GPU would give.
A tensor without one is asked for nothing: what stands in for its values is said (`Recorder.assume`).
"""

from __future__ import annotations

from typing import Any

_NAME = "_oomph_value"
_AGE = "_oomph_age"
#: The most elements of a value: of whole numbers and masks (a batch of token ids), and of other tensors.
WHOLE_NUMBERS = 1 << 18
OTHERS = 1 << 12
#: Factories whose values are known without data. What `empty` holds is nobody's business.
_FACTORIES = frozenset(
    {
        "aten.zeros",
        "aten.ones",
        "aten.full",
        "aten.arange",
        "aten.zeros_like",
        "aten.ones_like",
        "aten.full_like",
        "aten.new_zeros",
        "aten.new_ones",
        "aten.new_full",
        "aten.scalar_tensor",
        "aten.eye",
        "aten.tril_indices",
        "aten.triu_indices",
    }
)
#: Of these only the shape of the argument counts.
_LIKE = frozenset({"aten.zeros_like", "aten.ones_like", "aten.full_like"})
_NEW = frozenset({"aten.new_zeros", "aten.new_ones", "aten.new_full"})


def small(tensor: Any) -> bool:
    """Whether values of such a tensor are kept."""
    limit = OTHERS if tensor.is_floating_point() or tensor.is_complex() else WHOLE_NUMBERS
    return bool(tensor.numel() <= limit)


def value_of(tensor: Any) -> Any:
    """The real tensor with this fake one's values, or None."""
    kept = tensor.__dict__.get(_NAME)
    if kept is None:
        return None
    value, age = kept
    return value if getattr(tensor.untyped_storage(), _AGE, 0) == age else None


def attach(tensor: Any, value: Any) -> None:
    """`value` (a real CPU tensor of the same shape) is what the fake tensor holds."""
    tensor.__dict__[_NAME] = (value, getattr(tensor.untyped_storage(), _AGE, 0))


def forget(tensor: Any) -> None:
    """The memory under the tensor was written with something unknown: no tensor on it has a value any more."""
    storage = tensor.untyped_storage()
    setattr(storage, _AGE, getattr(storage, _AGE, 0) + 1)


class Values:
    """Computes values beside fake operators. `fake` is torch's FakeTensor class."""

    def __init__(self, fake: Any) -> None:
        self._fake = fake

    def before(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        """The arguments with real tensors in place of fake ones; None where a value is missing or nothing is to be
        computed. Must be taken before the operator runs."""
        real: list[Any] = []
        found = name in _FACTORIES
        if name in _LIKE or name in _NEW:
            first = args[0]
            if not isinstance(first, self._fake) or first.numel() > WHOLE_NUMBERS:
                return None
            import torch

            real.append(torch.empty((), dtype=first.dtype).expand(first.shape))
            args = args[1:]
        for argument in args:
            if isinstance(argument, self._fake):
                value = value_of(argument)
                if value is None:
                    return None
                real.append(value)
                found = True
            elif (
                isinstance(argument, (list, tuple)) and argument and not isinstance(argument[0], (int, bool))
            ):
                part = self._part(argument)
                if part is None:
                    return None
                real.append(part)
                found = found or any(isinstance(one, self._fake) for one in argument)
            else:
                real.append(argument)
        if not found and not any(hasattr(one, "untyped_storage") for one in real):
            return None
        named: dict[str, Any] = {}
        for key, argument in kwargs.items():
            if isinstance(argument, self._fake):
                value = value_of(argument)
                if value is None:
                    return None
                named[key] = value
            elif key == "device" and argument is not None:
                named[key] = "cpu"
            elif key != "pin_memory":
                named[key] = argument
        return tuple(real), named

    def _part(self, argument: Any) -> list[Any] | None:
        part = []
        for one in argument:
            if isinstance(one, self._fake):
                one = value_of(one)
                if one is None:
                    return None
            part.append(one)
        return part

    def after(self, function: Any, real: tuple[Any, Any], out: Any) -> bool:
        """Computes the operator on the real values and keeps what comes out. False when it could not."""
        outputs = [out] if not isinstance(out, (list, tuple)) else list(out)
        fakes = [one for one in outputs if isinstance(one, self._fake)]
        if len(fakes) != len(outputs) or not all(small(one) for one in fakes):
            return False
        try:
            result = function(*real[0], **real[1])
        except Exception:  # noqa: BLE001 - whatever the CPU kernel cannot do is just not known
            return False
        results = [result] if not isinstance(result, (list, tuple)) else list(result)
        if len(results) != len(fakes):
            return False
        for fake, value in zip(fakes, results, strict=True):
            if not hasattr(value, "shape") or value.shape != fake.shape:
                return False
            attach(fake, value)
        return True
