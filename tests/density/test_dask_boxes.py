"""Dask arrays whose blocks have boxes: what may be left out, what is read, and what boxes that do not fit say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest

import cukde
from cukde.dask import BlockBoxes, block_boxes
from cukde.density.dask import blocks as dask_blocks, certificate, parts as dask_parts
from tests import reference
from tests.conftest import Backend
from tests.density.test_dask import CALLS as ALL_CALLS, COVARIANCE, Call, computed, same

D = 3
RNG = np.random.default_rng(21)
CENTRES = RNG.uniform(-60, 60, (16, D))

CALLS = {name: call for name, call in ALL_CALLS.items() if "factors" not in name and "kernel_sum" not in name}


def clusters(centres: np.ndarray, rows: int, seed: int = 1) -> np.ndarray:
    """Normal clusters one after the other."""
    return (centres[:, None] + np.random.default_rng(seed).standard_normal((len(centres), rows, D))).reshape(-1, D)


X, Y = clusters(CENTRES, 30), clusters(CENTRES, 10, 2)
W = np.where(np.arange(len(X)) % 7 == 0, 0.0, 10.0 ** RNG.uniform(-2, 2, len(X)))


def lazy(a: np.ndarray, rows: Any) -> da.Array:
    return da.from_array(a, chunks=(rows, *a.shape[1:]))


def sums(a: Any) -> int:
    """Number of tasks over pairs of blocks."""
    one = a[0] if isinstance(a, tuple) else a
    return sum(key[0].startswith("cukde-sums-") for key in one.__dask_graph__())


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, int]]:
    """Pairs of blocks that are computed, by the numbers of queries and data."""
    out: Counter[tuple[int, int]] = Counter()

    def watched(name: str) -> None:
        function = getattr(dask_blocks, name)

        def call(y: Any, x: Any, **options: Any) -> Any:
            out[y.number, x.number] += 1
            return function(y, x, **options)

        monkeypatch.setattr(dask_blocks, name, call)

    watched("pair")
    watched("mutual")
    return out


class TestClusters:
    @pytest.mark.parametrize(
        ("options", "tolerance"),
        [
            ({}, 1e-12),
            ({"weights": W}, 1e-12),
            ({"weights": da.from_array(W, chunks=77)}, 1e-12),
            ({"h": [0.5, 0.3, 0.8]}, 3e-12),
            ({"h": COVARIANCE}, 3e-12),
            ({"dtype": "float32"}, 2e-5),
        ],
        ids=["plain", "weights", "weights in blocks", "deviations", "covariance", "float32"],
    )
    @pytest.mark.parametrize("itself", [False, True], ids=["queries", "itself"])
    @pytest.mark.parametrize("call", CALLS)
    def test_few_pairs_and_the_same_result(
        self, call: str, itself: bool, options: dict[str, Any], tolerance: float
    ) -> None:
        options = dict(options)
        a, b = (each.astype(options.get("dtype", "float64")) for each in (X, Y))
        options.pop("dtype", None)
        x = lazy(a, 30)
        y = x if itself else lazy(b, 10)
        of_data = block_boxes(x, weights=options.get("weights"))
        of_both = of_data if itself or "debias" in call else (of_data, block_boxes(y))
        got = CALLS[call](x, y, boxes=of_both, **options)
        assert sums(got) <= 40 * (1 + ("sd_kde" in call))
        if "weights" in options:
            options["weights"] = W
        same(computed(got), CALLS[call](a, a if itself else b, **options), tolerance)

    @pytest.mark.parametrize("call", CALLS)
    def test_tasks_in_proportion_to_what_matters(self, call: str) -> None:
        """27 blocks of 27 clusters; and of which more and more meet."""
        counts = []
        for distance in (40.0, 7.0, 0.0):
            centres = distance * np.stack(np.meshgrid(*3 * [np.arange(3)]), axis=-1).reshape(-1, D)
            a, b = clusters(centres, 20), clusters(centres, 5, 2)
            x, y = lazy(a, 20), lazy(b, 5)
            boxes = block_boxes(x) if call == "debias" else (block_boxes(x), block_boxes(y))
            got = CALLS[call](x, y, boxes=boxes)
            counts.append(sums(got))
            same(computed(got), CALLS[call](a, b))
        of_clusters = 2 * 27 if "sd_kde" in call else 27
        assert counts[0] == of_clusters
        assert of_clusters < counts[1]
        none = CALLS[call](lazy(X[:27], 1), lazy(Y[:27], 1))
        assert counts[2] <= sums(none)

    def test_each_pair_that_matters_once(self, met: Counter[tuple[int, int]]) -> None:
        x, y = lazy(X, 30), lazy(Y, 10)
        boxes = block_boxes(x), block_boxes(y)
        found = certificate.needed(boxes[1], boxes[0], np.asarray(0.5), "sum", 1e-13 / 64).pairs
        computed(cukde.kde(x, y, 0.5, boxes=boxes))
        assert met == Counter({(i, j): 1 for i, j in np.argwhere(found).tolist()})
        assert found.sum() <= 32

    @pytest.mark.parametrize("grouped", [False, True])
    def test_unordered_pairs(
        self, met: Counter[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, grouped: bool
    ) -> None:
        """Pairs that neither block needs are not taken; nor are pairs of groups of such."""
        if grouped:
            monkeypatch.setattr("cukde.core.dask.graph._MANY_GROUPS", 3)
        x = lazy(X, 30)
        same(computed(cukde.debias(x, 0.5, boxes=block_boxes(x))), cukde.debias(X, 0.5))
        assert {(i, i) for i in range(16)} <= {*met}
        assert max(met.values()) == 1
        assert len(met) <= (16 * 17 // 4 if grouped else 20)

    def test_tiles(self, met: Counter[tuple[int, int]]) -> None:
        """Blocks side by side, 30 bandwidths wide: each meets its neighbours."""
        corner = np.stack(np.meshgrid(np.arange(8), np.arange(8)), axis=-1).reshape(-1, 1, 2)
        x, y = ((corner + np.random.default_rng(s).uniform(size=(64, 300, 2))).reshape(-1, 2) for s in (0, 1))
        lazy_x, lazy_y = lazy(x, 300), lazy(y, 300)
        got = computed(cukde.kde(lazy_x, lazy_y, 1 / 30, boxes=(block_boxes(lazy_x), block_boxes(lazy_y))))
        same(got, cukde.kde(x, y, 1 / 30, rtol=0))
        assert len(met) == 22**2  # of blocks that touch: 3 for each row and column, 2 at the ends

    def test_queries_far_from_all_data(self) -> None:
        """Their nearest data are what matters."""
        far = np.concatenate([Y[:10], Y[:10] * 1e6, Y[:10] * 1e120])
        x = lazy(X, 30)
        got = computed(cukde.kde(x, far, 0.5, log=True, boxes=block_boxes(x)))
        np.testing.assert_allclose(got, cukde.kde(X, far, 0.5, log=True), rtol=1e-13)

    @pytest.mark.parametrize("options", [{"rtol": 0}, {"precision": "ieee"}, {"local_factors": np.ones(len(X))}])
    def test_all_pairs(self, met: Counter[tuple[int, int]], options: dict[str, Any]) -> None:
        x = lazy(X, 30)
        computed(cukde.kde(x, Y, 0.5, boxes=block_boxes(x), **options))
        assert len(met) == 16

    def test_on_each_backend(self, backend: Backend) -> None:
        x, y = (da.from_array(backend.asarray(a), chunks=(30, D)) for a in (X, Y))
        boxes = block_boxes(x), block_boxes(y)
        got = (
            cukde.kde(x, y, 0.5, boxes=boxes),
            cukde.score(x, y, 0.5, boxes=boxes),
            cukde.sd_kde(x, y, 0.5, boxes=boxes),
        )
        want = reference.kde(X, Y, 0.5), reference.score(X, Y, 0.5), reference.sd_kde(X, Y, 0.5)
        for one, other in zip(got, want, strict=True):
            same(backend.asnumpy(computed(one)), other, 3e-11)


class TestCertificate:
    """Bounds against all terms, of blocks whose boxes meet, part and lie in each other."""

    BANDWIDTHS = (np.asarray(0.7), np.array([0.4, 1.0, 0.8]), COVARIANCE)

    @staticmethod
    def squares(x: np.ndarray, y: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Squared distances in bandwidths, (m, n)."""
        difference = y[:, None] - x
        inverse = np.linalg.inv(h if h.ndim == 2 else np.diag(np.broadcast_to(h, D) ** 2))
        return np.einsum("mni,ij,mnj->mn", difference, inverse, difference)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("h", BANDWIDTHS, ids=["number", "vector", "covariance"])
    @pytest.mark.parametrize("output", ["sum", "moments", "laplace", "laplace_moments"])
    @pytest.mark.parametrize("seed", range(4))
    def test_what_is_left_out(self, output: Any, h: np.ndarray, weighted: bool, seed: int) -> None:
        rng = np.random.default_rng(seed)
        centres = rng.uniform(-6, 6, (12, D)) * rng.uniform(1, 3)
        spread = rng.uniform(0.05, 1.5, (12, 1, 1))
        x, y = (
            (centres[:, None] + spread * rng.standard_normal((12, rows, D))).reshape(-1, D) + 1e3 for rows in (40, 15)
        )
        w = 10.0 ** rng.uniform(-4, 4, len(x)) if weighted else None
        data, queries = (dask_parts.of_plain(a, (rows,) * 12, of) for a, rows, of in ((x, 40, w), (y, 15, None)))
        tolerance = 1e-2
        found = certificate.needed(queries, data, h, output, tolerance)
        assert not found.pairs.all()
        squares = self.squares(x, y, h)
        terms = np.exp(-0.5 * squares) * (1.0 if w is None else w)
        kept = np.repeat(np.repeat(found.pairs, 40, axis=1), 15, axis=0)
        allowed = tolerance * (terms * kept).sum(axis=1)
        left = terms * ~kept
        assert (left.sum(axis=1) <= allowed).all()
        beside = {
            "sum": 0.0,
            "moments": np.sqrt(squares),
            "laplace": 1 + np.abs(1 + D / 2 - 0.5 * squares),
            "laplace_moments": np.abs(2 + D / 2 - 0.5 * squares) * np.sqrt(squares),
        }
        assert ((left * beside[output]).sum(axis=1) <= allowed).all()
        rows = np.repeat(np.arange(len(queries.block)), self._counts(y, 12, 15))
        log_sums = np.log(terms.sum(axis=1))[self._order(y, 12, 15)]
        assert (found.log_least[rows] <= log_sums + 1e-9).all()
        assert (log_sums - found.log_least[rows]).min() < 6  # and not without meaning

    @pytest.mark.parametrize("h", BANDWIDTHS[:2], ids=["number", "vector"])
    @pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
    def test_blocks_of_one_row_are_left_out_by_what_they_add(self, output: Any, h: np.ndarray) -> None:
        """Of these the bounds are the terms themselves."""
        rng = np.random.default_rng(5)
        x, y = 6 * rng.standard_normal((80, D)), 6 * rng.standard_normal((30, D))
        data, queries = dask_parts.of_plain(x, (1,) * 80), dask_parts.of_plain(y, (1,) * 30)
        pairs = certificate.needed(queries, data, h, output, 1e-2).pairs
        squares = self.squares(x, y, h)
        terms = np.exp(-0.5 * squares)
        factor = {"sum": 1.0, "moments": 1 + np.maximum(np.sqrt(squares), 1), "laplace": 2 + D / 2 + squares / 2}[
            output
        ]
        most, least = terms * factor, terms.sum(axis=1)
        order = np.argsort(most, axis=1)
        ascending = np.take_along_axis(most, order, axis=1).cumsum(axis=1)
        want = np.empty_like(pairs)
        np.put_along_axis(want, order, ascending > 1e-2 / (1 + 1e-2) * least[:, None], axis=1)
        np.testing.assert_array_equal(pairs, want)
        assert 30 < pairs.sum() < 30 * 40

    @staticmethod
    def _order(a: np.ndarray, blocks: int, rows: int) -> np.ndarray:
        """Rows by their parts."""
        out = []
        for i in range(blocks):
            own = a[i * rows : (i + 1) * rows]
            out.append(i * rows + np.argsort(dask_parts._places(dask_parts._tree(own, 4), own), kind="stable"))
        return np.concatenate(out)

    @staticmethod
    def _counts(a: np.ndarray, blocks: int, rows: int) -> np.ndarray:
        out = []
        for i in range(blocks):
            own = a[i * rows : (i + 1) * rows]
            counts = np.bincount(dask_parts._places(dask_parts._tree(own, 4), own), minlength=16)
            out.append(counts[counts > 0])
        return np.concatenate(out)

    @pytest.mark.parametrize("of_score", BANDWIDTHS, ids=["number", "vector", "covariance"])
    @pytest.mark.parametrize("h", BANDWIDTHS, ids=["number", "vector", "covariance"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_shifts(self, h: np.ndarray, of_score: np.ndarray, weighted: bool) -> None:
        """No point moves further than its part's bound; and what is left out of the moved points' density is little."""
        rng = np.random.default_rng(3)
        x = (rng.uniform(-15, 15, (12, 1, D)) + rng.standard_normal((12, 40, D))).reshape(-1, D)
        y = x[::4] + rng.standard_normal((120, D))
        w = 10.0 ** rng.uniform(-4, 4, len(x)) if weighted else None
        data, queries = dask_parts.of_plain(x, (40,) * 12, w), dask_parts.of_plain(y, (10,) * 12)
        at_data = certificate.needed(data, data, of_score, "moments", 1e-13, itself=w is None)
        bounds = certificate.shifts(data, at_data.log_least, h, of_score, single=False)
        moved = reference.debias(x, h, of_score, w)
        way = np.sqrt(np.diagonal(self.squares(x, moved, h)))
        rows = np.repeat(np.arange(len(data.block)), self._counts(x, 12, 40))
        assert (way[self._order(x, 12, 40)] <= bounds[rows]).all()
        found = certificate.needed(queries, data, h, "sum", 1e-3, moved=bounds)
        assert not found.pairs.all()
        terms = np.exp(-0.5 * self.squares(moved, y, h)) * (1.0 if w is None else w)
        kept = np.repeat(np.repeat(found.pairs, 40, axis=1), 10, axis=0)
        assert ((terms * ~kept).sum(axis=1) <= 1e-3 * (terms * kept).sum(axis=1)).all()

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("rows_at_once", [64, 2**18])
    def test_parts(self, monkeypatch: pytest.MonkeyPatch, rows_at_once: int, weighted: bool) -> None:
        """Boxes, means and variances of the rows of each, far from zero."""
        monkeypatch.setattr(dask_parts, "_ROWS_AT_ONCE", rows_at_once)
        x, w = X[:300] + 1e6, W[:300] if weighted else None
        found = dask_parts.measure(x, w, 16)
        places = dask_parts._places(dask_parts._tree(x, 4), x)
        assert len(np.unique(places)) == len(found.log_mass) == 16
        for part in range(16):
            rows = places == part
            share = np.ones(rows.sum()) if w is None else W[:300][rows]
            np.testing.assert_array_equal(found.low[part], x[rows].min(axis=0))
            np.testing.assert_array_equal(found.high[part], x[rows].max(axis=0))
            mean = np.average(x[rows] - 1e6, axis=0, weights=share)
            np.testing.assert_allclose(found.mean[part] - 1e6, mean, rtol=1e-8, atol=1e-8)
            variance = np.average((x[rows] - 1e6 - mean) ** 2, axis=0, weights=share)
            np.testing.assert_allclose(found.variance[part], variance, rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(found.log_mass[part], np.log(share.sum()), rtol=1e-13, atol=1e-13)

    def test_rows_that_are_all_alike(self) -> None:
        found = dask_parts.measure(np.ones((50, 2)), None, 16)
        assert len(found.log_mass) == 1
        np.testing.assert_array_equal(found.variance, 0)


class TestFiles:
    """Data out of core, in files ordered by place."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[da.Array, list[int], np.ndarray]:
        """64 tiles in files of their own, and which of them are read."""
        read: list[int] = []

        def load(i: int) -> np.ndarray:
            read.append(i)
            a: np.ndarray = np.load(tmp_path / f"{i}.npy")
            return a

        corner = 10.0 * np.stack(np.meshgrid(np.arange(8), np.arange(8)), axis=-1).reshape(-1, 1, 2)
        tiles = corner + 10 * np.random.default_rng(0).uniform(size=(64, 50, 2))
        for i, tile in enumerate(tiles):
            np.save(tmp_path / f"{i}.npy", tile)
        parts = [da.from_delayed(dask.delayed(load)(i), (50, 2), np.float64) for i in range(64)]
        return da.concatenate(parts), read, tiles.reshape(-1, 2)

    @pytest.mark.parametrize("method", ["kde", "score", "laplace_kde", "sd_kde"])
    def test_queries_in_a_corner_read_the_files_that_matter(
        self, files: tuple[da.Array, list[int], np.ndarray], tmp_path: Path, method: str
    ) -> None:
        x, read, rows = files
        boxes = block_boxes(x)
        assert sorted(read) == [*range(64)]
        read.clear()
        np.savez(tmp_path / "boxes.npz", **boxes._asdict())
        boxes = BlockBoxes(**np.load(tmp_path / "boxes.npz"))
        y = np.random.default_rng(1).uniform(0, 8, (40, 2))
        lazy = getattr(cukde, method)(x, y, 0.5, boxes=boxes)
        assert read == []
        same(computed(lazy), getattr(cukde, method)(rows, y, 0.5, rtol=0))
        near = {0, 1, 2, 8, 9, 10, 16, 17, 18} if method == "sd_kde" else {0, 1, 8, 9}
        assert {0, 1, 8} <= {*read} <= near
        assert len(read) == len({*read})

    def test_a_frame_of_unknown_lengths(self, files: tuple[da.Array, list[int], np.ndarray]) -> None:
        x, read, rows = files
        some = x[x[:, 0] < 35]
        assert np.isnan(some.shape[0])
        boxes = block_boxes(some)
        assert boxes.rows.sum() == (rows[:, 0] < 35).sum()
        assert (boxes.rows == 0).sum() == 32
        read.clear()
        y = np.random.default_rng(1).uniform(0, 8, (40, 2))
        same(computed(cukde.kde(some, y, 0.5, boxes=boxes)), cukde.kde(rows[rows[:, 0] < 35], y, 0.5))
        assert {*read} <= {0, 1, 8, 9}


class TestBlocks:
    @pytest.mark.parametrize("of_boxes", [30, 480, 7, (0, 100, 0, 379, 1)])
    @pytest.mark.parametrize("of_call", [30, 480, 11, (200, 0, 280)])
    def test_boxes_of_other_blocks_of_the_same_rows(self, of_boxes: Any, of_call: Any) -> None:
        rows = tuple((size, -1) if isinstance(size, int) else (size, (D,)) for size in (of_boxes, of_call))
        boxes = block_boxes(da.from_array(X, chunks=rows[0]))
        for call in ("kde", "sd_kde", "score"):
            got = computed(CALLS[call](da.from_array(X, chunks=rows[1]), Y, boxes=boxes))
            same(got, CALLS[call](X, Y))

    def test_blocks_that_the_call_joins_and_cuts(self) -> None:
        many = lazy(X, 2)
        assert many.numblocks[0] > 64
        same(computed(cukde.kde(many, Y, 0.5, boxes=block_boxes(many))), cukde.kde(X, Y, 0.5))
        x = np.sort(np.random.default_rng(0).uniform(size=70_000))
        one = lazy(np.stack([x, x], axis=1), 70_000)
        y = one[:3].compute()
        got = cukde.kde(one, y, 1e-3, boxes=block_boxes(one))
        same(computed(got), cukde.kde(one.compute(), y, 1e-3))
        assert sums(got) == 3

    @pytest.mark.parametrize("plain", ["X", "Y", "weights"])
    def test_plain_arrays_beside(self, plain: str) -> None:
        x, y = (X if plain == "X" else lazy(X, 30)), (Y if plain == "Y" else lazy(Y, 10))
        w = W if plain in ("weights", "X") else da.from_array(W, chunks=50)
        of_data = None if plain == "X" else block_boxes(x, weights=w)
        of_queries = None if plain == "Y" else block_boxes(y)
        same(computed(cukde.kde(x, y, 0.5, weights=w, boxes=(of_data, of_queries))), cukde.kde(X, Y, 0.5, weights=W))

    def test_empty_blocks_of_queries_and_data(self) -> None:
        chunks = (0, *16 * (30,), 0), (0, 100, 0, 60)
        x, y = (da.from_array(a, chunks=(rows, -1)) for a, rows in zip((X, Y), chunks, strict=True))
        boxes = block_boxes(x), block_boxes(y)
        for call in CALLS:
            same(computed(CALLS[call](x, y, boxes=boxes[0] if call == "debias" else boxes)), CALLS[call](X, Y))

    def test_data_frames(self) -> None:
        import dask.dataframe as dd

        frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")).assign(w=W), npartitions=16)
        x, w = frame[["a", "b", "c"]], frame["w"]
        for call in (cukde.kde, cukde.sd_kde):
            got = call(x, Y, 0.5, weights=w, boxes=block_boxes(x, weights=w))
            assert sums(got) < 16 + 16 * 16
            same(computed(got), call(X, Y, 0.5, weights=W))


class TestBoxesThatDoNotFit:
    x = lazy(X, 30)

    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (TypeError, "boxes must be of X, by .* got list", lambda x, b: cukde.kde(x, Y, 0.5, boxes=[b])),
            (TypeError, "boxes must be of X", lambda x, b: cukde.kde(x, Y, 0.5, boxes=(b, 1))),
            (ValueError, "those of Y, a Dask array", lambda x, b: cukde.kde(x, lazy(Y, 10), 0.5, boxes=b)),
            (ValueError, "None for Y, a plain array", lambda x, b: cukde.kde(x, Y, 0.5, boxes=(b, b))),
            (ValueError, "it has 479 rows, and boxes 480", lambda x, b: cukde.kde(x[1:], Y, 0.5, boxes=b)),
            (ValueError, "it has 2 columns, and boxes 3", lambda x, b: cukde.kde(x[:, :2], Y[:, :2], 0.5, boxes=b)),
            (
                ValueError,
                "it has 15 blocks, and there are boxes of 16",
                lambda x, b: cukde.kde(x[30:][x[30:, 0] > -99], Y, 0.5, boxes=b),
            ),
            (
                ValueError,
                r"made without weights, for a call with them: write cukde.dask.block_boxes\(X, weights=weights\)",
                lambda x, b: cukde.kde(x, Y, 0.5, weights=W, boxes=b),
            ),
            (
                ValueError,
                "made with weights, for a call without",
                lambda x, b: cukde.kde(x, Y, 0.5, boxes=block_boxes(x, weights=W)),
            ),
            (TypeError, "unexpected keyword", lambda x, b: cukde.kde(X, Y, 0.5, boxes=b)),
            (TypeError, "X must be a Dask array .* got ndarray", lambda x, b: block_boxes(X)),
        ],
    )
    def test_at_once(self, error: type[Exception], message: str, call: Call) -> None:
        boxes = block_boxes(self.x)
        with pytest.raises(error, match=message):
            call(self.x, boxes)

    @pytest.mark.parametrize("method", ["kde", "sd_kde"])
    @pytest.mark.parametrize(
        "other", [X[::-1], X + 1e-9, np.roll(X, 1, axis=0)], ids=["another order", "moved", "rolled"]
    )
    def test_rows_beyond_their_boxes(self, other: np.ndarray, method: str) -> None:
        got = getattr(cukde, method)(lazy(other, 30), Y, 0.5, boxes=block_boxes(self.x))
        with pytest.raises(ValueError, match=r"boxes must be those of X, .* same order: rows of block \d+ lie outside"):
            computed(got)

    def test_queries_beyond_their_boxes(self) -> None:
        y = lazy(Y, 10)
        got = cukde.kde(X, lazy(Y[::-1], 10), 0.5, boxes=(None, block_boxes(y)))
        with pytest.raises(ValueError, match=r"boxes must be those of Y, .* lie outside"):
            computed(got)

    def test_other_rows_of_blocks_of_unknown_length(self) -> None:
        x = self.x[self.x[:, 0] > -1e9]
        boxes = block_boxes(x)
        fewer = da.map_blocks(lambda block: block[:-1], x, dtype=x.dtype, chunks=x.chunks)
        with pytest.raises(ValueError, match=r"block \d+ has 29 rows, and its box 30"):
            computed(cukde.kde(fewer, Y, 0.5, boxes=boxes))

    @pytest.mark.parametrize("factor", [0.5, 2.0])
    def test_other_weights(self, factor: float) -> None:
        boxes = block_boxes(self.x, weights=W)
        with pytest.raises(ValueError, match=r"the weights of block \d+ are not those that they were made with"):
            computed(cukde.kde(self.x, Y, 0.5, weights=da.from_array(factor * W, chunks=30), boxes=boxes))

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_values_that_are_not_finite(self, value: float) -> None:
        bad, far = X.copy(), Y.copy()
        bad[35], far[3] = value, value
        for name, call in (
            ("X", lambda: block_boxes(lazy(bad, 30))),
            ("X", lambda: computed(cukde.kde(lazy(bad, 30), Y, 0.5, boxes=block_boxes(self.x)))),
            ("Y", lambda: computed(cukde.kde(self.x, far, 0.5, boxes=block_boxes(self.x)))),
        ):
            with pytest.raises(ValueError, match=f"^{name} must be finite"):
                call()
        got = computed(cukde.kde(self.x, far, 0.5, boxes=block_boxes(self.x), check_finite=False))
        same(np.delete(got, 3), np.delete(cukde.kde(X, Y, 0.5), 3))

    @pytest.mark.parametrize("weights", [-W, W * np.nan, 0 * W], ids=["negative", "NaN", "zero"])
    def test_weights_that_are_none(self, weights: np.ndarray) -> None:
        with pytest.raises(ValueError, match=r"^weights must"):
            computed(cukde.kde(self.x, Y, 0.5, weights=weights, boxes=block_boxes(self.x, weights=weights)))

    def test_no_rows(self) -> None:
        none = self.x[self.x[:, 0] > 1e9]
        with pytest.raises(ValueError, match=r"^X must have at least one row"):
            computed(cukde.kde(none, Y, 0.5, boxes=block_boxes(none)))
