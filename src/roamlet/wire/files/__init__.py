"""Transfers of files and folders; both sides use these modules."""
