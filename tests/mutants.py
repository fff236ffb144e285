"""Small faults put into the sources, one at a time: tests that pass all the same do not test what they name.

``python -m tests.mutants`` runs all of :data:`MUTANTS`, and ``python -m tests.mutants gpu/ once.py`` those whose file
holds one of the words. It copies the tree to a temporary folder, runs the tests of all mutants there without any, then
those of each mutant, and prints whether they killed it. The exit code is 1 if a mutant lived.

Signs, edges of tiles, dropped weights, bounds that are ten times too loose, stale keys, missing barriers. A mutant that
no test can kill, since the program is still right, does not belong here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("cukde", "kernels_cu", "tests", "benchmarks")
LIMIT_S = 900.0  # of the tests of a mutant: one that runs forever is killed


class Mutant(NamedTuple):
    """A text that a file holds once, what takes its place, and the tests that are to see it."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]  # below tests/, without .py

    @property
    def options(self) -> tuple[str, ...]:
        """Of pytest: tests of kernels run in the emulation as in CI, of which other runs have a sample."""
        return ("-m", "not crossed") if "kernels_cu" in self.file or "/gpu/" in self.file else ()


_OUTLIERS = ("estimators/test_outliers",)

MUTANTS = (
    # the sphere, and outliers
    Mutant(
        "cukde/sphere/constant.py",
        "((2 * k - 1) ** 2 - 4 * nu * nu) / (8 * k * kappa)",
        "(4 * nu * nu - (2 * k - 1) ** 2) / (8 * k * kappa)",
        ("sphere/test_density",),
    ),
    Mutant(
        "cukde/sphere/api.py", "return (exact - (exact * at)", "return (exact + (exact * at)", ("sphere/test_density",)
    ),
    Mutant(
        "cukde/sphere/rules.py",
        "math.log(2 * q) + logs[0]",
        "math.log(q) + logs[0]",
        ("sphere/test_rules",),
    ),
    Mutant("cukde/sphere/pair_angles.py", "integral = self._squares *", "integral = 0 *", ("sphere/test_rules",)),
    Mutant("cukde/sphere/pair_angles.py", "2 * (w_i * s_j + s_i * w_j)", "4 * w_i * w_j", ("sphere/test_rules",)),
    Mutant("cukde/sphere/mean_shift.py", "along / norms - off * unit", "shift / norms", ("sphere/test_modes",)),
    Mutant("cukde/estimators/outliers.py", "leave_one_out=True, checked", "checked", _OUTLIERS),
    Mutant("cukde/core/row_keys.py", "return xp.where((self._rows[first] == B)", "return xp.where((B == B)", _OUTLIERS),
    # density, CPU
    Mutant(
        "cukde/density/stacks/cpu/passes.py",
        "OUTPUTS[output], queries.start, *results",
        "OUTPUTS[output], 0, *results",
        ("density/test_stacks",),
    ),
    Mutant(
        "cukde/density/pairs/cpu/skipping/once.py",
        "(-np.log2(total[block, i]) - allowed)",
        "(-np.log2(total[block, i]) - allowed - 3.3)",
        ("density/test_skipping",),
    ),
    Mutant(
        "cukde/density/pairs/cpu/skipping/once.py",
        "moments[c, j] -= (points[block, c, j] - about) * total[j]",
        "moments[c, j] += (points[block, c, j] - about) * total[j]",
        ("density/test_mutual_sums",),
    ),
    Mutant(
        "cukde/density/one_dimension/cpu/expansions.py",
        "off + outside * beyond <= tolerance * near",
        "off + outside * beyond <= 10 * tolerance * near",
        ("density/test_one_dimension",),
    ),
    Mutant(
        "cukde/density/one_dimension/cpu/outward.py",
        "- math.log(tolerance) - reference",
        "- math.log(10 * tolerance) - reference",
        ("density/test_one_dimension",),
    ),
    Mutant(
        "cukde/density/plane/cpu/expansions.py",
        "left[i] = not off <= rtol * value",
        "left[i] = not off <= 10 * rtol * value",
        ("density/test_plane",),
    ),
    Mutant(
        "cukde/density/pairs/cpu/tiles.py",
        "moment += w * (constant + ln2 * (e - log2_weights[j]))",
        "moment += w * (constant + ln2 * e)",
        ("density/test_laplace_sums",),
    ),
    Mutant(
        "cukde/density/leave_one_out.py",
        "    enough = rest >= own\n",
        "    enough = rest >= 1e-9 * own\n",
        ("density/test_leave_one_out",),
    ),
    Mutant(
        "cukde/density/kept.py",
        "or for_key != key",
        "or False",
        ("estimators/test_estimator", "estimators/test_gaussian_kde", "density/test_modes"),
    ),
    Mutant(
        "cukde/density/grids/cpu.py",
        "columns, starts = first[:, None] + np.arange(order), ",
        "columns, starts = first[:, None] + np.arange(order) - (np.arange(order) == order - 1), ",
        ("density/test_grids",),
    ),
    # density, GPU
    Mutant(
        "kernels_cu/density/f16.cuh",
        "0.24024106562137604f",
        "0.24124106562137604f",
        ("density/test_f16",),
    ),
    Mutant(
        "kernels_cu/density/finish.cu",
        "corrected = sum_over_lanes<32>(corrected) * ln_2;",
        "corrected = sum_over_lanes<32>(corrected);",
        ("density/test_f16",),
    ),
    Mutant(
        "kernels_cu/density/difference.cuh",
        "exponents[c] = multiply_add(-x.scale, r2[r][c], x.log2_weight);",
        "exponents[c] = multiply_add(-x.scale, r2[r][c], Real(0));",
        ("density/test_stacks",),
    ),
    Mutant(
        "kernels_cu/density/difference.cuh",
        "            sums.empty(r);\n        }\n        __syncthreads();\n",
        "            sums.empty(r);\n        }\n",
        ("density/test_stacks",),
    ),
    Mutant(
        "kernels_cu/density/f16_symmetric_pairs.cuh",
        "of_column[e] = j > i ?",
        "of_column[e] = j >= i ?",
        ("density/test_f16_symmetric",),
    ),
    Mutant(
        "kernels_cu/density/skipping_sums.cu",
        "reference[first_row + r] + (Y_weights ? Y_weights[first_row + r] : 0.0f);",
        "reference[first_row + r];",
        ("density/test_skipping", "density/test_weights_gpu"),
    ),
    Mutant(
        "kernels_cu/density/skipping_bounds.cu",
        "X_weights[row] * 1.000001f - 0.001f",
        "X_weights[row] * 1.000001f + 3.3f",
        ("density/test_skipping",),
    ),
    Mutant(
        "kernels_cu/density/domains.cu",
        "c % 2 ? (cell + 1) * width - v :",
        "c % 2 ? cell * width - v :",
        ("density/test_domains",),
    ),
    Mutant(
        "kernels_cu/density/centred_sums.cu",
        "            copy_async_wait<1>();\n            __syncthreads();\n",
        "            copy_async_wait<1>();\n",
        ("density/test_centred",),
    ),
    Mutant(
        "kernels_cu/density/wide.cu",
        "copy_async_wait<STAGES - 2>();",
        "copy_async_wait<STAGES - 1>();",
        ("density/test_wide",),
    ),
    Mutant(
        "kernels_cu/density/plane.cu",
        "int((points - 1) / points_of_part)",
        "int(points / points_of_part)",
        ("density/test_plane",),
    ),
    Mutant(
        "kernels_cu/density/plane.cu",
        "(bound[cell] * (1 + rtol) <= rtol * value)",
        "(bound[cell] * (1 + rtol) <= 10 * rtol * value)",
        ("density/test_plane",),
    ),
    Mutant(
        "cukde/density/one_dimension/gpu/expansions.py",
        "error + outside * beyond <= tolerance * least",
        "error + outside * beyond <= 10 * tolerance * least",
        ("density/test_one_dimension_gpu",),
    ),
    Mutant(
        "kernels_cu/core/merge_sort.cu",
        "        merge(shared, 0, of_left, of_left, tile - of_left, own, left_size - left_begin, sorted, note);\n"
        "    __syncthreads();\n",
        "        merge(shared, 0, of_left, of_left, tile - of_left, own, left_size - left_begin, sorted, note);\n",
        ("core/test_merge_sort",),
    ),
    # bandwidths
    Mutant(
        "kernels_cu/bandwidth/leave_one_out.cu",
        "column_at(slots.column(s)) <= row_at(slots.row(r))",
        "column_at(slots.column(s)) < row_at(slots.row(r))",
        ("bandwidth/test_passes",),
    ),
    Mutant(
        "cukde/bandwidth/cpu/passes.py",
        "_DIGITS - math.log2(float(weights.min()))",
        "_DIGITS",
        ("bandwidth/test_passes_cpu", "bandwidth/test_leave_one_out"),
    ),
    Mutant(
        "cukde/bandwidth/improved_sheather_jones.py",
        "w = None if w is None else 0.5 * xp.concatenate([w, w])",
        "w = None if w is None else xp.concatenate([w, w])",
        ("bandwidth/test_improved_sheather_jones", "bandwidth/test_domains"),
    ),
    # Kendall's tau
    Mutant(
        "cukde/kendall/cpu/ranks.py",
        "        if other[i] >= 0:\n",
        "        if other[i] > 0:\n",
        ("kendall/test_ranks", "kendall/test_cpu"),
    ),
    Mutant(
        "cukde/kendall/statistics.py",
        "variance = variance + (2 / m) * x.pairs * y.pairs",
        "variance = variance + (1 / m) * x.pairs * y.pairs",
        ("kendall/test_scipy", "kendall/test_api"),
    ),
    Mutant(
        "kernels_cu/kendall/inversions.cu",
        "- tied_x - tied_y + tied - discordant",
        "- tied_x - tied_y - tied - discordant",
        ("kendall/test_inversions",),
    ),
    Mutant(
        "kernels_cu/kendall/signs.cu",
        "s[w] = (less(a, four.x, four.y) & 0x01010101u) |",
        "s[w] = (greater(a, four.x, four.y) & 0x01010101u) |",
        ("kendall/test_sign_products",),
    ),
    # convolution
    Mutant(
        "cukde/conv1d/cpu/rows.py",
        "min(y.size, x.size - place)):\n        y[i] +=",
        "min(y.size, x.size - place - 1)):\n        y[i] +=",
        ("conv1d/test_cpu",),
    ),
    Mutant(
        "kernels_cu/conv1d/rows.cu",
        "        __syncthreads();\n        from += blocks;\n",
        "        from += blocks;\n",
        ("conv1d/test_gpu",),
    ),
    Mutant(
        "kernels_cu/conv1d/toeplitz.cu",
        "(fabsf(sum) >= least) &",
        "(fabsf(sum) >= 0.0f) &",
        ("conv1d/test_toeplitz",),
    ),
    Mutant(
        "kernels_cu/conv1d/weight_grad.cu",
        "        __syncwarp();  // all lanes have read\n",
        "",
        ("conv1d/test_weight_grad",),
    ),
    # piecewise polynomials
    Mutant(
        "cukde/piecewise/calculus.py",
        "primitive[-1, :origin] = -np.cumsum",
        "primitive[-1, :origin] = np.cumsum",
        ("piecewise/test_polynomial",),
    ),
    Mutant(
        "cukde/piecewise/fit_pieces.py",
        "largest * (1 + 1e-6) + 8 * _EPS",
        "0.1 * largest * (1 + 1e-6) + 8 * _EPS",
        ("piecewise/test_fit",),
    ),
    Mutant(
        "kernels_cu/piecewise/pieces.cuh",
        "t < 0 && degree % 2 == 0 ? -t : t",
        "t < 0 && degree % 2 == 1 ? -t : t",
        ("piecewise/test_gpu",),
    ),
    # estimators
    Mutant(
        "cukde/estimators/sampled_boxes.py",
        "return 3 * float(sums.std(ddof=1))",
        "return 0.3 * float(sums.std(ddof=1))",
        ("estimators/test_gaussian_kde_boxes",),
    ),
    Mutant(
        "cukde/estimators/boxes.py",
        "-1.0 if np.count_nonzero(low > high) % 2 else 1.0",
        "-1.0 if np.count_nonzero(low > high) else 1.0",
        ("estimators/test_gaussian_kde_boxes",),
    ),
    # Dask
    Mutant(
        "cukde/density/dask/certificate.py",
        "allowed = math.log(tolerance) - math.log1p(tolerance)",
        "allowed = math.log(10 * tolerance) - math.log1p(tolerance)",
        ("density/test_dask_boxes",),
    ),
    Mutant(
        "cukde/density/dask/parts.py",
        "np.maximum(second / mass - shift * shift, 0.0)",
        "np.maximum(second / mass, 0.0)",
        ("density/test_dask_boxes",),
    ),
    # the performance model
    Mutant(
        "cukde/density/pairs/cost/cuda_cores.py",
        "operands = 8.0 * ((depth + 1) * rows",
        "operands = 4.0 * ((depth + 1) * rows",
        ("density/test_cost",),
    ),
    Mutant(
        "cukde/perf/_predict.py",
        "again * (1 - served)",
        "again * served",
        ("perf/test_predict",),
    ),
    Mutant(
        "cukde/perf/_kept.py",
        "isinstance(number, int | float) and number > 0 for",
        "isinstance(number, int | float) and number >= 0 for",
        ("perf/test_peaks", "perf/test_measure"),
    ),
)


