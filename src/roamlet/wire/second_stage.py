# The second stage, the head of the payload: makes the modules of roamlet.wire from the pieces that follow it. The first stage
# executes it with `parts` in scope: the pieces, in order, each "name newline source"; a piece without a source is a package:
# roamlet, roamlet.wire and its folders. It leaves `main` in scope.
# ruff: noqa: F821
for part in parts[1:]:
    name, source = part.split("\n", 1)
    name = str(name)
    module = sys.modules[name] = type(sys)(name)
    if not source:
        module.__path__ = []
    module.__file__ = "roamlet:" + name
    module.__package__ = ""  # keeps 2.7 from looking for our imports next to us
    exec(compile(source, module.__file__, "exec", 0, 1), module.__dict__)
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, module)
# In roamlet.wire.life.target, the last one: for contexts that this one starts, see roamlet.wire.link.router.
module.payload = data
main = module.main
