"""What the families' files are written with: a reader of configurations and a list of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from oomph.errors import UsageError
from oomph.job.families.architecture import Kind, Parameter
from oomph.job.model import Model

#: No model has a dimension beyond this; a larger number is a slip, and products of such would say nothing.
_LARGEST = 1 << 31
#: Keys that count parts (layers, heads, experts), and more than any model has of them.
_COUNTS = frozenset(
    [
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        "num_decoder_layers",
        "encoder_layers",
        "decoder_layers",
        "num_single_layers",
        "depth",
        "layers_per_block",
        "transformer_layers_per_block",
        "num_attention_heads",
        "num_key_value_heads",
        "num_kv_heads",
        "n_head",
        "n_heads",
        "num_heads",
        "encoder_attention_heads",
        "decoder_attention_heads",
        "num_local_experts",
        "num_experts",
        "n_routed_experts",
        "n_shared_experts",
    ]
)
_MANY = 1 << 14


def _beyond(keys: tuple[str, ...]) -> int:
    return _MANY if not _COUNTS.isdisjoint(keys) else _LARGEST


@dataclass(frozen=True)
class Reader:
    """Numbers and switches of a model's configuration. `defaults` stand for keys that config.json leaves out, as the
    configuration class of transformers has them; `prefix` is put before every key (`text_config.`). `major` is the
    major version of transformers whose classes are meant."""

    model: Model
    defaults: Mapping[str, object] = field(default_factory=dict)
    prefix: str = ""
    major: int = 5

    def raw(self, *keys: str) -> object:
        """The value of the first key that is there; its default otherwise. A null stays None."""
        for key in keys:
            for each in self.model.config:
                if each.key == self.prefix + key:
                    return each.value
        for key in keys:
            if key in self.defaults:
                return self.defaults[key]
        return None

    def number(self, *keys: str, least: int = 1) -> int:
        """A whole number under one of the keys. Raises UsageError where it is missing or makes no sense."""
        value = self.raw(*keys)
        if value is None:
            raise UsageError(f"The configuration of {self.who} has no {self.prefix}{keys[0]}.")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        beyond = _beyond(keys)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < beyond:
            raise UsageError(
                f"{self.prefix}{keys[0]} of {self.who} is {value!r}; it must be a whole number from {least} "
                f"to {beyond - 1}."
            )
        return value

    def optional(self, *keys: str, least: int = 1) -> int | None:
        """As `number`, None where it is missing or null."""
        return None if self.raw(*keys) is None else self.number(*keys, least=least)

    def switch(self, *keys: str) -> bool:
        """A true or false; false where it is missing or null. Raises UsageError for anything else."""
        value = self.raw(*keys)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise UsageError(f"{self.prefix}{keys[0]} of {self.who} is {value!r}; it must be true or false.")
        return value

    def text(self, *keys: str) -> str:
        """A text; "" where it is missing, null or something else."""
        value = self.raw(*keys)
        return value if isinstance(value, str) else ""

    def numbers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers; () where it is missing or null. Raises UsageError for anything else."""
        value = self.raw(key)
        if value is None:
            return ()
        if not isinstance(value, tuple) or not all(
            isinstance(one, int) and 0 <= one < _LARGEST for one in value
        ):
            raise UsageError(f"{self.prefix}{key} of {self.who} must be a list of whole numbers.")
        return tuple(int(one) for one in value)

    def refuse(self, key: str) -> None:
        """Raises UsageError where a switch is on that the family's file does not know what to do with."""
        if self.switch(key):
            raise UsageError(
                f"unsupported: {self.prefix}{key} of {self.who} is on; `oomph trace` measures it from code."
            )

    def divided(self, whole: str, part: str, value: int, parts: int) -> int:
        """value / parts, which must come out even. Raises UsageError that names both."""
        if value % parts:
            raise UsageError(
                f"{self.prefix}{part} ({parts}) of {self.who} does not divide {whole} ({value})."
            )
        return value // parts

    @property
    def architecture(self) -> str:
        """The class that config.json says the weights are of ("" where it does not)."""
        value = next((one.value for one in self.model.config if one.key == "architectures"), None)
        if isinstance(value, str):
            return value
        return str(value[0]) if isinstance(value, tuple) and value else ""

    @property
    def labels(self) -> int:
        """Classes of a classifier: num_labels, or as many as id2label has; 2 where neither says."""
        named = sum(each.key.startswith("id2label.") for each in self.model.config)
        return self.optional("num_labels") or named or 2

    @property
    def who(self) -> str:
        """The model, for sentences."""
        return self.model.name or f"the {self.model.family or 'unnamed'} model"


