"""`kuberth completion`: a script that completes commands and options in a shell.

In: the shell's name. Out: the script, which calls `kuberth` to get the words.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for SHELL.

    \b
    bash:  echo 'source <(kuberth completion bash)' >> ~/.bashrc
    zsh:   echo 'source <(kuberth completion zsh)' >> ~/.zshrc
    fish:  kuberth completion fish > ~/.config/fish/completions/kuberth.fish
    """
    script = get_completion_class(shell)
    assert script is not None, f"click completes no {shell}"
    root = click.get_current_context().find_root().command
    click.echo(script(root, {}, "kuberth", "_KUBERTH_COMPLETE").source())
