"""Fake results, remembered: the second call of an operator with the same shapes costs no look at its meta kernel.

FakeTensorMode has a cache of its own, whose keys and results cost three times as much as all the rest of a trace. Here
a key holds what decides the results of operators that this recorder passes on (types, shapes, strides and devices of
plain strided tensors, and the other arguments as they are); whatever is not of that kind goes the long way.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder import words

#: Arguments that are their own key. bool and int are told apart by their type.
_PLAIN = (int, float, bool, str, type(None))
_LONG_WAY = object()
_UNKNOWN = object()
_MOST = 200_000


class Fakes:
    """Runs fake kernels of one FakeTensorMode."""

    def __init__(self, fake_mode: Any) -> None:
        import torch
        from torch._subclasses.fake_tensor import FakeTensor

        self._mode = fake_mode
        self._fake = FakeTensor
        self._torch = torch
        self._atoms = frozenset(
            (*_PLAIN, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
        )
        self._plans: dict[tuple[Any, ...], Any] = {}

    def run(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the fake kernel returns."""
        key = self._key(func, args, kwargs)
        if key is None:
            return self.long_way(func, types, args, kwargs)
        plan = self._plans.get(key, _UNKNOWN)
        if plan is _UNKNOWN:
            out = self.long_way(func, types, args, kwargs)
            if len(self._plans) < _MOST:
                # An operator that changes the shape of its argument has another key now.
                unchanged = self._key(func, args, kwargs) == key
                self._plans[key] = self._plan(args, out) if unchanged else _LONG_WAY
            return out
        if plan is _LONG_WAY:
            return self.long_way(func, types, args, kwargs)
        if type(plan) is list:
            return (
                [self._make(one, args) for one in plan[1:]]
                if plan[0] is list
                else tuple(self._make(one, args) for one in plan[1:])
            )
        return self._make(plan, args)

    def long_way(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What torch's own mode returns. Of an operator on CPU tensors alone it runs the real kernel, to know constants
        (up to torch 2.8 or so also where the result lies on the GPU, which is not there): fake ones it does not."""
        if not any(issubclass(one, self._fake) for one in types):
            args = tuple(self._faked(one) for one in args)
        try:
            return self._mode.__torch_dispatch__(func, types, args, kwargs)
        except RuntimeError as error:
            instead = words.as_on_gpu(func, args, error)
            if instead is None:
                raise
            raise instead from None

    def _faked(self, argument: Any) -> Any:
        if type(argument) in (self._torch.Tensor, self._torch.nn.Parameter):
            return self._mode.from_tensor(argument)
        return argument

    # -- keys -----------------------------------------------------------------------------------------------------

    def _key(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        parts: list[Any] = [func, self._torch.get_default_dtype()]
        for argument in args:
            if not self._add(parts, argument):
                return None
        for name, argument in kwargs.items():
            if (
                type(argument) is self._fake
            ):  # `out=`, which is the result: plans know the places of `args` alone
                return None
            parts.append(name)
            if not self._add(parts, argument):
                return None
        return tuple(parts)

    def _add(self, parts: list[Any], argument: Any) -> bool:
        kind = type(argument)
        if kind is self._fake:
            if argument.layout is not self._torch.strided or argument.is_conj() or argument.is_neg():
                return False
            parts.append(argument.dtype)
            parts.append(argument.shape)
            parts.append(argument.stride())
            parts.append(argument.storage_offset())
            parts.append(argument.fake_device)
            return True
        if kind in self._atoms:
            parts.append(kind)
            parts.append(argument)
            return True
        if kind is list or kind is tuple:
            parts.append(kind)
            parts.append(len(argument))
            return all(self._add(parts, one) for one in argument)
        return False

    # -- plans ----------------------------------------------------------------------------------------------------

    def _plan(self, args: tuple[Any, ...], out: Any) -> Any:
        if isinstance(out, (list, tuple)):
            parts = [self._plan_one(args, one) for one in out]
            return _LONG_WAY if _LONG_WAY in parts or type(out) not in (list, tuple) else [type(out), *parts]
        return self._plan_one(args, out)

    def _plan_one(self, args: tuple[Any, ...], out: Any) -> Any:
        """None, the place of the argument that it is, or what to make: (dtype, shape, stride, device, storage's
        argument or -1, offset, attributes). Attributes are those of a tensor that FakeTensorMode has just made: its
        class sets them one by one, which takes longer than all else."""
        if out is None:
            return None
        if type(out) is not self._fake or out.layout is not self._torch.strided:
            return _LONG_WAY
        if out.is_conj() or out.is_neg() or out.constant is not None:
            return _LONG_WAY
        for place, argument in enumerate(args):
            if argument is out:
                return place
        storage = out.untyped_storage()._cdata  # noqa: SLF001 - torch's own name for a storage's identity
        source = -1
        for place, argument in enumerate(args):
            if type(argument) is self._fake and argument.untyped_storage()._cdata == storage:  # noqa: SLF001
                source = place
                break
        if source < 0 and (out.storage_offset() or not self._covers(out)):
            # It lies on memory that is none of the arguments' own: of a list's element, or larger than itself.
            return _LONG_WAY
        attributes = dict(out.__dict__)
        return (out.dtype, out.shape, out.stride(), out.fake_device, source, out.storage_offset(), attributes)

    def _covers(self, out: Any) -> bool:
        """Whether a new tensor of this shape and stride would have a storage of the same size."""
        needed = 1 + sum((size - 1) * stride for size, stride in zip(out.shape, out.stride(), strict=True))
        elements = needed if out.numel() else 0
        return bool(out.untyped_storage().nbytes() == elements * out.element_size())

    def _make(self, plan: Any, args: tuple[Any, ...]) -> Any:
        if plan is None:
            return None
        if type(plan) is int:
            return args[plan]
        torch = self._torch
        source = plan[4]
        if source >= 0 and torch.is_inference_mode_enabled() and not args[source].is_inference():
            # A view of a normal tensor is a normal tensor, in inference mode too.
            with torch.inference_mode(False):
                return self._build(plan, args)
        return self._build(plan, args)

    def _build(self, plan: Any, args: tuple[Any, ...]) -> Any:
        dtype, shape, stride, device, source, offset, attributes = plan
        torch = self._torch
        guard = torch._C._DisableTorchDispatch()  # noqa: SLF001 - other modes have no part in this
        if source < 0:
            made = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        else:
            made = torch.empty((0,), dtype=dtype, device="meta")
            made.set_(args[source].untyped_storage(), offset, shape, stride)
        result = torch.Tensor._make_subclass(  # noqa: SLF001 - as FakeTensor.__new__
            self._fake, made, False, dispatch_device=True, device_for_backend_keys=device
        )
        del guard
        result.__dict__.update(attributes)
        return result
