"""`make judges`: CPython's own tests of what roamlet.patch replaces, with the stock standard library and with the patched one."""
