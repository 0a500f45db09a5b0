"""Tests of kvtui.engine."""
