from pathlib import Path

import pytest

from oomph.memory.categories import Category
from oomph.predict import words

TERMS = Path(__file__).parents[2] / "docs" / "terms"


def test_every_page_that_a_term_names_is_there():
    for page in (*(page for _, page in words._PAGES), *words._BY_CATEGORY.values()):
        assert (TERMS / f"{page}.md").is_file(), page


@pytest.mark.parametrize(
    ("category", "name", "shown"),
    [
        (Category.GRADIENTS, "mlp.down_proj.weight", "gradients"),
        (Category.ACTIVATIONS, "aten.mm", "results of matrix products"),
        (Category.ACTIVATIONS, "aten._scaled_dot_product_flash_attention", "attention outputs"),
        (Category.ACTIVATIONS, "aten.hardswish", "results of hardswish"),
        (Category.PARAMETERS, "parameter shards", "parameter shards"),
    ],
)
def test_names_for_people(category, name, shown):
    assert words.name_of(category, name) == shown
