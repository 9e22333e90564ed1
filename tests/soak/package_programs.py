"""Programs that do real work with public packages, one package each. See public_programs.py."""


def with_sympy(out):
    import sympy

    x = sympy.Symbol("x")
    out.append(str(sympy.expand((x + 1) ** 4)))
    out.append(str(sympy.factor(x**3 - 1)))


def with_lark(out):
    import lark

    grammar = 'start: item+\nitem: WORD ";"\n%import common.WORD\n%ignore " "'
    out.append(lark.Lark(grammar, parser="lalr").parse("one; two; three;").pretty())


def with_sqlglot(out):
    import sqlglot

    out.append(sqlglot.transpile("SELECT a, b FROM t WHERE a > 1 ORDER BY b", write="duckdb")[0])


def with_networkx(out):
    import networkx

    graph = networkx.path_graph(6)
    graph.add_edge(0, 5)
    out.append(sorted(networkx.shortest_path_length(graph, 0).items()))


def with_jinja2(out):
    import jinja2

    out.append(jinja2.Template("{% for n in numbers %}{{ n * 2 }} {% endfor %}").render(numbers=range(4)))


def with_markdown(out):
    import markdown

    out.append(markdown.markdown("# Title\n\n- one\n- *two*\n"))


def with_mistune(out):
    import mistune

    out.append(mistune.html("# Title\n\n- one\n- *two*\n"))


def with_pyparsing(out):
    import pyparsing

    word = pyparsing.Word(pyparsing.alphas)
    out.append((word + "," + word).parse_string("hello, world").as_list())


def with_yaml(out):
    import yaml

    out.append(yaml.safe_load("a: [1, 2]\nb: {c: text}\n"))
    out.append(yaml.safe_dump({"z": [1, {"y": 2}]}))


def with_tomlkit(out):
    import tomlkit

    out.append(tomlkit.dumps(tomlkit.parse("a = 1 # one\n[b]\nc = [1, 2]\n")))


def with_docutils(out):
    import docutils.core

    out.append(docutils.core.publish_string("Title\n=====\n\n* one\n", writer_name="pseudoxml").decode())


def with_mako(out):
    import mako.template

    out.append(mako.template.Template("% for n in range(3):\n${n}\n% endfor\n").render())


def with_parso(out):
    import parso

    out.append(parso.parse("def f(a):\n    return a + 1\n").get_code())


def with_mpmath(out):
    import mpmath

    out.append(mpmath.nstr(mpmath.quad(lambda value: value**2, [0, 1]), 12))


def with_attrs(out):
    import attrs

    point = attrs.make_class("Point", ["x", "y"])
    out.append([attrs.asdict(point(1, 2))["x"], point(1, 2) == point(1, 2)])


def with_jsonschema(out):
    import jsonschema

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    out.append([error.message for error in jsonschema.Draft7Validator(schema).iter_errors({"a": "x"})])


def with_simpy(out):
    import simpy

    def clock(env, name, tick):
        for _ in range(3):
            out.append([name, env.now])
            yield env.timeout(tick)

    env = simpy.Environment()
    env.process(clock(env, "fast", 1))
    env.process(clock(env, "slow", 2))
    env.run()


def with_textdistance(out):
    import textdistance

    out.append(textdistance.levenshtein("kitten", "sitting"))


def with_sortedcontainers(out):
    import sortedcontainers

    items = sortedcontainers.SortedDict({3: "c", 1: "a"})
    items[2] = "b"
    out.append(list(items.items()))


def with_pygments(out):
    import pygments
    import pygments.formatters
    import pygments.lexers

    out.append(pygments.highlight("x = [1, 'a']\n", pygments.lexers.PythonLexer(), pygments.formatters.NullFormatter()))


