"""Runs a script whose saved tensors are all offloaded: the practical floor.

    python bench/pyoff.py [--cached] SCRIPT ARGS...

Python hooks copy every saved tensor of 64 KiB and more to a file, at once, and
drop it; unpacking copies it back. No activation stays between its forward and
its backward use, so no manager that works on whole tensors gets lower.

The file is written and read past the page cache, as ebbtide's is. With --cached
it is mapped, and the copies stay in the page cache: that is fast, and RAM.
"""

import dataclasses
import mmap
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

SMALLEST = 65536
ALIGN = 4096
SIZE = 16 << 30


class Room:
    """Offsets in a file that is written from its start again once all is read."""

    def __init__(self) -> None:
        self._used = 0
        self._alive = 0

    def take(self, size: int) -> int:
        if self._alive == 0:
            self._used = 0
        self._alive += 1
        begin = self._used
        self._used += pages(size)
        if self._used > SIZE:
            raise MemoryError(f"the file of {SIZE} bytes is full")
        return begin

    def give(self) -> None:
        self._alive -= 1


def pages(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


@dataclasses.dataclass
class Layout:
    """A tensor's, with the strides that a clone would have."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    size: int

    @classmethod
    def of(cls, tensor: Tensor) -> "Layout":
        strides = torch.empty_like(tensor, device="meta").stride()
        size = tensor.numel() * tensor.element_size()
        return cls(tensor.shape, strides, tensor.dtype, size)

    def over(self, memory: Tensor) -> Tensor:
        """The tensor that begins where these bytes do."""
        elements = memory[: self.size].view(self.dtype)
        return elements.as_strided(self.shape, self.strides, elements.storage_offset())

    def empty(self) -> Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype)


class File(Protocol):
    def write(self, offset: int, layout: Layout, tensor: Tensor) -> None: ...
    def read(self, offset: int, layout: Layout) -> Tensor: ...


class Cached:
    """A mapped file."""

    def __init__(self, folder: str) -> None:
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            path = Path(file.name)
        self._bytes = torch.from_file(
            str(path), shared=True, size=SIZE, dtype=torch.uint8
        )
        path.unlink()

    def write(self, offset: int, layout: Layout, tensor: Tensor) -> None:
        layout.over(self._bytes[offset:]).copy_(tensor)

    def read(self, offset: int, layout: Layout) -> Tensor:
        return layout.empty().copy_(layout.over(self._bytes[offset:]))


class Disk:
    """A file behind one buffer of whole pages, which O_DIRECT asks for."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
        self._resize(1 << 20)

    def _resize(self, size: int) -> None:
        self._pages = mmap.mmap(-1, size)
        self._buffer = torch.frombuffer(self._pages, dtype=torch.uint8)

    def write(self, offset: int, layout: Layout, tensor: Tensor) -> None:
        size = pages(layout.size)
        if size > self._buffer.numel():
            self._resize(size)
        layout.over(self._buffer).copy_(tensor)
        part = memoryview(self._pages)[:size]
        while part:
            written = os.pwrite(self._file, part, offset)
            part, offset = part[written:], offset + written

    def read(self, offset: int, layout: Layout) -> Tensor:
        part = memoryview(self._pages)[: pages(layout.size)]
        while part:
            got = os.preadv(self._file, [part], offset)
            if got == 0:
                raise EOFError(f"nothing was written at {offset}")
            part, offset = part[got:], offset + got
        return layout.empty().copy_(layout.over(self._buffer))


class Away:
    """A saved tensor that lies in the file."""

    def __init__(self, file: File, room: Room, tensor: Tensor) -> None:
        self._file = file
        self._room = room
        self._layout = Layout.of(tensor)
        self._offset = room.take(self._layout.size)
        file.write(self._offset, self._layout, tensor.detach())

    def __del__(self) -> None:
        self._room.give()

    def restore(self) -> Tensor:
        return self._file.read(self._offset, self._layout)


def is_parameter(tensor: Tensor) -> bool:
    """True if the tensor is a leaf that trains, or a view of one."""
    root = tensor._base if tensor._base is not None else tensor
    return root.is_leaf and root.requires_grad


def main() -> None:
    sys.argv = sys.argv[1:]
    cached = sys.argv[0] == "--cached"
    if cached:
        sys.argv = sys.argv[1:]
    file: File = (Cached if cached else Disk)(tempfile.gettempdir())
    room = Room()

    def pack(tensor: Tensor) -> "Tensor | Away":
        small = tensor.numel() * tensor.element_size() < SMALLEST
        return tensor if small or is_parameter(tensor) else Away(file, room, tensor)

    def unpack(packed: "Tensor | Away") -> Tensor:
        return packed.restore() if isinstance(packed, Away) else packed

    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
