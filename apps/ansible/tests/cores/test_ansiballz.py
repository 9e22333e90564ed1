"""Scripts that ansible-core makes of modules: each value is read, and what differs in a single byte is not read."""

import ast
import base64
import hashlib
import json

import pytest

from roamlet_ansible.cores import ansiballz, wrappers

from . import samples
from .samples import PARAMS, ZIP, call, packed, template


@pytest.fixture(autouse=True)
def samples_are_known(monkeypatch):
    texts = [call()]
    for quoted in (True, False):
        texts += [template(quoted=quoted), template(quoted=quoted, limit=1)]
    cuts = [wrappers.cut(text) for text in texts]
    monkeypatch.setattr(wrappers, "KNOWN", {cut.digest: cut.layout.name for cut in cuts})
    monkeypatch.setattr(ansiballz, "_known", [])
    assert len(wrappers.KNOWN) == 5


def plain(**changed):
    return template(quoted=False, **changed)


ALL = pytest.mark.parametrize("sample", [call, template, plain], ids=["call", "template", "plain-template"])


@ALL
def test_the_values_of_a_script_are_read(sample):
    assert ansiballz.read(sample()) == ansiballz.ModuleRun(
        fqn="ansible.modules.ping",
        name="ping",
        params=PARAMS,
        profile="modern" if sample is call else None,
        zip_data=ZIP,
        payload=hashlib.sha256(ZIP.encode()).hexdigest(),
        date_time=(2026, 1, 2, 3, 4, 5),
        rlimit_nofile=0,
        shape="2.19" if sample is call else "2.16",
    )


@ALL
def test_a_limit_of_open_files_is_read(sample):
    limit = {"rlimit_nofile" if sample is call else "limit": "4096"}
    assert ansiballz.read(sample(**limit)).rlimit_nofile == 4096
    for odd in ("-1", "+1", "01", "1.0", "1e3", "x", "1 ", "1_0", "0x10"):
        assert ansiballz.read(sample(**dict.fromkeys(limit, odd))) is None


@ALL
@pytest.mark.parametrize(
    "text", ["", "it's", 'a "b"', "'\"", "\\", "\n\r\t\0\x7f", "%s %(a)s", "x" * 100_000, '"""', ",\nparams="]
)
def test_parameters_come_as_they_were(sample, text):
    params = json.dumps({"ANSIBLE_MODULE_ARGS": {"text": text + "é\U0001f600\u2028"}})
    assert ansiballz.read(sample(params=repr(params))).params == params
    if text.isascii():
        assert ansiballz.read(sample(params=repr(text))).params == text


@ALL
@pytest.mark.parametrize(
    "written",
    [
        "u'a'",
        "b'a'",
        "r'a'",
        "f'a'",
        "'a' 'b'",
        '"a"',
        "'\\x61'",
        "'a",
        "a",
        "('a')",
        "'a' + 'b'",
        "'é'",
        "'\\u00e9'",
        "''\"\"",
        "1",
        "",
    ],
)
def test_strings_that_repr_writes_otherwise_are_not_read(sample, written):
    assert ansiballz.read(sample(params=written)) is None
    assert ansiballz.read(sample(zip_data=written)) is None


@ALL
@pytest.mark.parametrize("data", ["", "abc", "ab c", "ab=c", "====", "ab\\n", "ab-_", "é"])
def test_data_that_is_no_base64_is_not_read(sample, data):
    written = f'"""{data}"""' if sample is plain else f"'{data}'"
    assert ansiballz.read(sample(zip_data=written)) is None


@ALL
@pytest.mark.parametrize("name", ["my-mod", "ansible.legacy.setup", "a_1"])
def test_names_of_modules_are_read(sample, name):
    key = "ansible_module" if sample is call else "name"
    assert ansiballz.read(sample(**{key: name if sample is plain else repr(name)})).name == name


@ALL
@pytest.mark.parametrize("name", ["a b", "a'b", "a/b", "é", "a\\b", "-a", ".a"])
def test_other_names_are_not_read(sample, name):
    keys = ("ansible_module", "module_fqn") if sample is call else ("name", "fqn")
    for key in keys:
        assert ansiballz.read(sample(**{key: name if sample is plain else repr(name)})) is None


