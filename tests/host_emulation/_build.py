"""Compile CUDA sources for the host: one shared library a specialisation, kept in a cache folder."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cukde.core.gpu import compile as core_compile
from tests import compiled

_HERE = Path(__file__).parent

# The emulated ptx.cuh shadows the real one, whichever file includes it; so does mma.h, which is CUDA's.
# Other files lie beside the one that includes them, or in kernels_cu/core/.
_EMULATED, _CORE = _HERE / "include", core_compile.folder() / "core"

# Optimised, since fibers make every call dear, though not beyond -O1: it builds in two thirds of the time of -O2 what
# runs as fast. Checked, since a GPU would fault where a host goes on. The fortified longjmp of some distributions takes
# a switch between stacks for an attack.
_FLAGS = [
    *("-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-math-errno", "-w"),
    *("-ffp-contract=off", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0"),
]
# Conversions of float16 are an instruction there, and a call each otherwise.
_PROCESSOR = Path("/proc/cpuinfo")
if _PROCESSOR.exists() and re.search(r"^flags\b.*\bf16c\b", _PROCESSOR.read_text(), re.MULTILINE):
    _FLAGS.append("-mf16c")
_RUNTIME = "runtime.o"
_CHECKS = "bounds,alignment,shift,signed-integer-overflow,integer-divide-by-zero"


class CompileError(Exception):
    """The host compiler refused a kernel's source; the message is the compiler's."""


def compiler() -> list[str]:
    """Return the host C++ compiler's command: ``$CXX``, or g++."""
    return shlex.split(os.environ.get("CXX", "")) or ["g++"]


def unavailable() -> str | None:
    """Why kernels cannot be compiled for this host, or None where they can."""
    if not sys.platform.startswith("linux"):
        return f"kernel emulation needs Linux; this is {sys.platform}"
    if shutil.which(compiler()[0]) is None:
        return f"kernel emulation needs a C++ compiler; {compiler()[0]} was not found (install g++ or set CXX)"
    return None


def library(source: str, origin: str, name: str, defines: core_compile.Defines) -> ctypes.PyDLL:
    """Compile ``source`` around its kernel ``name``, unless the cache has it, and load it.

    ``origin`` is the file that messages are to name.
    """
    return _load(built(source, origin, name, defines))


def built(source: str, origin: str, name: str, defines: core_compile.Defines) -> Path:
    """The same without loading it: where the library lies in the cache."""
    text = "\n".join(
        [
            '#include "launch.hpp"',
            *(f"#define {macro} {value}" for macro, value in defines),
            "namespace emulated { namespace {",  # internal names: shared arrays in templates share a section
            _sized_at_launch(_inlined(source, origin)),
            "} }",
            '#line 1 "launcher"',
            f"EMULATED_KERNEL({name})",
            "",
        ]
    )
    return _built(text)


@functools.cache
def _load(path: Path) -> ctypes.PyDLL:
    # PyDLL keeps the interpreter's lock during a launch: a library holds the state of one launch.
    loaded = ctypes.PyDLL(str(path))
    loaded.emulated_parameters.restype = ctypes.c_char_p
    loaded.emulated_launch.restype = ctypes.c_char_p
    return loaded


def _inlined(text: str, origin: str, within: frozenset[str] = frozenset()) -> str:
    """Replace each ``#include`` of a file that is there by the file behind a guard; the compiler sees to others."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        folders = (_EMULATED, Path(origin).parent, _CORE)
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None or name in within:
            return match[0]
        guard = "INCLUDED_" + re.sub(r"\W", "_", name)
        body = _inlined(path.read_text().replace("#pragma once", ""), str(path), within | {name})
        next_line = text.count("\n", 0, match.start()) + 2
        return f'#ifndef {guard}\n#define {guard}\n{body}\n#endif\n#line {next_line} "{_named(origin)}"'

    body = re.sub(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">][ \t]*$', replacement, text, flags=re.MULTILINE)
    return f'#line 1 "{_named(origin)}"\n{body}'


def _named(origin: str) -> str:
    """A file as messages name it: without what lies above its folder, so that copies of a checkout share the cache."""
    return "/".join(Path(origin).parts[-2:])


def _sized_at_launch(text: str) -> str:
    """Make pointers of the arrays that have no size before the launch, which C++ would look for in another file."""
    return re.sub(
        r"extern __shared__ (\w+) (\w+)\[\];",
        r"\1* const \2 = static_cast<\1*>(::emulation::dynamic_shared_memory.start);",
        text,
    )


@functools.cache
def _fingerprint() -> bytes:
    """What a library depends on beside the kernel's text: the emulator's sources, the compiler, the flags."""
    version = subprocess.run([*compiler(), "--version"], capture_output=True, check=True).stdout
    sources = b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.[hc]pp")))
    return version + sources + " ".join((*_FLAGS, _CHECKS)).encode()


@functools.cache
def _common() -> Path:
    """Return a folder with what all libraries share, compiled once.

    Those are the emulator's headers, which GCC finds precompiled and others pass over, and its runtime.
    """
    folder = compiled.folder() / hashlib.sha256(_fingerprint()).hexdigest()[:32]
    folder.mkdir(exist_ok=True)
    for target, options, source in (
        ("launch.hpp.gch", ("-x", "c++-header"), "launch.hpp"),
        (_RUNTIME, ("-c",), "runtime.cpp"),
    ):
        if not (folder / target).exists():
            with tempfile.TemporaryDirectory(dir=folder) as work:
                built = Path(work) / target
                _run([*_compile_command(), *options, str(_HERE / source), "-o", str(built)])
                os.replace(built, folder / target)
    return folder


def _built(text: str) -> Path:
    key = hashlib.sha256(_fingerprint() + text.encode()).hexdigest()[:32]
    target = compiled.folder() / f"{key}.so"
    if target.exists():
        return target
    # Compiled apart from linking: with -fsanitize the linker would ask for a sanitizer's library.
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        unit, objects, built = (Path(work) / name for name in ("unit.cpp", "unit.o", "unit.so"))
        unit.write_text(text)
        _run([*_compile_command(), f"-I{_common()}", f"-I{_HERE}", "-c", str(unit), "-o", str(objects)])
        _run([*compiler(), "-shared", str(objects), str(_common() / _RUNTIME), "-o", str(built)])
        os.replace(built, target)  # another process may have been faster; either file is good
    return target


def _compile_command() -> list[str]:
    return [*compiler(), *_FLAGS, f"-fsanitize={_CHECKS}", f"-fno-sanitize-recover={_CHECKS}"]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{shlex.join(command)}\n{done.stderr}")
