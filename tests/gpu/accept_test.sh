#!/usr/bin/env bash
# Tests the acceptance run without a GPU: it packs its folder and reports every row; wrong numbers,
# crashes and hangs are reported in their own rows only; another call runs the remaining checks; and
# the output of profilers is parsed.
set -euo pipefail
runfiles=$PWD here=$PWD/tests/gpu
libtorch=$(dirname "$(find -L "$PWD" -name libtorch_cpu.so | head -n 1)") # in the runfiles
export LD_LIBRARY_PATH=$libtorch
unset RUNFILES_DIR TEST_SRCDIR # as outside of Bazel
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/accept.XXXX")
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

echo "--- it packs"
"$here/accept" pack "$work/folder" --config cpu --built "$runfiles"
mkdir "$work/packed"
tar -xJf "$work/folder/programs.tar.xz" -C "$work/packed"
for name in dist/moonring dist/moonring-bin bin/measure bin/cuda_conformance_test \
  bin/modes_conformance_test families/qwen3_next/config.json \
  families/qwen3_next/model.safetensors; do
  [ -s "$work/packed/$name" ] || fail "$name is not packed"
done
[ ! -e "$work/packed/dist/lib/libmoonring.so" ] || fail "what nobody wants there is packed"
python3 - "$work/folder/packed.json" <<'PYTHON' || fail "the CPU's losses are not packed"
import json, sys
packed = json.load(open(sys.argv[1]))["references"].values()
good = len(packed) == 9 and all(len(lines) in (3, 20) for lines in packed)
good = good and all(line["loss"] > 0 and line["grad_norm"] > 0 for each in packed for line in each)
sys.exit(not good)
PYTHON
rc=0
"$here/accept" pack "$work/small" --config cpu --built "$runfiles" --limit 1 2>"$work/why" || rc=$?
[ "$rc" -eq 2 ] && grep -q "1.0 MiB are the most" "$work/why" && [ ! -e "$work/small" ] \
  || fail "a folder beyond the limit is not refused: $(cat "$work/why")"
rc=0
"$here/accept" pack "$work/folder" --config cpu --built "$runfiles" 2>"$work/why" || rc=$?
[ "$rc" -eq 2 ] && grep -q "is there already" "$work/why" \
  || fail "a folder that is there is written over"

cat >"$work/verdicts.py" <<'PYTHON'
# verdicts.py TABLE.json CHECK=VERDICT...: checks that the table has these rows and no others, and
# that a skipped row has a reason.
import json, sys
def name_of(row):
    check = row["check"]
    of_each = ("attention forward", "attention backward", "attention's kernels")
    has_tokens = check in of_each or "layers" in check
    return f"{check} {row['tokens']}" if has_tokens else check
rows = {name_of(row): row for row in json.load(open(sys.argv[1]))["rows"]}
wanted = dict(word.rsplit("=", 1) for word in sys.argv[2:])
wrong = [
    f"{name}: {row['verdict']} {row['remark']}"
    for name, row in rows.items()
    if wanted.get(name) is not None and row["verdict"] not in wanted[name].split("/")
]
wrong += [f"{name} is missing" for name in wanted if name not in rows]
wrong += [f"{name} is not expected: {row}" for name, row in rows.items() if name not in wanted]
wrong += [
    f"{name} is skipped without a reason"
    for name, row in rows.items()
    if row["verdict"] == "SKIP" and not row["remark"]
]
sys.exit("\n".join(wrong) or 0)
PYTHON

