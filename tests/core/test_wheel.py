"""The wheel carries the kernel sources, and an installed copy finds them without the checkout."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    # The build backend is a test dependency: no isolated environment, so nothing is fetched here.
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def test_wheel_holds_package_and_kernels(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {f"cukde/kernels_cu/{p.relative_to(ROOT / 'kernels_cu')}" for p in (ROOT / "kernels_cu").rglob("*.cu*")}
    study = {name for name in sources if name.startswith("cukde/kernels_cu/study/")}
    assert sources - study
    assert sources - study == {name for name in names if name.startswith("cukde/kernels_cu/")}
    tables = {str(p.relative_to(ROOT)) for p in (ROOT / "cukde/density/pairs/gpu/tables").glob("*.json")}
    assert tables
    assert tables <= names
    assert {"cukde/__init__.py", "cukde/py.typed"} <= names
    assert not any(name.startswith(("tests", "benchmarks", "kernels_cu")) for name in names)


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
