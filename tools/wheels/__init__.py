"""`make wheels`: builds what a release consists of, and tries it; see __main__.py."""
