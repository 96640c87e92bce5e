"""`virtlab completion`: the script that a shell reads, which asks back for what may follow."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from virtlab.terminal import say

app = typer.Typer(add_completion=False)
BASH = r"""
_virtlab() {
    local IFS=$'\n'
    COMPREPLY=($(virtlab completion bash --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o nosort -F _virtlab virtlab
"""
ZSH = r"""
#compdef virtlab
_virtlab() {
    local -a found
    found=("${(@f)$(virtlab completion zsh --words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    if (( $#found )); then compadd -Q -U -- "${found[@]}"; else _files; fi
}
compdef _virtlab virtlab
"""
FISH = r"""
function __virtlab_words
    set -l given (commandline -opc) (commandline -ct)
    virtlab completion fish --words -- $given[2..-1] 2>/dev/null
end
complete -c virtlab -a '(__virtlab_words)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@app.command()
def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(help="bash, zsh or fish", show_default=False)
    ],
    given: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    *,
    words: Annotated[bool, typer.Option("--words", hidden=True)] = False,
) -> None:
    """Prints the script that completes commands, options, levels of factors, metrics, datasets and files.

    Read it when a shell starts, from ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish.

    Examples:

        source <(virtlab completion bash)

        virtlab completion fish | source
    """
    if words:
        from virtlab.cli.words.completing import candidates, escaped

        say("\n".join(escaped(candidates(given or [""]), shell, given or [""])))
        return
    say(SCRIPTS[shell].strip())
