"""Ten programs of the kind that people have, in plain NumPy: they know nothing of tensors.

Each returns a number, given the arrays that it is differentiated for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def pendulum(start: Array, parameters: Array) -> Array:
    """An ODE integrator: a damped, driven pendulum by Runge and Kutta's method; misfit of its path."""

    def slope(state: Array, time: float) -> Array:
        angle, speed = state
        damping, drive = parameters
        return np.stack([speed, -damping * speed - np.sin(angle) + drive * np.cos(0.7 * time)])

    state, step, path = start, 0.1, []
    for number in range(40):
        time = number * step
        k1 = slope(state, time)
        k2 = slope(state + step / 2 * k1, time + step / 2)
        k3 = slope(state + step / 2 * k2, time + step / 2)
        k4 = slope(state + step * k3, time + step)
        state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(state[0])
    measured = np.cos(np.linspace(0.0, 4.0, len(path)))
    return np.sum((np.array(measured) - np.stack(path)) ** 2)


def kalman(measurements: Array, log_noise: Array) -> Array:
    """A Kalman filter: the likelihood of measurements of a body that moves nearly uniformly."""
    transition = np.array([[1.0, 0.1], [0.0, 1.0]])
    observation = np.array([[1.0, 0.0]])
    process = np.exp(log_noise[0]) * np.array([[0.0025, 0.005], [0.005, 0.01]])
    noise = np.exp(log_noise[1]) * np.eye(1)
    mean, covariance, likelihood = np.zeros(2), np.eye(2), 0.0
    for measured in measurements:
        mean = transition @ mean
        covariance = transition @ covariance @ transition.T + process
        surprise = measured - observation @ mean
        spread = observation @ covariance @ observation.T + noise
        gain = np.linalg.solve(spread, observation @ covariance).T
        mean = mean + gain @ surprise
        covariance = (np.eye(2) - gain @ observation) @ covariance
        _, logdet = np.linalg.slogdet(spread)
        likelihood = likelihood - 0.5 * (surprise @ np.linalg.inv(spread) @ surprise + logdet)
    return likelihood


def n_body(positions: Array, velocities: Array, masses: Array) -> Array:
    """Bodies that attract each other, by leapfrog steps: where the first ends, and the energy."""

    def acceleration(x: Array) -> Array:
        difference = x[np.newaxis, :, :] - x[:, np.newaxis, :]
        cubed = (np.sum(difference**2, axis=-1) + 0.05) ** -1.5
        return np.einsum("ij,ijk,j->ik", cubed, difference, masses)

    x, v, step = positions, velocities, 0.02
    v = v + step / 2 * acceleration(x)
    for _ in range(20):
        x = x + step * v
        v = v + step * acceleration(x)
    kinetic = 0.5 * np.sum(masses * np.sum(v * v, axis=1))
    return kinetic + np.linalg.norm(x[0] - np.mean(x, axis=0))


def ray_marching(centers: Array, light: Array) -> Array:
    """Rays marched towards spheres that blend into each other; the brightness of the picture."""
    grid = np.linspace(-0.8, 0.8, 5)
    across, up = np.meshgrid(grid, grid)
    directions = np.stack([across, up, np.full_like(across, 1.5)], axis=-1)
    directions = directions / np.linalg.norm(directions, axis=-1, keepdims=True)

    def distance(points: Array) -> Array:
        each = np.linalg.norm(points[..., np.newaxis, :] - centers, axis=-1) - 0.6
        return -np.logaddexp.reduce(-8.0 * each, axis=-1) / 8.0

    travelled = np.zeros(across.shape)
    for _ in range(12):
        points = np.array([0.0, 0.0, -2.0]) + travelled[..., np.newaxis] * directions
        travelled = travelled + 0.7 * distance(points)
    points = np.array([0.0, 0.0, -2.0]) + travelled[..., np.newaxis] * directions
    away = points[..., np.newaxis, :] - centers
    weights = np.exp(-4.0 * np.sum(away**2, axis=-1, keepdims=True))
    normals = np.sum(weights * away, axis=-2)
    normals = normals / (np.linalg.norm(normals, axis=-1, keepdims=True) + 1e-3)
    shade = np.clip(np.dot(normals, light), 0.0, None)
    return np.mean(shade * np.exp(-0.3 * travelled))


def spline_fit(knots: Array, values: Array) -> Array:
    """A natural cubic spline through points, by its tridiagonal system: how much it bends, and its area."""
    width = np.diff(knots)
    slope = np.diff(values) / width
    inner = np.diag(2 * (width[:-1] + width[1:])) + np.diag(width[1:-1], 1) + np.diag(width[1:-1], -1)
    second = np.concatenate([[0.0], np.linalg.solve(inner, 6 * np.diff(slope)), [0.0]])
    at = np.linspace(0.05, 4.9, 60)
    piece = np.clip(np.searchsorted(knots, at) - 1, 0, len(knots) - 2)
    left, right, h = at - knots[piece], knots[piece + 1] - at, width[piece]
    curve = (
        (second[piece] * right**3 + second[piece + 1] * left**3) / (6 * h)
        + (values[piece] / h - second[piece] * h / 6) * right
        + (values[piece + 1] / h - second[piece + 1] * h / 6) * left
    )
    return np.trapezoid((curve - np.sin(at)) ** 2, at) + 0.01 * np.sum(second**2)


