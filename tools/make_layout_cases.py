#!/usr/bin/env python3
"""Asks PyTorch for the strides of results and prints the table that src/program/layout_test.cc checks.

    pip install torch; tools/make_layout_cases.py > src/program/layout_cases.txt

A line is OPERATION OPERAND [OPERAND ...] -> RESULT. An operand or result is SIZES/STRIDES, such as 2,3/3,1; sizes
alone are the argument of a view or expand; a scalar is "/"; "copy" says that no view with these sizes exists.
"""
import random

import torch


def text(tensor):
    return ",".join(map(str, tensor.shape)) + "/" + ",".join(map(str, tensor.stride()))


def random_tensor(rank):
    """A tensor as modelling code has them: permuted, sliced, expanded, or as it was made."""
    sizes = [random.choice([1, 1, 2, 3, 4, 6]) for _ in range(rank)]
    tensor = torch.empty(sizes)
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        if rank == 0:
            break
        dim = random.randrange(rank)
        how = random.choice(["permute", "permute", "slice", "step", "expand"])
        if how == "permute":
            tensor = tensor.permute(random.sample(range(rank), rank))
        elif how == "slice" and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, tensor.shape[dim] - 1)
        elif how == "step" and tensor.shape[dim] > 2:
            tensor = tensor[(slice(None),) * dim + (slice(None, None, 2),)]
        elif how == "expand" and tensor.shape[dim] == 1:
            tensor = tensor.expand([3 if d == dim else s for d, s in enumerate(tensor.shape)])
    return tensor


def broadcastable(tensor):
    """A tensor with some of the other's dims missing or of size 1."""
    sizes = [s if random.random() < 0.7 else 1 for s in tensor.shape]
    order = random.sample(range(tensor.dim()), tensor.dim())
    base = torch.empty([sizes[d] for d in order]).permute([order.index(d) for d in range(tensor.dim())])
    return base[(0,) * random.choice([0, 0, 0, min(1, base.dim())])]


def random_view_sizes(tensor):
    """Sizes of as many elements: neighbouring dims joined, a dim split in two, ones put in or taken out."""
    sizes = list(tensor.shape)
    for _ in range(random.choice([1, 1, 2])):
        how = random.choice(["join", "split", "one", "squeeze"])
        if how == "join" and len(sizes) > 1:
            i = random.randrange(len(sizes) - 1)
            sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
        elif how == "split" and sizes and len(sizes) < 6:
            i = random.randrange(len(sizes))
            for factor in (2, 3):
                if sizes[i] % factor == 0:
                    sizes[i : i + 1] = random.choice([[factor, sizes[i] // factor], [sizes[i] // factor, factor]])
                    break
        elif how == "one" and len(sizes) < 6:
            sizes.insert(random.randrange(len(sizes) + 1), 1)
        elif how == "squeeze" and 1 in sizes:
            sizes.remove(1)
    return sizes


def viewed(tensor, sizes):
    try:
        return text(tensor.view(sizes))
    except RuntimeError:
        return "copy"


def join(sizes):
    return ",".join(map(str, sizes)) or "[]"


def lines():
    for _ in range(60):
        tensor = random_tensor(random.randrange(0, 5))
        yield f"like {text(tensor)} -> {text(torch.empty_like(tensor))}"
    for _ in range(150):
        a = random_tensor(random.randrange(1, 5))
        b = random.choice([broadcastable, broadcastable, torch.empty_like, lambda t: torch.empty(t.shape)])(a)
        pair = random.choice([(a, b), (b, a)])
        yield f"pointwise {text(pair[0])} {text(pair[1])} -> {text(pair[0] + pair[1])}"
    for _ in range(40):
        a = random_tensor(random.randrange(1, 5))
        operands = random.sample([a, broadcastable(a), broadcastable(a)], 3)
        result = torch.where(operands[0] > 0, operands[1], operands[2])
        yield f"pointwise {' '.join(map(text, operands))} -> {text(result)}"
    for _ in range(150):
        tensor = random_tensor(random.randrange(0, 5))
        sizes = random_view_sizes(tensor)
        yield f"view {text(tensor)} {join(sizes)} -> {viewed(tensor, sizes)}"
    for _ in range(40):
        tensor = broadcastable(random_tensor(random.randrange(1, 5)))
        sizes = [random.choice([5, 1]) if s == 1 else s for s in tensor.shape]
        sizes = [random.choice([1, 2]) for _ in range(random.choice([0, 0, 1, 2]))] + sizes
        yield f"expand {text(tensor)} {join(sizes)} -> {text(tensor.expand(sizes))}"
    for _ in range(30):
        tensor = random_tensor(random.randrange(1, 5))
        dim = random.randrange(tensor.dim() + 1)
        yield f"unsqueeze {text(tensor)} {dim} -> {text(tensor.unsqueeze(dim))}"
    for _ in range(40):
        tensor = random_tensor(random.randrange(1, 5))
        dims = random.sample(range(tensor.dim()), random.randrange(1, tensor.dim() + 1))
        keep = random.choice([True, False])
        yield f"{'sum_keep' if keep else 'sum'} {text(tensor)} {join(sorted(dims))} -> {text(tensor.sum(dims, keep))}"


def main():
    random.seed(1)
    print(f"# Written by tools/make_layout_cases.py with PyTorch {torch.__version__.split('+')[0]}; see there.")
    for line in sorted(set(lines())):
        print(line)


main()
