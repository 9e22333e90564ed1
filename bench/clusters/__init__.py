"""Dask clusters: one of roamlet's on an interpreter where nothing is installed, beside Dask's own where everything is."""
