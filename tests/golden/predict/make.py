"""The files that LLaMA-Factory 0.9.5's own do_predict writes, with greedy decoding, for the small
model of ../stages.

    make.py --packages DIR [--scores] [NAME ...]     DIR: pip install --target DIR of
        jieba==0.42.1  rouge-chinese==1.0.3  nltk==3.9.2

--scores: computes only the scores of the existing lines, without a run.

A case is `run_exp` with the keys in cases.json: {"base": {...}, "cases": {NAME: {...}}}.
golden/NAME.json has the lines of generated_predictions.jsonl, and the numbers of
predict_results.json and eval_results.json. `of_answers` are the same scores, by the same packages
as in LLaMA-Factory's metric.py, for labels without the line break that the template writes after
the end of an answer. A model that stops there can never generate this line break, so
LLaMA-Factory's score of an exact answer is below 100. data/ has the talks of ../stages/data, and
sayings of two turns, some of them Chinese.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STAGES = os.path.join(HERE, "..", "stages")

SAYINGS = [
    ("What of a lantern?", "A lantern keeps the north wind."),
    ("What of the harbour?", "The harbour waits for a paper boat."),
    ("天下大事？", "分久必合，合久必分。"),
    ("What of 3.14?", "It is 100% of it: 😀."),
    ("What of the orchard?", "The orchard remembers an old map."),
]


def make_data():
    folder = os.path.join(HERE, "data")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(STAGES, "data", "talks.json"), encoding="utf-8") as file:
        talks = file.read()
    with open(os.path.join(folder, "talks.json"), "w", encoding="utf-8") as file:
        file.write(talks)
    rows = [
        {"instruction": asked, "output": said, "history": [["Say one.", "One."]] if i % 2 else []}
        for i, (asked, said) in enumerate(SAYINGS)
    ]
    with open(os.path.join(folder, "sayings.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")
    info = {
        "talks": {"file_name": "talks.json", "formatting": "sharegpt"},
        "sayings": {
            "file_name": "sayings.json",
            "columns": {"prompt": "instruction", "response": "output", "history": "history"},
        },
    }
    with open(os.path.join(folder, "dataset_info.json"), "w", encoding="utf-8") as file:
        json.dump(info, file, indent=2)
        file.write("\n")


def run_case(keys):
    from llamafactory.train.tuner import run_exp

    run_exp(keys)


def scores(lines):
    """LLaMA-Factory's scores for labels that end where the answer ends."""
    import re

    import jieba
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    from rouge_chinese import Rouge

    def plain(text):
        return re.sub(r"<\|[^|<>]*\|>", "", text)

    rows = []
    for line in map(json.loads, lines):
        predict, label = plain(line["predict"]), plain(line["label"]).removesuffix("\n")
        hypothesis, reference = (" ".join(jieba.cut(text)) for text in (predict, label))
        found = {"rouge-1": {"f": 0.0}, "rouge-2": {"f": 0.0}, "rouge-l": {"f": 0.0}}
        if hypothesis.split() and reference.split():
            found = Rouge().get_scores(hypothesis, reference)[0]
        row = {name: round(value["f"] * 100, 4) for name, value in found.items()}
        bleu = sentence_bleu(
            [list(label)], list(predict), smoothing_function=SmoothingFunction().method3
        )
        rows.append(row | {"bleu-4": round(bleu * 100, 4)})
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def write(name, golden):
    with open(os.path.join(HERE, "golden", name + ".json"), "w", encoding="utf-8") as file:
        json.dump(golden, file, ensure_ascii=False, indent=1)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", required=True)
    parser.add_argument("--keys")  # of one case, which runs in a separate process
    parser.add_argument("--scores", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    sys.path.insert(0, options.packages)
    if options.keys:
        return run_case(json.loads(options.keys))
    make_data()
    with open(os.path.join(HERE, "cases.json"), encoding="utf-8") as file:
        spec = json.load(file)
    os.makedirs(os.path.join(HERE, "golden"), exist_ok=True)
    if options.scores:
        for name in options.names or spec["cases"]:
            with open(os.path.join(HERE, "golden", name + ".json"), encoding="utf-8") as file:
                golden = json.load(file)
            write(name, golden | {"of_answers": scores(golden["predictions"])})
        return
    for name in options.names or spec["cases"]:
        keys = {k: v for k, v in (spec["base"] | spec["cases"][name]).items() if v is not None}
        with tempfile.TemporaryDirectory() as folder:
            keys |= {"dataset_dir": os.path.join(HERE, "data"), "output_dir": folder}
            keys["overwrite_cache"] = True
            for key in ("model_name_or_path", "adapter_name_or_path"):
                if key in keys:
                    keys[key] = os.path.join(STAGES, keys[key])
            command = [sys.executable, __file__, "--packages", options.packages]
            subprocess.run([*command, "--keys", json.dumps(keys)], check=True)

            def read(file):
                path = os.path.join(folder, file)
                return open(path, encoding="utf-8").read() if os.path.exists(path) else None

            golden = {"predictions": read("generated_predictions.jsonl").splitlines()}
            for what in ("predict", "eval"):
                if text := read(f"{what}_results.json"):
                    golden[what] = json.loads(text)
            golden["of_answers"] = scores(golden["predictions"])
        write(name, golden)


main()
