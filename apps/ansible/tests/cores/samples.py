"""Small scripts with the variable parts of real wrappers, in their order; what is fixed in them is our own."""

import base64
import io
import json
import zipfile

PARAMS = json.dumps({"ANSIBLE_MODULE_ARGS": {"data": 'pöng\'s "x" %s %(a)s \\n\n\x85\u2028\U0001f600\x7f\x1b'}})


def packed(files):
    """A zip of files in base64, as in a script."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return base64.b64encode(data.getvalue()).decode()


ZIP = packed({"ansible/modules/ping.py": "print(1)\n"})


def call(shebang="#!/usr/bin/python3", **changed):
    """As of 2.19 and later: one call of a function."""
    moment = "datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)"
    values = {
        "ansible_module": repr("ping"),
        "module_fqn": repr("ansible.modules.ping"),
        "profile": repr("modern"),
        "date_time": moment,
        "rlimit_nofile": "0",
        "params": repr(PARAMS),
        "extensions": "{}",
        "zip_data": repr(ZIP),
    }
    lines = "".join(f"{name}={value},\n" for name, value in {**values, **changed}.items())
    return f"{shebang}\n\n_ANSIBALLZ_WRAPPER = True\n\nif True:\n    _ansiballz_main(\n{lines})\n".encode()


def template(
    shebang="#!/usr/bin/python3",
    fqn=None,
    fqns=None,
    name=None,
    params=None,
    zip_data=None,
    date_time="(2026, 1, 2, 3, 4, 5)",
    limit=None,
    quoted=True,
):
    """As before 2.19. `quoted`: as of releases later than 2.16.0."""
    fqn = fqn or ("'ansible.modules.ping'" if quoted else "ansible.modules.ping")
    name = name or ("'ping'" if quoted else "ping")
    fqns = fqns or (fqn, fqn, fqn)
    if not quoted:
        fqns = [f"'{one}'" for one in fqns]
    prefix, file = (
        (f"'ansible_' + {name} + '_payload_'", f"'ansible_' + {name} + '_payload.zip'")
        if quoted
        else (f"'ansible_{name}_payload_'", f"'ansible_{name}_payload.zip'")
    )
    data = (repr(ZIP) if quoted else '"' * 3 + ZIP + '"' * 3) if zip_data is None else zip_data
    limited = "" if limit is None else f"    low = min(1, 2); requested_soft = min(existing_hard, {limit})\n"
    return f"""{shebang}
_ANSIBALLZ_WRAPPER = True
{limited}
    ZIPDATA = {data}
    zinfo.date_time = {date_time}
    runpy.run_module(mod_name={fqns[0]}, init_globals=dict(_module_fqn={fqns[1]}, _modlib_path=modlib_path))
    runpy.run_module(mod_name={fqns[2]}, init_globals=None)
    ANSIBALLZ_PARAMS = {repr(PARAMS) if params is None else params}
    tempfile.mkdtemp(prefix={prefix})
    os.path.join(temp_path, {file})
""".encode()