def run(words: list[str]) -> int:
    """Run the mutants of some files, or all; return 1 if one lived, else 0."""
    chosen = [one for one in MUTANTS if not words or any(word in one.file for word in words)]
    for one in chosen:
        count = (ROOT / one.file).read_text().count(one.old)
        if count != 1 or one.old == one.new:
            raise SystemExit(
                f"{one.file}: {one.old!r} is there {count} times; a mutant needs a text that is there once"
            )
    lived = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        clean, tree = Path(folder, "clean"), Path(folder, "tree")
        _copy(ROOT, clean)
        for name, options in sorted({(name, one.options) for one in chosen for name in one.tests}):
            if (status := _tested(clean, (name,), options)) != 0:  # this compiles for the mutants, too
                raise SystemExit(f"tests/{name}.py does not pass without mutants: pytest returned {status}")
        for number, one in enumerate(chosen, 1):
            shutil.copytree(clean, tree)  # anew: of changed sources Numba removes compiled code
            (tree / one.file).write_text((ROOT / one.file).read_text().replace(one.old, one.new))
            start = time.perf_counter()
            status = _tested(tree, one.tests, one.options)
            # None: it ran for too long; negative: the process died.
            how = "LIVED" if status == 0 else "killed" if status in (None, 1) or status < 0 else "broken"
            if how != "killed":
                lived.append(one)
            text = " ".join(one.new.split())
            print(f"{number:3} {how:6} {time.perf_counter() - start:4.0f} s  {one.file}  {text}", flush=True)
            shutil.rmtree(tree)
    print(f"{len(chosen) - len(lived)} of {len(chosen)} killed")
    return int(bool(lived))


def _copy(root: Path, to: Path) -> None:
    """Copy what tests need, and code that Numba has compiled."""
    for folder in FOLDERS:
        shutil.copytree(root / folder, to / folder, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(root / "pyproject.toml", to)


def _tested(tree: Path, tests: tuple[str, ...], options: tuple[str, ...]) -> int | None:
    """Run test files of a tree until one fails; return pytest's exit code, or None where it takes too long."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", *options, *(f"tests/{name}.py" for name in tests)]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
