"""tools/vocabulary.py: which words it finds, and that the numbers that it allows only fall."""

import pytest

from tools import vocabulary
from tools.vocabulary import HABITS, places, retired

GLOSSARY = """\
| Word | Meaning | In code | Not |
| --- | --- | --- | --- |
| bundle cache | what is kept | [`BundleCache`](x.py) | `_copies`, kept bundles |
| hop | a context in between | [`Hop`](x.py) | |
"""


def found(text, file="src/a.py"):
    return [place.found for place in places([(file, text)], HABITS | retired(GLOSSARY))]


@pytest.mark.parametrize(
    "text",
    [
        "it runs over there",
        "whoever waits for it",
        "nobody waits",
        "this stands in x.py",
        "the one behind it",
        "for whoever it is",
        "so many at once and no more",
    ],
)
def test_a_habit_is_found(text):
    assert len(found(text)) == 1


def test_the_words_that_the_glossary_replaces_are_found_as_whole_words():
    assert found("self._copies = {}") == ["_copies"]
    assert found("all_copies, _copies_of") == []
    assert found("Kept bundles are dropped") == ["Kept bundles"]
    assert retired(GLOSSARY).keys() & HABITS.keys() == set()


def test_a_place_says_where_it_is_and_what_to_write_instead():
    (place,) = places([("src/a.py", "x = 1\ny = _copies\n")], retired(GLOSSARY))
    assert str(place) == "src/a.py:2: '_copies': the glossary's word is 'bundle cache'"
    assert place.folder == "src"


def test_a_marked_line_an_exempt_file_and_what_is_made_from_the_code_are_left_alone():
    assert found("nobody  # words: ok") == []
    assert found("nobody", next(iter(vocabulary.EXEMPT))) == []
    page = "<!-- contract: roamlet.spawn -->\nnobody\n<!-- end -->\nwhoever waits\n"
    assert found(page, "docs/a.md") == ["whoever waits"]


def test_a_folder_with_more_places_than_before_fails_and_one_with_fewer_passes(monkeypatch, capsys):
    monkeypatch.setattr(vocabulary, "tracked", lambda: [("src/a.py", "nobody\nnobody\n")])
    monkeypatch.setattr(vocabulary, "MOST", {"src": 2})
    assert vocabulary.main([]) == 0
    monkeypatch.setattr(vocabulary, "MOST", {"src": 1})
    assert vocabulary.main([]) == 1
    assert "src: 2 places, and at most 1 are allowed" in capsys.readouterr().out
    monkeypatch.setattr(vocabulary, "MOST", {"src": 3, "docs": 1})
    assert vocabulary.main([]) == 0


def test_every_exempt_file_has_a_reason_and_exists():
    assert [
        file for file, reason in vocabulary.EXEMPT.items() if not reason or not (vocabulary.ROOT / file).exists()
    ] == []
