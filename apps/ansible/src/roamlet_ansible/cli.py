"""`roamlet ansible`: parses. What a command does is in doctor.py, imported when it runs."""

import argparse
from pathlib import Path
from typing import TypeAlias

from roamlet.cli import UsageError

EPILOG = """\
  roamlet ansible doctor                          is this ansible-core known, and the collection found?
  roamlet ansible doctor -i hosts.ini web         the same, and how modules would get to each host of the group web
  roamlet ansible doctor all                      the same for all hosts of ansible.cfg's inventory
  roamlet ansible doctor --log FILE               which way the tasks of a run went, and what they cost

Exit code: 0 modules run in the warm Python everywhere; 1 some do not, or something failed; 3 some host is out of reach, and nothing
else is wrong; 64 wrong command line; 130 interrupted."""

Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_parser(commands: Parsers) -> None:
    """Declare `roamlet ansible` and its commands."""
    parser = commands.add_parser(
        "ansible",
        help="Ansible's playbooks over roamlet: what goes which way",
        description="Ansible's playbooks over roamlet. They are run by ansible-playbook as before; this looks at how.",
        allow_abbrev=False,
    )
    subcommands = parser.add_subparsers(metavar="COMMAND", dest="ansible_command", required=True)
    text = "say which Python and account modules would run in on each host, how fast, and why not in the warm one"
    doctor = subcommands.add_parser(
        "doctor",
        help=text,
        description=text[:1].upper() + text[1:] + ".",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    doctor.add_argument(
        "pattern", metavar="PATTERN", nargs="?", help="hosts, as Ansible's patterns (default: all of -i)"
    )
    doctor.add_argument(
        "-i",
        "--inventory",
        action="append",
        metavar="INVENTORY",
        help="as of ansible-playbook (default: ansible.cfg's)",
    )
    doctor.add_argument("-e", "--extra-vars", action="append", metavar="VARS", help="as of ansible-playbook")
    doctor.add_argument("-c", "--connection", metavar="NAME", help="as of ansible-playbook; an inventory wins over it")
    doctor.add_argument("-u", "--user", metavar="USER", help="as of ansible-playbook")
    doctor.add_argument("-b", "--become", action="store_true", help="as of ansible-playbook")
    doctor.add_argument("-k", "--ask-pass", action="store_true", help="ask for ssh's password")
    doctor.add_argument("-K", "--ask-become-pass", action="store_true", help="ask for become's password")
    doctor.add_argument("--vault-password-file", metavar="FILE", help="as of ansible-playbook")
    doctor.add_argument("-f", "--forks", type=int, metavar="N", help="hosts at a time, as of ansible-playbook")
    doctor.add_argument("--log", type=Path, metavar="FILE", help="the log of a run: made with ROAMLET_ANSIBLE_LOG=FILE")
    doctor.add_argument("--json", action="store_true", help="one JSON object, for other programs")
    doctor.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    # Inside: it brings modules that no other command needs.
    from roamlet_ansible import doctor

    if options.log is not None and not options.log.is_file():
        raise UsageError(
            f"there is no file {str(options.log)!r}: run the playbook with ROAMLET_ANSIBLE_LOG={options.log}"
        )
    return doctor.run(options)
