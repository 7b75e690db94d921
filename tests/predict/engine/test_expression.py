import pytest

from oomph.errors import InputError
from oomph.predict.engine.expression import evaluate

DIMENSIONS = {"b": 3, "s": 5, "hidden": 8, "heads": 4, "head_dim": 16, "kv_heads": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("b*s*hidden", 3 * 5 * 8),
        ("2*b*s", 2 * 3 * 5),
        ("head_dim/2", 8),
        ("heads*head_dim+2*kv_heads*head_dim", 4 * 16 + 2 * 2 * 16),
        ("b*s-b", 3 * 5 - 3),
        ("s+1", 6),
        ("head_dim*heads*s/2", 16 * 4 * 5 // 2),
        ("-b+s", 2),
    ],
)
def test_values(text, value):
    assert evaluate(text, DIMENSIONS) == value


@pytest.mark.parametrize(
    "text", ["", "b**s", "b*", "b/hidden", "__import__('os')", "b s (", "2.5*b", "b/0", "x" * 3000]
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(InputError):
        evaluate(text, DIMENSIONS)


def test_unknown_dimensions_and_broken_sizes_are_refused():
    with pytest.raises(InputError, match="experts"):
        evaluate("experts*b", DIMENSIONS)
    with pytest.raises(InputError, match="whole"):
        evaluate("b/2", DIMENSIONS)
