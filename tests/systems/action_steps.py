#!/usr/bin/env python3
"""The shell steps of a composite action, as scripts: action_steps.py ACTION FOLDER [INPUT=VALUE…]

Checks what GitHub would refuse: missing fields, a shell step without a shell, an expression that
names no input or step. Writes FOLDER/1.sh, … with the variables of each step; a step whose condition
is false is left out.
"""

import re
import shlex
import sys
from pathlib import Path

import yaml


def expand(text, inputs, steps):
    def value(match):
        name = match[1].strip()
        if name.startswith("inputs."):
            return inputs[name.removeprefix("inputs.")]
        step = re.fullmatch(r"steps\.(\w+)\.outputs\.(\w+)", name)
        if step is None or step[1] not in steps:
            raise ValueError(f"no such thing: {name}")
        return f"$OUTPUT_{step[2]}"  # known when the script runs
    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def is_wanted(condition, inputs):
    if condition is None:
        return True
    # Comparisons of inputs, joined by && and || and parentheses: Python means the same by them.
    translated = condition.replace("&&", " and ").replace("||", " or ")
    translated = re.sub(r"inputs\.(\w+)", lambda match: repr(inputs[match[1]]), translated)
    if not re.fullmatch(r"(?:'[^']*'|==|!=|and|or|[()\s])+", translated):
        raise ValueError(f"what is this? {condition}")
    return eval(translated, {"__builtins__": {}})


def main(action, folder, given):
    described = yaml.safe_load(Path(action).read_text())
    for field in ("name", "description", "inputs", "runs"):
        assert described.get(field), f"{action}: no {field}"
    assert described["runs"]["using"] == "composite"
    inputs = {}
    for name, field in described["inputs"].items():
        assert field["description"] and isinstance(field["default"], str), f"input {name}"
        inputs[name] = field["default"]
    for pair in given:
        name, value = pair.split("=", 1)
        assert name in inputs, f"no input {name}"
        inputs[name] = value
    known = set()
    for number, step in enumerate(described["runs"]["steps"], 1):
        assert step["name"] and step["shell"] == "bash", f"step {number}"
        lines = ["set -eo pipefail"]  # as GitHub starts bash
        for name, text in step.get("env", {}).items():
            expanded = expand(text, inputs, known)
            quoted = f'"{expanded}"' if expanded.startswith("$OUTPUT_") else shlex.quote(expanded)
            lines.append(f"export {name}={quoted}")
        assert "${{" not in step["run"], f"step {number}: an input inside of a script is code"
        if "id" in step:
            known.add(step["id"])
        if is_wanted(step.get("if"), inputs):
            Path(folder, f"{number}.sh").write_text("\n".join(lines) + "\n" + step["run"])
    for output in described.get("outputs", {}).values():
        expand(output["value"], inputs, known)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