echo "--- a whole call"
"$work/folder/accept" run --dry --seconds 600 --out "$work/whole" --work "$work" || fail "the call"
python3 "$work/verdicts.py" "$work/whole/accept.json" GPU=SKIP "matmul bf16=PASS" \
  "matmul fp32=PASS" copies=PASS "kernels of our own=SKIP" \
  "attention kernels BFloat16 tiles=SKIP" "attention kernels BFloat16 bands=SKIP" \
  "attention kernels BFloat16 documents=SKIP" "attention kernels Half tiles=SKIP" \
  "attention kernels Half bands=SKIP" "attention kernels Half documents=SKIP" \
  "attention kernels Float=SKIP" "attention kernels Double=SKIP" \
  "attention dense=PASS" "attention ulysses=PASS" "attention ring=PASS" \
  "attention zigzag-ring=PASS" "attention all-gather=PASS" "attention double-ring=PASS" \
  "attention usp=PASS" "attention auto=PASS" "gradients fp64=PASS" "gradients fp32=PASS" \
  "gradients bf16=PASS" "logits fp64=PASS" "logits fp32=PASS" "logits bf16=PASS" \
  "family deepseek_v3=PASS" "family deepseek_v3_whole=PASS" \
  "training fp32=PASS" "training bf16=PASS" DPO=PASS KTO=PASS LoRA=PASS DoRA=PASS QLoRA=PASS \
  MoE=PASS "dropout and NEFTune=PASS" rollouts=PASS \
  "two ranks on one card, zigzag-ring=PASS" "two ranks on one card, ulysses=PASS" \
  "two ranks on one card, all-gather=PASS" \
  "activation_offload cpu=PASS" "offload_optimizer cpu=PASS" "offload_optimizer disk=PASS" \
  "kill and resume=PASS" compute-sanitizer=SKIP \
  "NCCL sp 2=PASS" "NCCL dp 2=PASS" "NCCL ZeRO-3=PASS" "NCCL kill and resume=PASS" \
  "attention choice=SKIP" "attention forward 64=PASS" "attention backward 64=PASS" \
  "attention forward 128=PASS" "attention backward 128=PASS" \
  "attention forward 256=PASS" "attention backward 256=PASS" \
  "Llama width, 2 layers 64=PASS" "Llama width, 2 layers 256=PASS" \
  "MFU of the log, 2 layers 64=PASS" "MFU of the log, 2 layers 256=PASS" \
  "attention's kernels 64=SKIP" "attention's kernels 256=SKIP" \
  "beside Transformers, 2 layers 64=PASS/SKIP" "beside Transformers, 2 layers 256=PASS/SKIP" \
  "documents of all lengths=PASS" "Qwen3.5-MoE width, 4 layers 64=PASS" "memory runs out=PASS" \
  "decoding, 2 layers 8=PASS" "longest T in 400MiB, 2 layers 1024=PASS" \
  "profile of a step=SKIP" || fail "rows of a whole call"
python3 - "$work/whole/ceilings.json" <<'PYTHON' || fail "ceilings.json"
import json, sys
rates = json.load(open(sys.argv[1]))["rates"]
wanted = {"product bf16", "product fp32", "bytes", "attention forward bf16",
          "attention backward bf16"}
sys.exit(0 if set(rates) == wanted and min(rates.values()) > 0 else f"{rates}")
PYTHON
[ -z "$(find "$work" -maxdepth 1 -name 'accept-*')" ] || fail "models and runs are left behind"

# pack_again: packs the programs in packed/, which the test has changed, into the folder again.
pack_again() {
  tar -cf "$work/folder/programs.tar.xz" -C "$work/packed" .
}

