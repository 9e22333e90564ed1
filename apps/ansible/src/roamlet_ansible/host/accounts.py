"""What a new session of this account would read, or be: accounts, groups, limits, profiles. Not what a new Python would.

The runner imports it, and the text of the zygote contains it. Python 2.7 and 3.6+, the standard library only.
"""

import grp
import os
import pwd

ACCOUNT = """/etc/passwd /etc/group /etc/nsswitch.conf /etc/environment /etc/login.defs /etc/sudoers /etc/sudoers.d/ /etc/doas.conf
/etc/security/ /etc/security/limits.d/ /etc/pam.conf /etc/default/locale /etc/locale.conf /etc/default/login
/etc/localtime /etc/profile /etc/profile.d/ /etc/bash.bashrc /etc/bashrc /etc/zshenv /etc/zsh/zshenv
/etc/pam.d /etc/csh.cshrc /etc/krb5.conf /etc/sssd/sssd.conf /etc/login.conf /etc/environment.d/""".split()
# Of the many files in /etc/pam.d those through which a session comes; a new or replaced file changes the folder.
SESSIONS = """sshd sudo sudo-i su su-l doas login other common-auth common-account common-session
common-session-noninteractive system-auth password-auth postlogin""".split()
OF_HOME = """.ssh/environment .ssh/rc .pam_environment .bashrc .bash_profile .bash_login .profile .zshenv .cshrc .tcshrc .kshrc
.config/fish/config.fish""".split()


def stamp(path):
    """What changes when a file does, or None."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (
        found.st_ctime,
        found.st_ino,
        found.st_dev,
    )  # every change of a file changes its ctime, which no program can set


DATABASES = ("/etc/passwd", "/etc/group")


def identities():
    """What the databases have about this account, and of the one that has become it: a play may change many others."""
    found = []
    for account in (os.getuid(), os.environ.get("SUDO_USER"), os.environ.get("DOAS_USER")):
        if account is None:
            continue
        try:
            entry = pwd.getpwuid(account) if isinstance(account, int) else pwd.getpwnam(account)
        except KeyError:
            found.append(None)
            continue
        name, group = entry.pw_name, entry.pw_gid
        listed = getattr(os, "getgrouplist", None)  # of 3.3 and later
        if listed is not None:
            groups = sorted(listed(name, group))
        else:
            groups = sorted(one.gr_gid for one in grp.getgrall() if name in one.gr_mem)
        found.append((tuple(entry), groups))
    return found


class Watched(object):
    """Files that a fresh process would read; `changed()` tells whether one is not as it was.

    Files that are missing are looked at only when the folder changes in which they would be made.
    """

    def __init__(self, paths):
        self.present, self.folders, self.absent = [], {}, []
        self.identities = identities()
        for path in paths:
            found = stamp(path)
            if found is not None:
                self.present.append((path, found))
                continue
            folder = path.rstrip("/")
            above = None
            while above is None and folder not in ("", "/"):
                folder = os.path.dirname(folder)
                above = stamp(folder or "/")
            self.folders[folder or "/"] = above
            self.absent.append(path)

        self._remember()

    def _remember(self):
        self.places = "\0".join([path for path, _ in self.present] + list(self.folders))
        self.stamps = tuple([found for _, found in self.present] + list(self.folders.values()))

    def same(self):
        """Whether nothing has changed at all, files included that changed() takes for those of others. False is no proof.

        It writes on few objects that stay: after a fork each page that one of them is on would be copied.
        """
        return tuple([stamp(path) for path in self.places.split("\0")]) == self.stamps

    def changed(self):
        """The path of a file that is not as it was, or None."""
        if self.same():
            return None
        try:
            return self._changed()
        finally:
            self._remember()

    def _changed(self):
        for index, (path, found) in enumerate(self.present):
            now = stamp(path)
            if now != found:
                if path not in DATABASES or now is None or identities() != self.identities:
                    return path
                self.present[index] = path, now  # of other accounts
        moved = False
        for folder, found in self.folders.items():
            now = stamp(folder)
            if now != found:
                self.folders[folder] = now
                moved = True
        if moved:
            for path in self.absent:
                if stamp(path) is not None:
                    return path
        return None


def account_files(home):
    paths = []
    for path in ACCOUNT:
        paths.append(path)
        if path.endswith("/"):
            try:
                paths.extend(path + name for name in sorted(os.listdir(path))[:64])
            except OSError:
                continue
    paths.extend("/etc/pam.d/" + name for name in SESSIONS)
    return paths + [os.path.join(home, name) for name in OF_HOME]
