"""Writes rows of data/ as files of other kinds: csv, txt, parquet, arrow, and gzip under a plain
name.

make_files.py
"""

import csv
import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def read(name):
    with open(os.path.join(DATA, name)) as f:
        return json.load(f) if name.endswith(".json") else [json.loads(line) for line in f]


def path(name):
    return os.path.join(DATA, name)


def main():
    judged = read("judged_alpaca.json")
    with open(path("judged.csv"), "w", newline="") as f:
        writer = csv.DictWriter(
            f,
            ["instruction", "input", "output", "good"],
            extrasaction="ignore",
            lineterminator="\r\n",
        )
        writer.writeheader()
        writer.writerows(judged)
    with open(path("texts.txt"), "w") as f:
        f.write("\n".join(row["text"] or "" for row in read("texts.jsonl")))
    pq.write_table(
        pa.Table.from_pylist(read("renamed.jsonl")), path("renamed.parquet"), row_group_size=4
    )
    table = pa.Table.from_pylist(read("chats.jsonl"))
    with pa.ipc.new_stream(path("chats.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    with open(path("long.jsonl"), "rb") as f, open(path("long_gzip.jsonl"), "wb") as out:
        out.write(gzip.compress(f.read(), mtime=0))


if __name__ == "__main__":
    main()
