"""The closing lines of .ci/run, out of Bazel's records of the tests.

Arguments: a folder with fast.json, full.json (where the full tier ran) and wanted (its tests, one a
line); the fast tier's exit code; how the CUDA build ended (passed, failed, none).
"""

import json
import pathlib
import sys


def read_events(path):
    """The tests of a record that passed, and those that failed or were not built."""
    passed, failed = set(), set()
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the last line of a run that was broken off
        about = event.get("id", {})
        if "testSummary" in event:
            status = event["testSummary"].get("overallStatus")
            if status == "PASSED":
                passed.add(about["testSummary"]["label"])
            elif status not in ("NO_STATUS", "INCOMPLETE"):
                failed.add(about["testSummary"]["label"])  # FLAKY, passing at times, has failed
        elif "targetCompleted" in about and "completed" in event:
            if not event["completed"].get("success"):
                failed.add(about["targetCompleted"]["label"])
    return passed, failed


def main():
    folder, code, cuda = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    passed, failed = read_events(folder / "fast.json")
    if code != 0 and not failed:
        failed.add("//...")  # Bazel failed before any test did
    if (folder / "full.json").exists():
        full_passed, full_failed = read_events(folder / "full.json")
        passed |= full_passed
        failed |= full_failed
    wanted = set((folder / "wanted").read_text(encoding="utf-8").split())
    for label in sorted(wanted - passed - failed):
        print(f"not run, the budget was spent: {label}")
    for label in sorted(failed):
        print(f"failed: {label}")
    passed_count = len(passed - failed) + (cuda == "passed")
    failed_count = len(failed) + (cuda == "failed")
    print(f"{passed_count} passed, {failed_count} failed")
    sys.exit(1 if failed_count else 0)


if __name__ == "__main__":
    main()
