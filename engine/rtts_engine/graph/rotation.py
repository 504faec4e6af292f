"""Rotating what an int8 product reads, so that a few large values do not cost the others their digits.

Blocks of a row are multiplied with a Hadamard matrix, which spreads a peak over its block, and so are the weight's
rows: the product is the same. (The idea is QuaRot's, arXiv:2404.00456; here only blocks, as a small product at run
time.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

_LARGEST, _SMALLEST = 64, 16


def block_size(width: int) -> int:
    """Values of a row that are rotated together; 0: the width allows none.

    A row has an even number of blocks: ncnn computes the last of an odd number of rows with another kernel, and a row
    would depend on its company by a last bit.
    """
    size = _LARGEST
    while size >= _SMALLEST:
        if width % (2 * size) == 0:
            return size
        size //= 2
    return 0


def hadamard(size: int) -> F32:
    """The orthogonal and symmetric matrix (size, size), a power of two."""
    matrix: F32 = np.full((1, 1), size**-0.5, np.float32)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def rotated(rows: F32) -> F32:
    """Rows (n, width) with every block rotated."""
    size = block_size(rows.shape[1])
    turned: F32 = (rows.reshape(-1, size) @ hadamard(size)).reshape(rows.shape)
    return turned
