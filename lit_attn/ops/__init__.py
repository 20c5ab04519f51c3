"""Pure formulas. Importing them settles torch's vector math first.

In torch 2.13 on CPUs, the first float32 square root of a process can come out with errors of 1e-3 when it runs in
several threads after a matrix product: the threads race to set up the vector math library. One square root in one thread
beforehand cures it (measured: 6 of 14 processes wrong without, 0 of 12 with it).
"""

import torch

torch.ones(1).sqrt()
