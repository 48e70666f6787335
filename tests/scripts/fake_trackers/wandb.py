import uuid

from recorder import recorder

record = recorder("wandb")


class Settings:
    def __init__(self, **named):
        self.named = named


class Table:
    def __init__(self, columns, data):
        self.columns, self.data = columns, data


class Histogram:
    def __init__(self, np_histogram):
        self.counts, self.edges = np_histogram


class Summary:
    def __setitem__(self, name, value):
        record("summary", name, value)


class Run:
    url, dir, offline = "its page", "its folder", False
    summary = Summary()

    def __init__(self, run_id):
        self.id = run_id

    def define_metric(self, *arguments, **named):
        record("define_metric", *arguments, **named)

    def log(self, values):
        record("log", values)

    def finish(self, exit_code):
        record("finish", exit_code)


def init(**named):
    record("init", **named)
    return Run(named["id"] or uuid.uuid4().hex)