def with_ply(out):
    import types

    from ply import lex, yacc

    def t_NUMBER(t):
        r"\d+"
        t.value = int(t.value)
        return t

    def p_sum(p):
        "sum : sum PLUS term"
        p[0] = p[1] + p[3]

    def p_sum_of_one(p):
        "sum : term"
        p[0] = p[1]

    def p_term(p):
        "term : term TIMES NUMBER"
        p[0] = p[1] * p[3]

    def p_term_of_one(p):
        "term : NUMBER"
        p[0] = p[1]

    def no_token(t):
        raise ValueError(t.value)

    def no_sum(p):
        raise ValueError(p)

    rules = {
        "tokens": ("NUMBER", "PLUS", "TIMES"),
        "t_PLUS": r"\+",
        "t_TIMES": r"\*",
        "t_ignore": " ",
        "t_NUMBER": t_NUMBER,
    }
    rules |= {"p_sum": p_sum, "p_sum_of_one": p_sum_of_one, "p_term": p_term, "p_term_of_one": p_term_of_one}
    rules |= {"t_error": no_token, "p_error": no_sum, "__name__": __name__, "__file__": __file__}
    module = types.SimpleNamespace(**rules)
    lexer = lex.lex(module=module)
    out.append(
        yacc.yacc(module=module, write_tables=False, debug=False, start="sum").parse("1 + 2 * 3 + 4", lexer=lexer)
    )


def with_ruamel(out):
    import io

    import ruamel.yaml

    yaml, stream = ruamel.yaml.YAML(typ="safe", pure=True), io.StringIO()
    read = yaml.load("a: [1, 2]\nb:\n  c: &x text\n  d: *x\n")
    out.append(read)
    yaml.dump({"z": [read, {"y": 2}]}, stream)
    out.append(stream.getvalue())


def with_marshmallow(out):
    import marshmallow

    class Person(marshmallow.Schema):
        name = marshmallow.fields.String(required=True)
        age = marshmallow.fields.Integer(validate=marshmallow.validate.Range(min=0))

    schema = Person()
    out.append(schema.load({"name": "Ann", "age": "7"}))
    out.append(schema.validate({"age": -1}))
    out.append(schema.dump({"name": "Bob", "age": 3.0}))


def with_jmespath(out):
    import jmespath

    data = {"people": [{"name": "a", "age": 20}, {"name": "b", "age": 30}, {"name": "c", "age": 40}]}
    out.append(jmespath.search("people[?age > `20`].name", data))
    out.append(jmespath.search("sort_by(people, &age)[-1].name", data))
    out.append(jmespath.search("people[].{n: name, a: age} | [0]", data))


def with_jsonpath(out):
    import jsonpath_ng

    data = {"a": [{"b": 1}, {"b": 2}], "c": {"b": 3}}
    out.append(sorted(match.value for match in jsonpath_ng.parse("$..b").find(data)))
    out.append([str(match.full_path) for match in jsonpath_ng.parse("a[*].b").find(data)])


def with_chevron(out):
    import chevron

    template = "{{#people}}{{name}} is {{age}}{{^last}}, {{/last}}{{/people}} {{! no }}{{{raw}}} {{raw}}"
    people = [{"name": "Ann", "age": 7}, {"name": "Bob", "age": 8, "last": True}]
    out.append(chevron.render(template, {"people": people, "raw": "<b>"}))


def with_toolz(out):
    import toolz

    words = ["the", "cat", "the", "dog", "a", "cat"]
    out.append(toolz.groupby(len, words))
    out.append(toolz.frequencies(words))
    out.append(toolz.pipe(range(6), toolz.curried.map(lambda n: n * n), toolz.curried.filter(lambda n: n % 2), list))
    out.append(list(toolz.sliding_window(2, toolz.unique(words))))
    out.append(toolz.update_in({"a": {"b": 1}}, ["a", "b"], lambda n: n + 1))


def with_more_itertools(out):
    import more_itertools

    out.append([list(each) for each in more_itertools.chunked(range(7), 3)])
    window = more_itertools.peekable(iter("abcd"))
    while window:
        out.append([next(window), window.peek("-")])
    out.append([list(each) for each in more_itertools.set_partitions("abc", 2)])
    out.append(more_itertools.all_equal(more_itertools.interleave_longest([1, 1], [1])))
    out.append([list(each) for each in more_itertools.split_when([1, 2, 4, 5, 7], lambda a, b: b - a > 1)])


def with_boltons(out):
    from boltons import cacheutils, dictutils, iterutils, strutils

    cache = cacheutils.LRU(max_size=2)
    for key in "abac":
        cache[key] = key * 2
    out.append(sorted(cache))
    multi = dictutils.OMD([("a", 1), ("b", 2), ("a", 3)])
    out.append(multi.getlist("a"))
    out.append(iterutils.remap({"a": [1, {"b": None}]}, lambda path, key, value: value is not None))
    out.append(strutils.slugify("Some words, here!"))


