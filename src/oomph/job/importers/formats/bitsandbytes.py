"""BitsAndBytesConfig: printed, or as it stands in config.json under quantization_config.

Source of keys and defaults: transformers/utils/quantization_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.formats import hf_keys
from oomph.job.importers.imported import Collector, Imported
from oomph.job.importers.text import Source
from oomph.job.importers.values import flag, whole


def read(source: Source) -> Imported:
    """A BitsAndBytesConfig."""
    collector = Collector("BitsAndBytesConfig", source.name)
    read_config(collector, source.table)
    return collector.done()


def read_config(collector: Collector, config: Mapping[str, object], parent: str = "") -> None:
    """A quantization_config: bitsandbytes or GPTQ, or gpt-oss's own, whose weights training has in bf16; others are
    refused by name."""
    method = str(config.get("quant_method") or "bitsandbytes").lower().rsplit(".", 1)[-1]
    if method in ("bitsandbytes", "bitsandbytes_4bit", "bitsandbytes_8bit"):
        collector.read(config, hf_keys.BITSANDBYTES, hf_keys.BITSANDBYTES_HARMLESS, parent=parent)
        four = flag(config.get("load_in_4bit", config.get("_load_in_4bit")))
        eight = flag(config.get("load_in_8bit", config.get("_load_in_8bit")))
        hf_keys.finish_quantization(collector, {"load_in_4bit": four, "load_in_8bit": eight})
        if four:
            source = "BitsAndBytesConfig's default of bnb_4bit_quant_type"
            collector.default("method.quantization.kind", "fp4", source)
        return
    bits, group = whole(config.get("bits")), whole(config.get("group_size"))
    if method == "gptq" and bits == 4 and group == 128:
        collector.put("method.quantization.kind", "gptq4", f"{parent}quant_method", method)
        collector.put("method.quantization.block", 128, f"{parent}group_size", group)
        return
    if method == "mxfp4" and config.get("dequantize") is not False:
        return  # training asks for Mxfp4Config(dequantize=True), which the plan says of gpt_oss
    collector.refuse(
        f"{parent}quant_method", f"{method}, bits {bits}, group_size {group}" if bits else method
    )
