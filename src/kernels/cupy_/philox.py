"""Random bits from a key and a counter, as CUDA source.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011 (Philox4x32 with 10 rounds). The numbers are
not those that NumPy draws on the CPU; the same key and counter give the same ones on every CUDA device.
"""

from __future__ import annotations

import numpy as np

# random_words(key, low, high, step, out): four words at step `step` from the 128-bit counter (low, high).
PHILOX = """
__device__ inline void random_words(
    unsigned long long key, unsigned long long low, unsigned long long high, unsigned long long step, unsigned int *out
) {
  unsigned long long first = low + step, second = high + (first < low ? 1 : 0);
  unsigned int k0 = (unsigned int)key, k1 = (unsigned int)(key >> 32);
  unsigned int c0 = (unsigned int)first, c1 = (unsigned int)(first >> 32);
  unsigned int c2 = (unsigned int)second, c3 = (unsigned int)(second >> 32);
  for (int round = 0; round < 10; ++round) {
    unsigned long long p = 0xD2511F53ULL * c0, q = 0xCD9E8D57ULL * c2;
    c0 = (unsigned int)(q >> 32) ^ c1 ^ k0;
    c1 = (unsigned int)q;
    c2 = (unsigned int)(p >> 32) ^ c3 ^ k1;
    c3 = (unsigned int)p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}
"""

# The parameters of a source that calls it, and the arguments for them.
PARAMETERS = "uint64 key, uint64 low, uint64 high"
_WORD = (1 << 64) - 1


def arguments(key: int, counter: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Key and counter as `PARAMETERS`."""
    return np.uint64(key & _WORD), np.uint64(counter & _WORD), np.uint64(counter >> 64 & _WORD)
