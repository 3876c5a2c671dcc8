"""`save_on_cpu`: keep what is saved for backward in host memory while the device works on."""

from __future__ import annotations

from collections.abc import Sequence

from ..memory import CPU, Device
from ..saved_tensors import Payload, Policy, Site, Stage
from ..saved_tensors.layout import Array
from ..saved_tensors.payload import PACKED, Spec, copy_into


class HostStage(Stage):
    """Copies a device's buffers to host memory; leaves alone what is there already."""

    name = "cpu"

    def serves(self, device: Device) -> bool:
        return device is not CPU

    def pack(self, payload: Payload, site: Site) -> Payload | None:
        if payload.place is None or payload.place is CPU:
            return None
        copies = []
        for buffer in payload.buffers:
            copy = Spec(buffer.shape, buffer.dtype, CPU).lease(PACKED)
            copy_into(copy, buffer)
            copies.append(copy)
        return payload.then(self, tuple(copies), CPU)

    def unpack(self, payload: Payload, outs: Sequence[Array]) -> None:
        for out, buffer in zip(outs, payload.buffers):
            copy_into(out, buffer)


class save_on_cpu(Policy):  # noqa: N801  # PyTorch's name
    """Move what is saved for backward to host memory, and back when it is read.

    Args:
        pin_memory: accepted as PyTorch's; copies are synchronous, so page-locked memory would gain nothing yet.
        device_type: the accelerator that pinned memory is meant for.
        min_bytes: smaller values are left alone.
        parameters: also move what lies in parameters and buffers.

    Raises:
        RuntimeError: for a device type that doesn't exist.

    A value that is on the CPU already is kept as it is, and its version is checked when it is read. Each value comes
    back to the device that it was on.
    """

    def __init__(
        self,
        pin_memory: bool = False,
        device_type: str = "cuda",
        *,
        min_bytes: int | str = 0,
        parameters: bool = False,
    ) -> None:
        Device(device_type)
        self.pin_memory = pin_memory
        self.device_type = device_type
        super().__init__(HostStage(), min_bytes=min_bytes, parameters=parameters)
