"""`oomph completion SHELL`: the script that completes commands, options and rule codes."""

from __future__ import annotations

import click

from oomph.cli.output import emit


@click.command(name="completion", short_help="Shell completion.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  echo 'eval "$(oomph completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(oomph completion zsh)"' >> ~/.zshrc
    fish:  oomph completion fish > ~/.config/fish/completions/oomph.fish
    """
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    assert completer is not None
    emit(completer(ctx.find_root().command, {}, "oomph", "_OOMPH_COMPLETE").source())
