"""The toolkit of the machine or the image is not the one PyTorch was built with."""

from __future__ import annotations

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.builds import judged
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.model import Certainty
from oomph.hardware.drivers import numbers


class ImageCuda(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV108"
    cause = "image_cuda"
    name = "image-cuda-is-not-torchs"
    means = (
        "nvcc or the base image has another CUDA than PyTorch was built with. PyTorch's wheels bring their own CUDA "
        "libraries, so nothing is wrong with training; it matters when an extension is compiled (flash-attn, apex, "
        "DeepSpeed's ops)."
    )
    decisive_evidence = "The version of nvcc or of the image against torch.version.cuda."
    first_action = "Nothing for training; to compile extensions, use a toolkit of the same major version."
    verify = "nvcc --version prints the release that torch.version.cuda names."
    wrong_advice = (
        "Changing the driver or the toolkit because nvidia-smi, nvcc and torch.version.cuda print three versions: they "
        "are three different things, and only the driver's age counts for running."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        builds = [one for one in judged(environment) if one.cuda]
        toolkits = [one for one in environment.toolkits if len(numbers(one.value)) > 1]
        if not builds or not toolkits:
            return answer([])
        build = builds[0]
        for toolkit in toolkits:
            theirs, its = numbers(toolkit.value)[:2], numbers(build.cuda)[:2]
            if theirs == its:
                continue
            major = theirs[0] != its[0]
            return answer(
                [
                    Problem(
                        f"The toolkit is CUDA {'.'.join(map(str, theirs))}, and {build.name} brings its own: they "
                        "need not "
                        "match to train.",
                        does="Compiling an extension is refused: PyTorch wants the same major version."
                        if major
                        else "Compiling an extension works, with a warning about the minor version.",
                        fix="Nothing, unless extensions are compiled here; then take an image or a toolkit of CUDA "
                        f"{build.cuda}.",
                        subject=f"CUDA {'.'.join(map(str, theirs))}",
                        severity=Severity.NOTE,
                        certainty=Certainty.LIKELY if build.assumed else Certainty.CERTAIN,
                        evidence=(toolkit.quote, build.torch.quote),
                    )
                ]
            )
        return answer([], [f"the toolkit is CUDA {build.cuda}, as {build.name}"])
