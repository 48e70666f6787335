"""Computes the random numbers of kernels/random/counter_random.h: Philox4x32-10 of Salmon et al.
2011."""

import numpy as np

WORD = 0xFFFFFFFF


def philox(key, counters):
    """Returns four words for each counter; `counters`: one array for each of a counter's words."""
    c = [np.asarray(words, dtype=np.uint64) for words in counters]
    mask, half = np.uint64(WORD), np.uint64(32)
    for rounds in range(10):
        k0 = np.uint64((key + 0x9E3779B9 * rounds) & WORD)
        k1 = np.uint64(((key >> 32) + 0xBB67AE85 * rounds) & WORD)
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [p1 >> half ^ c[1] ^ k0, p1 & mask, p0 >> half ^ c[3] ^ k1, p0 & mask]
    return c


def key_of(seed, step, module):
    name = 0xCBF29CE484222325  # FNV-1a
    for byte in module.encode():
        name = (name ^ byte) * 0x100000001B3 % 2**64
    c = philox(seed, ([step & WORD], [step >> 32], [name & WORD], [name >> 32]))
    return int(c[1][0]) << 32 | int(c[0][0])


def uniform(key, identity, width):
    """Returns the [width] numbers of an identity."""
    blocks = np.arange(-(-width // 4), dtype=np.uint64)
    none = np.zeros_like(blocks)
    words = np.stack(philox(key, (blocks, none, none + np.uint64(identity), none)), axis=1)
    return (words.ravel()[:width] >> np.uint64(8)) * 2.0**-24


def initial_uniform(seed, name, width):
    return uniform(key_of(seed, 2**64 - 1, name), 0, width)