class Parts:
    """The list of parameters as a family writes it down, in the order of registration."""

    def __init__(self) -> None:
        self.parameters: list[Parameter] = []
        self.embedding_name = ""
        self.head_name = ""
        self.learned_positions: int | None = None
        self._prefix = ""
        self._layers: range | None = None

    @contextmanager
    def under(self, prefix: str, layers: range | None = None) -> Iterator[None]:
        """Names inside get this prefix ("" for none); with `layers` it is a list of layers that number the names."""
        before = self._prefix, self._layers
        self._prefix += prefix + ("." if prefix else "") + ("" if layers is None else "{}.")
        self._layers = self._layers if layers is None else layers
        try:
            yield
        finally:
            self._prefix, self._layers = before

    def add(self, name: str, *shape: int, kind: Kind = "other", tied: str = "") -> None:
        """One parameter by its name."""
        self.parameters.append(Parameter(self._prefix + name, shape, kind, self._layers, tied))

    def linear(self, name: str, inputs: int, outputs: int, *, bias: bool = False) -> None:
        """A torch.nn.Linear: weight [outputs, inputs]."""
        self.add(name + ".weight", outputs, inputs, kind="linear")
        if bias:
            self.add(name + ".bias", outputs, kind="bias")

    def conv1d(self, name: str, inputs: int, outputs: int) -> None:
        """transformers' Conv1D of GPT-2: a linear with weight [inputs, outputs] and a bias."""
        self.add(name + ".weight", inputs, outputs, kind="linear")
        self.add(name + ".bias", outputs, kind="bias")

    def conv(
        self, name: str, inputs: int, outputs: int, kernel: tuple[int, ...], *, bias: bool = False
    ) -> None:
        """A convolution: weight [outputs, inputs, *kernel]."""
        self.add(name + ".weight", outputs, inputs, *kernel, kind="conv")
        if bias:
            self.add(name + ".bias", outputs, kind="bias")

    def norm(self, name: str, size: int, *, bias: bool = False) -> None:
        """A normalisation with a weight, and a bias where it has one."""
        self.add(name + ".weight", size, kind="norm")
        if bias:
            self.add(name + ".bias", size, kind="norm")

    def embedding(self, name: str, rows: int, size: int) -> None:
        """An embedding table."""
        self.add(name + ".weight", rows, size, kind="embedding")

    def tokens(self, name: str, rows: int, size: int) -> None:
        """The embedding of the input's tokens."""
        self.embedding_name = self._prefix + name
        self.embedding(name, rows, size)

    def positions(self, name: str, rows: int, size: int, usable: int | None = None) -> None:
        """An embedding of positions that was learned; `usable` where fewer than its rows can be positions."""
        self.learned_positions = rows if usable is None else usable
        self.embedding(name, rows, size)

    def head(self, name: str, inputs: int, outputs: int, *, tied: bool, bias: bool = False) -> None:
        """The output layer, the embedding's own tensor where tied."""
        self.head_name = self._prefix + name
        tensor = f"{self.embedding_name}.weight" if tied else ""
        self.add(name + ".weight", outputs, inputs, kind="linear", tied=tensor)
        if bias:
            self.add(name + ".bias", outputs, kind="bias")
