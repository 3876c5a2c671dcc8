"""The floor: one GPT training step written by hand in NumPy, as fast as its author could make it and still read it.

There is no engine here. Every buffer is allocated once. Three things make it fast:

* Two threads, each with single-threaded BLAS inside, share out *groups* of whole sequences. A group runs through the
  whole forward pass (and through one layer's backward) without waiting for the other thread; only weight gradients,
  which sum over all rows, need everybody, and they are shared out by output features instead.
* Element-wise work goes through tiles that stay in the cache, every step with `out=`. Each call must last long beside
  the handing over of the interpreter's lock, or two threads are no faster than one.
* What is saved is the least: normalised rows (not the residual stream), GELU's derivative (not its input), the
  log-sum-exp of attention, never the T x T matrix, never all logits.

Shapes: N = batch * context rows, C = width. Linear weights are (out, in): y = x @ W.T + b, dx = dy @ W, dW = dy.T @ x.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from gpt_inputs import Config, initial_weights, parameter_shapes
from harness import Step, arguments, emit, time_steps
from threadpoolctl import threadpool_info, threadpool_limits

TILE = 96 * 1024  # floats of one element-wise tile: with smaller ones two threads queue for the interpreter's lock
GROUP_ROWS = 512  # rows of one task: fewer, and BLAS spends its time on packing the weights
BLOCK = 128  # query rows of one attention block, all heads together
CHUNK = 1024  # rows whose logits exist at once

Array = np.ndarray

_GELU = np.float32(np.sqrt(2.0 / np.pi))
_CUBIC = np.float32(0.044715)


class Workers:
    """`run(function, count)` calls function(i, worker) for every i < count, on this thread and the helpers."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._helpers = ThreadPoolExecutor(max(1, count - 1))

    def run(self, function: Callable[[int, int], None], count: int) -> None:
        numbers = itertools.count()  # next() is atomic: whoever is free takes the next task

        def work(worker: int) -> None:
            while (i := next(numbers)) < count:
                function(i, worker)

        waiting = [self._helpers.submit(work, w) for w in range(1, min(self.count, count))]
        work(0)
        for future in waiting:
            future.result()


class Scratch:
    """One worker's temporary tiles: `take(n, *shape)` is n arrays of that shape over the same reused memory."""

    def __init__(self, floats: int) -> None:
        self._memory = np.empty(floats, np.float32)

    def take(self, count: int, *shape: int) -> np.ndarray:
        return self._memory[: count * math.prod(shape)].reshape(count, *shape)


