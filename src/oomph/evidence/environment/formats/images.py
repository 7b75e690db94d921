"""What the name of a container image says: CUDA's toolkit, or the PyTorch in it."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import TorchBuild
from oomph.evidence.model import Quote

_CUDA = re.compile(r"(?:^|/)(?:nvidia/)?cuda:(\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)(?:-|$)")
#: pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime, on Docker Hub.
_PYTORCH = re.compile(r"pytorch/pytorch:(\d\.\d{1,2}\.\d{1,2})-cuda(\d{1,2}\.\d{1,2})-cudnn\d{1,2}")
#: AWS' deep learning containers: pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-ec2.
_AWS = re.compile(r"pytorch-(?:training|inference):(\d\.\d{1,2}\.\d{1,2})-gpu-\S{0,20}?cu(\d{2})(\d)")


def tell(found: Found, image: str, quote: Quote) -> None:
    """Adds the image, and what its name says."""
    # enroot writes the registry with "#"
    image = image.strip().strip("'\"").replace("#", "/", 1)
    if not image or len(image) > 300 or image == "scratch":
        return
    found.add("images", image, quote)
    cuda = _CUDA.search(image)
    if cuda is not None:
        found.add("toolkits", cuda[1], quote)
    torch = _PYTORCH.search(image)
    if torch is not None:
        found.add_torch(TorchBuild(quote=quote, version=torch[1], cuda=torch[2], wanted=True))
    aws = _AWS.search(image)
    if aws is not None:
        found.add_torch(TorchBuild(quote=quote, version=aws[1], cuda=f"{aws[2]}.{aws[3]}", wanted=True))
