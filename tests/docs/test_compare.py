"""docs/compare: its figures are those of the reference, its programs run, and each page has the same parts."""

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.docs.blocks import BLOCK, ROOT
from tests.snapshot.conftest import KNOWN
from tools import figures

FOLDER = ROOT / "docs/compare"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")
PARTS = ["What", "What roamlet does better", "Figures", "Side by side", "How to move over"]

# The programs of the peers: the module without which the tests cannot run them, and how they are run where it is there.
PEERS = {
    ("stackless.md", "Stackless"): ("roamlet.stackless", ["-m", "roamlet.stackless"]),
    ("gevent.md", "gevent"): ("gevent", []),
    ("asyncio.md", "asyncio"): ("asyncio", []),
    ("asyncio.md", "trio"): ("trio", []),
    ("threads.md", "threading"): ("threading", []),
    ("ansible.md", "Mitogen"): ("mitogen", []),
    ("execnet.md", "execnet"): ("execnet", []),
    ("dask.md", "Dask"): ("distributed", []),
    ("workflows.md", "DBOS"): ("dbos", []),
}

# Blocks that no test runs, and why: by page, heading and language.
NOT_RUN = {
    ("ansible.md", "roamlet", "ini"): "a configuration; the tests of apps/ansible run playbooks with its lines",
    ("execnet.md", "Fabric", "python"): "reaches two hosts by ssh; tried by hand with Fabric 3.2.3",
    ("execnet.md", "pyinfra", "sh"): "reaches two hosts by ssh; tried by hand with pyinfra 3.10.0",
    ("vpn.md", "Tailscale", "sh"): "takes an account of Tailscale's; not tried, as the page says",
    ("vpn.md", "roamlet", "sh"): "changes servers; the tests of apps/vpn run these commands in a lab",
    ("clock.md", "fake-hwclock, timesyncd, chrony", "sh"): "sets the clock of a machine; not tried",
    ("clock.md", "roamlet", "sh"): "installs on hosts; the tests of apps/clock run these commands",
}

# Compared with each other: test_wg_quick_s_file_is_what_roamlet_vpn_makes_of_its_own.
COMPARED = {("vpn.md", "wg-quick", "ini"), ("vpn.md", "roamlet", "toml")}


@dataclass(frozen=True)
class Block:
    page: str
    heading: str
    language: str
    text: str
    prints: str | None

    @property
    def name(self):
        return f"{self.page}:{self.heading}"


def blocks():
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        matches = list(BLOCK.finditer(text))
        for block, following in zip(matches, [*matches[1:], None], strict=True):
            if block["language"] == "text":
                continue
            prints = None
            if following and following["language"] == "text" and not text[block.end() : following.start()].strip():
                prints = following["text"]
            heading = re.findall(r"^#+ (.*)$", text[: block.start()], re.MULTILINE)[-1]
            found.append(Block(page.name, heading, block["language"], block["text"], prints))
    return found


def can_run(block):
    if block.language != "python" or (block.page, block.heading, "python") in NOT_RUN:
        return False
    if block.heading != "roamlet":
        return importlib.util.find_spec(PEERS[block.page, block.heading][0]) is not None
    if block.page == "workflows.md":  # its frames are saved, which the fallback backend cannot do
        return bool(KNOWN)
    needed = ("distributed", "cryptography") if block.page == "dask.md" else ()
    return all(importlib.util.find_spec(name) is not None for name in needed)


