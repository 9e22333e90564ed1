"""The public packages of test_packages.py: what is installed for each, what the parent imports of it, and a small use of it.

A use is the body of a function: it imports what it needs, as a user would write it, and returns something that is true.
"""

from typing import NamedTuple


class Package(NamedTuple):
    """`install` are requirements, `imported` the modules that the parent imports before, `body` the use."""

    install: str
    imported: str
    body: str


def _parsed(text: str) -> list[Package]:
    found = []
    for block in text.strip().split("\n\n"):
        head, *body = block.split("\n")
        install, _, imported = head.partition(" -> ")
        found.append(Package(install, imported or install, "\n".join(body)))
    return found


PACKAGES = _parsed("""
matplotlib -> matplotlib.pyplot
import io, matplotlib; matplotlib.use("Agg")
from matplotlib import pyplot
figure, axes = pyplot.subplots(); axes.plot([1, 2, 3]); out = io.BytesIO(); figure.savefig(out, format="png")
return len(out.getvalue()) > 999

scipy
import scipy
return bool(abs(scipy.linalg.det([[2.0, 0.0], [0.0, 3.0]]) - 6) < 1e-9)

fastapi httpx -> fastapi.testclient
import fastapi; from fastapi.testclient import TestClient
app = fastapi.FastAPI(); app.get("/x")(lambda n: {"n": n}); return TestClient(app).get("/x?n=3").json() == {"n": "3"}

boto3
import boto3
client = boto3.client("s3", region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b")
return "b" in client.generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"})

scikit-learn -> sklearn.linear_model
import sklearn.linear_model
return round(float(sklearn.linear_model.LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]).predict([[2.0]])[0])) == 5

celery
import celery
app = celery.Celery("x", broker="memory://", backend="cache+memory://"); app.conf.task_always_eager = True
def add(): return 5
return app.task(add).delay().get() == 5

requests
import requests
return requests.Request("GET", "http://a/", params={"b": "c"}).prepare().url == "http://a/?b=c"

numpy
import numpy
return float(numpy.arange(5).mean()) == 2.0

pandas
import pandas
return int(pandas.DataFrame({"a": [1, 2]})["a"].sum()) == 3

pydantic
import pydantic
return pydantic.create_model("M", a=(int, 1))(a="2").a == 2

sqlalchemy
import sqlalchemy
return sqlalchemy.create_engine("sqlite://").connect().execute(sqlalchemy.text("select 3")).scalar() == 3

django -> django.template
import django; from django.conf import settings
settings.configure(TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}]); django.setup()
from django.template import engines; return engines["django"].from_string("{{ a }}").render({"a": 3}) == "3"

flask
import flask
app = flask.Flask("x"); app.get("/")(lambda: "ok"); return app.test_client().get("/").data == b"ok"

jinja2
import jinja2
return jinja2.Template("{{ a }}").render(a=1) == "1"

click
import click; from click.testing import CliRunner
return CliRunner().invoke(click.command()(lambda: click.echo("hi"))).output == "hi\\n"

rich -> rich.table
import io; from rich.console import Console; from rich.table import Table
file = io.StringIO(); table = Table("a"); table.add_row("b"); Console(file=file).print(table); return "b" in file.getvalue()

httpx
import httpx
return httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200, text="ok"))).get("http://a/").text == "ok"

aiohttp
import aiohttp
return aiohttp.ClientTimeout(3).total == 3

attrs -> attr
import attr
return attr.asdict(attr.make_class("A", ["x"])(1)) == {"x": 1}

pyyaml -> yaml
import yaml
return yaml.safe_load("a: [1]") == {"a": [1]}

lxml -> lxml.etree
from lxml import etree
return etree.fromstring("<a><b/></a>")[0].tag == "b"

beautifulsoup4 -> bs4
import bs4
return bs4.BeautifulSoup("<p>x</p>", "html.parser").p.text == "x"

pillow -> PIL.Image
import io; from PIL import Image
out = io.BytesIO(); Image.new("RGB", (2, 2)).save(out, "PNG"); return out.getvalue()[:4] == b"\\x89PNG"

cryptography -> cryptography.fernet
from cryptography.fernet import Fernet
f = Fernet(Fernet.generate_key()); return f.decrypt(f.encrypt(b"x")) == b"x"

paramiko
import paramiko
return paramiko.Ed25519Key is not None and paramiko.util.get_logger("x") is not None

setuptools
import setuptools
return len(setuptools.find_packages("/nonexistent")) == 0

packaging -> packaging.version
from packaging.version import Version
return Version("1.10") > Version("1.9")

tqdm
import io, tqdm
return sum(tqdm.tqdm([1, 2], file=io.StringIO())) == 3

pytz
import pytz
return pytz.timezone("Europe/Berlin").zone == "Europe/Berlin"

tzdata
import zoneinfo; zoneinfo.reset_tzpath(to=())
return zoneinfo.ZoneInfo("Asia/Tokyo").key == "Asia/Tokyo"

python-dateutil -> dateutil.parser
import dateutil.parser
return dateutil.parser.parse("2001-02-03").day == 3

babel
import babel.numbers
return babel.numbers.format_decimal(1234, locale="de") == "1.234"

pygments
import pygments; from pygments.lexers import get_lexer_by_name; from pygments.formatters import HtmlFormatter
return "span" in pygments.highlight("x = 1", get_lexer_by_name("python"), HtmlFormatter())

markdown
import markdown
return markdown.markdown("# a", extensions=["tables"]) == "<h1>a</h1>"

docutils -> docutils.core
import docutils.core
return b"<p>x</p>" in docutils.core.publish_string("x", writer_name="html")

jsonschema
import jsonschema
return jsonschema.validate(1, {"type": "integer"}) is None

marshmallow
import marshmallow
return marshmallow.Schema.from_dict({"a": marshmallow.fields.Int()})().load({"a": "1"}) == {"a": 1}

networkx
import networkx
return networkx.shortest_path(networkx.path_graph(3), 0, 2) == [0, 1, 2]

sympy
import sympy
return sympy.diff(sympy.Symbol("x") ** 2) == 2 * sympy.Symbol("x")

mpmath
import mpmath
return mpmath.mpf(1) + 1 == 2

tornado -> tornado.web
import tornado.web
return tornado.web.Application([]) is not None

twisted -> twisted.internet.defer
from twisted.internet import defer
return defer.succeed(3).result == 3

gunicorn
import gunicorn.config
return gunicorn.config.Config().workers >= 1

uvicorn
import uvicorn
return uvicorn.Config("x:y").port == 8000

starlette -> starlette.routing
from starlette.routing import Route
return Route("/x", lambda r: None).path == "/x"

redis
import redis
return redis.Redis(port=1).connection_pool is not None

pymongo
import pymongo
return pymongo.MongoClient(connect=False)["a"]["b"].full_name == "a.b"

psycopg
import psycopg
return True

pymysql
import pymysql
return pymysql.converters.escape_string("a'b") == "a\\\\'b"

asyncssh
import asyncssh
return asyncssh.generate_private_key("ssh-ed25519") is not None

fabric
import fabric
return fabric.Connection("h").host == "h"

invoke
import invoke
return invoke.run("echo a", hide=True).stdout == "a\\n"

docker
import docker
return docker.utils.parse_repository_tag("a:b") == ("a", "b")

kubernetes -> kubernetes.client
import kubernetes.client
return kubernetes.client.V1Pod(kind="Pod").to_dict()["kind"] == "Pod"

google-auth -> google.auth
import google.auth.credentials
return google.auth.credentials.AnonymousCredentials().valid

protobuf -> google.protobuf
from google.protobuf import struct_pb2
s = struct_pb2.Struct(); s["a"] = 1; return s["a"] == 1

grpcio -> grpc
import grpc
return grpc.insecure_channel("localhost:1") is not None

msgpack
import msgpack
return msgpack.unpackb(msgpack.packb([1])) == [1]

orjson
import orjson
return orjson.loads(orjson.dumps([1])) == [1]

simplejson
import simplejson
return simplejson.loads("[1]") == [1]

ujson
import ujson
return ujson.loads("[1]") == [1]

toml
import toml
return toml.loads("a = 1") == {"a": 1}

tomlkit
import tomlkit
return tomlkit.parse("a = 1")["a"] == 1

regex
import regex
return regex.match("a+", "aa").end() == 2

chardet
import chardet
return chardet.detect(b"abc")["encoding"] is not None

charset-normalizer -> charset_normalizer
import charset_normalizer
return charset_normalizer.from_bytes(b"abc").best() is not None

idna
import idna
return idna.encode("ä.de") == b"xn--4ca.de"

certifi
import certifi
return len(open(certifi.where()).read()) > 1000

urllib3
import urllib3
return urllib3.util.parse_url("http://a:1/").port == 1

pyparsing
import pyparsing
return pyparsing.Word("a").parse_string("aa")[0] == "aa"

lark
import lark
return lark.Lark('start: "a"').parse("a").data == "start"

ply -> ply.lex
import ply.lex
return ply.lex.__version__ != ""

sqlglot
import sqlglot
return sqlglot.transpile("select 1", read="mysql", write="postgres") == ["SELECT 1"]

sqlparse
import sqlparse
return len(sqlparse.split("a; b")) == 2

tabulate
import tabulate
return "a" in tabulate.tabulate([["a"]])

prettytable
import prettytable
return "a" in str(prettytable.PrettyTable(["a"]))

colorama
import colorama
return colorama.Fore.RED != ""

termcolor
import termcolor
return "x" in termcolor.colored("x", "red")

prompt-toolkit -> prompt_toolkit
import prompt_toolkit
return prompt_toolkit.HTML("<b>x</b>").value == "<b>x</b>"

ipython -> IPython
import IPython
from IPython.core.interactiveshell import InteractiveShell
return InteractiveShell().ev("1 + 1") == 2

black
import black
return black.format_str("x=1", mode=black.Mode()) == "x = 1\\n"

isort
import isort
return isort.code("import b\\nimport a\\n") == "import a\\nimport b\\n"

pyflakes -> pyflakes.api
import pyflakes.checker, ast
return len(pyflakes.checker.Checker(ast.parse("import a")).messages) == 1

pycodestyle
import pycodestyle
return pycodestyle.StyleGuide(quiet=True).options is not None

mypy -> mypy.api
import mypy.version
return mypy.version.__version__ != ""

jedi
import jedi
return any(one.name == "append" for one in jedi.Script("[].app").complete(1, 6))

parso
import parso
return parso.parse("x = 1").children[0] is not None

pytest
import pytest
return pytest.approx(1.0) == 1.0000001

hypothesis
import hypothesis.strategies as st
return st.integers() is not None

faker
import faker
return len(faker.Faker("de_DE").name()) > 2

coverage
import coverage
return coverage.Coverage(data_file=None) is not None

scrapy
import scrapy
return scrapy.Selector(text="<p>x</p>").css("p::text").get() == "x"

openpyxl
import openpyxl
book = openpyxl.Workbook(); book.active["A1"] = 3; return book.active["A1"].value == 3

xlsxwriter
import io, xlsxwriter
out = io.BytesIO(); xlsxwriter.Workbook(out).close(); return len(out.getvalue()) > 100

reportlab -> reportlab.pdfgen.canvas
import io; from reportlab.pdfgen import canvas
out = io.BytesIO(); c = canvas.Canvas(out); c.drawString(1, 1, "x"); c.save(); return out.getvalue()[:4] == b"%PDF"

pypdf
import pypdf
return pypdf.PdfWriter() is not None

plotly -> plotly.graph_objects
import plotly.graph_objects as go
return "bar" in go.Figure(go.Bar(y=[1])).to_json()

bokeh -> bokeh.plotting
from bokeh.plotting import figure
return figure().title is not None

psutil
import psutil
return psutil.Process().pid > 0

structlog
import structlog
return structlog.get_logger() is not None

loguru
from loguru import logger
return logger.level("INFO").no == 20

pendulum
import pendulum
return pendulum.datetime(2001, 2, 3).day == 3

arrow
import arrow
return arrow.get("2001-02-03").day == 3

phonenumbers
import phonenumbers
return phonenumbers.is_valid_number(phonenumbers.parse("+49301234567"))

nltk
import nltk
return nltk.edit_distance("a", "b") == 1

joblib
import joblib
return joblib.hash(1) != ""

dask -> dask.delayed
import dask
return dask.delayed(lambda: 3)().compute(scheduler="sync") == 3

xarray
import xarray
return int(xarray.DataArray([1, 2]).sum()) == 3

polars
import polars
return polars.DataFrame({"a": [1, 2]})["a"].sum() == 3

gevent
import gevent
return gevent.spawn(lambda: 3).get() == 3

zeep
import zeep
return zeep.__version__ != ""

pexpect
import pexpect
return pexpect.run("echo a").strip() == b"a"

importlib-metadata -> importlib_metadata
import importlib_metadata
return importlib_metadata.version("importlib-metadata") != ""
""")
