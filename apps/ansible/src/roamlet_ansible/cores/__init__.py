"""Reading what ansible-core makes: its packed modules, and its command lines. No roamlet here.

A reader knows a text exactly or returns None. It proves what it has read: what it did not interpret has a known hash, or the same
text is made again from what it read and compared.
"""
