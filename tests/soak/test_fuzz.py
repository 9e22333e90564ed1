"""A million inputs for each decoder: see tests/wire/test_fuzz.py."""

import pytest

from tests.remote import test_fuzz as links
from tests.wire import test_fuzz as decoders

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:The 'u' type code:DeprecationWarning"),
]


@pytest.mark.parametrize(
    "fuzz",
    [decoders.fuzz_values, decoders.fuzz_frames, decoders.fuzz_series, decoders.fuzz_bundles, links.fuzz_frames],
    ids=lambda fuzz: f"{fuzz.__module__.split('.')[1]}-{fuzz.__name__}",
)
def test_a_million_inputs(fuzz):
    outcomes = fuzz(1_000_000, seed=11)
    assert len(outcomes) > 1