def tiles(rows: int, columns: int) -> list[slice]:
    """Slices of rows, TILE floats each at most."""
    step = max(1, TILE // columns)
    return [slice(i, min(i + step, rows)) for i in range(0, rows, step)]


# --- pieces on one group of rows; every array is a view of a buffer that the model owns ---


def layer_norm(
    x: Array, weight: Array, bias: Array, eps: float, normal: Array, rstd: Array, y: Array, ones: Array
) -> None:
    """normal = (x - mean) * rstd; y = normal * weight + bias. Sums of rows are dot products: BLAS does them fastest."""
    inverse = np.float32(1.0 / x.shape[1])
    for t in tiles(*x.shape):
        h = normal[t]
        np.subtract(x[t], (x[t] @ ones[: x.shape[1]] * inverse)[:, None], out=h)
        np.divide(1.0, np.sqrt(np.vecdot(h, h) * inverse + eps), out=rstd[t])
        np.multiply(h, rstd[t, None], out=h)
        np.multiply(h, weight, out=y[t])
        np.add(y[t], bias, out=y[t])


def layer_norm_backward(
    dy: Array, weight: Array, bias: Array, normal: Array, rstd: Array, residual: Array,
    dx: Array, y: Array | None, sums: Array, ones: Array, scratch: Scratch,
) -> None:  # fmt: skip
    """dx = residual + gradient through the norm; sums (2, C) become d_weight and d_bias.

    y, the norm's output, is made again for the weight gradient of the linear layer behind it.
    """
    inverse = np.float32(1.0 / dy.shape[1])
    sums[...] = 0.0
    for t in tiles(*dy.shape):
        d, h = dy[t], normal[t]
        (g,) = scratch.take(1, *d.shape)
        np.multiply(d, h, out=g)
        sums[0] += ones[: len(d)] @ g
        sums[1] += ones[: len(d)] @ d
        np.multiply(d, weight, out=g)
        mean, slope = g @ ones[: g.shape[1]] * inverse, np.vecdot(g, h) * inverse
        np.subtract(g, mean[:, None], out=g)
        np.multiply(h, slope[:, None], out=dx[t])
        np.subtract(g, dx[t], out=g)
        np.multiply(g, rstd[t, None], out=g)
        np.add(residual[t], g, out=dx[t])
        if y is not None:
            np.multiply(h, weight, out=y[t])
            np.add(y[t], bias, out=y[t])


def gelu(x: Array, bias: Array, slope: Array, scratch: Scratch) -> None:
    """x becomes gelu(x + bias), tanh form; slope becomes its derivative, so backward is one multiplication."""
    for t in tiles(*x.shape):
        h, d = x[t], slope[t]
        square, p = scratch.take(2, *h.shape)
        np.add(h, bias, out=h)
        np.multiply(h, h, out=square)
        np.multiply(square, _GELU * _CUBIC, out=p)
        np.add(p, _GELU, out=p)
        np.multiply(p, h, out=p)
        np.tanh(p, out=p)
        np.multiply(p, np.float32(0.5), out=p)
        np.add(p, np.float32(0.5), out=p)  # gelu = h * p, where p = (1 + tanh u) / 2 and so dp/du = 2 p (1 - p)
        np.multiply(square, 6.0 * _GELU * _CUBIC, out=square)
        np.add(square, 2.0 * _GELU, out=square)  # 2 du/dh
        np.multiply(h, p, out=h)
        np.subtract(np.float32(1.0), p, out=d)
        np.multiply(d, h, out=d)
        np.multiply(d, square, out=d)
        np.add(d, p, out=d)


def attention(q: Array, k: Array, v: Array, out: Array, lse: Array, mask: Array, ones: Array, scratch: Scratch) -> None:
    """All heads of one sequence, (H, T, D) each: blocks of query rows against the keys up to their end.

    One call for all heads rather than one a head: matmul loops over the heads without the interpreter's lock.
    """
    heads, length, width = q.shape
    scale = np.float32(width**-0.5)
    for i in range(0, length, BLOCK):
        j = min(i + BLOCK, length)
        (scores,) = scratch.take(1, heads, j - i, j)
        np.matmul(q[:, i:j] * scale, k[:, :j].swapaxes(1, 2), out=scores)
        scores[:, :, i:] += mask[: j - i, : j - i]
        top = scores.max(axis=2)
        np.subtract(scores, top[..., None], out=scores)
        np.exp(scores, out=scores)
        total = scores @ ones[:j]
        np.matmul(scores, v[:, :j], out=out[:, i:j])
        np.divide(out[:, i:j], total[..., None], out=out[:, i:j])
        np.add(np.log(total), top, out=lse[:, i:j])


def attention_backward(
    q: Array, k: Array, v: Array, out: Array, lse: Array, d_out: Array,
    dq: Array, dk: Array, dv: Array, mask: Array, scratch: Scratch,
) -> None:  # fmt: skip
    """Last block first: it meets every key, so it writes dk and dv, and the blocks before it add."""
    heads, length, width = q.shape
    scale = np.float32(width**-0.5)
    for i in reversed(range(0, length, BLOCK)):
        j = min(i + BLOCK, length)
        p, dp = scratch.take(2, heads, j - i, j)
        qs, do = q[:, i:j] * scale, d_out[:, i:j]
        np.matmul(qs, k[:, :j].swapaxes(1, 2), out=p)
        p[:, :, i:] += mask[: j - i, : j - i]
        np.subtract(p, lse[:, i:j, None], out=p)
        np.exp(p, out=p)
        np.matmul(do, v[:, :j].swapaxes(1, 2), out=dp)
        np.subtract(dp, np.vecdot(do, out[:, i:j])[..., None], out=dp)
        np.multiply(dp, p, out=dp)
        if j == length:
            np.matmul(p.swapaxes(1, 2), do, out=dv)
            np.matmul(dp.swapaxes(1, 2), qs, out=dk)
        else:
            dv[:, :j] += p.swapaxes(1, 2) @ do
            dk[:, :j] += dp.swapaxes(1, 2) @ qs
        np.matmul(dp, k[:, :j], out=dq[:, i:j])
        np.multiply(dq[:, i:j], scale, out=dq[:, i:j])


def softmax_loss(logits: Array, targets: Array, loss: Array, scale: np.float32, ones: Array) -> None:
    """logits become their gradient, scale * (softmax - one-hot); loss (rows,) is each row's cross-entropy."""
    for t in tiles(*logits.shape):
        z = logits[t]
        rows, labels = np.arange(len(z)), targets[t]
        z -= z.max(axis=1, keepdims=True)
        right = z[rows, labels]
        np.exp(z, out=z)
        total = z @ ones
        loss[t] = np.log(total) - right
        np.multiply(z, (scale / total)[:, None], out=z)
        z[rows, labels] -= scale


def adamw(p: Array, g: Array, m: Array, v: Array, step: int, config: Config, scratch: Scratch) -> None:
    """AdamW on one flat tile of the parameters, PyTorch's arithmetic."""
    b1, b2 = config.betas
    f = np.float32
    (t,) = scratch.take(1, len(p))
    np.multiply(p, f(1 - config.lr * config.weight_decay), out=p)
    np.subtract(g, m, out=t)
    np.multiply(t, f(1 - b1), out=t)
    np.add(m, t, out=m)
    np.multiply(v, f(b2), out=v)
    np.multiply(g, g, out=t)
    np.multiply(t, f(1 - b2), out=t)
    np.add(v, t, out=v)
    np.sqrt(v, out=t)
    np.multiply(t, f((1 - b2**step) ** -0.5), out=t)
    np.add(t, f(config.eps), out=t)
    np.divide(m, t, out=t)
    np.multiply(t, f(config.lr / (1 - b1**step)), out=t)
    np.subtract(p, t, out=p)


# --- the model ---


class Flat:
    """All parameters (or gradients, or moments) in one float32 array, with a view for each name."""

    def __init__(self, config: Config) -> None:
        shapes = parameter_shapes(config)
        self.all = np.zeros(sum(math.prod(shape) for shape in shapes.values()), np.float32)
        self.views: dict[str, np.ndarray] = {}
        begin = 0
        for name, shape in shapes.items():
            end = begin + math.prod(shape)
            self.views[name] = self.all[begin:end].reshape(shape)
            begin = end

    def __getitem__(self, name: str) -> np.ndarray:
        return self.views[name]


class Saved:
    """What one layer keeps for backward: 14 values of the width per token, and three numbers."""

    def __init__(self, config: Config) -> None:
        n, c = config.rows, config.width
        self.normal_1, self.normal_2, self.attended = (np.empty((n, c), np.float32) for _ in range(3))
        self.rstd_1, self.rstd_2 = np.empty(n, np.float32), np.empty(n, np.float32)
        self.qkv = np.empty((n, 3 * c), np.float32)
        self.lse = np.empty((config.batch, config.heads, config.context), np.float32)
        self.hidden, self.slope = np.empty((n, 4 * c), np.float32), np.empty((n, 4 * c), np.float32)


class NumpyGPT:
    """Parameters, every buffer of the step, and the step."""

    def __init__(self, config: Config, threads: int = 2) -> None:
        self.config = config
        self.workers = Workers(threads)
        self.parameters, self.gradients, self.m, self.v = (Flat(config) for _ in range(4))
        for name, value in initial_weights(config):
            self.parameters[name][...] = value
        n, c = config.rows, config.width
        self.saved = [Saved(config) for _ in range(config.layers)]
        # the residual stream in forward; its gradient after the MLP, before it, and before the block in backward
        self.x, self.d_middle, self.d_before = (np.empty((n, c), np.float32) for _ in range(3))
        self.y_1, self.y_2 = np.empty((n, c), np.float32), np.empty((n, c), np.float32)
        self.normal_f, self.rstd_f = np.empty((n, c), np.float32), np.empty(n, np.float32)
        self.d_qkv, self.d_hidden = np.empty((n, 3 * c), np.float32), np.empty((n, 4 * c), np.float32)
        self.logits = np.empty((min(CHUNK, n), config.vocabulary), np.float32)
        self.losses = np.empty(n, np.float32)
        self.ones = np.ones(max(n, config.vocabulary), np.float32)
        self.mask = np.triu(np.full((BLOCK, BLOCK), -np.inf, np.float32), 1)
        per_group = max(1, min(GROUP_ROWS, n // threads) // config.context) * config.context
        self.groups = [slice(i, min(i + per_group, n)) for i in range(0, n, per_group)]
        self.sums = np.empty((len(self.groups), 2, 2, c), np.float32)  # group, which norm, weight or bias
        floats = max(2 * TILE, 2 * config.heads * BLOCK * config.context, 512 * c)
        self.scratch = [Scratch(floats) for _ in range(threads)]
        self.steps = 0

    def step(self, tokens: np.ndarray, targets: np.ndarray) -> float:
        """One training step on int64 (batch, context) tokens and targets; returns the mean cross-entropy."""
        self.loss_and_gradients(tokens.reshape(-1), targets.reshape(-1))
        self.steps += 1
        total, run = self.parameters.all.size, TILE

        def update(i: int, worker: int) -> None:
            for begin in range(i * 8 * run, min((i + 1) * 8 * run, total), run):
                part = slice(begin, min(begin + run, total))
                p, g, m, v = (flat.all[part] for flat in (self.parameters, self.gradients, self.m, self.v))
                adamw(p, g, m, v, self.steps, self.config, self.scratch[worker])

        self.workers.run(update, -(-total // (8 * run)))
        return float(self.losses.mean(dtype=np.float64))

    def loss_and_gradients(self, tokens: np.ndarray, targets: np.ndarray) -> None:
        """Fill `gradients` and `losses` for flat tokens and targets (N,)."""
        self.workers.run(partial(self._forward, tokens), len(self.groups))
        for begin in range(0, len(targets), CHUNK):
            self._head(slice(begin, min(begin + CHUNK, len(targets))), targets)
        self.workers.run(self._final_norm_backward, len(self.groups))
        self._sum_norms(("ln_f",))
        for layer in reversed(range(self.config.layers)):
            self.workers.run(partial(self._backward, layer), len(self.groups))
            self._weight_gradients(layer)
            self.x, self.d_before = self.d_before, self.x
        self._embedding_gradients(tokens)

    def _forward(self, tokens: np.ndarray, i: int, worker: int) -> None:
        """The whole forward pass up to the last norm, for the sequences of group i; y_1 becomes the head's input."""
        config, p, g, scratch = self.config, self.parameters, self.groups[i], self.scratch[worker]
        x, y = self.x[g], self.y_1[g]
        np.take(p["wte.weight"], tokens[g], axis=0, out=x)
        for begin in range(0, len(x), config.context):
            x[begin : begin + config.context] += p["wpe.weight"]
        for layer, s in enumerate(self.saved):
            b = f"blocks.{layer}."
            eps, ones = config.layer_norm_eps, self.ones
            layer_norm(x, p[b + "ln_1.weight"], p[b + "ln_1.bias"], eps, s.normal_1[g], s.rstd_1[g], y, ones)
            np.matmul(y, p[b + "qkv.weight"].T, out=s.qkv[g])
            s.qkv[g] += p[b + "qkv.bias"]
            for sequence in self._sequences(g):
                q, k, v = self._heads(s.qkv, sequence)
                (out,) = self._heads(s.attended, sequence)
                attention(q, k, v, out, s.lse[sequence], self.mask, self.ones, scratch)
            np.matmul(s.attended[g], p[b + "proj.weight"].T, out=y)
            np.add(y, p[b + "proj.bias"], out=y)
            np.add(x, y, out=x)
            layer_norm(x, p[b + "ln_2.weight"], p[b + "ln_2.bias"], eps, s.normal_2[g], s.rstd_2[g], y, ones)
            np.matmul(y, p[b + "fc.weight"].T, out=s.hidden[g])
            gelu(s.hidden[g], p[b + "fc.bias"], s.slope[g], scratch)
            np.matmul(s.hidden[g], p[b + "fc_proj.weight"].T, out=y)
            np.add(y, p[b + "fc_proj.bias"], out=y)
            np.add(x, y, out=x)
        layer_norm(x, p["ln_f.weight"], p["ln_f.bias"], eps, self.normal_f[g], self.rstd_f[g], y, ones)

    def _sequences(self, g: slice) -> range:
        return range(g.start // self.config.context, g.stop // self.config.context)

    def _heads(self, x: np.ndarray, sequence: int) -> np.ndarray:
        """A sequence's rows of x (N, n * C) as n views (H, T, D), last axis contiguous as BLAS needs; never copied."""
        t, heads = self.config.context, self.config.heads
        rows = x[sequence * t : (sequence + 1) * t]
        return rows.reshape(t, -1, heads, self.config.width // heads).transpose(1, 2, 0, 3)

    def _head(self, chunk: slice, targets: np.ndarray) -> None:
        """Logits, losses and all gradients of the last linear layer for one chunk of rows; y_2 becomes d(y_1)."""
        weight, gradient = self.parameters["lm_head.weight"], self.gradients["lm_head.weight"]
        y, logits = self.y_1[chunk], self.logits[: chunk.stop - chunk.start]
        share = -(-len(logits) // self.workers.count)
        columns = 512

        def rows(i: int, worker: int) -> None:
            part = slice(i * share, min((i + 1) * share, len(logits)))
            every = slice(chunk.start + part.start, chunk.start + part.stop)
            np.matmul(y[part], weight.T, out=logits[part])
            scale = np.float32(1.0 / self.config.rows)
            softmax_loss(logits[part], targets[every], self.losses[every], scale, self.ones[: len(weight)])
            np.matmul(logits[part], weight, out=self.y_2[every])

        def add_gradient(i: int, worker: int) -> None:
            part = slice(i * columns, min((i + 1) * columns, len(weight)))
            if chunk.start == 0:
                np.matmul(logits[:, part].T, y, out=gradient[part])
            else:
                (more,) = self.scratch[worker].take(1, part.stop - part.start, y.shape[1])
                gradient[part] += np.matmul(logits[:, part].T, y, out=more)

        self.workers.run(rows, self.workers.count)
        self.workers.run(add_gradient, -(-len(weight) // columns))

    def _final_norm_backward(self, i: int, worker: int) -> None:
        g, p, ones = self.groups[i], self.parameters, self.ones
        self.d_middle[g] = 0.0  # nothing else flows into the last residual sum
        layer_norm_backward(
            self.y_2[g], p["ln_f.weight"], p["ln_f.bias"], self.normal_f[g], self.rstd_f[g], self.d_middle[g],
            self.x[g], None, self.sums[i, 0], ones, self.scratch[worker],
        )  # fmt: skip

    def _backward(self, layer: int, i: int, worker: int) -> None:
        """Gradients of one block's activations for group i: from x (after the block) to d_before."""
        scratch = self.scratch[worker]
        g, s, p, ones = self.groups[i], self.saved[layer], self.parameters, self.ones
        b = f"blocks.{layer}."
        d_hidden, d_qkv, spare = self.d_hidden[g], self.d_qkv[g], self.d_before[g]
        np.matmul(self.x[g], p[b + "fc_proj.weight"], out=d_hidden)
        np.multiply(d_hidden, s.slope[g], out=d_hidden)
        np.matmul(d_hidden, p[b + "fc.weight"], out=spare)
        layer_norm_backward(
            spare, p[b + "ln_2.weight"], p[b + "ln_2.bias"], s.normal_2[g], s.rstd_2[g], self.x[g],
            self.d_middle[g], self.y_2[g], self.sums[i, 1], ones, scratch,
        )  # fmt: skip
        np.matmul(self.d_middle[g], p[b + "proj.weight"], out=spare)
        for sequence in self._sequences(g):
            q, k, v = self._heads(s.qkv, sequence)
            dq, dk, dv = self._heads(self.d_qkv, sequence)
            (out,), (d_out,) = self._heads(s.attended, sequence), self._heads(self.d_before, sequence)
            attention_backward(q, k, v, out, s.lse[sequence], d_out, dq, dk, dv, self.mask, scratch)
        np.matmul(d_qkv, p[b + "qkv.weight"], out=spare)
        layer_norm_backward(
            spare, p[b + "ln_1.weight"], p[b + "ln_1.bias"], s.normal_1[g], s.rstd_1[g], self.d_middle[g],
            spare, self.y_1[g], self.sums[i, 0], ones, scratch,
        )  # fmt: skip

    def _weight_gradients(self, layer: int) -> None:
        """dW = dy.T @ x and db = sum of dy over all rows, shared out by output features."""
        s, b = self.saved[layer], f"blocks.{layer}."
        linears = (
            ("fc_proj", self.x, s.hidden, 192), ("fc", self.d_hidden, self.y_2, 384),
            ("qkv", self.d_qkv, self.y_1, 384), ("proj", self.d_middle, s.attended, 192),
        )  # fmt: skip
        tasks = [
            (self.gradients[f"{b}{name}.weight"][o : o + width], self.gradients[f"{b}{name}.bias"][o : o + width],
             dy[:, o : o + width], x)
            for name, dy, x, width in linears for o in range(0, dy.shape[1], width)
        ]  # fmt: skip

        def one(i: int, worker: int) -> None:
            weight, bias, dy, x = tasks[i]
            np.matmul(dy.T, x, out=weight)
            np.matmul(self.ones[: len(dy)], dy, out=bias)

        self.workers.run(one, len(tasks))
        self._sum_norms((b + "ln_1", b + "ln_2"))

    def _sum_norms(self, names: tuple[str, ...]) -> None:
        for which, name in enumerate(names):
            self.sums[:, which, 0].sum(axis=0, out=self.gradients[name + ".weight"])
            self.sums[:, which, 1].sum(axis=0, out=self.gradients[name + ".bias"])

    def _embedding_gradients(self, tokens: np.ndarray) -> None:
        """Rows of equal tokens are brought together by a sort and summed; wpe sums over the batch."""
        gradient, width = self.gradients["wte.weight"], self.config.width
        gradient[...] = 0.0
        order = np.argsort(tokens, kind="stable")
        there, begins = np.unique(tokens[order], return_index=True)
        gradient[there] = np.add.reduceat(self.x[order], begins, axis=0)
        self.x.reshape(self.config.batch, -1, width).sum(axis=0, out=self.gradients["wpe.weight"])


def build(config: Config) -> Step:
    """The step function of a new model."""
    return NumpyGPT(config, min(2, os.cpu_count() or 1)).step


def main() -> None:
    """Run and print one JSON line."""
    options = arguments(__doc__.splitlines()[0])
    blas = [f"{b['internal_api']} {b['version']} {b.get('architecture', '')}".strip() for b in threadpool_info()]
    with threadpool_limits(1):
        emit({"blas": blas, "numpy": np.__version__, **time_steps(build, options)})


if __name__ == "__main__":
    main()
