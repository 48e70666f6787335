"""Writes Arrow and Parquet files of some hundred bytes whose rows refer to much more data, and
each_kind.arrow, which has a small row of each kind of reference.

    make.py
"""

import os

import pyarrow as pa
import pyarrow.parquet as pq

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = pa.array(["a" * 1_000_000])
MANY = 100_000


def int32(*numbers):
    return pa.array(numbers, pa.int32())


def of_nulls(count):
    return pa.Array.from_buffers(pa.null(), count, [None])


def write(name, **columns):
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(os.path.join(HERE, name), "wb") as file:
        with pa.ipc.new_stream(file, batch.schema, options=options) as writer:
            writer.write_batch(batch)


def one_list(values):
    return pa.ListArray.from_arrays(int32(0, len(values)), values)


def main():
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0] * MANY, pa.int8()), TEXT)
    runs = pa.RunEndEncodedArray.from_arrays(int32(MANY), TEXT)
    views = pa.ListViewArray.from_arrays(int32(*[0] * 1000), int32(*[1] * 1000), TEXT)
    views = pa.ListViewArray.from_arrays(int32(0), int32(1000), views)
    write("dictionary.arrow", x=one_list(dictionary))
    write("runs.arrow", x=one_list(runs))
    write("views.arrow", x=views)
    write("union.arrow", x=pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [one_list(runs)]))
    write("nulls.arrow", x=one_list(of_nulls(2**31 - 1)))
    write("rows.arrow", x=of_nulls(2**31 - 1))
    pq.write_table(pa.table({"x": one_list(of_nulls(2**28))}), os.path.join(HERE, "nulls.parquet"))
    kinds = pa.array([0, 1], pa.int8())
    children = [pa.array(["a", "b"]), pa.array([1, 2])]
    write(
        "each_kind.arrow",
        runs=pa.RunEndEncodedArray.from_arrays(int32(1, 2), pa.array(["a", None])),
        views=pa.ListViewArray.from_arrays(int32(1, 0), int32(1, 2), pa.array(["a", "b"])),
        sparse=pa.UnionArray.from_sparse(kinds, children),
        dense=pa.UnionArray.from_dense(kinds, int32(1, 0), children),
    )


if __name__ == "__main__":
    main()
