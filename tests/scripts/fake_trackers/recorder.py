"""What the packages in this folder record: they stand in for wandb, mlflow and swanlab, which a
test cannot install. tests/peers/trackers_read.py tries the real ones.

Each call is a line of JSON in the file $RECORDED.PACKAGE: [function, arguments, named arguments].
$FAULTS, such as "wandb log 2 raise,swanlab log 2 exit": every call of that function from the second
one on fails, or the second one ends the process.
"""

import json
import os

_calls = {}


def recorder(package):
    def record(function, *arguments, **named):
        line = json.dumps([function, arguments, named], default=vars) + "\n"
        path = f"{os.environ['RECORDED']}.{package}"
        file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(file, line.encode())
        os.close(file)
        count = _calls[function] = _calls.get(function, 0) + 1
        for fault in os.environ.get("FAULTS", "").split(","):
            wanted = fault.split()
            if wanted[:2] == [package, function] and count >= int(wanted[2]):
                if wanted[3] == "exit":
                    os._exit(3)
                raise RuntimeError("no network\nat all")

    return record
