"""Programs that do real work with a module of the standard library each. See public_programs.py."""

import ast
import enum
import html.parser
import logging
import unittest


def with_argparse(out):
    import argparse

    parser = argparse.ArgumentParser("program", add_help=False)
    parser.add_argument("--level", type=int, default=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    out.append(sorted(vars(parser.parse_args(["a", "b"])).items()))
    out.append(parser.format_usage())


def with_copy(out):
    import copy

    shared = [1]
    made = copy.deepcopy({"a": shared, "b": [shared, {"c": shared}]})
    out.append([made["a"] is made["b"][0], made["a"] is made["b"][1]["c"]])


def with_pickle(out):
    import io
    import pickle

    shared, stream = [1], io.BytesIO()
    pickle._Pickler(stream).dump([shared, {"a": shared}])
    first, second = pickle._Unpickler(io.BytesIO(stream.getvalue())).load()
    out.append([first is second["a"]])


def with_json(out):
    import json

    made = json.JSONEncoder(indent=1, sort_keys=True, default=lambda value: sorted(value)).iterencode(
        {"b": [1, {2.5, 1}], "a": None}
    )
    out.append("".join([part for part in made]))  # noqa: C416
    out.append(json.loads(out[0], object_pairs_hook=lambda pairs: [list(pair) for pair in pairs]))


class Doubled(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.copy_location(ast.Constant(node.value * 2), node)


def with_ast(out):
    tree = Doubled().visit(ast.parse("def f(a, *b, c=3):\n    return [x for x in (1, 2) if x] + a[1:2]\n"))
    out.append(ast.unparse(tree))
    out.append([type(node).__name__ for node in ast.walk(tree)])


def with_tokenize(out):
    import io
    import tokenize

    text = "def f(a):\n    # why\n    return a + 'x' * 2\n"
    tokens = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        tokens.append(token)
        out.append([tokenize.tok_name[token.type], token.string])
    out.append(tokenize.untokenize(tokens) == text)


def with_difflib(out):
    import difflib

    one, two = ["one", "two", "three", "four", "five"], ["one", "three", "four", "5", "six"]
    out.append(list(difflib.unified_diff(one, two, lineterm="")))
    out.append(list(difflib.ndiff(one, two)))
    out.append(difflib.get_close_matches("thre", one))


def with_csv(out):
    import csv
    import io

    stream = io.StringIO()
    writer = csv.DictWriter(stream, ["a", "b"], extrasaction="ignore")
    writer.writeheader()
    for number in range(4):
        writer.writerow({"a": number, "b": f'x "{number}"', "c": 1})
    stream.seek(0)
    out.extend(row["b"] for row in csv.DictReader(stream))
    out.append(csv.Sniffer().sniff("a;b\n1;2\n").delimiter)


def with_configparser(out):
    import configparser
    import io

    parser, stream = configparser.ConfigParser(interpolation=configparser.ExtendedInterpolation()), io.StringIO()
    parser.read_string("[a]\nx = 1\ny: ${x}2 \n[b]\nz = ${a:y}\n  more\n")
    out.append([[name, dict(parser[name])] for name in parser.sections()])
    out.append(parser.getint("a", "y"))
    parser.write(stream)
    out.append(stream.getvalue())


def with_email(out):
    import email
    import email.message
    import email.policy

    message = email.message.EmailMessage()
    message["Subject"], message["To"] = "Gr\u00fc\u00dfe", "Ann <a@b.c>, d@e.f"
    message.set_content("text \u00e4\n")
    message.add_alternative("<p>text</p>", subtype="html")
    message.set_boundary("=====")
    read = email.message_from_bytes(message.as_bytes(), policy=email.policy.default)
    out.append([read["subject"], [str(each) for each in read["to"].addresses]])
    out.append([part.get_content() for part in read.iter_parts()])


class Parser(html.parser.HTMLParser):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def handle_starttag(self, tag, attrs):
        self.out.append([tag, attrs])

    def handle_data(self, data):
        self.out.append(data)


def with_html(out):
    Parser(out).feed("<a href='x&amp;y'>one<br/>two &lt; three</a><!-- no --><script>if (a < b)</script>")


def with_heapq(out):
    import heapq

    graph = {"a": {"b": 7, "c": 3}, "b": {"d": 2}, "c": {"b": 1, "d": 8}, "d": {}}
    best, todo = {}, [(0, "a")]
    while todo:
        cost, node = heapq.heappop(todo)
        if node not in best:
            best[node] = cost
            for other, more in graph[node].items():
                heapq.heappush(todo, (cost + more, other))
    out.append(best)
    out.append(list(heapq.merge([1, 4, 9], [2, 3], [5], key=lambda value: -value, reverse=True)))
    out.append(heapq.nlargest(3, range(20), key=lambda value: value * 7 % 11))


def with_decimal(out):
    import _pydecimal

    with _pydecimal.localcontext() as context:
        context.prec = 20
        out.append(str(_pydecimal.Decimal(2).sqrt()))
        out.append(str(_pydecimal.Decimal("1.1").exp()))
    out.append(str(_pydecimal.Decimal("12.345").quantize(_pydecimal.Decimal(".01"))))


def with_fractions(out):
    import fractions

    total = sum((fractions.Fraction(1, number) for number in range(1, 8)), fractions.Fraction())
    out.append([str(total), str(total.limit_denominator(20)), str(fractions.Fraction("0.125") ** 2)])
    for number in range(1, 5):
        total = total / number - fractions.Fraction(2, 7)
        out.append(str(total))


def with_statistics(out):
    import statistics

    values = [1.5, 2, 2, 3.25, 8]
    out.append(
        [statistics.mean(values), statistics.median_grouped(values), statistics.pstdev(values), statistics.mode(values)]
    )
    out.append(list(statistics.linear_regression(values, [2, 3, 3, 5, 9])))
    out.append(statistics.quantiles(values, n=3))


def with_string(out):
    import string

    out.append(string.Template("$who owes ${what}, $$5").substitute(who="Ann", what="Bob"))
    out.append(string.Formatter().vformat("{0:>{1}} {name!r}", ("x", 5), {"name": "y"}))
    out.append(string.capwords("some words here"))


def with_textwrap(out):
    import textwrap

    text = "A long line of words that is to be wrapped, with-hyphens and more of them. " * 3
    out.append(textwrap.wrap(text, 30, initial_indent="* "))
    out.append(textwrap.dedent("    a\n      b\n    c\n"))
    out.append(textwrap.shorten(text, 40))


def with_pprint(out):
    import pprint

    out.append(pprint.pformat({"list": list(range(30)), "dict": {"a": ("b",) * 3, "text": "word " * 30}}, width=50))


def with_shlex(out):
    import shlex

    out.append(shlex.split("a 'b c' \"d $e\" f\\ g # no", comments=True))
    out.append(list(shlex.shlex("x=1; y>>z && w", punctuation_chars=True)))
    out.append(shlex.join(["a b", "c"]))


def with_fnmatch(out):
    import fnmatch

    names = [f"file{number}.{kind}" for number in range(4) for kind in ("py", "txt")]
    for pattern in ("*.py", "file[!12].*", "*?.t*"):
        out.append(fnmatch.filter(names, pattern))
        out.append(fnmatch.translate(pattern))


def with_sched(out):
    import sched

    now = [0]

    def sleep(seconds):
        now[0] += seconds

    def again(name, every):
        out.append([now[0], name])
        if now[0] < 12:
            scheduler.enter(every, 1, again, (name, every))

    scheduler = sched.scheduler(lambda: now[0], sleep)
    scheduler.enter(1, 1, again, ("a", 2))
    scheduler.enter(1, 2, again, ("b", 3))
    scheduler.run()


def with_graphlib(out):
    import graphlib

    sorter = graphlib.TopologicalSorter({"d": {"b", "c"}, "b": {"a"}, "c": {"a"}})
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        out.append(ready)
        sorter.done(*ready)
    try:
        graphlib.TopologicalSorter({1: {2}, 2: {1}}).prepare()
    except graphlib.CycleError as error:
        out.append(len(error.args[1]))


def with_zipfile(out):
    import io
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number in range(3):
            archive.writestr(zipfile.ZipInfo(f"file{number}"), f"text {number}" * 20, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(stream) as archive:
        out.append([[each.filename, each.file_size] for each in archive.infolist()])
        out.append(archive.read("file1").decode()[:12])


def with_tarfile(out):
    import io
    import tarfile

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"folder/file{number}")
            member.size = 6
            archive.addfile(member, io.BytesIO(f"text {number}".encode()))
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        out.append([[each.name, archive.extractfile(each).read().decode()] for each in archive])


def with_xml(out):
    import xml.etree.ElementTree as tree
    from xml.dom import minidom

    root = tree.Element("root", {"a": "1"})
    for number in range(3):
        child = tree.SubElement(root, "child", n=str(number))
        child.text = f"<{number}>"
    tree.indent(root)
    text = tree.tostring(root, "unicode")
    out.append(text)
    out.append([each.get("n") for each in root.findall("./child[@n='1']")])
    out.append([each.getAttribute("n") for each in minidom.parseString(text).getElementsByTagName("child")])


def with_plistlib(out):
    import plistlib

    value = {"a": [1, 2.5, True, b"bytes"], "b": {"c": "text & more"}}
    data = plistlib.dumps(value, fmt=plistlib.FMT_XML)
    out.append(data.decode())
    read = plistlib.loads(plistlib.dumps(value, fmt=plistlib.FMT_BINARY))
    out.append([read == value, plistlib.loads(data) == value])


def with_urllib(out):
    from urllib import parse

    out.append(list(parse.urlsplit("http://user@host:80/a/b;c?d=e&f=g%20h#i")))
    out.append(parse.parse_qs("a=1&a=2&b=%C3%A4"))
    out.append(parse.urlencode({"x": ["1", "2"], "y": "\u00e4 b"}, doseq=True))
    out.append([parse.urljoin("http://a/b/c", part) for part in ("d", "../e", "//f/g", "?h")])


def with_ipaddress(out):
    import ipaddress

    networks = [ipaddress.ip_network(f"10.0.{number}.0/24") for number in range(4)]
    out.append([str(each) for each in ipaddress.collapse_addresses(networks)])
    out.append([str(each) for each in ipaddress.ip_network("10.0.0.0/22").address_exclude(networks[2])])
    out.append(str(ipaddress.ip_address("2001:db8::1").exploded))


def with_strptime(out):
    import datetime

    for text, form in (("3 Feb 2020 04:05", "%d %b %Y %H:%M"), ("2021-W05-2", "%G-W%V-%u"), ("12/31/99", "%m/%d/%y")):
        out.append(datetime.datetime.strptime(text, form).isoformat())


def with_calendar(out):
    import calendar

    out.append(calendar.TextCalendar().formatmonth(2024, 2))
    out.append([list(week) for week in calendar.Calendar(6).monthdayscalendar(2023, 5)])
    out.append(calendar.HTMLCalendar().formatmonth(2024, 2)[:200])


class Noting(logging.Handler):
    def emit(self, record):
        self.out.append(self.format(record))


def with_logging(out):
    logger = logging.Logger("own", logging.INFO)
    handler = Noting()
    handler.out = out
    handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
    logger.addHandler(handler)
    for number in range(4):
        logger.log(10 * number, "number %d", number)


class Case(unittest.TestCase):
    def test_right(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(number, number)  # noqa: PT009 - unittest is what runs

    def test_wrong(self):
        self.assertIn(1, [2, 3])  # noqa: PT009


def with_unittest(out):
    import io

    result = unittest.TextTestResult(unittest.runner._WritelnDecorator(io.StringIO()), False, 1)
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    out.append([result.testsRun, len(result.failures), len(result.errors)])


def with_dataclasses(out):
    import dataclasses

    point = dataclasses.make_dataclass("Point", [("x", int), ("y", int, dataclasses.field(default=2))], order=True)
    one, two = point(1), point(1, 3)
    out.append([dataclasses.asdict(one), one < two, repr(dataclasses.replace(two, x=9))])


class Flags(enum.Flag):
    A = 1
    B = 2
    C = 4


def with_enum(out):
    both = Flags.A | Flags.C
    for each in Flags:
        out.append([each.name, each in both, repr(each ^ both), Flags(each.value) is each])
    for value in range(8):
        out.append([part.name for part in Flags(value)])


def with_singledispatch(out):
    import functools

    @functools.singledispatch
    def shown(value):
        return repr(value)

    @shown.register
    def _(value: list):
        return [shown(each) for each in value]

    @shown.register
    def _(value: dict):
        return {key: shown(each) for key, each in value.items()}

    out.append(shown([1, {"a": [2, "x"]}]))


def with_inspect(out):
    import inspect

    def call(a, b: int = 2, *c, d, e="x", **f):
        pass

    signature = inspect.signature(call)
    out.append(str(signature))
    bound = signature.bind(1, 2, 3, d=4, g=5)
    bound.apply_defaults()
    out.append({name: str(value) for name, value in bound.arguments.items()})


def with_pickletools(out):
    import io
    import pickle
    import pickletools

    stream = io.StringIO()
    data = pickle.dumps([1, "two", {"three": (4.0, b"five")}], 2)
    pickletools.dis(pickletools.optimize(data), stream)
    out.append(stream.getvalue())


def with_optparse(out):
    import optparse

    parser = optparse.OptionParser("usage: %prog [options]", prog="program")
    parser.add_option("-n", "--number", type="int", default=1, help="how many")
    parser.add_option("-v", action="count", dest="level")
    options, words = parser.parse_args(["-vv", "--number=3", "a", "b"])
    out.append([options.number, options.level, words])
    out.append(parser.format_help())


def with_cookies(out):
    from http import cookies

    jar = cookies.SimpleCookie()
    jar.load('a=1; b="x y"; c=3')
    jar["a"]["path"] = "/x"
    out.append(jar.output())


def with_random(out):
    import random

    chance = random.Random(3)
    cards = list(range(12))
    chance.shuffle(cards)
    out.append(cards)
    out.append([chance.sample(cards, 3), chance.choices("abc", weights=[1, 2, 3], k=4), round(chance.gauss(0, 1), 9)])
    chance = random.Random("text")
    out.append([chance.randint(1, 6) for _ in range(6)])
