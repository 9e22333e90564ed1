"""Modules that travel: bundles of them, the importer on the target, their files and metadata."""
