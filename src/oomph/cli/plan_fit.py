"""`oomph plan --fit`, `--max` and `--gpus gcp,...`: what makes a job fit, the largest that fits, and where it fits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.plan import Request
    from oomph.cli.plan_job import Understood
    from oomph.report.plan.text import PlanOptions

F = TypeVar("F", bound=Callable[..., Any])

_CLOUDS = ("gcp", "aws", "azure", "lambda")
#: Left free on the card, where --headroom does not say.
_HEADROOM = 0.05


def fit_options(command: F) -> F:
    """The options."""
    for option in reversed(
        (
            click.option(
                "--fit",
                is_flag=True,
                help="What makes it fit: combinations of changes, the fastest first, each with the lines to write.",
            ),
            click.option(
                "--headroom",
                metavar="PERCENT",
                help="With --fit, --max and clouds: so much of the card stays free.  [default: 5%]",
            ),
            click.option(
                "--allow",
                metavar="WORDS",
                multiple=True,
                help="With --fit: also changes of batch (the effective one), seq, precision (states' too), method "
                "(LoRA, QLoRA) or machine (another GPU).",
            ),
            click.option(
                "--max",
                "maximum",
                type=click.Choice(["batch", "seq", "params"]),
                help="The largest micro-batch, sequence or model (layers of the same width) that fits.",
            ),
        )
    ):
        command = option(command)
    return command


def clouds_of(gpus: str | None) -> tuple[str, ...]:
    """The clouds that --gpus names ("gcp,aws", "all"); () where it is a number, or nothing."""
    if gpus is None:
        return ()
    words = tuple(word.strip().lower() for word in gpus.split(",") if word.strip())
    if words == ("all",):
        return _CLOUDS
    if not words or not any(word in _CLOUDS for word in words):
        return ()
    unknown = [word for word in words if word not in _CLOUDS]
    if unknown:
        raise UsageError(
            f"--gpus takes a number, or clouds of {', '.join(_CLOUDS)}, not {', '.join(unknown)[:60]}"
        )
    return tuple(dict.fromkeys(words))


def asked(request: Request) -> bool:
    """Whether one of these is asked for. Raises UsageError for two at once, and for options without it."""
    given = [
        name
        for name, is_given in (
            ("--fit", request.fit),
            ("--max", request.maximum is not None),
            (f"--gpus {request.gpus}", bool(clouds_of(request.gpus))),
        )
        if is_given
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are two questions: ask one at a time")
    if request.allow and not request.fit:
        raise UsageError("--allow is for --fit: it says what may change")
    if request.headroom is not None and not given:
        raise UsageError(
            "--headroom is for --fit, --max and --gpus with clouds; for a plan, --capacity says what there is"
        )
    return bool(given)


def run(request: Request, understood: Understood, output_format: str) -> int:
    """Searches and prints; returns the exit code. Raises OomphError."""
    from oomph.cli.output import emit, write_file

    headroom = share(request.headroom)
    if understood.unsupported:
        from oomph.cli.plan_run import planned, show

        return show(planned(understood, replay=False), request, output_format)
    clouds = clouds_of(request.gpus)
    if clouds:
        text, code = _machines(request, understood, clouds, headroom, output_format)
    elif request.maximum is not None:
        text, code = _largest(request, understood, headroom, output_format)
    else:
        text, code = _fit(request, understood, headroom, output_format)
    if request.output_path is None:
        emit(text, colour=output_format == "text" and _options(request).colour)
    else:
        write_file(request.output_path, text)
        if not request.quiet:
            click.echo(f"wrote {request.output_path}", err=True)
    return 0 if request.exit_zero and code == 1 else code


def share(text: str | None) -> float:
    """A share from "10%" or "0.1"; "10" is 10 %. Raises UsageError for anything else."""
    if text is None:
        return _HEADROOM
    word = text.strip()
    try:
        value = float(word.removesuffix("%"))
    except ValueError:
        value = -1.0
    if word.endswith("%") or value >= 1:
        value /= 100
    if not 0 <= value < 1:
        raise UsageError(f"--headroom {text[:60]!r}: give a share of the card, as in 10%")
    return value


def _fit(request: Request, understood: Understood, headroom: float, output_format: str) -> tuple[str, int]:
    from oomph.remedy.search import fit
    from oomph.report.plan.fit_words import exit_code

    allow = {word.strip().lower() for text in request.allow for word in text.split(",") if word.strip()}
    found = fit(understood.job, headroom, allow, replay=request.replay)
    if output_format == "json":
        from oomph.report.plan import search_json

        return search_json.render_fit(found), exit_code(found)
    if output_format == "markdown":
        from oomph.report.plan import search_markdown

        return search_markdown.render_fit(found), exit_code(found)
    from oomph.report.plan.fit_text import render_fit

    return render_fit(found, _options(request)), exit_code(found)


def _largest(
    request: Request, understood: Understood, headroom: float, output_format: str
) -> tuple[str, int]:
    from oomph.remedy.largest import largest

    what: Literal["batch", "seq", "params"] = request.maximum  # type: ignore[assignment] # click has checked it
    found = largest(understood.job, what, headroom)
    if found.value is None:
        raise UsageError(
            f"--max {what}: nothing says how much memory there is; name a card (--gpu) or give --capacity"
        )
    code = 1 if found.value == 0 else 0
    if output_format == "json":
        from oomph.report.plan import search_json

        return search_json.render_largest(found, understood.job), code
    if output_format == "markdown":
        from oomph.report.plan import search_markdown

        return search_markdown.render_largest(found, understood.job), code
    from oomph.report.plan.search_text import render_largest

    return render_largest(found, understood.job, _options(request)), code


def _machines(
    request: Request, understood: Understood, clouds: tuple[str, ...], headroom: float, output_format: str
) -> tuple[str, int]:
    from oomph.hardware.names import asked as asked_gpu
    from oomph.remedy.machines import compare_machines

    named = asked_gpu(request.gpu).gpu.short_name if request.gpu else ""
    found = compare_machines(understood.job, clouds, headroom, gpu=named, any_half=understood.open_precision)
    refused = [each.refused for each in found if each.refused]
    if found and len(refused) == len(found):  # nothing was predicted, so nothing can be said to fit or not
        raise UsageError(max(refused, key=refused.count))
    code = 0 if any(each.fits for each in found) else 1
    if output_format == "json":
        from oomph.report.plan import search_json

        return search_json.render_machines(found, understood.job), code
    if output_format == "markdown":
        from oomph.report.plan import search_markdown

        return search_markdown.render_machines(found), code
    from oomph.report.plan.search_text import render_machines

    return render_machines(found, _options(request)), code


def _options(request: Request) -> PlanOptions:
    from oomph.cli.terminal import DEFAULT_WIDTH, can_draw, use_colour, width
    from oomph.report.plan.text import PlanOptions

    to_file = request.output_path is not None
    return PlanOptions(
        width=DEFAULT_WIDTH if to_file else width(),
        colour=request.colour == "always" if to_file else use_colour(request.colour, sys.stdout),
        unicode=to_file or can_draw(sys.stdout),
        everything=request.explain,
    )
