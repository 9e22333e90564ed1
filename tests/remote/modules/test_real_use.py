"""Large real packages at work in a bare target, from memory: what they do is right, and what it cost is counted."""

import http.server
import importlib
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roamlet import remote
from tests.remote.modules.conftest import Make
from tests.remote.sent import roamlet_uses

NotLoaded = Callable[..., None]

BARE = getattr(sys, "_base_executable", sys.executable)


@pytest.fixture
def context() -> Iterator[remote.Context]:
    """The interpreter beneath this environment; should it have a package of ours, ours counts all the same."""
    with remote.local(python=BARE, modules=remote.Modules(prefer="parent", bytecode=False)) as context:
        yield context


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An https server on loopback and the certificate that it is to be trusted by."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=loopback -keyout {key} -out {certificate}".split()
    subprocess.run(
        ["openssl", *words, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=60
    )

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"woven")

        def log_message(self, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            """A client that does not trust us hangs up."""

    with Server(("127.0.0.1", 0), Answers) as listener:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        listener.socket = tls.wrap_socket(listener.socket, server_side=True)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"https://127.0.0.1:{listener.server_port}/", certificate
        listener.shutdown()
        thread.join()


def test_djangos_models_need_no_question(context: remote.Context) -> None:
    importlib.import_module("django.db.models")
    assert context.call(roamlet_uses.models) == "django.db.models.base"
    assert context.stats.round_trips == 0


@pytest.fixture
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> NotLoaded:
    """Let the parent not have these packages loaded, whatever tests came before: what travels depends on it."""

    def forget(*tops: str) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
            monkeypatch.delitem(sys.modules, name)

    return forget


def test_django_migrates_and_queries_on_the_target(context: remote.Context, not_loaded: NotLoaded) -> None:
    pytest.importorskip("django")
    not_loaded("cryptography", "jinja2", "yaml")
    assert context.call(roamlet_uses.django) == (["joan", "grace"], True)
    assert context.stats.bytes_down < 2_300_000  # bytecode, of whatever the parent has loaded; no translations


def test_jinja2_finds_and_lists_templates_on_the_target(context: remote.Context, make: Make) -> None:
    pytest.importorskip("jinja2")
    page = "{% for name in names %}<p>{{ name }}{% endfor %}{% include 'sub/foot.html' %}"
    names = ("__init__.py", "templates/page.html", "templates/sub/foot.html")
    make({f"roamlet_templates/{name}": text for name, text in zip(names, ("", page, "the end"), strict=True)})
    rendered, missing, listed = context.call(roamlet_uses.jinja2)
    assert rendered == "<p>warp<p>&lt;roamlet&gt;the end"
    assert missing == "nothing.html"
    assert listed == ["page.html", "sub/foot.html"]
    assert context.stats.round_trips <= 5


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded here", "not loaded here"])
def test_sqlalchemy_selects_on_the_target(context: remote.Context, not_loaded: NotLoaded, *, loaded: bool) -> None:
    pytest.importorskip("sqlalchemy")
    if not loaded:
        not_loaded("sqlalchemy")
    assert context.call(roamlet_uses.sqlalchemy) == ["roamlet"]
    assert (
        context.stats.round_trips <= 9
    )  # compiled modules above 1 MiB are asked for where the parent has not loaded them


def test_rich_draws_a_table_on_the_target(context: remote.Context, not_loaded: NotLoaded) -> None:
    pytest.importorskip("rich")
    not_loaded("rich", "pygments")
    assert "│ roamlet ✨ │" in context.call(roamlet_uses.rich)
    assert context.stats.round_trips <= 6


def test_botocore_builds_a_client_from_the_data_files_that_it_needs_and_no_others(context: remote.Context) -> None:
    pytest.importorskip("botocore")
    endpoint, signed, knows_s3 = context.call(roamlet_uses.botocore)
    assert (endpoint, signed, knows_s3) == ("https://sqs.eu-central-1.amazonaws.com", True, True)
    assert context.stats.round_trips <= 8
    # Its data are some 20 MB; up to 2 MB are cryptography, which is installed here and of which urllib3 makes use.
    assert context.stats.bytes_down < 4_000_000


def test_requests_trusts_whom_certifi_trusts_and_needs_no_question(
    context: remote.Context, server: tuple[str, Path]
) -> None:
    pytest.importorskip("requests")
    url, certificate = server
    certificates, trusted = context.call(roamlet_uses.requests, (url,))
    assert certificates > 100
    assert not trusted
    assert context.call(roamlet_uses.requests_with, (url, str(certificate))) == "woven"
    assert context.stats.round_trips == 0
