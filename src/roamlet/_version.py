"""roamlet's version. A module of its own, so that modules which roamlet itself imports can name it in what they write."""

VERSION = "0.1.0"
