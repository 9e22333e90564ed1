"""What everything on a server stands on: commands, files that are never half written, keys, and what must not leave the host.

Knows nothing of networks, plans and rollbacks.
"""

import base64
import binascii
import os
import re
import shutil
import subprocess
import tempfile

KEPT = "(kept on the server)"  # what stands for each private or preshared key in text that leaves its host
FOLDER = "/etc/wireguard"
NAME = re.compile(r"^[A-Za-z0-9_=+.-]{1,15}$")  # what wg-quick takes for an interface
KEY_LINE = re.compile(r"^([\s#;]*(PrivateKey|PresharedKey)\s*=\s*)([^#\n]*?)(\s*(?:#.*)?)$", re.IGNORECASE)
LOOKS_LIKE_A_KEY = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])")
PATIENCE = 20.0  # seconds for one command: nothing that is run here takes one

# The folders of administration, which a plain login by ssh often lacks.
_MORE_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin")


class CannotDo(Exception):
    """Something on this server is not as it must be. The message says what, and is fit to be shown: it contains no key."""


def environment():
    """Ours, in plain C words, with the folders of administration, and with no long wait for names that do not resolve."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path += [folder for folder in _MORE_FOLDERS if folder not in path]
    return dict(os.environ, LC_ALL="C", PATH=os.pathsep.join(path), WG_ENDPOINT_RESOLUTION_RETRIES="1")


def found(program):
    """The path of a program, or None."""
    return shutil.which(program, path=environment()["PATH"])


def run(words, feed=None, timeout=PATIENCE):
    """Run a command to its end; return its status, output and what it said on stderr.

    `feed` is its input: keys go that way, never among the words. Blocks for `timeout` seconds at the most; raises CannotDo then,
    and when there is no such program.
    """
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise CannotDo("{} cannot be run here: {}".format(words[0], error.strerror)) from None
    try:
        output, said = process.communicate(feed, timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise CannotDo("{} did not end within {:.0f} seconds".format(" ".join(words), timeout)) from None
    return process.returncode, output, said


def must(words, feed=None, timeout=PATIENCE):
    """The output of a command. Raises CannotDo with what it said when it fails."""
    status, output, said = run(words, feed, timeout)
    if status:
        raise CannotDo("{}: {}".format(" ".join(words), shown(said or output) or "ended with status %d" % status))
    return output


def shown(text, limit=500):
    """Text as one line that may be shown and sent: no keys, no control characters."""
    line = " ".join(LOOKS_LIKE_A_KEY.sub("(a key)", text).split())
    line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= limit else line[: limit - 3] + "..."


def checked_interface(name):
    """The name if it is one that an interface can have. Raises ValueError."""
    if not isinstance(name, str) or not NAME.match(name) or name in (".", ".."):
        raise ValueError("{!r} is no name of an interface: 1 to 15 letters, digits and _=+.-".format(name))
    return name


def read(path):
    """The bytes of a file; None without one."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(path, data, mode):
    """Put a file in place whole or not at all: others see the old one or the new one, also after a power cut.

    Its folder must be there. The mode does not depend on the umask, and holds before the first byte is in it.
    """
    if os.path.islink(path):  # the file that it leads to is the one to replace
        path = os.path.realpath(path)
    folder = os.path.dirname(path)
    # mkstemp makes it 0600, whatever the umask is.
    descriptor, temporary = tempfile.mkstemp(prefix=".roamlet-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(folder)


def with_folder(folder, mode=0o700):
    """Make a folder where no package has."""
    if not os.path.isdir(folder):
        os.makedirs(folder)
        os.chmod(folder, mode)


def remove(path):
    """Remove a file if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    sync_folder(os.path.dirname(path))


def sync_folder(folder):
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def config_path(interface):
    return os.path.join(FOLDER, checked_interface(interface) + ".conf")


def key_path(interface):
    """Where a new private key waits until it is in the configuration."""
    return os.path.join(FOLDER, checked_interface(interface) + ".key")


def is_key(text):
    """Whether it is a key of WireGuard: 32 bytes in base64, written in the one way that wg writes it."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(raw) == 32 and base64.b64encode(raw).decode("ascii") == text


def public_key(private):
    """The public key of a private one; None when it is no key."""
    if not is_key(private):
        return None
    return must(["wg", "pubkey"], private + "\n").strip()


def private_key_in(text):
    """The private key that a configuration sets, as wg would take it; "" when it sets none."""
    private = ""
    section = ""
    for line in text.split("\n"):  # what wg takes for the end of a line, and nothing else
        bare = line.split("#", 1)[0].strip()
        if bare.startswith("["):
            section = bare.lower()
        elif section == "[interface]" and bare.partition("=")[0].strip().lower() == "privatekey":
            private = bare.partition("=")[2].strip()
    return private


def as_shown(text, public=None):
    """A configuration as it goes up, line for line: without keys, and without what a terminal would obey. `public`: its own key."""
    kept = without_keys(text, [public] if public else [])
    return "".join(char if char.isprintable() or char in "\n\t\r" else "?" for char in kept)


def without_keys(text, public=()):
    """A configuration as it may leave this host: each private and preshared key replaced, in comments too.

    What else looks like a key, in a PostUp command for one, is replaced unless it is known to be public: the keys of the
    configuration's PublicKey lines and those in `public`.
    """
    known = set(public)
    lines = text.split("\n")
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip(" \t#;").lower() == "publickey":
            known.update(LOOKS_LIKE_A_KEY.findall(value))
    return "\n".join(_without_key(line, known) for line in lines)


def _without_key(line, public):
    ending = line[len(line.rstrip("\r")) :]
    match = KEY_LINE.match(line.rstrip("\r"))
    if match:
        line = match.group(1) + (KEPT if match.group(3) else "") + match.group(4) + ending
    return LOOKS_LIKE_A_KEY.sub(lambda one: one.group() if one.group() in public else KEPT, line)
