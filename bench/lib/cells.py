# SPDX-License-Identifier: Apache-2.0
"""Cells of a table: each function makes one, which prints something of the Figures it is given."""

from figures import ratio


def microseconds(word, decimals=0):
    """Of a figure in nanoseconds: "p50", "p99" or "max"."""
    return lambda one: f"{one.median(lambda f: f[word]) / 1000:.{decimals}f}"


def rate():
    return lambda one: f"{one.rate():.0f}"


def times(base, of, decimals=2):
    """How many times that of `base` it is."""
    return lambda one: f"{ratio(one, base, of):.{decimals}f}"


def per_pair(whose, decimals=1):
    """The processor time, in microseconds, that a lock and unlock takes of client or server."""
    return lambda one: f"{one.per_pair(whose + '_ns'):.{decimals}f}"


def share(word, clients):
    """What a client has of all locks, where 1 is even; "min" or "max" is the client's."""
    return lambda one: f"{one.share(word, clients):.2f}"
