"""Programs that use public packages: each is deterministic, and says in the end what came of it. Run by test_public_programs.py.

python public_programs.py save NAME FOLDER COUNT SEED     how many were saved, and refused; the snapshots are in FOLDER
python public_programs.py resume FILE                     what came of it
"""

import json
import random
import sys
import warnings
from pathlib import Path


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


def with_argparse(out):
    import argparse

    parser = argparse.ArgumentParser("program", add_help=False)
    parser.add_argument("--level", type=int, default=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    out.append(sorted(vars(parser.parse_args(["a", "b"])).items()))


def with_deepcopy(out):
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


PACKAGES = {
    "with_yaml": "pyyaml", "with_argparse": None, "with_deepcopy": None, "with_pickle": None,
}  # fmt: skip
PROGRAMS = {name: function for name, function in list(globals().items()) if name.startswith("with_")}


def package_of(name):
    return PACKAGES.get(name, name.removeprefix("with_"))


def save(name, folder, count, seed):
    """Stop the program after random numbers of instructions, and save it there. What it says when nobody interrupts it."""
    import roamlet
    from roamlet import snapshot

    function, chance, expected = PROGRAMS[name], random.Random(seed), []
    function(expected)  # imports what it needs: modules that are half made are no matter of snapshots
    saved = refused = 0
    while saved + refused < count:
        out = []
        tasklet = roamlet.tasklet(function)(out)
        roamlet.run(chance.randrange(1, 4000) if saved + refused else 100)
        if not tasklet.alive:
            continue
        try:
            data = snapshot.dumps((tasklet, out))
        except snapshot.CannotSave:
            refused += 1
        else:
            (Path(folder) / f"{name}.{saved}").write_bytes(data)
            saved += 1
        tasklet.kill()
    print(json.dumps({"expected": json.loads(json.dumps(expected)), "saved": saved, "refused": refused}))


def resume(file):
    import roamlet
    from roamlet import snapshot

    try:
        tasklet, out = snapshot.loads(Path(file).read_bytes())
    except snapshot.BadSnapshot as error:
        print(json.dumps({"refused": str(error)}))
        return
    tasklet.insert()  # it was interrupted, and is paused
    roamlet.run()
    print(json.dumps({"out": out}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import public_programs  # so that its functions have a module of their own, and not __main__

    if sys.argv[1] == "save":
        public_programs.save(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        public_programs.resume(sys.argv[2])
