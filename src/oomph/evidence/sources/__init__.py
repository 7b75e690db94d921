"""From what the user named to documents: found, decompressed, decoded, and large files reduced to what matters."""

from oomph.evidence.sources.elsewhere import Elsewhere, Wanted, read_wanted
from oomph.evidence.sources.follow import Follower
from oomph.evidence.sources.limits import Limits
from oomph.evidence.sources.load import Loaded, load, load_all
from oomph.evidence.sources.read import Text

__all__ = ["Elsewhere", "Follower", "Limits", "Loaded", "Text", "Wanted", "load", "load_all", "read_wanted"]
