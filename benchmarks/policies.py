"""Storage policies on two networks: peak, time of a step, bytes to and from the disk.

    python benchmarks/policies.py [--rounds N] [--networks gpt digits] [--policies disk bfloat16 ...]
                                  [--directory DIR] [--tiny] [--json FILE]

The networks are a GPT of 12 blocks, 768 wide, on 4 x 512 tokens; and the residual network of examples/train_digits.py
on 256 handwritten digits, enlarged to 32 x 32 points (needs scikit-learn). A step is forward and backward, without an
optimizer. In each round every policy runs in a fresh process, right after one without a policy, whose time it is
compared with; and one process writes as many bytes as the disk policy did, in one sequence around the page cache
(O_DIRECT), 4 MiB at a time, to the same directory: what the disk can do just then. Peak growth is that of the first
step. CPU is the processor time of a step beside plain's: on a machine that others use, too, it says more than the
duration. Exact policies must give the losses and gradients of the plain step bit for bit.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from gpt_inputs import TINY, Config, batches
from harness import ResidentGrowth, emit
from run import MIB, child

CONFIG = Config(layers=12, width=768, heads=12, batch=4, context=512)
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
DIGITS_BATCH, DIGITS_ENLARGED = 256, 4
STEPS = 4
DISK_TARGET, BFLOAT16_TARGET = 1.20, 1.08
PIECE = 4 * MIB


def policies(directory: str) -> dict[str, Callable[[], Any]]:
    """How each policy is made, by name; the exact ones first."""
    from stowgrad.offload import save_on_disk
    from stowgrad.saved_tensors import Cast, Compress, Quantize

    def disk() -> Any:
        return save_on_disk(directory, min_bytes="64 KiB")

    return {
        "compress": lambda: Compress("auto"),
        "disk": disk,
        "disk, one transfer at a time": lambda: save_on_disk(directory, min_bytes="64 KiB", staging=0),
        "compress, then disk": lambda: Compress("auto") | disk(),
        "bfloat16": lambda: Cast("bfloat16"),
        "float16": lambda: Cast("float16", scaled=True),
        "int8": lambda: Quantize(8),
        "int4": lambda: Quantize(4),
        "bfloat16, then disk": lambda: Cast("bfloat16") | disk(),
    }


EXACT = ("compress", "disk", "disk, one transfer at a time", "compress, then disk")
NAMES = (*EXACT, "bfloat16", "float16", "int8", "int4", "bfloat16, then disk")


# -- in a process of its own -------------------------------------------------------------------------------------------

Network = tuple[Callable[[], Any], Iterable[Any]]


def gpt(tiny: bool) -> Network:
    """The loss of the next batch as a function, and the parameters."""
    from stowgrad_gpt import GPT, load_weights

    import stowgrad

    config = TINY if tiny else CONFIG
    model = GPT(config)
    load_weights(model, config)
    data = batches(config)

    def loss() -> Any:
        inputs, targets = next(data)
        return model(stowgrad.from_numpy(inputs), stowgrad.from_numpy(targets))

    return loss, list(model.parameters())


def digits(tiny: bool) -> Network:
    """The same for the network that reads digits."""
    sys.path.append(str(EXAMPLES))
    from residual_network import ResidualNetwork
    from train_digits import load_digits

    import stowgrad
    from stowgrad.nn import functional as F

    stowgrad.manual_seed(0)
    images, classes = load_digits()
    model = ResidualNetwork(10, width=16)
    draw = np.random.default_rng(0)
    count, larger = (16, 1) if tiny else (DIGITS_BATCH, DIGITS_ENLARGED)

    def loss() -> Any:
        which = draw.integers(0, len(images), count)
        enlarged = np.kron(images[which], np.ones((1, larger, larger))).astype(np.float32)
        return F.cross_entropy(model(stowgrad.from_numpy(enlarged[:, None])), stowgrad.from_numpy(classes[which]))

    return loss, list(model.parameters())


NETWORKS: dict[str, Callable[[bool], Network]] = {"gpt": gpt, "digits": digits}


def transfers(policy: Any) -> tuple[int, int]:
    """Bytes that a policy's file has written and read so far."""
    arenas = [link.stage.arena for link in policy._links if hasattr(link.stage, "arena")]
    return sum(arena.written_bytes for arena in arenas), sum(arena.read_bytes for arena in arenas)


def run_steps(name: str, directory: str, network: str, tiny: bool) -> dict[str, Any]:
    """Time some steps under a policy, or under none."""
    from stowgrad import memory
    from stowgrad.saved_tensors import Policy

    policy = Policy() if name == "plain" else policies(directory)[name]()
    loss_of_next, parameters = NETWORKS[network](tiny)
    growth, seconds, processor, losses = ResidentGrowth(), [], [], []
    peaks: dict[str, Any] = {}
    for step in range(STEPS):
        for parameter in parameters:
            parameter.grad = None
        begin, worked = time.perf_counter(), time.process_time()
        with nullcontext() if name == "plain" else policy:
            loss = loss_of_next()
        loss.backward()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - worked)
        del loss
        if step == 0:
            peaks = {"peak_growth_bytes": growth.peak(), "tracked_peak_bytes": memory.max_memory_allocated()}
    gradients = 0
    for parameter in parameters:
        gradients = zlib.crc32(np.ascontiguousarray(parameter.grad.numpy()).data, gradients)
    written, read = transfers(policy)
    kept = policy.statistics()
    return {
        "seconds": statistics.median(seconds[1:]), "processor_seconds": statistics.median(processor[1:]),
        "losses": losses, "gradients": gradients, **peaks,
        "written_bytes": written / STEPS, "read_bytes": read / STEPS, "raw_bytes": kept.raw_bytes / STEPS,
        "pack_seconds": kept.pack_seconds / STEPS, "unpack_seconds": kept.unpack_seconds / STEPS,
        "without_effect": list(policy.report().without_effect) if name != "plain" else [],
    }  # fmt: skip


