"""The result table of a call: rows of each check, written to files after each one, so that a call
that is stopped keeps its rows.

check | T | got | expected | % of ceiling | peak / plan | verdict | s | remark
"""

import dataclasses
import json
import math
import os
import threading
import time

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
LATE = "LATE"  # no time was left for it
HEADERS = ("check", "T", "got", "expected", "% of ceiling", "peak / plan", "verdict", "s", "remark")


@dataclasses.dataclass
class Row:
    check: str
    verdict: str
    tokens: int = None
    got: str = ""
    wanted: str = ""
    ceiling: float = None  # fraction of the ceiling, 0 to 1
    peak: float = None  # peak bytes divided by the predicted bytes
    remark: str = ""
    seconds: float = None  # since the check's previous row, or its start
    of: str = ""  # the check's name
    diagnosis: list = dataclasses.field(default_factory=list)  # lines about a failed row

    def cells(self):
        tokens = "" if self.tokens is None else f"{self.tokens:,}"
        ceiling = "" if self.ceiling is None else f"{100 * self.ceiling:.1f}"
        peak = "" if self.peak is None else f"{self.peak:.3f}"
        return [
            self.check,
            tokens,
            self.got,
            self.wanted,
            ceiling,
            peak,
            self.verdict,
            f"{self.seconds:.1f}",
            self.remark,
        ]


def is_number(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def at_most(check, got, bound, remark="", show="{:.2e}", **more):
    """Returns a row that passes if a number is at most its bound; NaN fails."""
    good = is_number(got) and is_number(bound) and got <= bound
    shown = show.format(got) if is_number(got) else str(got)
    return Row(
        check,
        PASS if good else FAIL,
        got=shown,
        wanted=(
            "<= " + show.format(bound)
            if is_number(bound)
            else f"a bound that is a number, not {bound}"
        ),
        remark=remark,
        **more,
    )


def skipped(check, why, **more):
    return Row(check, SKIP, remark=why, **more)


class Table:
    def __init__(self, folder, name, title, order):
        """`order`: the names of all checks."""
        self.rows, self.title, self.order = [], title, list(order)
        self.lock, self.since = threading.Lock(), {}
        self.text_path, self.json_path = (
            os.path.join(folder, name + ".md"),
            os.path.join(folder, name + ".json"),
        )
        self.write()

    def keep(self, rows, without):
        """Copies the rows of an earlier call, except those of checks that run again."""
        again = {check.name for check in without}
        self.rows = [Row(**row) for row in rows if row["of"] not in again]
        self.write()

    def begin(self, check):
        self.since[check] = time.monotonic()

    def add(self, check, row):
        now = time.monotonic()
        row.of = check
        row.seconds, self.since[check] = now - self.since.get(check, now), now
        row.remark = " ".join(row.remark.split())[:300]
        with self.lock:
            self.rows.append(row)
            self.rows.sort(key=lambda each: self.order.index(each.of))  # a stable sort
            self.write()
            print(
                f"{row.verdict}  {row.check}  {row.got}"
                f"{'  expected ' + row.wanted if row.wanted else ''}"
                f"{'  ' + row.remark if row.remark else ''}",
                flush=True,
            )

    def count(self, verdict):
        return sum(row.verdict == verdict for row in self.rows)

    def text(self):
        lines = [list(HEADERS)] + [
            [cell.replace("|", "/") for cell in row.cells()] for row in self.rows
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(len(HEADERS))]
        shown = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
            for line in lines
        ]
        shown.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([self.title, "", *self.summary(), "", *shown, "", *self.diagnoses()])

    def diagnoses(self):
        lines = []
        for row in self.rows:
            if row.diagnosis:
                lines += [f"## {row.check}", "", *(f"    {line}" for line in row.diagnosis), ""]
        return lines

    def summary(self):
        """Returns the checks that passed, failed, and were not reached."""
        failed = [row.check for row in self.rows if row.verdict == FAIL]
        late = [row.check for row in self.rows if row.verdict == LATE]
        return [
            f"{self.count(PASS)} passed, {len(failed)} failed, {self.count(SKIP)} skipped, "
            f"{len(late)} not reached",
            "failed: " + (", ".join(failed) or "none"),
            "not reached: " + (", ".join(late) or "none"),
        ]

    def write(self):
        whole = {"title": self.title, "rows": [dataclasses.asdict(row) for row in self.rows]}
        for path, text in (
            (self.text_path, self.text()),
            (self.json_path, json.dumps(whole, indent=1) + "\n"),
        ):
            with open(path + ".new", "w", encoding="utf-8") as f:
                f.write(text)
            os.replace(path + ".new", path)
