"""roamlet.joblib: joblib's Parallel, and scikit-learn's n_jobs, in contexts where neither is installed."""

import gc
import operator
import os
import pickle
import shlex
import signal
import sys
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import cloudpickle
import joblib
import numpy
import pytest
import roamlet_joblib_sent as sent

import roamlet.joblib
from roamlet import remote
from roamlet.executor import Executor
from roamlet.wire.calls import executor as on_target
from tests.remote import interpreters
from tests.remote.inside import link_of

BASE = getattr(sys, "_base_executable", sys.executable)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> "partial[remote.Context]":
    """Opens a context in which nothing is installed."""
    path = tmp_path_factory.mktemp("bare") / "python"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(BASE)} -S "$@"\n')
    path.chmod(0o755)
    return partial(remote.local, python=str(path))


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    roamlet.joblib.register()
    yield
    joblib.parallel.BACKENDS.pop("roamlet")
    gc.collect()  # joblib's own objects refer to each other


def parallel(**options: Any) -> joblib.Parallel:
    return joblib.Parallel(**options)


def test_calls_run_where_joblib_is_not_installed(bare: "partial[remote.Context]") -> None:
    with joblib.parallel_config("roamlet", hosts=[bare], each=2):
        pids = parallel(batch_size=1)(joblib.delayed(sent.waits)(0.05) for _ in range(12))
        assert len(set(pids)) == 2
        assert os.getpid() not in pids
        assert parallel()(joblib.delayed(lambda x: x * x)(i) for i in range(50)) == [i * i for i in range(50)]
        assert list(parallel(return_as="generator")(joblib.delayed(pow)(2, i) for i in range(5))) == [1, 2, 4, 8, 16]


def test_a_single_place_is_used_too(bare: "partial[remote.Context]") -> None:
    with joblib.parallel_config("roamlet", hosts=[bare]):
        assert os.getpid() not in parallel()(joblib.delayed(os.getpid)() for _ in range(3))
        assert set(parallel(n_jobs=1)(joblib.delayed(os.getpid)() for _ in range(3))) == {os.getpid()}


def test_an_error_of_a_call_is_raised_and_the_backend_goes_on(bare: "partial[remote.Context]") -> None:
    with joblib.parallel_config("roamlet", hosts=[bare]):
        with pytest.raises(ZeroDivisionError):
            parallel()(joblib.delayed(divmod)(1, i) for i in range(3, -50, -1))
        assert parallel()(joblib.delayed(divmod)(7, i) for i in (2, 3)) == [(3, 1), (2, 1)]


def test_a_large_array_goes_to_each_context_once_for_one_call_of_parallel(bare: "partial[remote.Context]") -> None:
    array = numpy.arange(500_000, dtype=float)
    with Executor([bare, bare]) as executor, joblib.parallel_config("roamlet", executor=executor):
        small = array[:10].copy()
        parallel(batch_size=1)(joblib.delayed(sent.item)(small, i) for i in range(4))
        before = [link_of(context).sender.bytes_down for context in executor.contexts]
        assert parallel(batch_size=1)(joblib.delayed(sent.item)(array, i) for i in range(20)) == [*range(20)]
        after = [link_of(context).sender.bytes_down for context in executor.contexts]
        assert all(array.nbytes < end - begin < 1.2 * array.nbytes for begin, end in zip(before, after, strict=True))
        array[3] = -1  # the next call has it as it is now
        assert parallel(batch_size=1)(joblib.delayed(sent.item)(array, i) for i in (3, 4)) == [-1, 4]
        for context in executor.contexts:
            while context.call(sent.kept):
                roamlet.sleep(0.01)


def test_a_call_that_writes_to_a_large_array_is_told_and_changes_no_other_call(bare: "partial[remote.Context]") -> None:
    array = numpy.zeros(500_000)
    with joblib.parallel_config("roamlet", hosts=[bare]):
        with pytest.raises(ValueError, match="read-only"):
            parallel(batch_size=1)(joblib.delayed(sent.written)(array) for _ in range(4))
        assert parallel(batch_size=1)(joblib.delayed(sent.written)(array[:9]) for _ in range(4)) == [1.0] * 4


def test_large_arrays_of_one_call_each_go_to_one_context_and_are_let_go_after_it(
    bare: "partial[remote.Context]",
) -> None:
    with Executor([bare, bare]) as executor, joblib.parallel_config("roamlet", executor=executor):
        parallel(batch_size=1)(joblib.delayed(sent.kept)(numpy.zeros(9)) for _ in range(4))
        before = [link_of(context).sender.bytes_down for context in executor.contexts]
        kept = parallel(batch_size=1)(joblib.delayed(sent.kept)(numpy.zeros(200_000)) for _ in range(20))
        after = [link_of(context).sender.bytes_down for context in executor.contexts]
        assert max(kept) <= 3  # its own, and what is about to be let go
        assert sum(after) - sum(before) < 1.1 * 20 * 8 * 200_000


def test_another_call_of_parallel_that_ends_meanwhile_takes_no_array_away(bare: "partial[remote.Context]") -> None:
    array = numpy.arange(500_000, dtype=float)
    with joblib.parallel_config("roamlet", hosts=[bare]):
        first = parallel(batch_size=1, pre_dispatch="all", return_as="generator")(
            joblib.delayed(sent.item_later)(array, i) for i in range(5)
        )
        assert parallel()(joblib.delayed(abs)(i) for i in ()) == []
        array[4] = -1
        second = parallel(batch_size=1)(joblib.delayed(sent.item)(array, i) for i in (3, 4))
        assert (list(first), second) == ([0, 1, 2, 3, 4], [3, -1])


