"""Run CPython's own tests of sockets on roamlet's: `python -m tests.io._standard_sockets`. Prints which failed, one a line.

The tests are those of the interpreter that runs this; threads are on both sides of them, as they are written.
"""

import socket
import sys
import unittest

from roamlet import io

CLASSES = [
    "BasicTCPTest",
    "BasicTCPTest2",
    "BasicUDPTest",
    "BasicSocketPairTest",
    "BufferIOTest",
    "ContextManagersTest",
    "CreateServerTest",
    "InheritanceTest",
    "FileObjectClassTestCase",
    "UnbufferedFileObjectClassTestCase",
    "LineBufferedFileObjectClassTestCase",
    "SmallBufferedFileObjectClassTestCase",
    "UnicodeReadFileObjectClassTestCase",
    "NetworkConnectionNoServer",
    "NetworkConnectionAttributesTest",
    "NetworkConnectionBehaviourTest",
    "NonBlockingTCPTests",
    "TestExceptions",
    "TestUnixDomain",
    "TestLinuxAbstractNamespace",
    "TCPTimeoutTest",
    "UDPTimeoutTest",
    "SendmsgTCPTest",
    "SendmsgUDPTest",
    "SendmsgUnixStreamTest",
    "RecvmsgTCPTest",
    "RecvmsgIntoTCPTest",
    "RecvmsgUDPTest",
    "RecvmsgIntoUDPTest",
    "RecvmsgUnixStreamTest",
    "RecvmsgScmRightsStreamTest",
    "SendRecvFdsTests",
    "SendfileUsingSendTest",
    "SendfileUsingSendfileTest",
]


def main() -> None:
    from test import test_socket  # here: it is large, and not installed everywhere

    io.workers.configure(idle_seconds=0.01)  # the tests wait until there are no more threads than before
    for name in ("socket", "socketpair", "create_connection", "create_server", "fromfd"):
        setattr(socket, name, getattr(io, name))
    loader, suite = unittest.TestLoader(), unittest.TestSuite()
    for name in CLASSES:
        if hasattr(test_socket, name):
            suite.addTests(loader.loadTestsFromTestCase(getattr(test_socket, name)))
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(suite)
    print(result.testsRun)
    for test, _ in [*result.failures, *result.errors]:
        print(test.id().removeprefix("test.test_socket."))


if __name__ == "__main__":
    main()