def with_bidict(out):
    import bidict

    both = bidict.OrderedBidict({"one": 1, "two": 2})
    both["three"] = 3
    try:
        both["four"] = 1
    except bidict.ValueDuplicationError as error:
        out.append(str(error))
    both.forceput("four", 1)
    out.append(list(both.inverse.items()))


def with_rich(out):
    import io

    import rich.console
    import rich.table

    console = rich.console.Console(file=io.StringIO(), width=40, color_system=None)
    table = rich.table.Table("name", "age", title="people")
    table.add_row("[b]Ann[/b]", "7")
    table.add_row("Bob", "8")
    console.print(table)
    out.append(console.file.getvalue())


def with_click(out):
    import click

    @click.group()
    @click.option("--level", default=1)
    @click.pass_context
    def main(context, level):
        context.obj = level

    @main.command()
    @click.argument("names", nargs=-1)
    @click.option("--loud/--quiet")
    @click.pass_obj
    def greet(level, names, loud):
        out.append([level, list(names), loud])

    main.main(["--level", "3", "greet", "--loud", "Ann", "Bob"], standalone_mode=False)
    try:
        main.main(["--level", "x", "greet"], standalone_mode=False)
    except click.BadParameter as error:
        out.append(error.format_message())


def with_dulwich(out):
    from dulwich.objects import Blob, Commit, Tree
    from dulwich.repo import MemoryRepo

    store = MemoryRepo.init_bare([], {}).object_store
    for number in range(2):
        blob, tree, commit = Blob.from_string(b"text %d" % number), Tree(), Commit()
        tree.add(b"file", 0o100644, blob.id)
        commit.tree, commit.author, commit.committer = tree.id, b"A <a@b>", b"A <a@b>"
        commit.author_time = commit.commit_time = number
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = b"change"
        for each in (blob, tree, commit):
            store.add_object(each)
        out.append([commit.id.decode(), store[tree.id].items()[0].sha.decode()])


def with_html5lib(out):
    import html5lib

    tree = html5lib.parse("<p>one<b>two<p>three</table><td>x", namespaceHTMLElements=False)
    out.append(html5lib.serialize(tree, omit_optional_tags=False))


def with_bs4(out):
    import bs4

    soup = bs4.BeautifulSoup("<div class='a b'><p>one</p><p id=x>two <i>3</i></p></div>", "html.parser")
    out.append([each.get_text() for each in soup.find_all("p")])
    out.append(soup.find(id="x").parent["class"])
    out.append(soup.prettify())


def with_cssselect(out):
    import cssselect

    for selector in ("div > p.first", "a[href^='x']:not(.y)", "li:nth-child(2n+1) ~ b"):
        out.append(cssselect.GenericTranslator().css_to_xpath(selector))
        out.append([each.specificity() for each in cssselect.parse(selector)])


def with_tinycss2(out):
    import tinycss2

    rules = tinycss2.parse_stylesheet("@media x { a { b: c } } p.q > r { color: #f00; margin: 0 1px }", True, True)
    out.append([rule.type for rule in rules])
    out.append([each.name for each in tinycss2.parse_blocks_contents(rules[1].content, True, True)])
    out.append(tinycss2.serialize(rules))


def with_babel(out):
    import datetime

    import babel.dates
    import babel.numbers

    day = datetime.datetime(2020, 2, 3, 4, 5)
    for place in ("de_DE", "en_US"):
        out.append(babel.dates.format_datetime(day, "full", locale=place, tzinfo=datetime.UTC))
        out.append(babel.numbers.format_currency(1234.5, "EUR", locale=place))
        out.append(babel.numbers.format_decimal(-9876543.21, locale=place))


def with_dateutil(out):
    import datetime

    from dateutil import parser, relativedelta, rrule

    day = parser.parse("Thu Sep 25 2003 10:36:28 +0200")
    out.append(day.isoformat())
    out.append((day + relativedelta.relativedelta(months=+5, weekday=relativedelta.FR(-1))).isoformat())
    rule = rrule.rrulestr("FREQ=MONTHLY;COUNT=4;BYDAY=-1FR", dtstart=datetime.datetime(2020, 1, 1))
    out.append([each.isoformat() for each in rule])