def test_large_arrays_that_are_no_data_travel_as_pickles(bare: "partial[remote.Context]") -> None:
    array = numpy.zeros(200_000, [("a", "i4"), ("b", "f8")])
    with joblib.parallel_config("roamlet", hosts=[bare]):
        assert parallel(batch_size=1)(joblib.delayed(len)(array) for _ in range(3)) == [200_000] * 3


def test_a_context_that_has_died_since_the_last_call_is_no_error_of_the_next(bare: "partial[remote.Context]") -> None:
    array = numpy.arange(500_000, dtype=float)
    with Executor([bare, bare], idempotent=True) as executor, joblib.parallel_config("roamlet", executor=executor):
        os.kill(executor.contexts[0].facts.pid, signal.SIGKILL)
        for _ in range(2):
            assert parallel(batch_size=1)(joblib.delayed(sent.item)(array, i) for i in range(4)) == [0, 1, 2, 3]


def test_an_array_that_cannot_be_read_there_fails_its_calls_at_once(
    bare: "partial[remote.Context]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_target, "keep", sent.broken)
    with joblib.parallel_config("roamlet", hosts=[bare], pickle=True):
        with pytest.raises(pickle.UnpicklingError, match="cannot be read here: OSError: no room"):
            parallel(batch_size=1)(joblib.delayed(sent.item)(numpy.zeros(200_000), i) for i in range(4))
        monkeypatch.undo()
        array = numpy.arange(200_000)
        assert parallel(batch_size=1)(joblib.delayed(sent.item)(array, i) for i in range(4)) == [0, 1, 2, 3]


def test_what_is_let_go_before_it_has_come_is_not_kept() -> None:
    on_target.forget(["early"])
    on_target.keep("early", numpy.zeros(2))
    assert not on_target._kept
    assert not on_target._forgotten


def test_results_are_data_unless_the_grant_is_given(bare: "partial[remote.Context]") -> None:
    with joblib.parallel_config("roamlet", hosts=[bare]):
        with pytest.raises(remote.CannotTravel):
            parallel()(joblib.delayed(operator.itemgetter)(i) for i in range(2))
        assert parallel()(joblib.delayed(numpy.arange)(i) for i in range(1, 2))[0].tolist() == [0]
    with joblib.parallel_config("roamlet", hosts=[bare], pickle=True):
        getters = parallel()(joblib.delayed(operator.itemgetter)(i) for i in range(2))
        assert [get("ab") for get in getters] == ["a", "b"]


def test_n_jobs_says_how_many_of_the_places_are_used(bare: "partial[remote.Context]") -> None:
    with Executor([bare, bare], each=2) as executor:
        backend = roamlet.joblib.Backend(executor=executor)
        asked = (None, -1, -2, -9, 1, 3, 99)
        assert [backend.effective_n_jobs(n) for n in asked] == [4, 4, 3, 2, 1, 3, 4]
        with pytest.raises(ValueError, match="n_jobs == 0"):
            backend.effective_n_jobs(0)


def test_what_was_opened_here_is_closed_at_the_end_and_what_was_given_is_not(bare: "partial[remote.Context]") -> None:
    with joblib.parallel_config("roamlet", hosts=[bare]) as config:
        backend = config["backend"]
        (opened,) = backend._executor.contexts
        assert parallel()(joblib.delayed(pow)(2, i) for i in range(3)) == [1, 2, 4]
        assert not opened.closed
        gone = weakref.ref(backend)
        del backend, config
    gc.collect()
    assert gone() is None
    while not opened.closed:
        roamlet.sleep(0.01)
    with Executor([bare]) as executor:
        with joblib.parallel_config("roamlet", executor=executor):
            parallel()(joblib.delayed(pow)(2, i) for i in range(3))
        gc.collect()
        assert executor.submit(pow, 2, 3).result() == 8


@pytest.mark.parametrize("version", [one for one in interpreters.others() if one not in ("2.7", "3.6")][:1])
def test_another_python_is_refused_before_anything_is_pickled(version: str) -> None:
    with pytest.raises(remote.CannotTravel, match="read by the same version alone"):
        roamlet.joblib.Backend(hosts=[lambda: remote.local(interpreters.found()[version])])


def test_another_version_of_cloudpickle_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudpickle, "__version__", "0.1")
    with pytest.raises(remote.CannotTravel, match=r"has cloudpickle .*, and here it is 0\.1.*\n.*prefer="):
        roamlet.joblib.Backend(hosts=["local"])


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"hosts": "alpha"}, TypeError, r"hosts takes a list, even for a single one: \['alpha'\]"),
        ({"each": 0}, ValueError, "each must be a number of contexts, 1 or more, not 0"),
        ({"hosts": []}, ValueError, "needs a target"),
        ({"host": ["alpha"]}, TypeError, "takes hosts, each, pickle and executor, not host"),
    ],
)
def test_arguments_without_sense_are_refused(options: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        roamlet.joblib.Backend(**options)


@pytest.mark.pythons((3, 11), (3, 14), reason="scikit-learn has no wheel for later ones")
def test_scikit_learn_fits_where_it_is_not_installed(bare: "partial[remote.Context]") -> None:
    from sklearn.datasets import make_classification
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.tree import DecisionTreeClassifier

    data, labels = make_classification(2000, 70, random_state=0)
    assert data.nbytes > roamlet.joblib.LARGE
    alone = cross_val_score(DecisionTreeClassifier(random_state=0), data, labels)
    with joblib.parallel_config("roamlet", hosts=[bare], pickle=True):
        scores = cross_val_score(DecisionTreeClassifier(random_state=0), data, labels, n_jobs=-1)
        search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 4]}, n_jobs=-1).fit(
            data, labels
        )
    assert scores.tolist() == alone.tolist()
    best = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 4]}).fit(data, labels)
    assert search.best_params_ == best.best_params_
    assert search.best_score_ == best.best_score_
