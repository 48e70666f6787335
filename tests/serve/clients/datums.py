"""Datums of random tokens, the same for the same seed."""

import numpy as np
import tinker


def tokens(seed: int, length: int, vocabulary: int) -> list[int]:
    return np.random.RandomState(seed).randint(3, vocabulary, size=length).tolist()


def datum(ids: list[int], **inputs) -> tinker.Datum:
    """Inputs are all tokens but the last, targets are all but the first; weights are 1 unless
    `inputs` has some."""
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(ids[:-1]),
        loss_fn_inputs={"target_tokens": np.array(ids[1:], np.int64)}
        | {name: np.asarray(value, np.float32) for name, value in inputs.items()},
    )


def unweighted(ids: list[int]) -> tinker.Datum:
    """A datum without weights: the server takes 1."""
    return datum(ids)


def answers(seed: int, count: int, length: int, vocabulary: int) -> list[tinker.Datum]:
    """`count` documents of different lengths, of which the first third is a prompt (weight 0)."""
    made = []
    for index in range(count):
        ids = tokens(1000 * seed + index, length + 5 * index, vocabulary)
        prompt = len(ids) // 3
        made.append(datum(ids, weights=[0.0] * prompt + [1.0] * (len(ids) - 1 - prompt)))
    return made


def log_probs(output) -> list[np.ndarray]:
    """The log-probs of each datum, from the output of forward or forward_backward."""
    made = []
    for one in output.loss_fn_outputs:
        data = one["logprobs"]
        made.append(np.asarray(data.data, np.float64).reshape(data.shape or [-1]))
    return made


def flat(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.reshape(-1) for array in arrays])
