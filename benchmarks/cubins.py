"""
What the kernels take of a GPU, found out without one: Warp brings the compiler, and a compiled kernel says it itself.

A cubin is an ELF file. Its .nv.info sections hold attributes of the kernels: registers of a thread, and bytes of its
stack, which is where registers are spilled to. The size of .nv.shared.* is the shared memory of a block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import warp as wp

from ocular.solver import gpu_kernels
from ocular.solver.devices import tile_width

REGISTER_COUNT, FRAME_SIZE = 0x2F, 0x11  # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE: (symbol, number)
SIZED = 4  # format of an attribute that has a length and a value; others are two bytes
SECTION, SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")


class KernelUse(NamedTuple):
    """What a compiled kernel takes: registers and stack bytes of a thread, shared bytes of a block."""

    kernel: str
    architecture: int  # 80 for sm_80
    registers: int
    shared: int
    stack: int


def compile_kernels(n_coclusters: int, architectures: list[int], folder: Path) -> list[KernelUse]:
    """Compile every kernel of a fit with so many co-clusters; the cubins are in `folder` afterwards."""
    rows = gpu_kernels.row_kernels(tile_width(n_coclusters))
    kernels = (rows.update_rows, rows.sum_inverse_probabilities, gpu_kernels.score_rows, gpu_kernels.sum_columns)
    uses = []
    for module in (kernel.module for kernel in kernels):  # the last one is that of all others too
        paths = wp.compile_aot_module(module, arch=architectures, module_dir=folder, use_ptx=False)
        for architecture, path in zip(architectures, paths, strict=True):
            found = read_cubin(path.read_bytes())
            uses += [KernelUse(_kernel_name(name), architecture, *numbers) for name, *numbers in found]
    return uses


def read_cubin(cubin: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Name, registers, shared bytes and stack bytes of each kernel."""
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, n, names = struct.unpack_from("<HHH", cubin, 0x3A)
    heads = [SECTION.unpack_from(cubin, start + i * size) for i in range(n)]
    sections = {_text(cubin, heads[names][4] + head[0]): head for head in heads}
    strings, (_, _, _, _, symbols, symbols_size, *_) = sections[".strtab"], sections[".symtab"]
    symbol_names = [
        _text(cubin, strings[4] + SYMBOL.unpack_from(cubin, at)[0])
        for at in range(symbols, symbols + symbols_size, SYMBOL.size)
    ]
    info = list(_attributes(cubin, *sections[".nv.info"][4:6]))
    stacks = [number for kind, _, number in info if kind == FRAME_SIZE]
    for kind, symbol, registers in info:
        name = symbol_names[symbol]
        if kind == REGISTER_COUNT and f".text.{name}" in sections:
            shared = sections.get(f".nv.shared.{name}")
            yield name, registers, shared[5] if shared else 0, max(stacks)


def _kernel_name(symbol: str) -> str:
    """As it is called in gpu_kernels.py; Warp adds where it was defined, a hash and what it is."""
    return symbol.removeprefix("row_kernels__locals__").partition("_cuda_kernel")[0].rpartition("_")[0]


def _attributes(cubin: bytes, at: int, size: int) -> Iterator[tuple[int, int, int]]:
    """(kind, symbol, number) of those that have a symbol and a number."""
    end = at + size
    while at < end:
        form, kind, length = struct.unpack_from("<BBH", cubin, at)
        if form == SIZED and length == 8:
            yield kind, *struct.unpack_from("<II", cubin, at + 4)
        at += 4 + (length if form == SIZED else 0)


def _text(cubin: bytes, at: int) -> str:
    return cubin[at : cubin.index(0, at)].decode()
