#!/usr/bin/env python3
"""Records messages as the Tinker SDK's own protobuf classes write them.

For messages_test.cc and the corpus of tests/fuzz/loss_request_fuzz.cc. Needs `pip install protobuf`
and an unpacked wheel of tinker 0.38.0:

    PYTHONPATH=WHEEL_FOLDER record_messages.py tests/fuzz/corpus/loss_request recorded
"""

import importlib.util
import os
import struct
import sys


def classes():
    """Returns the SDK's module of message classes, without the SDK around it."""
    name = "tinker/proto/tinker_public_pb2.py"
    path = next(
        os.path.join(folder, name)
        for folder in sys.path
        if os.path.exists(os.path.join(folder, name))
    )
    spec = importlib.util.spec_from_file_location("messages", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(kind: str, values) -> bytes:
    return struct.pack("<%d%s" % (len(values), kind), *values)


def dense(pb, kind: str, dtype: int, shape, values):
    return pb.Tensor(dense=numbers(kind, values), dtype=dtype, shape=shape)


def dense_request(pb):
    """Two datums: one of two chunks, whose candidates are [3, 2]; one of one token."""
    first = pb.Datum(
        model_input=[chunk(pb, [5, 6]), chunk(pb, [7])],
        loss_fn_inputs={
            "target_tokens": dense(pb, "q", 2, [3, 2], [6, 1, 7, 2, 8, 3]),
            "weights": dense(pb, "f", 1, [3, 2], [0.0, 1.0, -1.5, 0.25, 1e-3, 2.0]),
        },
    )
    second = pb.Datum(
        model_input=[chunk(pb, [2**31 - 1])],
        loss_fn_inputs={
            "target_tokens": dense(pb, "i", 3, [1], [9]),
            "weights": dense(pb, "H", 4, [1], [0x3FC0]),  # bfloat16 of 1.5
        },
    )
    return pb.ForwardBackwardRequest(
        model_id="session:train:0",
        seq_id=2,
        data=[first, second],
        loss_fn="ppo",
        loss_fn_config={"clip_low_threshold": 0.5},
        loss_fn_config_v2={
            "clip_low_threshold": pb.LossConfigValue(number=0.8),
            "mode": pb.LossConfigValue(text="exact"),
        },
        forward_only=True,
    )


def sparse_request(pb):
    """[[0, 4, 0], [0, 0, 0], [5, 0, 6]] as CSR."""
    rows, columns = numbers("q", [0, 1, 1, 3]), numbers("q", [1, 0, 2])
    targets = pb.Tensor(dtype=2, shape=[3, 3])
    targets.sparse_csr.values = numbers("q", [4, 5, 6])
    weights = pb.Tensor(dtype=1, shape=[3, 3])
    weights.sparse_csr.values = numbers("f", [0.5, 0.25, 0.125])
    for tensor in (targets, weights):
        tensor.sparse_csr.crow_indices, tensor.sparse_csr.col_indices = rows, columns
    return pb.ForwardBackwardRequest(
        model_id="a:train:1",
        seq_id=1,
        data=[
            pb.Datum(
                model_input=[chunk(pb, [1, 2, 3])],
                loss_fn_inputs={"target_tokens": targets, "weights": weights},
            )
        ],
        loss_fn="cross_entropy",
        loss_fn_config={"beta": 0.05},
    )


def picture_request(pb):
    chunks = [pb.Chunk(image=pb.ImageChunk(data=b"\x89PNG", format="png"))]
    return pb.ForwardBackwardRequest(
        model_id="a:train:1", seq_id=3, data=[pb.Datum(model_input=chunks)], loss_fn="cross_entropy"
    )


def chunk(pb, tokens):
    text = pb.EncodedTextChunk(tokens=numbers("i", tokens))
    return pb.Chunk(encoded_text=text)


def loss_result(pb):
    """Two datums of [2] and [1], then one of [2, 3]."""
    metrics = {"loss:sum": 21.5, "ratio_error:max": 0.0}
    result = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", metrics=metrics)
    for offsets, trailing, values in (
        ([0, 8, 12], [], [-0.5, -1.25, -3.0]),
        ([0, 24], [3], [-1.0, -2.0, -3.0, -4.0, -5.0, 0.0]),
    ):
        record = result.loss_fn_outputs.add(type_tag="ArrayRecord", num_datums=len(offsets) - 1)
        batched = record.fields["logprobs"]
        batched.data, batched.offsets = numbers("f", values), numbers("q", offsets)
        batched.dtype = 1
        batched.trailing_shape.extend(trailing)
    return result


def sample_result(pb):
    """Two sequences, the second one cut off; top tokens of both and of the prompt."""
    nan, none = float("nan"), -99999.0
    result = pb.SampleResponse(
        prompt_logprobs=numbers("f", [nan, -0.5, -0.25]), prompt_cache_hit_tokens=2
    )
    result.sequences.add(
        stop_reason=0,
        tokens=numbers("i", [5, 2]),
        logprobs=numbers("f", [-0.5, -2.0]),
        topk_sampled_logprobs=top(pb, 2, [5, 7, 2, 0], [-0.5, -1.5, -2.0, none]),
    )
    result.sequences.add(stop_reason=1, tokens=numbers("i", [7]), logprobs=numbers("f", [-1.5]))
    result.topk_prompt_logprobs.CopyFrom(top(pb, 1, [0, 6, 7], [none, -0.5, -0.25]))
    result.target_prompt_logprobs.CopyFrom(dense(pb, "f", 1, [2, 1], [-0.5, -0.25]))
    result.prompt_alt_tokens.tokens.CopyFrom(dense(pb, "q", 2, [2], [8, 9]))
    result.prompt_alt_tokens.logprobs.CopyFrom(dense(pb, "f", 1, [2], [-3.0, -4.0]))
    return result


def top(pb, k: int, ids, scores):
    return pb.TopkLogprobs(
        token_ids=numbers("i", ids), logprobs=numbers("f", scores), k=k, length=len(ids) // k
    )


def main() -> None:
    pb = classes()
    requests = {"dense": dense_request, "sparse": sparse_request, "picture": picture_request}
    results = {"loss_result": loss_result, "sample_result": sample_result}
    for folder, makers in zip(sys.argv[1:3], (requests, results)):
        os.makedirs(folder, exist_ok=True)
        for name, make in makers.items():
            with open(os.path.join(folder, name + ".bin"), "wb") as file:
                file.write(make(pb).SerializeToString(deterministic=True))


main()
