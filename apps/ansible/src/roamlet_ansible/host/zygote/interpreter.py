"""Which files a new Python would read at its start, beside those of its account."""

import os
import sys

OF_PYTHON = """/etc/ld.so.cache /etc/os-release /usr/lib/os-release /etc/ssl/openssl.cnf /usr/lib/ssl/openssl.cnf
/etc/pki/tls/openssl.cnf /usr/lib/locale/locale-archive /usr/lib/locale""".split()


def python_files():
    paths = list(OF_PYTHON)
    try:
        paths.extend(os.path.join(paths[-1], name) for name in sorted(os.listdir(paths[-1]))[:64])
    except OSError:
        pass  # another C library
    folders = [path for path in sys.path if path]
    site = sys.modules.get("site")
    if getattr(site, "ENABLE_USER_SITE", None):
        folders.append(site.getusersitepackages())
    for folder in folders:
        if folder in paths:
            continue
        paths.append(folder)
        try:
            paths.extend(os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".pth"))
        except OSError:
            continue
    binary = sys.executable
    if binary:
        paths.append(binary)
        above = os.path.dirname(os.path.dirname(binary))
        paths.append(os.path.join(above, "pyvenv.cfg"))
    return paths
