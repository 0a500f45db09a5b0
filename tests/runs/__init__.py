"""Tests of kvtui.runs."""
