# The head of the payload: the first stage executes it with `parts`, the pieces of the payload, in scope. Makes the modules
# of roamlet.wire from the pieces, each "name newline source", in the order of the payload, and leaves `main` behind.
# ruff: noqa: F821
for part in parts:
    if part is parts[0]:
        continue
    name, _, source = part.partition("\n")
    module = type(sys)(str(name))
    module.__file__ = "roamlet:" + str(name)
    module.__package__ = ""  # keeps 2.7 from looking for our imports next to us
    sys.modules[str(name)] = module
    exec(compile(source, module.__file__, "exec", 0, 1), module.__dict__)
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], str(last), module)
sys.modules["roamlet.wire.child"].payload = data  # for contexts that this one starts, see roamlet.wire.router
main = sys.modules["roamlet.wire.child"].main
