"""Writes run.tfevents, an event file, with TensorBoard's own messages and writer.

    pip install tensorboard==2.21.0; python tests/golden/events/make.py
"""

import pathlib

import numpy as np
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

Value = summary_pb2.Summary.Value


def scalars():
    numbers = {"train/loss": 2.302585092994046, "train/learning_rate": 1e-05, "train/epoch": 0.0}
    return [Value(tag=tag, simple_value=number) for tag, number in numbers.items()]


def histogram():
    """Buckets as numpy computes them. (Moonring's are closed on the right; no length is on a
    border.)"""
    lengths = np.array([3, 5, 8, 14, 21, 34, 55, 89, 200, 303], dtype=float)
    counts, edges = np.histogram(lengths, bins=30)
    return Value(
        tag="data/document_lengths",
        histo=summary_pb2.HistogramProto(
            min=lengths.min(),
            max=lengths.max(),
            num=len(lengths),
            sum=lengths.sum(),
            sum_squares=(lengths**2).sum(),
            bucket_limit=edges[1:],
            bucket=counts,
        ),
    )


def text():
    plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
    tensor = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING, string_val=["Ω is *the* answer".encode()]
    )
    tensor.tensor_shape.dim.add(size=1)
    return Value(
        tag="sample/text_summary",
        metadata=summary_pb2.SummaryMetadata(plugin_data=plugin),
        tensor=tensor,
    )


def hparams(tag, **content):
    data = plugin_data_pb2.HParamsPluginData(**content).SerializeToString(deterministic=True)
    plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="hparams", content=data)
    return Value(tag=tag, metadata=summary_pb2.SummaryMetadata(plugin_data=plugin))


def experiment(seconds):
    types = {
        "bf16": api_pb2.DATA_TYPE_BOOL,
        "learning_rate": api_pb2.DATA_TYPE_FLOAT64,
        "stage": api_pb2.DATA_TYPE_STRING,
    }
    infos = [api_pb2.HParamInfo(name=name, type=kind) for name, kind in types.items()]
    metrics = [
        api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in ("train/loss", "eval/loss")
    ]
    found = api_pb2.Experiment(time_created_secs=seconds, hparam_infos=infos, metric_infos=metrics)
    return hparams("_hparams_/experiment", experiment=found)


def session_start(seconds):
    start = plugin_data_pb2.SessionStartInfo(start_time_secs=seconds)
    start.hparams["bf16"].bool_value = True
    start.hparams["learning_rate"].number_value = 1e-05
    start.hparams["stage"].string_value = "sft"
    return hparams("_hparams_/session_start_info", session_start_info=start)


def session_end(seconds):
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=seconds)
    return hparams("_hparams_/session_end_info", session_end_info=end)


def main():
    def event(seconds, step=0, values=None, **more):
        if values is not None:
            more["summary"] = summary_pb2.Summary(value=values)
        return event_pb2.Event(wall_time=seconds, step=step, **more)

    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    events = [
        event(1700000000.5, file_version="brain.Event:2"),
        event(1700000001.25, 3, session_log=start),
        event(1700000002.0, 0, [experiment(1700000002.0)]),
        event(1700000002.0, 0, [session_start(1700000002.0)]),
        event(1700000003.0, 0, [histogram()]),
        event(1700000003.5, 2, [text()]),
        event(1700000004.0, 300, scalars()),
        event(1700000005.0, 300, [session_end(1700000005.0)]),
    ]
    with open(pathlib.Path(__file__).parent / "run.tfevents", "wb") as file:
        writer = RecordWriter(file)
        for each in events:
            writer.write(each.SerializeToString(deterministic=True))


main()
