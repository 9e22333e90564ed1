"""Benchmarks: every figure of roamlet beside its peers, taken in the same run.

`python -m bench [PART...] [--json FILE] [--quick]` takes the figures and prints them with their ratios and bars;
`python -m bench render FILE PAGE` writes the page of the reference docs from such a file. One file per figure holds roamlet's way
and every peer's way to do the same thing, one below the other, so that a reader can judge whether the comparison is fair.

Nothing of roamlet imports this package, and the wheel does not carry it.
"""