def with_arrow(out):
    import arrow

    day = arrow.get("2013-05-11T21:23:58.970460+07:00")
    out.append(day.to("UTC").shift(hours=-3, months=1).format("YYYY-MM-DD HH:mm ZZ"))
    out.append(day.humanize(day.shift(days=2), locale="de"))
    out.append([each.isoformat() for each in arrow.Arrow.range("week", day, day.shift(weeks=2))])


def with_constraint(out):
    import constraint

    problem = constraint.Problem(constraint.BacktrackingSolver())
    problem.addVariables(range(4), range(4))
    for one in range(4):
        for two in range(one):
            problem.addConstraint(lambda a, b, apart=one - two: a != b and abs(a - b) != apart, (one, two))
    out.append(sorted(sorted(each.items()) for each in problem.getSolutions()))


def with_rdflib(out):
    import rdflib

    graph = rdflib.Graph()
    graph.parse(data="@prefix e: <http://e/> . e:a e:knows e:b . e:b e:knows e:c ; e:age 7 .", format="turtle")
    found = graph.query("SELECT ?x ?z WHERE { ?x <http://e/knows> ?y . ?y <http://e/knows> ?z }")
    out.append([[str(value) for value in row] for row in found])
    out.append(sorted(graph.serialize(format="nt").split("\n")))


def with_openpyxl(out):
    import openpyxl
    from openpyxl.formula import Tokenizer
    from openpyxl.formula.translate import Translator

    sheet = openpyxl.Workbook().active
    for row in range(3):
        sheet.append([row, f"text {row}", f"=SUM(A{row + 1}:$B$2)*2"])
    sheet.move_range("A1:B2", rows=2, cols=1)
    sheet.insert_rows(2)
    out.append([list(row) for row in sheet.iter_rows(values_only=True)])
    out.append(Translator(sheet["C1"].value, "C1").translate_formula("D5"))
    out.append([[token.value, token.type] for token in Tokenizer('=IF(A1>"x",B2,{1,2})').items])


def with_xlsxwriter(out):
    import io

    import xlsxwriter

    stream = io.BytesIO()
    book = xlsxwriter.Workbook(stream, {"in_memory": True})
    sheet = book.add_worksheet("one")
    bold = book.add_format({"bold": True})
    for row in range(3):
        sheet.write(row, 0, row, bold)
        sheet.write(row, 1, f"text {row}")
    sheet.write_formula(3, 0, "=SUM(A1:A3)")
    book.close()
    out.append(len(stream.getvalue()) > 1000)


def with_pypdf(out):
    import io

    import pypdf

    writer, stream = pypdf.PdfWriter(), io.BytesIO()
    for number in range(2):
        writer.add_blank_page(100 + number, 200)
    writer.add_metadata({"/Title": "some title"})
    writer.write(stream)
    reader = pypdf.PdfReader(stream)
    out.append([[float(page.mediabox.width) for page in reader.pages], reader.metadata.title])


def with_pycparser(out):
    import pycparser
    from pycparser import c_generator

    tree = pycparser.CParser().parse(
        "int f(int a, char *b) { for (int i = 0; i < a; i++) b[i] = 'x'; return a ? 1 : 2; }"
    )
    out.append(c_generator.CGenerator().visit(tree))


def with_pyflakes(out):
    import ast

    from pyflakes import checker

    text = "import os\ndef f(a):\n    b = 1\n    return c\nprint(f'x')\n"
    found = checker.Checker(ast.parse(text), "name")
    out.append(sorted(str(each) for each in found.messages))


def with_pycodestyle(out):
    import pycodestyle

    style = pycodestyle.StyleGuide(quiet=2)
    checked = pycodestyle.Checker("name", ["x=1\n", "def f( a ):\n", "  return a \n"], style.options)
    out.append(checked.check_all())
    out.append(sorted(style.options.report.counters.items())[:4])


def with_mccabe(out):
    import ast

    import mccabe

    visitor = mccabe.PathGraphingAstVisitor()
    text = "def f(a):\n    if a:\n        for b in a:\n            pass\n    else:\n        try:\n            g()\n"
    text += "        except E:\n            pass\n"
    visitor.preorder(ast.parse(text), visitor)
    out.append([[graph.entity, graph.complexity()] for graph in visitor.graphs.values()])


class Matter:
    def on_enter_gas(self):
        self.said = "hiss"