def principal_components(data: Array) -> Array:
    """Principal components by a singular value decomposition: what two of them explain, and where a point lands."""
    centered = (data - data.mean(0)) / np.std(data, axis=0, ddof=1)
    _, sizes, directions = np.linalg.svd(centered, full_matrices=False)
    explained = np.sum(sizes[:2] ** 2) / np.sum(sizes**2)
    projected = centered @ directions[:2].T
    return explained + np.linalg.norm(projected[0]) + np.sum(np.abs(directions[0]))


def deconvolution(blurred: Array, width: Array) -> Array:
    """Wiener's deconvolution by Fourier transforms: how rough the sharpened signal is."""
    size = blurred.shape[0]
    offsets = np.minimum(np.arange(size), size - np.arange(size))
    kernel = np.exp(-0.5 * (offsets / width) ** 2)
    transfer = np.fft.rfft(kernel / np.sum(kernel))
    restored = np.fft.irfft(np.fft.rfft(blurred) * np.conj(transfer) / (np.abs(transfer) ** 2 + 0.05), n=size)
    return np.sum(np.abs(np.gradient(restored)) ** 1.5) + np.var(restored)


def gaussian_process(inputs: Array, targets: Array, log_parameters: Array) -> Array:
    """Regression with a Gaussian process: the marginal likelihood by Cholesky's decomposition."""
    length, scale, noise = np.exp(log_parameters)
    squares = np.sum((inputs[:, None, :] - inputs[None, :, :]) ** 2, axis=-1)
    covariance = scale * np.exp(-0.5 * squares / length**2) + noise * np.eye(len(inputs))
    factor = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(factor, targets)
    return -0.5 * np.dot(whitened, whitened) - np.sum(np.log(np.diagonal(factor))) - len(inputs) / 2 * np.log(2 * np.pi)


def registration(moving: Array, pose: Array) -> Array:
    """One picture turned and shifted onto another, with bilinear sampling: the misfit."""
    height, width = moving.shape
    rows, columns = np.meshgrid(np.arange(height) - height / 2, np.arange(width) - width / 2, indexing="ij")
    cosine, sine = np.cos(pose[0]), np.sin(pose[0])
    y = np.clip(cosine * rows - sine * columns + pose[1] + height / 2, 0.0, height - 1.001)
    x = np.clip(sine * rows + cosine * columns + pose[2] + width / 2, 0.0, width - 1.001)
    top, left = np.floor(y).astype(int), np.floor(x).astype(int)
    fy, fx = y - top, x - left
    sampled = (
        (1 - fy) * (1 - fx) * moving[top, left]
        + (1 - fy) * fx * moving[top, left + 1]
        + fy * (1 - fx) * moving[top + 1, left]
        + fy * fx * moving[top + 1, left + 1]
    )
    fixed = np.sin(np.arange(height))[:, None] * np.cos(np.arange(width))[None, :]
    return np.mean((sampled - fixed) ** 2)


def reaction_diffusion(u: Array, v: Array, rates: Array) -> Array:
    """Two chemicals that react and diffuse over cells on a torus (Gray and Scott): the pattern's contrast."""

    def spread(cells: Array) -> Array:
        neighbours = sum(np.roll(cells, shift, axis) for shift in (-1, 1) for axis in (0, 1))
        return neighbours - 4 * cells

    feed, kill = rates
    for _ in range(25):
        reaction = u * v * v
        u = u + 0.16 * spread(u) - reaction + feed * (1 - u)
        v = v + 0.08 * spread(v) + reaction - (feed + kill) * v
        u, v = np.maximum(u, 0.0), np.where(v > 0, v, 0.01 * v)
    return np.std(v) + np.ptp(u) * 0.1 + np.quantile(v, 0.8)


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Each program with arguments."""
    rng = np.random.default_rng(11)
    y, x = np.mgrid[0:8, 0:8] / 8.0
    return {
        "ODE integrator": (pendulum, (np.array([1.0, 0.0]), np.array([0.2, 0.5]))),
        "Kalman filter": (kalman, (np.sin(np.arange(12) / 3.0), np.array([-1.0, -2.0]))),
        "N-body": (n_body, (rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.uniform(0.5, 1.5, 4))),
        "ray marching": (
            ray_marching,
            (np.array([[0.1, 0.2, 0.0], [-0.4, 0.1, 0.3]]), np.array([0.3, 0.5, -0.8])),
        ),
        "spline fit": (spline_fit, (np.array([0.0, 0.9, 2.1, 3.0, 4.2, 5.0]), rng.normal(size=6))),
        "PCA by SVD": (principal_components, (rng.normal(size=(12, 4)) * [1.0, 2.0, 3.0, 0.5],)),
        "FFT deconvolution": (deconvolution, (rng.normal(size=16), np.array(1.3))),
        "GP regression": (
            gaussian_process,
            (rng.normal(size=(7, 2)), rng.normal(size=7), np.array([0.1, -0.2, -1.5])),
        ),
        "image registration": (registration, (np.sin(3 * y) + x * x, np.array([0.11, 0.23, -0.37]))),
        "cellular simulation": (
            reaction_diffusion,
            (
                1 - 0.5 * np.exp(-20 * ((x - 0.4) ** 2 + (y - 0.5) ** 2)),
                0.3 * rng.random((8, 8)),
                np.array([0.05, 0.06]),
            ),
        ),
    }
