"""The tests' repositories: their contents are derived from their names, so that recordings stay
valid."""


def filled(size: int, seed: int) -> bytes:
    state, out = seed, bytearray()
    while len(out) < size:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out += state.to_bytes(8, "little")
    return bytes(out[:size])


# A model in two files, with other files next to it. It cannot be loaded.
SHARDED = {
    ".gitattributes": b"*.safetensors filter=lfs\n",
    "README.md": b"# A model\n",
    "config.json": b'{"model_type": "llama"}\n',
    "generation_config.json": b"{}\n",
    "tokenizer.json": filled(150_000, 1),  # large, and so in the storage
    "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}\n',
    "chat_template.jinja": b"{{ messages }}",
    "model.safetensors.index.json": b'{"weight_map": {"a": "model-00001-of-00002.safetensors", '
    b'"b": "model-00002-of-00002.safetensors"}}\n',
    "model-00001-of-00002.safetensors": filled(300_000, 2),
    "model-00002-of-00002.safetensors": filled(200_000, 3),
    "consolidated.safetensors": filled(500_000, 4),
    "pytorch_model.bin": filled(400_000, 5),
    "onnx/model.onnx": filled(1000, 6),
}
# The files of SHARDED that belong to the model.
SHARDED_WANTED = [
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
]
