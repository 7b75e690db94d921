"""config.json of a model, as transformers writes it."""

from __future__ import annotations

from oomph.job.config import from_config
from oomph.job.importers.formats import bitsandbytes
from oomph.job.importers.imported import Collector, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import table


def read(source: Source) -> Imported:
    """The model, and its quantization_config where it has one."""
    collector = Collector("config.json", source.name)
    name = source.table.get("_name_or_path")
    plain = {k: v for k, v in source.table.items() if k != "quantization_config"}
    collector.model = from_config(plain, name if isinstance(name, str) else "")
    collector.put("model.family", collector.model.family, "model_type", collector.model.family)
    quantization = table(source.table.get("quantization_config"))
    if quantization:
        bitsandbytes.read_config(collector, quantization, parent="quantization_config.")
    # The version that saved the model says nothing about the one that trains it.
    return collector.done()
