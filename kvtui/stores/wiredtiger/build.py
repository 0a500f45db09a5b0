"""Bring WiredTiger's Python module: ``python -m kvtui.stores.wiredtiger.build``.

The package on PyPI is source only, and as pip builds it, it is a diagnostic build
without any compressor: updates run at a third of the speed, and Snappy is unknown.
Its setup.py passes no build type and hides the environment except PATH, so a
``cmake`` of ours stands first on PATH and adds the options. Everything goes into the
environment of the Python that runs this. The built wheel is kept in a cache of
kvtui's own, so that a wheel that pip built by itself is never taken for it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

import platformdirs

PACKAGE: Final = "wiredtiger>=11.3,<12"
"""As in the extra ``wiredtiger`` of pyproject.toml. 12 has no LSM trees."""
TOOLS: Final = ("cmake", "ninja", "swig>=4.1,<4.2")
"""11.3.1 does not load when a later swig has written its wrapper (4.5 seen)."""
LIBRARIES: Final = {
    "snappy": ("snappy-c.h", "libsnappy-dev"),
    "zlib": ("zlib.h", "zlib1g-dev"),
    "lz4": ("lz4.h", "liblz4-dev"),
    "zstd": ("zstd.h", "libzstd-dev"),
}
"""Compressor: its header, and Debian's package."""
_LINKED_AS: Final = {"zlib": "z"}

WORKS: Final = """
import sys, tempfile, wiredtiger
if wiredtiger.diagnostic_build():
    sys.exit("it is a diagnostic build")
with tempfile.TemporaryDirectory() as directory:
    connection = wiredtiger.wiredtiger_open(directory, "create")
    session = connection.open_session()
    session.create("table:x", "key_format=u,value_format=u,block_compressor=snappy")
    connection.close()
print(wiredtiger.wiredtiger_version()[0])
"""


def main() -> int:
    """Build and install it unless it is there; 0 when it is."""
    found, said = _works()
    if not found:
        missing = _missing_packages()
        if missing:
            _get(missing)
            missing = _missing_packages()
        if missing:
            _say(f"WiredTiger cannot be built without: {' '.join(missing)}")
            _say(f"sudo apt install {' '.join(missing)}")
            return 1
        _say("building WiredTiger, which takes a few minutes (kept for the next time)")
        cache = Path(platformdirs.user_cache_dir("kvtui")) / "wiredtiger"
        for where in (["--cache-dir", str(cache)], ["--no-cache-dir"]):
            if not _install(where):
                _say("WiredTiger could not be built; what went wrong stands above")
                return 1
            found, said = _works()
            if found:
                break
    _say(said if found else f"WiredTiger was built but does not work: {said}")
    return 0 if found else 1


def _works() -> tuple[bool, str]:
    """Whether a release build with Snappy is there; its version, or what is wrong."""
    done = subprocess.run(
        [sys.executable, "-c", WORKS], capture_output=True, text=True, check=False
    )
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else "it ended without a word"


def _compiler() -> str:
    return shutil.which("cc") or shutil.which("gcc") or ""


def _missing_packages() -> list[str]:
    """Debian's packages for what a build needs and this machine has not."""
    missing = [
        package
        for program, package in (("cc", "gcc"), ("c++", "g++"))
        if shutil.which(program) is None
    ]
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        missing.append("python3-dev")
    missing += [
        package for header, package in LIBRARIES.values() if not _has_header(header)
    ]
    return missing


def _has_header(header: str) -> bool:
    words = [_compiler() or "cc", "-E", "-x", "c", "-include", header, os.devnull]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _get(packages: list[str]) -> None:
    """By apt, where it may be used."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    _say(f"installing {' '.join(packages)}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", *packages]):
        subprocess.run(
            ["apt-get", *words],
            env=environment,
            stdout=subprocess.DEVNULL,
            check=False,
        )


def _install(cache: list[str]) -> bool:
    """Build tools and WiredTiger, by pip; False where that failed."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    pip.append("--disable-pip-version-check")
    if subprocess.run([*pip, *TOOLS], check=False).returncode != 0:
        return False
    scripts = sysconfig.get_path("scripts")
    with tempfile.TemporaryDirectory(prefix="kvtui-build-") as directory:
        wrapper = Path(directory) / "cmake"
        wrapper.write_text(_wrapper(Path(scripts) / "cmake"))
        wrapper.chmod(0o700)
        libraries = [f"-l{_LINKED_AS.get(name, name)}" for name in LIBRARIES]
        environment = os.environ | {
            "PATH": os.pathsep.join((directory, scripts, os.environ.get("PATH", ""))),
            # setup.py links the module itself, without the compressors' libraries.
            "LDFLAGS": " ".join(["-Wl,--no-as-needed", *libraries]),
        }
        # Not what it depends on: those are its build tools, which stand above.
        words = [*pip, "--force-reinstall", "--no-deps", *cache, PACKAGE]
        return subprocess.run(words, env=environment, check=False).returncode == 0


def _wrapper(cmake: Path) -> str:
    """A cmake that configures a release build with the compressors built in."""
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DPython3_EXECUTABLE={sys.executable}",
        "-DENABLE_CPPSUITE=OFF",
        "-DENABLE_MODEL=OFF",
        *(f"-DHAVE_BUILTIN_EXTENSION_{name.upper()}=ON" for name in LIBRARIES),
    ]
    return (
        "#!/bin/sh\n"
        f'[ "$1" = -B ] && set -- "$@" {shlex.join(options)}\n'
        f'exec {shlex.quote(str(cmake))} "$@"\n'
    )


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - it is a command


if __name__ == "__main__":
    sys.exit(main())
