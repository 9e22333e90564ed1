"""What the tests call on a host that is another Python, of 2.7 perhaps."""

from roamlet_clock.host import commands


def use_folders(folders):
    """Where its programs are, from now on."""
    commands.FOLDERS = folders


def run_shortly(*words):
    """What is said of a command that takes longer than a moment."""
    commands.PATIENCE = 0.05
    try:
        commands.run(*words)
    except commands.CannotDo as error:
        return commands.told(error)
