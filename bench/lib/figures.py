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

    def rows(self, figures, name, *cells):
        """One for each of the figures; `name` makes its title, each of `cells` a cell."""
        for who, one in figures.items():
            self.row(name(who), *(cell(one) for cell in cells))

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

    def share(self, word, clients):
        return self.median(lambda f: clients * f[word] / f["pairs"])


def by_p50(figures):
    return figures["p50"]


def by_rate(figures):
    return figures["pairs"] / figures["ns"]


def ratio(ours, base, of):
    """The median over the rounds of what each round says: noise is the same within a round."""
    return statistics.median(of(a) / of(b) for a, b in zip(ours.rounds, base.rounds))


def in_turn(subjects, rounds, measure):
    """What `measure` makes of each, and its name. The first round warms up, and is thrown away."""
    collected = {who: [] for who in subjects}
    for turn in range(rounds + 1):
        for who, subject in subjects.items():
            figures = measure(who, subject)
            if turn > 0:
                collected[who].append(figures)
    return {who: Figures(rounds) for who, rounds in collected.items()}


def interleave(workers, rounds, *order):
    return in_turn(workers, rounds, lambda _, worker: worker.order(*order))
