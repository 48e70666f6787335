#!/usr/bin/env python3
"""Ten steps of supervised fine-tuning: prints losses, gradient norms and log-probs as JSON.

The documents depend on --seed alone, so that two runs (on one rank and on two, or of the SDK and
of PyTorch, see sft_by_peft.py) can be compared number by number. With --external FOLDER the
initial adapter is downloaded into this folder before the first step.
"""

import pathlib
import urllib.request

import connection
import datums
import tinker


def download(service: tinker.ServiceClient, client, folder: pathlib.Path) -> None:
    """The adapter as a PEFT folder: saved in the external format, then fetched file by file."""
    path = client.save_weights_external("initial").result().path
    urls = service.create_rest_client().get_external_weights_urls(path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, url in urls.result().urls.items():
        with urllib.request.urlopen(url) as answer:
            (folder / pathlib.PurePath(name).name).write_bytes(answer.read())


def main() -> None:
    parser = connection.arguments(__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--decay", type=float, default=0.0)
    parser.add_argument("--external", type=pathlib.Path)
    options = parser.parse_args()

    service = connection.connect(options)
    client = connection.create(service, options, seed=options.seed)
    info = client.get_info()
    assert info.model_data.model_name == options.model, info
    assert bool(info.is_lora) == (options.rank > 0), info
    if options.external:
        download(service, client, options.external)

    losses, norms, counts = [], [], []
    for step in range(options.steps):
        batch = datums.answers(
            options.seed + step % 3, options.batch, options.length, options.vocabulary
        )
        adam = tinker.AdamParams(
            learning_rate=options.rate * (1 - step / options.steps),
            weight_decay=options.decay,
            grad_clip_norm=options.clip,
        )
        forward_backward = client.forward_backward(batch, "cross_entropy")
        step_taken = client.optim_step(adam)
        output = forward_backward.result()
        found = datums.log_probs(output)
        expected = -sum(
            float((values * weights).sum())
            for values, weights in zip(
                found, (one.loss_fn_inputs["weights"].to_numpy() for one in batch)
            )
        )
        connection.close(output.metrics["loss:sum"], expected, 1e-5, f"loss of step {step}")
        losses.append(output.metrics["loss:sum"])
        counts.append(sum(float(one.loss_fn_inputs["weights"].to_numpy().sum()) for one in batch))
        metrics = step_taken.result().metrics or {}
        norms.append(next((metrics[key] for key in metrics if "grad_norm" in key), None))

    held_out = [
        datums.unweighted(datums.tokens(90 + index, options.length, options.vocabulary))
        for index in range(3)
    ] + datums.answers(options.seed, options.batch, options.length, options.vocabulary)
    after = client.forward(held_out, "cross_entropy").result()
    mean = [loss / count for loss, count in zip(losses, counts)]
    # The first three batches come again: what was trained on them must have lowered their loss.
    assert mean[-1] < mean[(options.steps - 1) % 3] or options.steps < 4, mean
    connection.report(
        losses=losses,
        grad_norms=norms,
        log_probs=[values.tolist() for values in datums.log_probs(after)],
    )


if __name__ == "__main__":
    main()
