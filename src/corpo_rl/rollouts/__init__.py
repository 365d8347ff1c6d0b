"""Readers of rollout logs: each format a file, numbers in columns, text left where it is."""
