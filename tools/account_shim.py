"""A shared object to preload into an unpacked server, which takes an account without rights for the one of its package."""

import shutil
import subprocess
from pathlib import Path

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
struct passwd *getpwnam(const char *name)
{
    struct passwd *(*real)(const char *) = (struct passwd *(*)(const char *))dlsym(RTLD_NEXT, "getpwnam");
    return real(strcmp(name, "%(account)s") ? name : "nobody"); /* words: ok */
}
struct group *getgrnam(const char *name)
{
    struct group *(*real)(const char *) = (struct group *(*)(const char *))dlsym(RTLD_NEXT, "getgrnam");
    return real(strcmp(name, "%(account)s") ? name : "nogroup");
}
"""


def build(folder: Path, account: str) -> Path:
    """Compile it in `folder`, for the user and the group `account`; its path. CalledProcessError where that fails."""
    source, shim = folder / "account.c", folder / "account.so"
    source.write_text(SOURCE % {"account": account})
    compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(shim), str(source), "-ldl"], check=True, stdin=subprocess.DEVNULL
    )
    return shim
