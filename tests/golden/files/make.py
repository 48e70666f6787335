"""data/: one small file of each kind; rows.json: {file: its rows as datasets 4.0.0 reads them}.

    make.py

datasets needs another package to read .zst files, so their rows are those of the same text
uncompressed.
"""

import gzip
import json
import os
import shutil
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import load_dataset

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")

QUOTES = '''question,answer,note
plain,text,x
"a, comma","a ""quote""","two
lines"
5" disk,"closed" and on,a"b"c
 blanks ,	tab,  "no quote"

   
short
short,too
é ü 漢字,"",🙂
NA,None,nan
"null",N/A,#N/A
none,na,Null
,,
"last","row","ends with the file"'''
JSONL = '{"a": "one", "b": [1, 2]}\n{"a": "two é", "b": []}\n{"a": null, "b": [3]}\n'
TEXT = "one\ntwo words\r\n\n  \nold mac\rpage\x0cfeed\x0bvertical\u2028separator\n\r\ntab\tlast"


def nested():
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    talks = [
        [
            {"role": "user", "content": f"q{i}"},
            {"role": "assistant", "content": None if i == 3 else f"a {i} é"},
        ]
        for i in range(7)
    ]
    talks[5], talks[6] = [], None
    return pa.table(
        {
            "text": pa.array(["a", "", None, "dé", "e\nf", "g", "h"]),
            "large": pa.array([f"large {i}" for i in range(7)], pa.large_string()),
            "messages": pa.array(talks, pa.list_(message)),
            "large_list": pa.array([[i, i + 1] for i in range(7)], pa.large_list(pa.int64())),
            "pair": pa.array([[0.5, i] for i in range(7)], pa.list_(pa.float64(), 2)),
            "flag": pa.array([True, False, None, True, True, False, False]),
            "small": pa.array([-1, 2, None, 4, 5, 6, 127], pa.int8()),
            "big": pa.array([2**63 + i for i in range(7)], pa.uint64()),
            "number": pa.array([0.25, None, 2, 3, 4, 5, -6.5], pa.float32()),
            "one": pa.array(
                [{"x": i, "y": None} for i in range(7)],
                pa.struct([("x", pa.int32()), ("y", pa.string())]),
            ),
            "nothing": pa.nulls(7),
        }
    )


def write(name, data):
    with open(os.path.join(DATA, name), "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def compressed(kind, text):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(text.encode())
    return sink.getvalue().to_pybytes()


def arrow(table, open_writer, **options):
    sink = pa.BufferOutputStream()
    with open_writer(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=3)
    return sink.getvalue().to_pybytes()


def main():
    os.makedirs(DATA, exist_ok=True)
    write("quotes.csv", QUOTES)
    write("crlf_bom.csv", '\ufeffa,b\r\n1st,"x\r\ny"\r\n\r\n2nd,z\r\n')
    write("cr.csv", "a,b\rone,two\rthree,four")
    write("names.csv", ",a,a,a.1,\nr,s,t,u,v\n")
    write("lines.txt", TEXT)
    write("plain.jsonl", JSONL)
    write(
        "plain.jsonl.gz",
        gzip.compress(JSONL[:30].encode(), mtime=0) + gzip.compress(JSONL[30:].encode(), mtime=0),
    )
    write("hidden.jsonl", gzip.compress(JSONL.encode(), mtime=0))
    write("quotes.csv.gz", gzip.compress(QUOTES.encode(), mtime=0))
    write("plain.jsonl.zst", compressed("zstd", JSONL[:30]) + compressed("zstd", JSONL[30:]))
    write("lines.txt.zst", compressed("zstd", TEXT))
    table = nested()
    pq.write_table(
        table, os.path.join(DATA, "nested.parquet"), row_group_size=3, compression="zstd"
    )
    pq.write_table(
        table.select(["text", "large"]),
        os.path.join(DATA, "flat.parquet"),
        row_group_size=2,
        compression="snappy",
        use_dictionary=True,
    )
    write("stream.arrow", arrow(table, pa.ipc.new_stream, compression="lz4"))
    write("file.arrow", arrow(table, pa.ipc.new_file))

    kinds = {
        ".csv": "csv",
        ".txt": "text",
        ".jsonl": "json",
        ".parquet": "parquet",
        ".arrow": "arrow",
    }
    cache = tempfile.mkdtemp()
    rows = {}
    for name in sorted(os.listdir(DATA)):
        plain = name.removesuffix(".zst")
        kind = kinds[os.path.splitext(name.removesuffix(".gz").removesuffix(".zst"))[1]]
        rows[name] = load_dataset(
            kind, data_files=[os.path.join(DATA, plain)], split="train", cache_dir=cache
        ).to_list()
    shutil.rmtree(cache)
    with open(os.path.join(HERE, "rows.json"), "w") as f:
        f.write(
            "{\n"
            + ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in rows.items())
            + "\n}\n"
        )


if __name__ == "__main__":
    main()
