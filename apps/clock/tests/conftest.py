"""Before anything else: neither a test nor a program that one starts can set the clock of this machine."""

from apps.clock.tests.harmless import give_up_the_clock

# When this module is imported, which is before the first test and before there is a second thread.
give_up_the_clock()