def with_transitions(out):
    import transitions

    matter = Matter()
    machine = transitions.Machine(matter, ["solid", "liquid", "gas"], initial="solid")
    machine.add_transition("melt", "solid", "liquid", conditions=lambda: True)
    machine.add_transition("boil", "liquid", "gas")
    for name in ("melt", "boil"):
        out.append([matter.trigger(name), matter.state])
    out.append(matter.said)
    try:
        matter.melt()
    except transitions.MachineError as error:
        out.append(str(error))


def with_pyrsistent(out):
    from pyrsistent import m, pvector, thaw, v

    one = m(a=v(1, 2), b=m(c=3))
    two = one.transform(["a", 0], lambda n: n + 10, ["b", "c"], 4)
    out.append([sorted(thaw(one).items(), key=str), sorted(thaw(two).items(), key=str)])
    many = pvector(range(40))
    out.append([list(many.set(35, "x"))[34:37], len(many.append(1))])


def with_tabulate(out):
    import tabulate

    rows = [["Ann", 7.25], ["Bob", 10], ["Cleo", None]]
    for style in ("grid", "github", "latex"):
        out.append(tabulate.tabulate(rows, ["name", "age"], tablefmt=style))


def with_prettytable(out):
    import prettytable

    table = prettytable.PrettyTable(["city", "people"])
    for row in (["A", 3], ["B", 1], ["C", 2]):
        table.add_row(row)
    table.sortby = "people"
    out.append(table.get_string())


def with_parsimonious(out):
    import parsimonious

    grammar = parsimonious.Grammar('sum = number ("+" number)*\nnumber = ~"[0-9]+"')
    out.append(str(grammar.parse("1+22+333")))
    try:
        grammar.parse("1+")
    except parsimonious.ParseError as error:
        out.append(str(error))


def with_arpeggio(out):
    import arpeggio.cleanpeg

    grammar = "number = r'\\d+'\nfactor = number / '(' expression ')'\nterm = factor (('*' / '/') factor)*\n"
    grammar += "expression = term (('+' / '-') term)*\ncalc = expression EOF\n"
    out.append(str(arpeggio.cleanpeg.ParserPEG(grammar, "calc").parse("1+2*(3-4)")))


def with_cerberus(out):
    import cerberus

    rules = {
        "name": {"type": "string", "required": True},
        "sizes": {"type": "list", "schema": {"type": "integer", "min": 2}},
    }
    checked = cerberus.Validator(rules)
    for document in ({"name": "x", "sizes": [2, 3]}, {"sizes": [1, "a"], "other": 1}):
        out.append([checked.validate(document), checked.errors])


def with_voluptuous(out):
    import voluptuous

    rules = voluptuous.Schema({voluptuous.Required("n"): voluptuous.All(int, voluptuous.Range(min=1)), "tags": [str]})
    for document in ({"n": 1, "tags": ["a"]}, {"n": 0}, {"tags": [2]}):
        try:
            out.append(rules(document))
        except voluptuous.MultipleInvalid as error:
            out.append(sorted(map(str, error.errors)))


def with_schema(out):
    import schema

    rules = schema.Schema({"n": schema.And(schema.Use(int), lambda n: n > 0), schema.Optional("tags"): [str]})
    for document in ({"n": "12", "tags": ["a"]}, {"n": "0"}, {"n": 1, "tags": [2]}):
        try:
            out.append(rules.validate(document))
        except schema.SchemaError as error:
            out.append(type(error).__name__)


def with_tinydb(out):
    import tinydb
    from tinydb.storages import MemoryStorage

    base = tinydb.TinyDB(storage=MemoryStorage)
    for number in range(4):
        base.insert({"n": number, "odd": bool(number % 2)})
    query = tinydb.Query()
    base.update({"seen": True}, query.n > 2)
    out.append([each["n"] for each in base.search((query.odd == True) | query.seen.exists())])  # noqa: E712
    out.append(base.remove(query.n.test(lambda n: n < 2)))


def with_pyasn1(out):
    from pyasn1.codec.der import decoder, encoder
    from pyasn1.type import namedtype, univ

    parts = [namedtype.NamedType("id", univ.Integer()), namedtype.OptionalNamedType("data", univ.OctetString())]
    record = univ.Sequence(componentType=namedtype.NamedTypes(*parts))
    record["id"], record["data"] = 1234, b"bytes"
    data = encoder.encode(record)
    read, rest = decoder.decode(data, asn1Spec=record.clone())
    out.append([data.hex(), int(read["id"]), read == record, rest.hex()])


