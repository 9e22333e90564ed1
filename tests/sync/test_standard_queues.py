"""CPython's own queue tests, as this interpreter has them, on roamlet.sync. One is left out: how large CPython's SimpleQueue is."""

import unittest

import pytest

from roamlet import sync
from tests import standard_tests

test_queue = standard_tests.module("test_queue")

pytestmark = [
    pytest.mark.leaves("objects", reason="test_shutdown_pending_get keeps an exception in a frame of its traceback"),
    pytest.mark.once(reason="the tasklets that wait are those of threads, one in each"),
]


class TestQueue(test_queue.QueueTest, unittest.TestCase):
    queue = sync


class TestLifoQueue(test_queue.LifoQueueTest, unittest.TestCase):
    queue = sync


class TestPriorityQueue(test_queue.PriorityQueueTest, unittest.TestCase):
    queue = sync


class TestFailingQueue(test_queue.FailingQueueTest, unittest.TestCase):
    queue = sync


class TestSimpleQueue(test_queue.CSimpleQueueTest):
    queue = sync
    test_simplequeue_sizeof = None