@pytest.mark.parametrize("block", [block for block in blocks() if can_run(block)], ids=lambda block: block.name)
def test_a_program_of_a_comparison_runs_and_prints_what_the_page_says(block, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(block.text)
    words = [] if block.heading == "roamlet" else PEERS[block.page, block.heading][1]
    done = subprocess.run(
        [sys.executable, "-W", "error" if block.heading == "roamlet" else "ignore", *words, str(path)],
        cwd=tmp_path,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, block.prints), done.stderr
    assert block.heading != "roamlet" or done.stderr == ""


def test_every_block_is_run_or_compared_or_has_a_reason_why_not():
    for block in blocks():
        key = (block.page, block.heading, block.language)
        if key in COMPARED or key in NOT_RUN:
            continue
        assert block.language == "python", key
        assert block.heading == "roamlet" or (block.page, block.heading) in PEERS, key
        assert block.prints, f"{key}: what it prints is missing"
    there = {(block.page, block.heading, block.language) for block in blocks()}
    assert {*COMPARED, *NOT_RUN} <= there
    assert {(*peer, "python") for peer in PEERS} <= there


def test_wg_quick_s_file_is_what_roamlet_vpn_makes_of_its_own():
    parse = pytest.importorskip("roamlet_vpn.model.file").parse
    allowed_ips = pytest.importorskip("roamlet_vpn.model.network").allowed_ips
    parsed = pytest.importorskip("roamlet_vpn.wireguard.wgconf").parsed
    texts = {block.language: block.text for block in blocks() if block.page == "vpn.md"}
    network = parse(texts["toml"])
    alpha, beta = network.site("alpha"), network.site("beta")
    config = parsed(texts["ini"].replace("(from wg genkey)", "A" * 43 + "=").replace("(from beta)", "A" * 43 + "="))
    (peer,) = config.peers
    assert (peer.name, peer.endpoint) == ("beta", beta.endpoint)
    assert sorted(map(str, peer.allowed_ips)) == sorted(map(str, allowed_ips(network, alpha, beta)))
    assert list(config.interface.addresses) == list(network.interface_addresses(alpha))
    assert config.interface.listen_port == alpha.endpoint.port


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_parts_of_a_comparison_in_their_order(page):
    headings = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(headings) == len(PARTS)
    assert all(heading.startswith(part) for heading, part in zip(headings, PARTS, strict=True)), headings
    assert headings[0].endswith("better") and "roamlet" not in headings[0]


def test_every_page_is_in_the_table_of_the_first_one():
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"]({page.name}) |" not in index] == []


def test_lines_of_prose_have_at_most_100_characters():
    long = []
    for page in FOLDER.glob("*.md"):
        prose = re.sub(
            r"<!-- figures.*?<!-- end -->", "", BLOCK.sub("", page.read_text(encoding="utf-8")), flags=re.DOTALL
        )
        long += [f"{page.name}: {line}" for line in prose.splitlines() if len(line) > 100 and not line.startswith("|")]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_the_pages_that_they_are_from(page):
    assert page.read_text(encoding="utf-8") == figures.filled(page), "type: python -m tools.figures --write"


def test_no_table_of_figures_is_typed_by_hand():
    """Where a number stands outside of the pieces that are filled in, it is a version, a size of the task or a time limit."""
    for page in PAGES:
        outside = re.sub(r"<!-- figures.*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"^\|.*\d\.\d", outside, re.MULTILINE), page.name


TABLES = """\
# Page

## Speed: of 2 things, x1.5

| | ours | theirs | theirs |
| --- | --- | --- | --- |
| call | 1.5 | 3 | 4 |
| call, twice | 3 | - | 8 |

| other | x |
| --- | --- |
| a | fast |
"""


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/speed.md").write_text(TABLES)
    return tmp_path


@pytest.mark.parametrize(
    ("which", "table"),
    [
        ("Speed | ours | call / 1", "| | ours |\n| --- | ---: |\n| call | 1.5 |"),
        (
            "Speed | | call, twice",
            "| | ours | theirs | theirs |\n| --- | ---: | ---: | ---: |\n| call, twice | 3 | - | 8 |",
        ),
        ("Speed > other | |", "| other | x |\n| --- | --- |\n| a | fast |"),
    ],
)
def test_a_part_of_a_table_and_the_link_to_it(docs, which, table):
    link = "[Speed: of 2 things, x1.5](../reference/speed.md#speed-of-2-things-x15)"
    assert figures.part(f"reference/speed.md | {which}", docs / "compare", docs) == f"{table}\n\nFrom {link}."


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("Size | | ", "no table"),
        ("Speed > else | | ", "no table"),
        ("Speed | theirs | ", "not one column 'theirs'"),
        ("Speed | mine | ", "not one column 'mine'"),
        ("Speed | ours | call; run", "no row starts with 'run'"),
    ],
)
def test_a_part_that_is_not_there_is_an_error(docs, which, message):
    with pytest.raises(LookupError, match=message):
        figures.part(f"reference/speed.md | {which}", docs / "compare", docs)
