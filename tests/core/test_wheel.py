"""An installed wheel finds its kernel sources without the checkout; the source distribution has all that is tracked."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

import cukde

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import sys
from pathlib import Path
import cukde
from cukde.core.gpu import compile as core_compile
assert Path(cukde.__file__).is_relative_to(sys.argv[1]), cukde.__file__
text = core_compile.source("density/pairs")
assert "__global__" in text and "#include" not in text, text[:200]
print(cukde.__version__)
"""


def built(kind: str, out: Path) -> Path:
    # The build backend is a test dependency: no isolated environment, so nothing is fetched here.
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = out.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def tracked() -> Iterator[str]:
    """The files that git knows; of a copy without git, those that .gitignore does not name."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(ROOT), "ls-files", "-z"]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
        yield from (name for name in names if (ROOT / name).is_file())
        return
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text("utf-8").split()]
    tops = [top for top in ROOT.iterdir() if not any(fnmatch(top.name, pattern) for pattern in ignored)]
    for file in (path for top in tops for path in (top, *top.rglob("*")) if path.is_file()):
        name = file.relative_to(ROOT)
        if not any(fnmatch(part, pattern) for part in name.parts for pattern in ignored):
            yield name.as_posix()


def test_sdist_holds_what_is_tracked(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    names = set(tracked())
    assert "docs/index.md" in names
    assert names <= held, names - held


def test_wheel_holds_package_and_kernels(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        f"cukde/kernels_cu/{p.relative_to(ROOT / 'kernels_cu').as_posix()}"
        for p in (ROOT / "kernels_cu").rglob("*.cu*")
    }
    study = {name for name in sources if name.startswith("cukde/kernels_cu/study/")}
    assert sources - study
    assert sources - study == {name for name in names if name.startswith("cukde/kernels_cu/")}
    tables = {p.relative_to(ROOT).as_posix() for p in (ROOT / "cukde/density/pairs/gpu/tables").glob("*.json")}
    assert tables
    assert tables <= names
    assert {"cukde/__init__.py", "cukde/py.typed"} <= names
    assert not any(name.startswith(("tests", "benchmarks", "kernels_cu")) for name in names)


def test_links_of_the_readme_lead_somewhere_from_everywhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode().partition("\n\n")[2]
    links = re.findall(r"""(?:\]\(|src(?:set)?=")([^)\s"]+)""", text)
    assert all(link.startswith(("https://", "#")) for link in links)
    ours = re.compile(rf"https://github\.com/cukde/cukde/(raw|blob)/v{re.escape(cukde.__version__)}/([^#]+)")
    found = [match.groups() for match in map(ours.match, links) if match]
    assert {kind for kind, _ in found} == {"raw", "blob"}
    assert [path for _, path in found if not (ROOT / path).exists()] == []
    assert all((kind == "raw") == path.endswith((".png", ".svg")) for kind, path in found)


def test_wheel_has_nothing_of_the_study(wheel: Path) -> None:
    assert list((ROOT / "kernels_cu" / "study").glob("*.cu"))  # for benchmarks run from a checkout
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "study" in name or "wmma" in name]


def test_installed_wheel_loads_a_kernel_source(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # -P and -S keep the checkout and an editable install out; the dependencies come in by path.
    path = f"import sys; sys.path[:0] = [{str(site)!r}, {sysconfig.get_path('purelib')!r}]\n"
    run = [sys.executable, "-P", "-S", "-c", path + PROBE, str(site)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