echo "--- wrong numbers: a device that trains at another rate, and gives other gradients"
mv "$work/packed/dist/moonring" "$work/packed/dist/moonring-right"
cat >"$work/packed/dist/reverse.py" <<'PYTHON'
import json, sys
path = sys.argv[1]
given = json.load(open(path))
given["input_ids"].reverse()
json.dump(given, open(path, "w"))
PYTHON
cat >"$work/packed/dist/moonring" <<'SHELL'
#!/bin/sh
case "$*" in
  *probe*-device/*)
    for word in "$@"; do
      case $word in
        input=*) python3 "${0%/*}/reverse.py" "${word#input=}" ;;
      esac
    done
    ;;
  *train*-device/*) exec "${0}-right" "$@" learning_rate=0.01 ;;
esac
exec "${0}-right" "$@"
SHELL
chmod +x "$work/packed/dist/moonring"
pack_again
rc=0
"$work/folder/accept" run --dry --out "$work/wrong" --only "gradients,training,offload" || rc=$?
[ "$rc" -eq 1 ] || fail "exit code $rc of a call with wrong numbers"
python3 "$work/verdicts.py" "$work/wrong/accept.json" "gradients fp64=FAIL" "gradients fp32=FAIL" \
  "gradients bf16=FAIL" "logits fp64=FAIL" "logits fp32=FAIL" "logits bf16=FAIL" \
  "training fp32=FAIL" "training bf16=FAIL" "activation_offload cpu=PASS" \
  "offload_optimizer cpu=PASS" "offload_optimizer disk=PASS" || fail "wrong numbers pass"

grep -q "device/config.yaml" "$work/wrong/log.txt" || fail "the log has no commands"
if grep -q "reference/config.yaml" "$work/wrong/log.txt"; then
  fail "a training run whose losses are packed was run again"
fi
grep -q "^    worst in model.*; element \[" "$work/wrong/accept.md" || fail "the worst number"
grep -q "^    streams " "$work/wrong/accept.md" || fail "where streams part"
grep -q "^    first apart at step " "$work/wrong/accept.md" || fail "where losses part"

echo "--- a hang ends with its check, a crash is reported in its own words, and a call that has" \
  "no time left says so"
cat >"$work/packed/dist/moonring" <<'SHELL'
#!/bin/sh
case "$*" in
  *train*) sleep 1000 & wait ;;
esac
echo "the card is on fire"
exit 1
SHELL
pack_again
rc=0
"$work/folder/accept" run --dry --out "$work/hang" --seconds 12 --only \
  "gradients,training,kinds of training,offload" || rc=$?
[ "$rc" -eq 1 ] || fail "exit code $rc of a call that hangs"
python3 "$work/verdicts.py" "$work/hang/accept.json" gradients=FAIL training=FAIL \
  "kinds of training=FAIL" offload=LATE || fail "rows of a call that hangs"
grep -q "gradients .*the card is on fire" "$work/hang/accept.md" || fail "a crash's words"
grep -q "^    again, with each kernel awaited" "$work/hang/accept.md" || fail "a second try"
grep -q "training .*cut off after" "$work/hang/accept.md" || fail "a hang's words"
grep -q "^not reached: offload" "$work/hang/accept.md" || fail "what was not reached"

echo "--- a further call runs what is left, and that alone"
mv "$work/packed/dist/moonring-right" "$work/packed/dist/moonring"
pack_again
rc=0
"$work/folder/accept" run --dry --seconds 200 --out "$work/further" \
  --resume "$work/hang/accept.json" --only "gradients,ceilings,offload" || rc=$?
[ "$rc" -eq 1 ] || fail "exit code $rc of a further call that keeps rows that failed"
python3 "$work/verdicts.py" "$work/further/accept.json" training=FAIL "kinds of training=FAIL" \
  "matmul bf16=PASS" "matmul fp32=PASS" copies=PASS "gradients fp64=PASS" \
  "gradients fp32=PASS" "gradients bf16=PASS" \
  "logits fp64=PASS" "logits fp32=PASS" "logits bf16=PASS" "activation_offload cpu=PASS" \
  "offload_optimizer cpu=PASS" "offload_optimizer disk=PASS" || fail "rows of a further call"
"$work/folder/accept" run --dry --out "$work/none" --resume "$work/further/accept.json" \
  --only "gradients,ceilings,offload" || true
[ ! -e "$work/none/log.txt" ] || fail "what has passed is run again"

echo "--- what a number is that is none"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here python3 - <<'PYTHON'
import math
import diagnosis, workshop

class Shop(workshop.Workshop):
    def __init__(self):
        self.found = [{"error": None, "worst": None, "name": "w", "at": "[3]", "got": None,
                       "want": 1.5, "each": {"layer 000": 0.0, "layer 001": None, "norm": None}}]
    def measure(self, *words):
        return self.found if words[1:] else []

found = Shop().compare(("a", "b"))[0]
assert math.isnan(found["error"]) and math.isnan(found["each"]["layer 001"]), found
assert "element [3]: nan, expected 1.5" in diagnosis.worst_number(found)
assert Shop().compare() == []
assert diagnosis.first_part({1: 1.0, 2: math.nan}, {1: 1.0, 2: 2.0}, 1e-3).startswith(
    "first apart at step 2: nan")
assert diagnosis.first_part({1: None}, {1: 1.0}, 1e-3) == "step 1 has no number"
PYTHON

echo "--- what profilers write"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here python3 - <<'PYTHON'
import profiles
nsys = '''Processing [step.sqlite] with [cuda_gpu_kern_sum.py]...
Time (%),Total Time (ns),Instances,Avg (ns),Name
60.0,3000000,3,1000000,"void flash_fwd_kernel<Traits, false>(Params)"
30.0,1500000,1,1500000,nvjet_tst_128x256_64x4
10.0,500000,5,100000,elementwise_kernel
'''
ncu = '''==PROF== Connected to process 7
"ID","Kernel Name","gpu__time_duration.sum"
"","","ns"
"0","flash_fwd_kernel","1,000,000"
"1","flash_fwd_kernel","2,000,000"
"2","nvjet_tst","1500000"
"3","elementwise_kernel","500000"
'''
for kernels in (profiles.from_nsys(nsys), profiles.from_ncu(ncu)):
    assert len(kernels) == 3, kernels
    shares = profiles.shares(kernels)
    wanted = {"attention": 0.6, "matmul": 0.3, "other": 0.1}
    assert all(abs(shares[kind] - share) < 1e-9 for kind, share in wanted.items()), shares
    assert "5.000 ms" in profiles.listing(kernels)
assert profiles.from_ncu("==ERROR== no device") == [] and profiles.from_nsys("") == []
PYTHON
echo "all as expected"
