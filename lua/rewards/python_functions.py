"""Runs reward functions of a Python file for moonring (lua/moonring/rewards/python.lua).

    python3 python_functions.py FILE [NAME...]

Reads a JSON object a line and answers with a line:

    {"open": true}                  {"functions": [NAME..]}
    {"function": NAME, "prompts": [..], "completions": [..], "completion_ids": [..],
     "columns": {NAME: [..]}}       [1.0, null, ..], a number or null for each completion
                                    either: {"error": TEXT, "row": INDEX from 0, or absent}

Functions are called as TRL's GRPOTrainer calls them: keyword arguments prompts, completions,
completion_ids and one for each column, all lists. What the file prints goes to stderr.
"""

import asyncio
import difflib
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback


class NoSuchFunction(Exception):
    """The file lacks the functions that are asked for."""


def load(path):
    """Imports the file as a module; its folder is searched for other modules first."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def is_reward(module, name, value):
    """Whether a name of the file is a reward function: public, defined there, of completions."""
    if name.startswith("_") or not inspect.isfunction(value):
        return False
    parameters = inspect.signature(value).parameters
    takes = "completions" in parameters or "completion_ids" in parameters
    return value.__module__ == module.__name__ and takes


def chosen(module, names):
    """The reward functions by name: those that are asked for, or all in the file's order."""
    if not names:
        found = {name: f for name, f in vars(module).items() if is_reward(module, name, f)}
        if not found:
            raise NoSuchFunction(
                "no public function of the file has a parameter 'completions'; expected "
                "def NAME(completions, **kwargs), or FILE.py:NAME"
            )
        return found
    known = [name for name, f in vars(module).items() if callable(f) and name[0] != "_"]
    for name in names:
        if not callable(getattr(module, name, None)):
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise NoSuchFunction(f"no function '{name}'{hint}; there are {', '.join(known)}")
    return {name: getattr(module, name) for name in names}


def call(function, question):
    """The values that a function returns, as a list of floats and None."""
    count = len(question["completions"])
    columns = question.get("columns") or {}
    arguments = {name: values for name, values in columns.items() if name != "completion"}
    for name in ("prompts", "completions", "completion_ids"):
        arguments[name] = question[name]
    arguments.pop("prompt", None)
    parameters = inspect.signature(function).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        accepted = {each.name for each in parameters}
        arguments = {name: value for name, value in arguments.items() if name in accepted}
    values = function(**arguments)
    if inspect.isawaitable(values):
        values = asyncio.run(_awaited(values))
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise TypeError(f"it returned {values!r}, expected a list of {count} numbers")
    return [number(value) for value in values]


async def _awaited(values):
    return await values


def number(value):
    """A number for JSON; a value that is none is returned as text, which moonring refuses."""
    if value is None:
        return None
    try:
        value = float(value)
    except (TypeError, ValueError):
        return str(value)
    return value if math.isfinite(value) else str(value)


def words(error, path):
    """An exception as one line, with the line of the user's file where it was raised."""
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if os.path.abspath(frame.filename) == os.path.abspath(path)]
    if own:
        text += f" ({path}:{own[-1].lineno}, in {own[-1].name})"
    elif isinstance(error, SyntaxError) and error.lineno:
        text += f" ({error.filename}:{error.lineno})"
    return text


def show_traceback(error):
    """Prints an exception's calls from the first one of the user's file on, to stderr."""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name != __file__ and not name.startswith("<frozen importlib"):
            traceback.print_exception(type(error), error, trace)
            return
        trace = trace.tb_next


def first_failing(function, question):
    """The index of the first completion for which a function fails by itself; None if none does."""
    columns = question.get("columns") or {}
    for i in range(len(question["completions"])):
        one = {name: question[name][i : i + 1] for name in ("prompts", "completions")}
        one["completion_ids"] = question["completion_ids"][i : i + 1]
        one["columns"] = {name: values[i : i + 1] for name, values in columns.items()}
        try:
            call(function, one)
        except Exception:
            return i
    return None


class Answers:
    """Answers the lines about one file, which is loaded at the first of them."""

    def __init__(self, path, names):
        self.path = path
        self.names = names
        self.functions = None

    def answer(self, question):
        function = None
        try:
            if self.functions is None:
                self.functions = chosen(load(self.path), self.names)
            if question.get("open"):
                return {"functions": list(self.functions)}
            function = self.functions[question["function"]]
            return call(function, question)
        except Exception as error:
            if isinstance(error, NoSuchFunction):
                return {"error": str(error)}
            show_traceback(error)
            answer = {"error": words(error, self.path)}
            row = first_failing(function, question) if function is not None else None
            return answer if row is None else {**answer, "row": row}


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the file prints must not be read as an answer
    sys.stdout = sys.stderr  # which writes each line at once
    own = Answers(sys.argv[1], sys.argv[2:])
    for line in sys.stdin.buffer:
        print(json.dumps(own.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
