"""The checks, most valuable first, and which of them run at the same time.

A check is a generator of rows. Adjacent checks of the same stage run concurrently; those of stage 0
run alone, because they measure time. `seconds` is the check's time limit.
"""

import dataclasses
import typing

import correctness
import families
import speed
import table


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    seconds: float
    run: typing.Callable
    stage: int = 0


CHECKS = (
    Check("GPU", 150, correctness.machine),
    Check("ceilings", 60, correctness.ceilings),
    Check("kernels", 90, correctness.own_kernels),
    *(
        Check(f"attention kernels {name}", 150, check, stage=1)
        for name, check in correctness.ATTENTION_KERNELS.items()
    ),
    Check("attention modes", 120, correctness.modes, stage=1),
    Check("gradients", 120, correctness.gradients, stage=1),
    Check("families", 120, families.families, stage=2),
    Check("training", 120, correctness.training, stage=2),
    Check("kinds of training", 120, correctness.kinds, stage=2),
    Check("rollouts", 90, correctness.rollouts, stage=3),
    Check("several GPUs", 120, correctness.several, stage=3),
    Check("two ranks on one card", 90, correctness.one_card, stage=3),
    Check("offload", 90, correctness.offload, stage=3),
    Check("kill and resume", 90, correctness.kill_and_resume, stage=3),
    Check("compute-sanitizer", 90, correctness.sanitizer, stage=3),
    Check("attention choice", 60, speed.attention_choice),
    Check("attention speed", 60, speed.attention),
    Check("Llama width", 90, speed.llama),
    Check("documents of all lengths", 90, speed.lengths),
    Check("hybrid width", 60, speed.hybrid),
    Check("memory runs out", 60, speed.memory_runs_out),
    Check("decoding", 60, speed.decoding),
    Check("longest T", 90, speed.longest),
    Check("profile", 90, speed.profile),
    Check("beside Transformers", 120, speed.peer),
)


def stages(checks):
    """[[check, ...], ...]: checks that run concurrently, in order."""
    found = []
    for check in checks:
        if found and check.stage and found[-1][0].stage == check.stage:
            found[-1].append(check)
        else:
            found.append([check])
    return found


def left_of(rows):
    """Returns the checks that failed in an earlier call's table, then those without a result in
    it."""
    verdicts = {}
    for row in rows:
        verdicts.setdefault(row["of"], set()).add(row["verdict"])
    failed = [check for check in CHECKS if table.FAIL in verdicts.get(check.name, ())]
    unreached = [
        check
        for check in CHECKS
        if check not in failed and verdicts.get(check.name, {table.LATE}) & {table.LATE}
    ]
    return failed + unreached
