"""moonring.Model: a model that is used, not trained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from moonring import _tensors, errors
from moonring._configuration import words_of
from moonring._runtime import Path, Runtime, text_bytes

_SCRIPT = """
local model = require "moonring.run.embedded_model"
for name, call in pairs(model) do _G["model_" .. name] = call end
"""


def _is_flat(ids: Sequence[Any]) -> bool:
    """Whether a non-empty list has ids, not lists of ids."""
    first = ids[0]
    return not getattr(first, "ndim", 0) and hasattr(first, "__index__")


def _sampling(
    max_new_tokens: int,
    temperature: float,
    top_p: float,
    top_k: int,
    repetition_penalty: float,
    seed: int,
) -> dict[str, Any]:
    for name, value, wanted, fits in (
        ("max_new_tokens", max_new_tokens, "1 or more", max_new_tokens >= 1),
        ("temperature", temperature, "0 (greedy) or more", temperature >= 0),
        ("top_p", top_p, "more than 0 and at most 1", 0 < top_p <= 1),
        ("top_k", top_k, "0 (all tokens) or more", top_k >= 0),
        ("repetition_penalty", repetition_penalty, "more than 0", repetition_penalty > 0),
        ("seed", seed, "0 to 2**53 - 1", 0 <= seed < 2**53),
    ):
        if not fits:
            raise errors.InvalidArgument(f"{name}: expected {wanted}, got {value!r}")
    return {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
    }


class Model:
    """A model on this machine's GPU, or its CPU: log-probs, completions and answers.

    path: a Hugging Face folder, a .gguf file, an adapter's folder, a name on a hub,
        builtin:smollm2, or a LLaMA-Factory YAML for inference.
    device, threads, on_log: as in Runtime.
    keys: keys of a configuration that apply to a model that is not trained: adapter_name_or_path,
        template, default_system, enable_thinking, bf16, pure_bf16, fp64, quantization_bit,
        rope_scaling, micro_batch_tokens (tokens of a forward in log_probs; default 8192), ...;
        others are refused. Computation is fp32 by default.

    A Model makes one call at a time; a call from another thread waits. Ctrl-C ends a call, and the
    model can be used again. close(), or `with`, frees its memory.

    Errors: NotFound, InvalidArgument; Error for an architecture that is not supported.
    """

    def __init__(
        self,
        path: Path,
        *,
        device: str | None = None,
        threads: int = 0,
        on_log: Callable[[str], Any] | None = None,
        **keys: Any,
    ) -> None:
        self._path = text_bytes(path, "path").decode(errors="surrogateescape")
        words = words_of(keys)
        self._runtime = Runtime(device=device, threads=threads, on_log=on_log)
        try:
            self._runtime.run_string(_SCRIPT, name="moonring.Model")
            opened = self._runtime.call("model_open", {"path": self._path, "words": words})
        except BaseException:
            self._runtime.close()
            raise
        self._folder, self._vocab_size = opened["path"], opened["vocab_size"]
        self._max_length = opened["max_length"]

    @property
    def path(self) -> str:
        """The folder or file from which the model was loaded."""
        return self._folder

    @property
    def vocab_size(self) -> int:
        """Number of rows of the embedding: token ids are from 0 to vocab_size - 1."""
        return self._vocab_size

    @property
    def max_length(self) -> int:
        """max_position_embeddings of the model: tokens of the longest document."""
        return self._max_length

    def __repr__(self) -> str:
        return f"moonring.Model({self._path!r})"

    def close(self) -> None:
        """Frees the model. Later calls are errors."""
        self._runtime.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # Log-probs ---------------------------------------------------------------------------------

    def log_probs(self, ids: Any) -> Any:
        """Natural logarithms of the probability of each token given the earlier ones of its
        document.

        The first token of a document has no value: n tokens have n - 1 values, value i being that
        of token i + 1. Documents do not attend to each other. They are computed as a packed stream,
        without padding; the result does not depend on the other documents of the batch but for
        rounding. Not differentiable.

        ids -> result:
            a list of n token ids -> a list of n - 1 floats
            a list of lists, of any lengths -> a list of lists
            an integer tensor or array with __dlpack__, [T] or [B, T] -> a tensor [T - 1] or
                [B, T - 1] on its device, fp32 (fp64 with the key fp64): a torch.Tensor for a
                torch.Tensor, otherwise a moonring.Tensor, which has __dlpack__ and tolist(). Every
                row is a whole document: there is no padding id.

        Errors: InvalidArgument for an id that the model does not have; TypeError, ValueError.
        """
        if _tensors.is_tensor(ids):
            return self._log_probs_of_tensor(ids)
        if isinstance(ids, (str, bytes)):
            raise TypeError("ids: expected token ids, got text; model.tokenize(text) gives its ids")
        batch = list(ids)
        if not batch:
            return []
        flat = _is_flat(batch)
        rows = (
            [_tensors.integers(batch, "ids")]
            if flat
            else [_tensors.integers(row, f"ids[{i}]") for i, row in enumerate(_rows(batch))]
        )
        given = {"lengths": [len(row) for row in rows], "batched": not flat}
        packed = _tensors.of_integers([each for row in rows for each in row])
        values = self._runtime.call_tensors("model_log_probs", given, packed)[1][0].tolist()
        found, start = [], 0
        for row in rows:
            end = start + max(len(row) - 1, 0)
            found.append(values[start:end])
            start = end
        return found[0] if flat else found

    def _log_probs_of_tensor(self, ids: Any) -> Any:
        shape = tuple(int(size) for size in ids.shape)
        if len(shape) not in (1, 2):
            raise errors.InvalidArgument(f"ids: expected a tensor [T] or [B, T], got {list(shape)}")
        given = {
            "lengths": [shape[-1]] * (shape[0] if len(shape) == 2 else 1),
            "batched": len(shape) == 2,
            "shape": [*shape[:-1], max(shape[-1] - 1, 0)],
        }
        result = self._runtime.call_tensors("model_log_probs", given, ids)[1][0]
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(ids, torch.Tensor):
            return torch.from_dlpack(result)
        return result

    # Tokens ------------------------------------------------------------------------------------

    def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text. Special tokens that the text contains are recognized.

        add_special_tokens: puts the bos token first if the model's tokenizer does so.
        """
        return self._runtime.call(
            "model_tokenize", {"text": _text(text), "bos": add_special_tokens}
        )

    def detokenize(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ids. An incomplete character becomes U+FFFD."""
        given = {"ids": _tensors.integers(ids, "ids"), "skip_special": skip_special_tokens}
        return self._runtime.call("model_detokenize", given)

    # Text --------------------------------------------------------------------------------------

    @overload
    def generate(self, prompt: str, *, stream: Literal[False] = False, **sampling: Any) -> str: ...

    @overload
    def generate(
        self, prompt: Sequence[int], *, stream: Literal[False] = False, **sampling: Any
    ) -> list[int]: ...

    @overload
    def generate(self, prompt: Any, *, stream: Literal[True], **sampling: Any) -> Iterator[Any]: ...

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop_ids: Sequence[int] | None = None,
        stream: bool = False,
    ) -> Any:
        """Continues a prompt, without a chat template.

        prompt: a text, and the new text (a str, without special tokens) is returned; or token ids,
            and the new ids are returned, with the one that ended the completion.
        temperature: 0: greedy decoding; otherwise tokens are sampled, the same for the same seed.
        top_p, top_k, repetition_penalty: as in Transformers; top_k 0: all tokens.
        stop_ids: ids that end the completion; None: those of the model (its eos, and those of its
            chat template).
        stream: returns an iterator of pieces of the text (or of ids, without a stop id), as they
            are generated. Closing the iterator ends the generation; other calls of the model wait
            for its end.
        """
        given: dict[str, Any] = {
            "options": _sampling(
                max_new_tokens, temperature, top_p, top_k, repetition_penalty, seed
            ),
            "stream": stream,
        }
        if stop_ids is not None:
            given["options"]["stop_ids"] = _tensors.integers(stop_ids, "stop_ids")
        is_text = isinstance(prompt, str)
        if is_text:
            given["text"] = _text(prompt, "prompt")
        else:
            given["ids"] = _tensors.integers(prompt, "prompt")
            if not given["ids"]:
                raise errors.InvalidArgument("prompt: expected at least one token id, got none")
        if stream:
            return self._runtime._stream("model_generate", given, "text" if is_text else "id")
        return self._runtime.call("model_generate", given)["text" if is_text else "ids"]

    @overload
    def chat(self, messages: Any, *, stream: Literal[False] = False, **sampling: Any) -> str: ...

    @overload
    def chat(self, messages: Any, *, stream: Literal[True], **sampling: Any) -> Iterator[str]: ...

    def chat(
        self,
        messages: str | Sequence[Mapping[str, str]],
        *,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stream: bool = False,
    ) -> Any:
        """Answers a conversation with the model's chat template (or the key `template`).

        messages: [{"role": "user", "content": "..."}, ...]: at the beginning a message of role
            "system" is allowed, then "user" and "assistant" in turn, the last one of the user. A
            str is one message of the user.
        Sampling and stream: as in generate. Returns the answer, or an iterator of its pieces.
        """
        system, texts = _conversation(messages)
        given: dict[str, Any] = {
            "texts": texts,
            "options": _sampling(
                max_new_tokens, temperature, top_p, top_k, repetition_penalty, seed
            ),
            "stream": stream,
        }
        if system is not None:
            given["system"] = system
        if stream:
            return self._runtime._stream("model_chat", given, "text")
        return self._runtime.call("model_chat", given)


def _rows(batch: Sequence[Any]) -> Iterator[Any]:
    for i, row in enumerate(batch):
        if isinstance(row, (str, bytes)) or not hasattr(row, "__iter__"):
            raise TypeError(f"ids[{i}]: expected a list of token ids, got {row!r}")
        yield row


def _text(value: Any, name: str = "text") -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, got {type(value).__name__}")
    return value.encode("utf-8", "replace").decode()  # a lone surrogate is no text


def _conversation(messages: Any) -> tuple[str | None, list[str]]:
    """The system text (None: there is none) and the texts of user and model in turn."""
    if isinstance(messages, str):
        return None, [_text(messages, "messages")]
    system, texts = None, []
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            raise errors.InvalidArgument(
                f"messages[{i}]: expected {{'role': ..., 'content': ...}}, got {message!r}"
            )
        role, text = message["role"], _text(message["content"], f"messages[{i}]: content")
        wanted = "assistant" if len(texts) % 2 else "user"
        if role == "system" and i == 0:
            system = text
        elif role == wanted:
            texts.append(text)
        else:
            raise errors.InvalidArgument(f"messages[{i}]: expected role '{wanted}', got {role!r}")
    if len(texts) % 2 == 0:
        raise errors.InvalidArgument("messages: expected a message of the user at the end")
    return system, texts