def with_construct(out):
    import construct

    shape = construct.Struct(
        "count" / construct.Int16ub,
        "items" / construct.Array(construct.this.count, construct.Int8ub),
        "end" / construct.CString("utf8"),
    )
    data = shape.build({"count": 3, "items": [1, 2, 3], "end": "text"})
    read = shape.parse(data)
    out.append([data.hex(), list(read["items"]), read.end])


def with_intervaltree(out):
    import intervaltree

    tree = intervaltree.IntervalTree.from_tuples([(begin, begin + 5, str(begin)) for begin in range(0, 30, 3)])
    tree.chop(7, 9)
    out.append(sorted(map(list, tree[10])))
    out.append(sorted(map(list, tree.overlap(5, 8))))


def with_anytree(out):
    import anytree
    import anytree.resolver

    root = anytree.Node("root")
    for name in "ab":
        parent = anytree.Node(name, parent=root)
        for number in range(2):
            anytree.Node(f"{name}{number}", parent=parent)
    out.append(str(anytree.RenderTree(root).by_attr()))
    out.append([node.name for node in anytree.LevelOrderIter(root, filter_=lambda node: node.name != "a")])
    out.append(anytree.resolver.Resolver().get(root, "b/b1").depth)


def with_num2words(out):
    import num2words

    for language in ("en", "de", "fr"):
        out.append([num2words.num2words(number, lang=language) for number in (7, 42, 1999)])
    out.append(num2words.num2words(21, to="ordinal"))


def with_ecdsa(out):
    import hashlib

    import ecdsa

    key = ecdsa.SigningKey.from_secret_exponent(123456789, curve=ecdsa.NIST192p)
    signature = key.sign_deterministic(b"message", hashfunc=hashlib.sha256)
    out.append([signature.hex(), key.verifying_key.verify(signature, b"message", hashfunc=hashlib.sha256)])


def with_sqlparse(out):
    import sqlparse

    text = "select a, b from t join u on t.x = u.x where a > 1 and b in (select c from d) order by b; select 1"
    out.append(sqlparse.format(text, reindent=True, keyword_case="upper"))
    out.append([each.get_type() for each in sqlparse.parse(text)])


def with_json5(out):
    import json5

    out.append(json5.loads("{a: [1, .5, 0xFF,], // one\n 'b': \"x\\\ny\", c: null}"))
    out.append(json5.dumps({"a": [1, {"b c": None}]}, indent=2))


def with_xmltodict(out):
    import xmltodict

    read = xmltodict.parse("<a x='1'><b>1</b><b>2</b><c><d/>text</c></a>")
    out.append(read)
    out.append(xmltodict.unparse(read, pretty=True))


def with_markdown_it(out):
    import markdown_it

    made = markdown_it.MarkdownIt().enable("table")
    out.append(made.render("# T\n\n1. one\n2. *two* `x` [l](http://a)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> q\n"))


def with_esprima(out):
    import esprima

    tree = esprima.parseScript(
        "function f(a, b = 2) { return a => a + b ** 2 } let x = `t${1}`; for (const y of [1]) x += y"
    )
    out.append([each.type for each in tree.body])
    out.append(str(tree.body[0].body.body[0].argument.body.operator))


def with_graphql(out):
    import graphql

    schema = graphql.build_schema(
        'type Query { hello(name: String = "you"): String!, people: [Person] } type Person { name: String }'
    )
    root = {"hello": lambda info, name: f"hello {name}", "people": [{"name": "Ann"}, {"name": None}]}
    out.append(graphql.graphql_sync(schema, "{ hello people { n: name } }", root).data)
    out.append([error.message for error in graphql.validate(schema, graphql.parse("{ other people }"))])
    out.append(graphql.print_schema(schema))


def with_h11(out):
    import h11

    client, server = h11.Connection(h11.CLIENT), h11.Connection(h11.SERVER)
    headers = [("Host", "a"), ("Content-Length", "4")]
    server.receive_data(client.send(h11.Request(method="POST", target="/x", headers=headers)))
    server.receive_data(client.send(h11.Data(data=b"text")) + client.send(h11.EndOfMessage()))
    while True:
        event = server.next_event()
        out.append(type(event).__name__)
        if type(event) is h11.EndOfMessage:
            break
    client.receive_data(server.send(h11.Response(status_code=200, headers=[("Content-Length", "0")])))
    out.append(client.next_event().status_code)


