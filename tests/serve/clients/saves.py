#!/usr/bin/env python3
"""Saved states: continued with and without the optimizer, loaded into a model that exists, sampler
weights, the external format, lists, names that are taken or not allowed."""

import pathlib
import tempfile
import warnings

import connection
import datums
import sft
import tinker


def train(client, options, steps: range) -> list[float]:
    found = []
    for step in steps:
        output = client.forward_backward(
            datums.answers(step, 3, options.length, options.vocabulary), "cross_entropy"
        )
        client.optim_step(tinker.AdamParams(learning_rate=3e-3, weight_decay=0.01))
        found.append(output.result().metrics["loss:sum"])
    return found


def probe(client, options) -> list[list[float]]:
    documents = [
        datums.unweighted(datums.tokens(200 + index, options.length, options.vocabulary))
        for index in range(2)
    ]
    output = client.forward(documents, "cross_entropy").result()
    return [values.tolist() for values in datums.log_probs(output)]


def states(service, options, client) -> str:
    train(client, options, range(3))
    path = client.save_state("third", user_metadata={"step": "3"}).result().path
    assert path == f"tinker://{client.model_id}/weights/third", path
    at_three = probe(client, options)
    losses = train(client, options, range(3, 5))
    at_five = probe(client, options)

    with_optimizer = service.create_training_client_from_state_with_optimizer(path).result()
    assert probe(with_optimizer, options) == at_three, "a continued model differs from the saved"
    assert train(with_optimizer, options, range(3, 5)) == losses
    assert probe(with_optimizer, options) == at_five, "continued with the optimizer: other bits"

    without = service.create_training_client_from_state(path).result()
    assert without.get_info().lora_rank == client.get_info().lora_rank
    assert probe(without, options) == at_three
    assert train(without, options, range(3, 5))[0] == losses[0]
    assert probe(without, options) != at_five, "moments came although the optimizer was not asked"

    # The deprecated load_state, into a model that was trained on.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client.load_state_with_optimizer(path).result()
        assert probe(client, options) == at_three
        assert train(client, options, range(3, 5)) == losses
        assert probe(client, options) == at_five
        client.load_state(path).result()
        assert probe(client, options) == at_three
    return path


def names(service, options, client, path: str) -> None:
    before = probe(client, options)
    with connection.refused("a name that is taken", "third"):
        client.save_state("third").result()
    client.save_state("third", overwrite=True).result()
    again = service.create_training_client_from_state(path).result()
    assert probe(again, options) == before, "overwrite kept the earlier weights"
    for name in ("../outside", "a/b", ".hidden", "", "x" * 300, "nul\0"):
        with connection.refused(f"the name {name[:20]!r}"):
            client.save_state(name).result()
    for wrong in (
        f"tinker://{client.model_id}/weights/absent",
        "tinker://nobody:train:0/weights/third",
        f"tinker://{client.model_id}/weights/../third",
        "tinker://../../etc/passwd",
        "/etc/passwd",
    ):
        with connection.refused(f"the path {wrong}"):
            service.create_training_client_from_state(wrong).result()
    assert probe(client, options) == before, "a refused request changed the weights"


def samplers(service, options, client) -> None:
    expected = probe(client, options)[0]
    path = client.save_weights_for_sampler("final").result().path
    assert path == f"tinker://{client.model_id}/sampler_weights/final", path
    train(client, options, range(1))
    sampler = service.create_sampling_client(model_path=path).result()
    assert sampler.get_base_model() == options.model
    ids = datums.tokens(200, options.length, options.vocabulary)
    found = sampler.compute_logprobs(tinker.ModelInput.from_ints(ids)).result()[1:]
    worst = max(abs(a - b) for a, b in zip(found, expected))
    assert worst < 2e-5, f"sampler weights and forward differ by {worst}"
    with connection.refused("a path that is not there"):
        service.create_sampling_client(model_path=path + "x").result()


def external(service, client) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sft.download(service, client, pathlib.Path(folder))
        files = {one.name for one in pathlib.Path(folder).iterdir()}
        assert "adapter_model.safetensors" in files and "adapter_config.json" in files, files


def lists(service, client, path: str) -> None:
    rest = service.create_rest_client()
    info = rest.get_weights_info_by_tinker_path(path).result()
    assert info.base_model == client.get_info().model_data.model_name, info
    run = rest.get_training_run(client.model_id).result()
    assert run.training_run_id == client.model_id, run
    assert client.model_id in [
        one.training_run_id for one in rest.list_training_runs(limit=1000).result().training_runs
    ]
    kept = [one.tinker_path for one in rest.list_checkpoints(client.model_id).result().checkpoints]
    assert path in kept, kept
    rest.delete_checkpoint_from_tinker_path(path).result()
    kept = [one.tinker_path for one in rest.list_checkpoints(client.model_id).result().checkpoints]
    assert path not in kept, kept
    with connection.refused("a state that was deleted"):
        service.create_training_client_from_state(path).result()


def main() -> None:
    options = connection.arguments(__doc__.splitlines()[0]).parse_args()
    service = connection.connect(options)
    client = connection.create(service, options, seed=4, user_metadata={"made_by": "saves.py"})
    path = states(service, options, client)
    names(service, options, client, path)
    samplers(service, options, client)
    if options.rank > 0:
        external(service, client)
    lists(service, client, path)
    connection.report(path=path)


if __name__ == "__main__":
    main()
