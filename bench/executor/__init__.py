"""Executors: what a call costs, and how much of the machine short calls can use: roamlet's, the standard library's and Dask's."""
