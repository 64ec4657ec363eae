# SPDX-License-Identifier: Apache-2.0
"""Figures of several rounds, their ratios, and the table that is printed of them."""

import statistics


class Table:
    """Prints rows as they come, and in the end which aims are missed."""

    def __init__(self):
        self.missed, self.met = [], 0
        self.where = ""  # what all aims from now on begin with

    @staticmethod
    def head(title, *columns):
        print(f"\n{title:44}" + "".join(f"{column:>16}" for column in columns), flush=True)

    @staticmethod
    def row(title, *cells):
        print(f"  {title:42}" + "".join(f"{cell:>16}" for cell in cells), flush=True)

    def aim(self, what, figure, limit, at_most=True):
        what = self.where + what
        met = figure <= limit if at_most else figure >= limit
        wanted = f"at {'most' if at_most else 'least'} {limit:g}"
        print(f"  -> {what:50} {figure:8.2f}   {wanted:14} {'met' if met else 'NOT MET'}",
              flush=True)
        self.met += met
        if not met:
            self.missed.append(what)

    def end(self):
        print(f"\n{self.met} aims met, {len(self.missed)} missed"
              + "".join(f"\n  missed: {what}" for what in self.missed))


class Figures:
    """What came out of the rounds, for one way to lock."""

    def __init__(self, rounds):
        self.rounds = rounds

    def median(self, of):
        return statistics.median(of(figures) for figures in self.rounds)

    def us(self):
        return self.median(lambda f: f["p50"]) / 1000

    def rate(self):
        return self.median(lambda f: f["pairs"] / f["ns"]) * 1e9

    def per_pair(self, whose):
        return self.median(lambda f: f[whose] / f["pairs"]) / 1000


def ratio(ours, base, of):
    """The median over the rounds of what each round says: noise is the same within a round."""
    return statistics.median(of(a) / of(b) for a, b in zip(ours.rounds, base.rounds))


def interleave(workers, rounds, *order):
    """The first round warms up, and is thrown away."""
    collected = {who: [] for who in workers}
    for turn in range(rounds + 1):
        for who, worker in workers.items():
            figures = worker.order(*order)
            if turn > 0:
                collected[who].append(figures)
    return {who: Figures(rounds) for who, rounds in collected.items()}
