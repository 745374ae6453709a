"""Runs a script whose saved tensors are all copied away: the practical floor.

    python bench/pyoff.py SCRIPT ARGS...

Python hooks copy every saved tensor of 64 KiB and more to a file, at once, and
drop it; unpacking copies it back. No activation stays between its forward and
its backward use, so no manager that works on whole tensors gets lower.
"""

import runpy
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor

SMALLEST = 65536
ALIGN = 4096


class File:
    """A mapped file that is written from its start again once all is read."""

    def __init__(self, size: int) -> None:
        with tempfile.NamedTemporaryFile(delete=False) as file:
            path = Path(file.name)
        self._bytes = torch.from_file(
            str(path), shared=True, size=size, dtype=torch.uint8
        )
        path.unlink()
        self._used = 0
        self._alive = 0

    def store(self, tensor: Tensor) -> Tensor:
        """A copy in the file, with the strides a clone would have."""
        if self._alive == 0:
            self._used = 0
        self._alive += 1
        begin = self._used
        end = begin + tensor.numel() * tensor.element_size()
        if end > self._bytes.numel():
            raise MemoryError(f"the file of {self._bytes.numel()} bytes is full")
        self._used = -(-end // ALIGN) * ALIGN
        strides = torch.empty_like(tensor, device="meta").stride()
        copy = self._bytes[begin:end].view(tensor.dtype)
        copy = copy.as_strided(tensor.shape, strides, copy.storage_offset())
        return copy.copy_(tensor)

    def release(self) -> None:
        self._alive -= 1


class Away:
    """A saved tensor that lies in the file."""

    def __init__(self, file: File, tensor: Tensor) -> None:
        self._file = file
        self._copy = file.store(tensor.detach())

    def __del__(self) -> None:
        self._file.release()

    def restore(self) -> Tensor:
        result = torch.empty_strided(
            self._copy.shape, self._copy.stride(), dtype=self._copy.dtype
        )
        return result.copy_(self._copy)


def is_parameter(tensor: Tensor) -> bool:
    """Whether the tensor is a leaf that trains, or a view of one."""
    root = tensor._base if tensor._base is not None else tensor
    return root.is_leaf and root.requires_grad


def main() -> None:
    sys.argv = sys.argv[1:]
    file = File(16 << 30)

    def pack(tensor: Tensor) -> "Tensor | Away":
        small = tensor.numel() * tensor.element_size() < SMALLEST
        return tensor if small or is_parameter(tensor) else Away(file, tensor)

    def unpack(packed: "Tensor | Away") -> Tensor:
        return packed.restore() if isinstance(packed, Away) else packed

    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
