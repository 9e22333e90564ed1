"""How figures are taken and shown, for `weft bench` and for `python -m bench` of the repository alike."""
