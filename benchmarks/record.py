"""Rows of measured runs for people: a line of each, and an exception in one."""

from __future__ import annotations

import re
from typing import Any

_LONGEST_REASON = 300  # characters


def reason(error: BaseException) -> str:
    """An exception in one line, without folders of the machine."""
    text = re.sub(r"(?<![\w:])(?:/[\w.+@~-]+)+/", "", f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:_LONGEST_REASON]


def line(row: dict[str, Any]) -> str:
    """One row for people: operation, sizes, median and spread, bound, error, peer; or why there is no measurement."""
    shape = " ".join(f"{k}={v}" for k, v in row["shape"].items())
    text = f"{row['op']:<12} {row['backend']:<5} {shape:<28} {row['precision']:<8} "
    peer = row.get("peer", {})
    if "reason" in peer:
        return f"{text}no row of {peer['name']}: {peer['reason']}"
    if "reason" in row:
        return f"{text}no row: {row['reason']}"
    if "timing" in row:
        text += f"{row['timing']:<6}"
    text += f"{row['median_ms']:>10.3f} ms [{row['q1_ms']:.3f}, {row['q3_ms']:.3f}] x{row['runs']}"
    if row.get("pairs_per_s"):
        text += f"  {row['pairs_per_s']:.2e} pairs/s"
    if row.get("bound_ms"):
        text += f"  {100 * row['bound_ms'] / row['median_ms']:.0f}% of {row['bound']}"
    if row.get("rel_err_max") is not None:
        text += f"  error {row['rel_err_max']:.1e}"
    if row.get("peak_mb"):
        text += f"  peak {row['peak_mb']:.0f} MB"
    if peer:
        text += f"  {peer['median_ms'] / row['median_ms']:.1f} times {peer['name']} ({peer['median_ms']:.2f} ms"
        text += f", error {peer['rel_err_max']:.1e})" if peer.get("rel_err_max") is not None else ")"
    return text