def write_plainly(directory: str, nbytes: int) -> dict[str, Any]:
    """Write bytes to a file that no directory shows, in one sequence, around the page cache where that is possible."""
    buffer = mmap.mmap(-1, PIECE)
    buffer.write(np.random.default_rng(0).bytes(PIECE))
    with tempfile.TemporaryFile(buffering=0, dir=directory) as file:
        direct = hasattr(os, "O_DIRECT")
        if direct:
            import fcntl

            try:
                fcntl.fcntl(file.fileno(), fcntl.F_SETFL, fcntl.fcntl(file.fileno(), fcntl.F_GETFL) | os.O_DIRECT)
            except OSError:
                direct = False
        begin = time.perf_counter()
        for position in range(0, max(nbytes, PIECE), PIECE):
            os.pwrite(file.fileno(), buffer, position)
        seconds = time.perf_counter() - begin
    return {"gigabytes_per_second": max(nbytes, PIECE) / 1e9 / seconds, "direct": direct}


# -- the rounds --------------------------------------------------------------------------------------------------------


def run_rounds(options: argparse.Namespace, network: str) -> dict[str, list[dict[str, Any]]]:
    """Fresh processes, in turn: plain, then a policy, then plain again; and the disk by itself once a round."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("disk alone", *options.policies)}
    common = ["--directory", options.directory, "--networks", network, *(["--tiny"] if options.tiny else [])]
    for number in range(options.rounds):
        written = 0.0
        for name in options.policies:
            print(f"{network}, round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            plain = child([__file__, "--child", "plain", *common])
            row = child([__file__, "--child", name, *common])
            row["ratio"] = row["seconds"] / plain["seconds"]
            row["processor_ratio"] = row["processor_seconds"] / plain["processor_seconds"]
            row["plain"] = plain
            row["equal"] = (row["losses"], row["gradients"]) == (plain["losses"], plain["gradients"])
            written = max(written, row["written_bytes"])
            rows[name].append(row)
        rows["disk alone"].append(child([__file__, "--child", "disk alone", "--bytes", str(int(written)), *common]))
    return rows


def table(rows: dict[str, list[dict[str, Any]]]) -> tuple[list[str], bool]:
    """The lines of the table, and whether exact policies were exact."""
    lines = [
        "| policy | s a step | x plain | min-max | CPU | peak growth MiB | pool's peak | written, read MiB | GB/s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    good = True

    def median(name: str, key: str) -> float:
        return statistics.median(row[key] or 0 for row in rows[name])

    plain = [row["plain"] for name in rows if name != "disk alone" for row in rows[name]]
    peaks = [
        statistics.median(row[key] or 0 for row in plain) / MIB for key in ("peak_growth_bytes", "tracked_peak_bytes")
    ]
    seconds = statistics.median(row["seconds"] for row in plain)
    lines.append(f"| plain | {seconds:.3f} | 1.00 | | 1.00 | {peaks[0]:.0f} | {peaks[1]:.0f} | | |")
    for name in (name for name in rows if name != "disk alone"):
        ratios = [row["ratio"] for row in rows[name]]
        moved = [median(name, key) / MIB for key in ("written_bytes", "read_bytes")]
        rate = (median(name, "written_bytes") + median(name, "read_bytes")) / 1e9 / median(name, "seconds")
        cells = [
            f"{median(name, 'seconds'):.3f}",
            f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}-{max(ratios):.2f}",
            f"{median(name, 'processor_ratio'):.2f}",
            f"{median(name, 'peak_growth_bytes') / MIB:.0f}", f"{median(name, 'tracked_peak_bytes') / MIB:.0f}",
            f"{moved[0]:.0f}, {moved[1]:.0f}" if moved[0] else "-", f"{rate:.2f}" if moved[0] else "-",
        ]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
        if name in EXACT and not all(row["equal"] for row in rows[name]):
            lines.append(f"| {name} | IS NOT EXACT | | | | | | | |")
            good = False
    alone = rows["disk alone"]
    rates = [row["gigabytes_per_second"] for row in alone]
    how = "O_DIRECT" if all(row["direct"] for row in alone) else "through the page cache"
    lines.append("")
    lines.append(f"the disk alone, one sequence of writes, {how}: {min(rates):.2f}-{max(rates):.2f} GB/s")
    for name, most in (("disk", DISK_TARGET), ("bfloat16", BFLOAT16_TARGET)):
        if name in rows:
            ratio = statistics.median(row["ratio"] for row in rows[name])
            lines.append(f"target {name} <= {most} x plain: {ratio:.2f}, {'met' if ratio <= most else 'MISSED'}")
    return lines, good


def main() -> int:
    """Run the rounds, or one child of them; 1 when an exact policy wasn't exact."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="processes of each policy (default 5)")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="which networks")
    parser.add_argument("--policies", nargs="+", choices=NAMES, default=list(NAMES), help="which policies")
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="where the disk policies write")
    parser.add_argument("--tiny", action="store_true", help="a toy model: to see that everything runs, not for figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every process's row to FILE")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child == "disk alone":
        emit(write_plainly(options.directory, options.bytes))
        return 0
    if options.child:
        emit(run_steps(options.child, options.directory, options.networks[0], options.tiny))
        return 0
    found, all_good = {}, True
    for network in options.networks:
        found[network] = run_rounds(options, network)
        lines, good = table(found[network])
        print("\n".join([f"\n{network}\n", *lines]), flush=True)
        all_good = all_good and good
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
