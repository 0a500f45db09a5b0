"""The recipe that brings WiredTiger, without building it here."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kvtui.stores import programs, registry
from kvtui.stores.wiredtiger import build


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was asked of pip; nothing is installed, and nothing is there."""
    asked: list[list[str]] = []

    def install(cache: list[str]) -> bool:
        asked.append(cache)
        return True

    monkeypatch.setattr(build, "_install", install)
    monkeypatch.setattr(build, "_missing_packages", list)
    monkeypatch.setattr(build, "_works", lambda: (False, "it is a diagnostic build"))
    return asked


def test_the_wrapper_changes_only_what_configures(tmp_path: Path) -> None:
    cmake = tmp_path / "the real cmake"
    cmake.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    wrapper = tmp_path / "cmake"
    wrapper.write_text(build._wrapper(cmake))
    for path in (cmake, wrapper):
        path.chmod(0o700)

    def words(*arguments: str) -> list[str]:
        done = subprocess.run(
            [str(wrapper), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    configured = words("-B", "a folder", "-G", "Ninja")
    assert configured[:4] == ["-B", "a folder", "-G", "Ninja"]
    assert "-DCMAKE_BUILD_TYPE=Release" in configured
    assert "-DHAVE_BUILTIN_EXTENSION_SNAPPY=ON" in configured
    assert words("-E", "copy", "a b") == ["-E", "copy", "a b"]


def test_what_is_there_is_not_built_again(
    installs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_works", lambda: (True, "WiredTiger 11.3.1"))
    assert build.main() == 0
    assert installs == []


def test_a_wheel_from_the_cache_that_does_not_work_is_built_anew(
    installs: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert build.main() == 1
    assert [words[0] for words in installs] == ["--cache-dir", "--no-cache-dir"]
    assert "it is a diagnostic build" in capsys.readouterr().out
    answers = [False, False, True]
    monkeypatch.setattr(build, "_works", lambda: (answers.pop(0), "said"))
    assert build.main() == 0


def test_what_a_build_lacks_is_said_where_apt_may_not_be_used(
    installs: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(build, "_missing_packages", lambda: ["libsnappy-dev"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert build.main() == 1
    assert installs == []
    assert "sudo apt install libsnappy-dev" in capsys.readouterr().out


def test_without_a_compiler_everything_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = build._missing_packages()
    assert {"gcc", "g++", "libsnappy-dev"} <= set(missing)


def test_the_command_that_is_told_is_this_recipe_in_kvtuis_own_python() -> None:
    """It must help also where there is no Makefile."""
    assert registry.kind("wiredtiger").install == programs.WIREDTIGER_INSTALL
    words = shlex.split(programs.WIREDTIGER_INSTALL)
    assert words == [sys.executable, "-m", build.__name__]
