"""The array types of the cluster table: columns, rows and masks over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
"""int64[row]: one number per row of the table, or per node of a view."""
Rows = NDArray[np.int64]
"""int64[...]: row numbers of the table."""
Mask = NDArray[np.bool_]
"""bool[row]: one flag per row of the table, or per node of a view."""