def with_hpack(out):
    import hpack

    encoder, decoder = hpack.Encoder(), hpack.Decoder()
    for number in range(3):
        data = encoder.encode([(":method", "GET"), ("x-own", f"value {number}"), ("cookie", "secret" * number)])
        out.append([data.hex(), [[str(part) for part in pair] for pair in decoder.decode(data)]])


def with_dnslib(out):
    import dnslib

    question = dnslib.DNSRecord.question("abc.com", "MX")
    question.header.id = 7
    answer = question.reply()
    answer.add_answer(*dnslib.RR.fromZone('abc.com 60 MX 10 mail.abc.com\nabc.com 60 TXT "text"'))
    data = answer.pack()
    out.append([data.hex(), str(dnslib.DNSRecord.parse(data))])


def with_parsy(out):
    import parsy

    number = parsy.regex(r"[0-9]+").map(int)

    @parsy.generate
    def total():
        first = yield number
        rest = yield (parsy.string("+") >> number).many()
        return first + sum(rest)

    out.append(total.parse("1+22+333"))
    out.append(total.sep_by(parsy.string(";")).parse("1+2;3;4+5"))


def with_chess(out):
    import chess

    board = chess.Board()
    for move in ("e4", "e5", "Nf3", "Nc6", "Bb5"):
        out.append(board.push_san(move).uci())
    out.append([board.fen(), board.legal_moves.count(), board.is_check()])
    out.append(str(board))


def with_isort(out):
    import isort

    out.append(isort.code("import sys, os\nfrom b import y, x\nimport a\nfrom . import c\nfrom b import z\n"))


def with_yapf(out):
    from yapf.yapflib import yapf_api

    out.append(yapf_api.FormatCode("def f( a,b ):\n  if a : return  b\n  x = {'a':1,'b':[ 1,2 ]}\n")[0])


def with_hy(out):
    import hy

    out.append(hy.eval(hy.read("(lfor x (range 4) :if (% x 2) (* x x))")))
    out.append(hy.repr(list(hy.read_many("(defn f [a] {a 1}) 'x"))))


def with_pyfiglet(out):
    import pyfiglet

    out.append(pyfiglet.figlet_format("Hi you", font="standard"))


def with_deap(out):
    import random

    from deap import tools

    chance = random.Random(5)
    crowd = [[chance.random() for _ in range(2)] for _ in range(6)]
    fronts = sorted([[sum(each), index] for index, each in enumerate(crowd)])
    out.append(fronts[:2])
    hall = tools.Statistics(key=len)
    hall.register("most", max)
    out.append(hall.compile(crowd))


def with_icalendar(out):
    import datetime

    import icalendar

    calendar = icalendar.Calendar()
    for day in (1, 2):
        event = icalendar.Event()
        event.add("summary", f"day {day}; long")
        event.add("dtstart", datetime.datetime(2020, 1, day, tzinfo=datetime.UTC))
        calendar.add_component(event)
    data = calendar.to_ical()
    out.append(data.decode())
    out.append([str(each["SUMMARY"]) for each in icalendar.Calendar.from_ical(data).walk("VEVENT")])


def with_astroid(out):
    import astroid

    module = astroid.parse("class A:\n    x = 1\n    def f(self): return self.x + 1\nb = A().f()\n")
    out.append([each.value for each in module["b"].infer() if isinstance(each, astroid.nodes.Const)])
    out.append(module["A"]["f"].as_string())


def with_fpdf(out):
    import datetime

    import fpdf

    page = fpdf.FPDF()
    page.set_creation_date(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    page.add_page()
    page.set_font("Helvetica", size=12)
    page.cell(text="hello world")
    page.multi_cell(40, text="some longer text that is broken into lines")
    out.append(len(page.output()))


def with_reportlab(out):
    import io

    from reportlab.pdfgen import canvas

    stream = io.BytesIO()
    page = canvas.Canvas(stream, invariant=1, pageCompression=0)
    for row in range(3):
        page.drawString(100, 700 - 20 * row, f"line {row}")
    page.showPage()
    page.save()
    out.append([len(stream.getvalue()), b"line 2" in stream.getvalue()])
