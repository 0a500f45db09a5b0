"""Tests of kvtui.stores."""
