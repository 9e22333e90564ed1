"""`roamlet resume FILE`: goes on from a checkpoint, as the script that wrote it would."""

import argparse
import sys
import traceback

from roamlet.cli._errors import UsageError

DESCRIPTION = """\
Go on with the job of a checkpoint that roamlet.checkpoint() has written, and run until nothing is left to do. The job goes on
writing FILE. Resume only what you would run: a checkpoint is code.

Exit code: 0 the job has ended, 1 it has failed or nothing can ever wake it, 64 it cannot go on here, and nothing has run, 130
interrupted; that of sys.exit() where the job calls it."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `roamlet resume`."""
    parser = commands.add_parser(
        "resume",
        help="go on from a checkpoint",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--script", metavar="SCRIPT", help="where the classes of the job's script are, if it has moved")
    parser.add_argument("file", metavar="FILE")
    parser.set_defaults(command=resume)


def resume(options: argparse.Namespace) -> int:
    """Carry the command out and return its exit code. Raises UsageError before anything of the job has run."""
    # Inside: loading the core takes longer than all of `roamlet --help`.
    import roamlet
    from roamlet.snapshot import BadSnapshot, main_script

    begun = False
    try:
        with main_script.resumed(options.file, options.script) as job:
            begun = True
            roamlet.run()
            if not job.alive:
                # One of roamlet.spawn() keeps its error for the tasklet that joins it.
                getattr(job, "join", lambda: None)()
                return 0
            print(f"roamlet resume: {job!r} waits, and nothing is left that could wake it", file=sys.stderr)
            return 1
    except SystemExit as error:
        return _code_of(error)
    except Exception as error:
        if begun:
            traceback.print_exc()
            return 1
        if isinstance(error, OSError):
            raise UsageError(f"{options.file}: {error.strerror or error}") from error
        if isinstance(error, (BadSnapshot, roamlet.NoCore, RecursionError)):
            raise UsageError(str(error)) from error
        raise


def _code_of(error: SystemExit) -> int:
    """As Python does: None is 0; anything but a number is printed, and gives 1."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1
