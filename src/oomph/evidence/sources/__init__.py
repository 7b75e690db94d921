"""From what the user named to documents: found, decompressed, decoded, and large files reduced to what matters."""

from oomph.evidence.sources.follow import Follower
from oomph.evidence.sources.limits import Limits
from oomph.evidence.sources.load import Loaded, load, load_all

__all__ = ["Follower", "Limits", "Loaded", "load", "load_all"]
