"""What each framework's code does to memory outside the block: `code_for(job)`, and `variants(job)` where that is open.

docs/frameworks.md says where each fact was read.
"""

from __future__ import annotations

from oomph.predict.frameworks.choose import code_for, variants
from oomph.predict.frameworks.code import Code

__all__ = ["Code", "code_for", "variants"]
