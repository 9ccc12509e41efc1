#!/usr/bin/env python3
"""Writes the expected tensors of families.golden anew, from Hugging Face Transformers' own models on the meta device.

Needs torch and transformers 5.24. A section is "== NAME", the configuration on one line, then what this script writes:
"name [shape]" per parameter in named_parameters() order, with "= alias" for tied names, and "buffer name [shape] bytes".
To add a case, write its first two lines and run it.   Usage: transformers_tensors.py families.golden
"""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING


def model_of(keys):
    keys = dict(keys)
    config = CONFIG_MAPPING[keys.pop("model_type")].from_dict(keys)
    kind = AutoModelForMaskedLM if config.model_type in ("bert", "roberta", "modernbert") else AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(config)


def expected_lines(keys):
    model = model_of(keys)
    names = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    for _, tensor in model.named_parameters():
        yield f"{' = '.join([names[id(tensor)][0] + ' ' + str(list(tensor.shape))] + names[id(tensor)][1:])}"
    for name, tensor in model.named_buffers():
        yield f"buffer {name} {list(tensor.shape)} {tensor.element_size()}"


def main(path):
    lines = path.read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("== ")]
    written = lines[:starts[0]]
    for i in starts:
        written += [lines[i], lines[i + 1], *expected_lines(json.loads(lines[i + 1])), ""]
    path.write_text("\n".join(written).rstrip("\n") + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