@pytest.mark.parametrize("place", range(3))
def test_one_name_in_two_forms_is_not_read(place):
    for sample, names in ((template, ["'a'", "'a'", "'a'"]), (plain, ["a", "a", "a"])):
        assert ansiballz.read(sample(fqns=names)).fqn == "a"
        names[place] = names[place].replace("a", "b")
        assert ansiballz.read(sample(fqns=names)) is None


@pytest.mark.parametrize(
    "written",
    [
        "(2026, 1, 2, 3, 4)",
        "(2026, 1, 2, 3, 4, 5, 6)",
        "(2026,1,2,3,4,5)",
        "[2026, 1, 2, 3, 4, 5]",
        "(2026, 01, 2, 3, 4, 5)",
        "(2026, -1, 2, 3, 4, 5)",
        "time.gmtime()[:6]",
        "",
    ],
)
def test_other_dates_of_a_template_are_not_read(written):
    assert ansiballz.read(template(date_time=written)) is None
    assert ansiballz.read(plain(date_time=written)) is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)", (2026, 1, 2, 3, 4, 0)),
        ("datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)", (2026, 1, 2, 3, 4, 5)),
        ("datetime.datetime(2026, 1, 2, 3, 4, 0, 7, tzinfo=datetime.timezone.utc)", (2026, 1, 2, 3, 4, 0)),
        ("datetime.datetime(2026, 1, 2, 3, 4, 0, tzinfo=datetime.timezone.utc)", None),
        ("datetime.datetime(2026, 13, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)", None),
        ("datetime.datetime(2026, 1, 2, 3, 4, 5)", None),
        ("datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)", None),
        ("datetime.datetime(2026, 1, 2, 3, 4, 5, , tzinfo=datetime.timezone.utc)", None),
        ("datetime.datetime.now()", None),
    ],
)
def test_dates_of_a_call_are_read_as_repr_writes_them(written, read):
    found = ansiballz.read(call(date_time=written))
    assert (found and found.date_time) == read


@pytest.mark.parametrize("written", ["{'_coverage': {}}", "{ }", "dict()", "{'_pydevd': {'a': 1}}"])
def test_extensions_are_not_read(written):
    assert ansiballz.read(call(extensions=written)) is None


@ALL
@pytest.mark.parametrize("shebang", ["#!/usr/bin/env python3", "#!/opt/a b/python -tt", "#!/é/python", "#!~/python"])
def test_the_first_line_may_name_any_interpreter(sample, shebang):
    assert ansiballz.read(sample(shebang=shebang)) == ansiballz.read(sample())


@ALL
@pytest.mark.parametrize(
    "shebang",
    [
        "",
        "# x",
        "#!x\rimport os",
        "#!x\0",
        "#!python -*- coding: latin-1 -*-",
        "#!x # vim: set fileencoding=rot13 :",
        "\ufeff#!/x",
    ],
)
def test_a_first_line_that_may_mean_something_to_python_is_not_read(sample, shebang):
    assert ansiballz.read(sample(shebang=shebang)) is None


@ALL
def test_a_first_line_that_is_no_utf_8_is_not_read(sample):
    assert ansiballz.read(sample().replace(b"/usr/bin", b"/\xff", 1)) is None


@ALL
def test_what_is_no_script_of_core_is_not_read(sample):
    for data in (
        b"",
        b"#!/usr/bin/python\nprint(1)\n",
        sample()[1:],
        sample() + b"\n",
        sample()[:-1],
        sample().replace(b"\n", b"\r\n"),
        sample() * 2,
    ):
        assert ansiballz.read(data) is None


@ALL
def test_a_script_is_not_read_when_its_wrapper_is_not_known(sample, monkeypatch):
    monkeypatch.setattr(wrappers, "KNOWN", {})
    assert ansiballz.read(sample()) is None


def test_a_hash_counts_for_its_own_layout_alone(monkeypatch):
    monkeypatch.setattr(wrappers, "KNOWN", dict.fromkeys(wrappers.KNOWN, "another layout"))
    assert ansiballz.read(call()) is None


