"""Records a training loop of real PyTorch on the CPU as torch.cuda.memory._dump_snapshot() would on a GPU.

    python make_snapshot.py kept_logits snapshot.pickle    # outputs live until the next ones replace them
    python make_snapshot.py leak ../replay_leak/snapshot.pickle  # each step's logits stay in a list

Every tensor's storage is an allocation with its Python stack, freed when the storage is gone; what the backward
allocates has no Python frames (as with stacks="python", where it runs on a thread of its own). Addresses are
those of the caching allocator's rules without settings (round to 512, best fit, split, merge).
"""
import pickle
import sys

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIB = 1 << 20
CLOCK_START = 1_700_000_000_000_000


class CachingAllocator:
    def __init__(self, events):
        self.events, self.segments, self.next = events, [], 0x7F0000000000

    def malloc(self, request):
        size = max(512, -(-request // 512) * 512)
        small = size <= MIB
        fits = [b for s in self.segments if s["small"] == small for b in s["blocks"]
                if not b["request"] and b["size"] >= size]
        block = min(fits, key=lambda b: (b["size"], b["at"])) if fits else self.grow(size, small)
        rest = block["size"] - size
        if rest >= 512 if small else rest > MIB:
            blocks = block["of"]["blocks"]
            blocks.insert(blocks.index(block) + 1,
                          {"at": block["at"] + size, "size": rest, "request": 0, "of": block["of"]})
            block["size"] = size
        block["request"] = request
        self.events.add("alloc", block["at"], request)
        block["frames"] = self.events.entries[-1]["frames"]
        return block

    def grow(self, size, small):
        total = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        segment = {"at": self.next, "size": total, "small": small}
        self.next += total + 2 * MIB
        segment["blocks"] = [{"at": segment["at"], "size": total, "request": 0, "of": segment}]
        self.segments.append(segment)
        self.events.add("segment_alloc", segment["at"], total)
        segment["frames"] = self.events.entries[-1]["frames"]
        return segment["blocks"][0]

    def free(self, block):
        for action in ("free_requested", "free_completed"):
            self.events.add(action, block["at"], block["request"])
        block["request"] = 0
        blocks = block["of"]["blocks"]
        i = blocks.index(block)
        for left in (i, i - 1):
            if 0 <= left < len(blocks) - 1 and not blocks[left]["request"] and not blocks[left + 1]["request"]:
                blocks[left]["size"] += blocks.pop(left + 1)["size"]

    def dump(self):
        def block_of(b):
            return {"address": b["at"], "size": b["size"], "requested_size": b["request"],
                    "state": "active_allocated" if b["request"] else "inactive",
                    "frames": b["frames"] if b["request"] else []}
        return [{"device": 0, "address": s["at"], "total_size": s["size"], "stream": 0,
                 "segment_type": "small" if s["small"] else "large", "segment_pool_id": (0, 0),
                 "is_expandable": False, "frames": s["frames"], "blocks": [block_of(b) for b in s["blocks"]]}
                for s in self.segments]


class Events:
    def __init__(self):
        self.entries, self.stacks, self.metadata = [], {}, ""

    def now(self):
        return CLOCK_START + 10 * len(self.entries)

    def add(self, action, address, size):
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.now(),
                             "compile_context": "N/A", "user_metadata": self.metadata, "pool_id": (0, 0),
                             "frames": self.stack()})

    def stack(self):
        frames, f = [], sys._getframe(1)
        while f:
            name, path = f.f_code.co_name, f.f_code.co_filename
            if name == "_engine_run_backward":
                return self.stacks.setdefault((), [])
            if name == "__torch_dispatch__":  # what stands inside is the recorder's own
                frames = []
            elif "/torch/" in path:
                if not path.endswith(("_python_dispatch.py", "_ops.py", "_contextlib.py", "_compile.py")):
                    frames.append((name, "/venv/site-packages" + path[path.rindex("/torch/"):], f.f_lineno))
            else:
                frames.append((name, "/home/me/project/train.py", f.f_lineno))
            f = f.f_back
        known = self.stacks.setdefault(tuple(frames), [])
        if not known:
            known.extend({"name": n, "filename": p, "line": line} for n, p, line in frames)
        return known


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.events, self.live = Events(), {}
        self.allocator = CachingAllocator(self.events)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.free_dead()
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.live and storage.nbytes() > 0:
                    self.live[storage._cdata] = (StorageWeakRef(storage), self.allocator.malloc(storage.nbytes()))
        return out

    def free_dead(self):
        for key in [k for k, (storage, _) in self.live.items() if storage.expired()]:
            self.allocator.free(self.live.pop(key)[1])


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, vocabulary=8192, width=128, layers=3):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        self.blocks = torch.nn.Sequential(*[Block(width) for _ in range(layers)])
        self.head = torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        logits = self.head(self.blocks(self.embed(tokens)))
        return {"loss": torch.nn.functional.cross_entropy(logits, tokens), "logits": logits}


def train(recorder, annotations, keeps_history):
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    history = []
    for step in range(4):
        recorder.events.metadata = f"step {step}"
        tokens = torch.randint(8192, (256,))
        outputs = model(tokens)
        optimizer.zero_grad()
        outputs["loss"].backward()
        annotations.append(("START", recorder.events.now()))
        optimizer.step()
        annotations.append(("END", recorder.events.now()))
        if keeps_history:
            history.append(outputs["logits"])


def main():
    recorder, annotations = Recorder(), []
    with recorder:
        train(recorder, annotations, sys.argv[1] == "leak")
        segments = recorder.allocator.dump()  # the loop's variables are gone, what was freed last isn't told yet
    annotations = [{"name": "Optimizer.step#AdamW.step", "stage": stage, "device": 0, "time_us": time}
                   for stage, time in annotations]
    snapshot = {"segments": segments, "device_traces": [recorder.events.entries],
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1},
                "external_annotations": annotations}
    with open(sys.argv[2], "wb") as file:
        pickle.dump(snapshot, file, protocol=4)


main()
