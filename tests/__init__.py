"""Mirrors kvtui: a folder of tests for a folder of code."""
