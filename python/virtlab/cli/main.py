"""The `virtlab` command: one file per command, imported only when it is called.

`virtlab --help` therefore costs no more than this table. Errors end here: one line, and the exit code of their kind.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from virtlab import __version__
from virtlab.cli.table import COMMANDS, declaration
from virtlab.errors import LINUX, ExperimentError, MachineError, VirtlabError
from virtlab.lazy import pattern
from virtlab.open_files import cure, ran_out
from virtlab.terminal import one_line, outlets, say

ROOM = "make room; the same command resumes"
RIGHT = "take the right to it, or name another place"
CURES = {  # what the owner of a machine can mend of what the machine refuses
    errno.ENOSPC: ROOM, errno.EDQUOT: ROOM, errno.EACCES: RIGHT, errno.EPERM: RIGHT, errno.EROFS: RIGHT,
    errno.ENFILE: "end other programs, or raise the machine's limit fs.file-max",
    errno.EIO: "the device fails: see 'dmesg', and continue with a copy of the folder on another one",
    errno.ESTALE: "the server took the folder away: mount it again; the same command resumes",
    errno.ENOMEM: "end other programs, or use a machine with more memory; the same command resumes",
    errno.EAGAIN: "end other programs, or raise the limit of processes with 'ulimit -u'",
    errno.EBADF: "give the command an open standard output", errno.ENXIO: RIGHT, errno.ENODEV: RIGHT,
    errno.ENAMETOOLONG: "take a shorter name", errno.ELOOP: "name the folder itself and no link to it",
    errno.ENOTCONN: "mount the folder again; the same command resumes",
}  # fmt: skip
SHARED_LIBRARY = pattern(r"([\w+.-]+\.so[\w.]*): cannot open shared object file")
PACKAGES = {
    "libstdc++.so.6": "libstdc++6",
    "libgcc_s.so.1": "libgcc-s1",
}  # of Debian; Python's wheels hold all others
# What to do instead of a command that needs Linux, by the command; the others are to be run where Linux is.
ELSEWHERE = {
    "demo": "leave --real out: the simulator answers without it",
    "plan": "leave --point out: a Plan's Steps are those of a testbed",
    "run": "use --backend simulator",
    "up": "run it on Linux, or simulate the file with 'virtlab run --backend simulator'",
    "calibrate": "run it on Linux, and copy the profile that --output writes for 'virtlab predict --profile'",
    "rt run": "run it on Linux; 'virtlab rt analyze' answers the same question without running the tasks",
    "rt overhead": "run it on Linux, and state what it measures to 'virtlab rt analyze --overhead'",
}
DEFECT = 70  # exit code; Python's own, 1, says that a claim is refuted


USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # typer has no name for what a wrong command line raises


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Prints a mistake of the command line like every other mistake. A command without arguments still prints its
    help.
    """
    try:
        yield
    except USAGE_ERROR as error:
        if error.ctx is None or type(error).__name__ == "NoArgsIsHelpError":
            raise
        path = error.ctx.command_path
        what = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
        where = path.removeprefix("virtlab").strip()
        raise ExperimentError(where, what, f"see `{path} --help`") from None


class _Commands(TyperGroup):
    """Imports a command's file when the command is called; lists all from the table."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the signature is typer's
        if cmd_name not in COMMANDS:
            return None
        if self._listing:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name].help)
        command = declaration(cmd_name)
        command.name = cmd_name
        return command

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _in_one_line():
            return super().make_context(*arguments, **more)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except USAGE_ERROR as error:
            from virtlab.units import nearest

            near = nearest(args[0], COMMANDS)
            error.message = f"{error.message} {near.capitalize()}".rstrip()
            raise

    def invoke(self, ctx: Any) -> Any:
        with _in_one_line():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _version(value: bool) -> None:
    if value:
        say(f"virtlab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="print the version"
    ),
) -> None:
    """A laboratory for virtualised infrastructure.

    Describe an experiment once, in one file; run it; read what differs and how sure that is.

    Example: virtlab demo
    """


def main(arguments: list[str] | None = None) -> Any:
    """Runs the command line; ends the process with the exit code of what happened."""
    with outlets():
        try:
            return app(args=arguments, prog_name="virtlab")
        except SystemExit:
            raise
        except KeyboardInterrupt:
            say("virtlab: interrupted; the same command resumes", err=True)
            sys.exit(130)
        except (
            BaseException
        ) as error:  # also what was not expected, and a panic of the extension module, which is no
            code = _report(error, sys.argv[1:] if arguments is None else arguments)
            sys.exit(code)  # Exception: its exit code must not read as an answer


def _report(error: BaseException, arguments: Sequence[str]) -> int:
    """Says on standard error what ended the command of these arguments; the exit code."""
    if isinstance(error, VirtlabError):
        say("virtlab: " + "\n".join(one_line(line) for line in error.lines()), err=True)
        return error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in LINUX:
        words = [word for word in arguments if not word.startswith("-")]
        known = (ELSEWHERE.get(" ".join(words[:count])) for count in (1, 2))
        cure_of = next(filter(None, known), "run it on Linux")
        lacking = f"testbeds need Linux, and this system has no {error.name}"
        return _report(MachineError("", lacking, cure_of), arguments)
    if isinstance(error, ImportError) and (absent := SHARED_LIBRARY.search(str(error))):
        library = absent[1]
        cure_of = f"install it (on Debian the package {PACKAGES.get(library, 'that has it')})"
        lacking = f"this system has no {library}, which Python packages need"
        return _report(MachineError("", lacking, cure_of), arguments)
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if ran_out(error) and not isinstance(error, OSError):
        error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    if isinstance(error, OSError) and (error.errno in CURES or ran_out(error)):
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        mend = f"{cure()}; the same command resumes" if ran_out(error) else CURES[error.errno or 0]
        say(f"virtlab: {one_line(place)}{error.strerror}; {mend}", err=True)
        return MachineError.exit_code
    say("".join(traceback.format_exception(error)).rstrip(), err=True)
    say("virtlab: this is a defect of virtlab; what stands above says where", err=True)
    return DEFECT
