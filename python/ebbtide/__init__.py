"""ebbtide: a memory budget for PyTorch training.

A job is managed from its environment (EBBTIDE_BUDGET) or by `ebbtide run`;
nothing here has to be imported for that.
"""

import ctypes
import json
from typing import Any, cast

from ebbtide import _entry

__all__ = ["__version__", "report"]

__version__ = "0.1.0"


def report() -> dict[str, Any]:
    """What was done so far in this process; empty when ebbtide is not running."""
    core = _entry.running_core()
    if core is None:
        return {}
    core.ebbtide_report.restype = ctypes.c_void_p
    text = core.ebbtide_report()
    if text is None:
        return {}
    try:
        parsed = json.loads(ctypes.string_at(text))
    finally:
        core.ebbtide_free_report(ctypes.c_void_p(text))
    return cast(dict[str, Any], parsed)