@ALL
def test_one_changed_byte_is_read_only_as_python_reads_it(sample):
    """Every byte, one after the other, becomes another one: a script is read only if Python's own parser finds the same values."""
    script = (
        sample(params='\'{"a": "b\\\\n"}\'')
        if sample is not call
        else sample(params='\'{"a": "b\\\\n"}\'', rlimit_nofile="12")
    )
    assert ansiballz.read(script) is not None
    read = 0
    for place in range(len(script)):
        for byte in b"'\"\\ \n0a\xc3,)":
            changed = script[:place] + bytes([byte]) + script[place + 1 :]
            found = ansiballz.read(changed)
            if found is None or changed == script:
                continue
            read += 1
            constants = _constants(changed)
            assert {found.params, found.zip_data} <= constants
            assert sample is plain or found.fqn in constants
    assert read > 100


def test_a_script_is_read_after_another_one_as_without_it():
    """The text of a script is remembered: whatever byte of the next one differs, it is read as if it were the first."""
    script = call(params='\'{"a": "b\\\\n"}\'', rlimit_nofile="12")
    run = ansiballz.read(script)
    (known,) = ansiballz._known
    assert known.read(script) == run
    remembered = 0
    for place in range(len(script)):
        for change in (
            b"'",
            b'"',
            b"\\",
            b" ",
            b"\n",
            b"0",
            b"a",
            b"\xc3",
            b",",
            b")",
            b"",
            b",\n",
            b",\nparams=",
            b"'',\n",
        ):
            changed = script[:place] + change + script[place + 1 :]
            ansiballz._known[:] = [known]
            found = ansiballz.read(changed)
            remembered += found is not None and ansiballz._known == [known]
            assert found == ansiballz._read(changed), changed
    assert remembered > 50


def test_scripts_of_several_modules_are_remembered_but_not_of_many():
    for number in range(20):
        for name in (f"one{number}", f"two{number}"):
            fqn = repr(f"ansible.modules.{name}")
            for params in ("'{}'", "'{\"a\": 1}'"):
                run = ansiballz.read(call(ansible_module=repr(name), module_fqn=fqn, params=params))
                assert (run.name, repr(run.params)) == (name, params)
    assert len(ansiballz._known) == ansiballz.MOST_KNOWN


def _constants(script):
    # The samples of templates are pieces of a function: a line before them makes them one that Python can read.
    source = script.decode()
    first, rest = source.split("\n", 1)
    tree = ast.parse(
        first
        + "\n"
        + (
            rest
            if "_ansiballz_main(" in rest
            else rest.replace("True\n", "True\nif 1:\n", 1).replace("if 1:\n    low", "if 1:\n    low")
        )
    )
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def test_the_files_of_a_payload_are_those_of_the_zip():
    files = {"ansible/__init__.py": b"", "ansible/modules/ping.py": b"print(1)\n"}
    data = packed(files)
    assert ansiballz.files(data) == ansiballz.files(data.encode()) == files


@pytest.mark.parametrize("data", ["", "abc", "abcd", "é", ZIP[:-8], base64.b64encode(b"x" * 100).decode(), "A" * 400])
def test_damaged_data_is_named(data):
    with pytest.raises(ansiballz.UnreadablePayload, match="The data of a packed module is damaged"):
        ansiballz.files(data)


def test_damaged_content_of_a_zip_is_named():
    raw = bytearray(base64.b64decode(ZIP))
    raw[raw.index(b"ping.py") + 9] ^= 0xFF
    with pytest.raises(ansiballz.UnreadablePayload):
        ansiballz.files(base64.b64encode(bytes(raw)))


def test_reading_a_script_of_usual_size_needs_no_parser(monkeypatch):
    data = repr(base64.b64encode(bytes(150_000)).decode())
    monkeypatch.setattr(ansiballz.ast, "literal_eval", None)
    simple = repr('{"ANSIBLE_MODULE_ARGS": {}}')
    assert ansiballz.read(samples.call(zip_data=data, params=simple)) is not None
    assert ansiballz.read(samples.template(zip_data=data, params=simple)) is not None
