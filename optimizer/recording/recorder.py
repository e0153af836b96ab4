"""Operators side by side: workers record, this process writes down what comes back."""

from __future__ import annotations

import multiprocessing
import queue
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.simulation.tables import OperatorTable, Tables, operator_json, operator_of, save_tables
from optimizer.recording.work import Skipped, Wanted, record_operator

SAVE_EVERY_S = 2.0
NOTHING_S = 0.2  # how long to wait for news before looking at the workers again


@dataclass(frozen=True)
class Task:
    """One operator for one worker, with the share of the time that it may take."""

    path: str
    known: dict[str, Any] | None


class Recorder:
    """Hands operators to workers and writes down what comes back."""

    def __init__(self, tables: Tables, out: Path, wanted: Wanted, jobs: int, budget_s: float) -> None:
        self.tables = tables
        self.out = out
        self.wanted = wanted
        self.jobs = max(jobs, 1)
        self.deadline = time.time() + budget_s
        self.saved_at = 0.0

    def run(self, paths: Sequence[Path]) -> int:
        """Operators with the fewest outcomes first. Each gets an equal share of the time that is left."""
        due = [path for path in paths if self.count(path.stem) < self.wanted.plans]
        due.sort(key=lambda path: self.count(path.stem))
        context = multiprocessing.get_context("spawn")
        news: Any = context.Queue()
        workers: dict[str, Any] = {}
        while (due and time.time() < self.deadline) or workers:
            while due and len(workers) < self.jobs and time.time() < self.deadline:
                path = due.pop(0)
                left = len(due) + 1 + len(workers)
                share = (self.deadline - time.time()) * min(self.jobs, left) / left
                workers[path.stem] = self.start(context, news, path, share)
            self.listen(news)
            for name in [name for name, worker in workers.items() if not worker.is_alive()]:
                workers.pop(name).join()
        while self.listen(news):
            pass
        save_tables(self.tables, self.out)
        bare = [path.stem for path in paths if not self.count(path.stem)]
        print(f"{len(paths) - len(bare)} of {len(paths)} operators in {self.out}; none for: {bare or 'none'}")
        return 0 if not bare else 1

    def count(self, name: str) -> int:
        table = self.tables.operators.get(name)
        return len(table.plans) if table else 0

    def start(self, context: Any, news: Any, path: Path, share: float) -> Any:
        known = self.tables.operators.get(path.stem)
        task = Task(str(path), operator_json(known) if known else None)
        worker = context.Process(target=work, args=(task, self.wanted, share, news), name=path.stem)
        worker.start()
        return worker

    def listen(self, news: Any) -> bool:
        """Take one message in; False where there was none for a moment."""
        try:
            kind, name, body = news.get(timeout=NOTHING_S)
        except queue.Empty:
            return False
        if kind == "table":
            table = operator_of(body["table"])
            self.tables.operators[name] = table
            self.tables.device = body["device"]
            self.tables.versions = body["versions"]
            last = time.time() - self.saved_at
            print(f"{name}: {len(table.plans)} plans, best {table.best_speedup():.2f}x", flush=True)
            if last > SAVE_EVERY_S:
                save_tables(self.tables, self.out)
                self.saved_at = time.time()
        else:
            print(f"{name}: {body}", file=sys.stderr, flush=True)
        return True


def work(task: Task, wanted: Wanted, share: float, news: Any) -> None:
    """One worker's life: one operator."""
    path = Path(task.path)

    def report(table: OperatorTable, device: dict[str, Any], versions: dict[str, str]) -> None:
        body = {"table": operator_json(table), "device": device, "versions": versions}
        news.put(("table", path.stem, body))

    known = operator_of(task.known) if task.known else None
    try:
        record_operator(path, known, wanted, time.monotonic() + share, report)
    except Skipped as error:
        news.put(("skipped", path.stem, str(error)))
    except Exception as error:
        news.put(("failed", path.stem, f"{type(error).__name__}: {error}"))
    news.close()
    news.join_thread()
