"""What a network is meant to be and what its servers say they are: values, checked. Touches no server."""
