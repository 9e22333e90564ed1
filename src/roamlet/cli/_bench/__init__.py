"""How figures are taken and shown, for `roamlet bench` and for `python -m bench` of the repository alike."""
