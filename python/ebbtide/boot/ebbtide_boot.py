"""Entry point of a process that has the preload library but not the package.

The preload library puts this folder on PYTHONPATH; `import torch` finds the
egg-info beside this file and calls `start`. It is an egg-info because wheels
may not carry a second dist-info.
"""

import importlib.util
import sys
from pathlib import Path


def start() -> None:
    """Starts the core that lies in the package around this folder."""
    try:
        path = Path(__file__).resolve().parent.parent / "_entry.py"
        spec = importlib.util.spec_from_file_location("_ebbtide_entry", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {path}")
        entry = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(entry)
        entry.start()
    except Exception as error:  # an exception here would end `import torch`
        print(f"ebbtide: off: {error}", file=sys.stderr, flush=True)
