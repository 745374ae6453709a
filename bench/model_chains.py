"""Chains of stages of models, from the shapes of their layers.

Times are those of a device that computes at a rate and moves at another; bytes are what
each stage saves, makes and works with. GPT-2 in the unit of one layer's forward and of
one activation of it; ResNets in milliseconds and bytes, batch norm's inputs and
activations in 32 bits.
"""

from collections.abc import Callable
from typing import Any

Chain = dict[str, Any]
Weight = dict[str, Any]

FLOPS = 1e10  # a millisecond
MOVED = 5e8  # bytes a millisecond
UNIT = 1 << 20  # bytes of an activation of GPT-2, so that shares of it are whole


class Builder:
    """A chain that grows stage by stage."""

    def __init__(self, x: float) -> None:
        self.chain: Chain = {"kind": "chain", "x": [round(x)], "xb": [round(x)]}
        for name in ("fw", "bw", "ft", "bt"):
            self.chain[name] = []

    def add(
        self, fw: float, bw: float, x: float, xb: float, ft: float, bt: float
    ) -> None:
        self.chain["fw"].append(fw)
        self.chain["bw"].append(bw)
        for name, size in {"x": x, "xb": xb, "ft": ft, "bt": bt}.items():
            self.chain[name].append(round(size))

    def done(self) -> Chain:
        self.chain["bw"].append(0)
        self.chain["bt"].append(0)
        return self.chain


def gpt(layers: int, saved: int) -> Chain:
    """An embedding, layers that save so many activations each, and the head."""
    builder = Builder(0.02 * UNIT)
    builder.add(0.05, 0.1, UNIT, UNIT, 0, 0.5 * UNIT)
    for _ in range(layers):
        builder.add(1, 2, UNIT, (saved + 1) * UNIT, 2 * UNIT, 5 * UNIT)
    builder.add(0.8, 1.6, 0.01 * UNIT, 10 * UNIT, 4 * UNIT, 12 * UNIT)
    return builder.done()


def resnet(blocks: list[int], batch: int, image: int) -> Chain:
    """The stem, bottleneck blocks and the classifier."""

    def size(channels: int, side: int) -> int:
        return 4 * batch * channels * side * side

    def conv(inputs: int, outputs: int, kernel: int, side: int) -> float:
        return 2 * batch * inputs * outputs * kernel**2 * side**2 / FLOPS

    def norm(channels: int, side: int) -> float:
        return 3 * size(channels, side) / MOVED

    builder = Builder(size(3, image))
    half, side = image // 2, image // 4
    time = conv(3, 64, 7, half) + 2 * norm(64, half)
    saved = 2 * size(64, half) + 3 * size(64, side)
    builder.add(time, 2 * time, size(64, side), saved, size(64, side), size(64, side))
    inputs = 64
    for level, count in enumerate(blocks):
        channels = 64 << level
        for block in range(count):
            after = side // 2 if level > 0 and block == 0 else side
            out = size(4 * channels, after)
            time = conv(inputs, channels, 1, side) + 2 * norm(channels, side)
            time += conv(channels, channels, 3, after) + 2 * norm(channels, after)
            time += conv(channels, 4 * channels, 1, after)
            time += 2.5 * norm(4 * channels, after)
            saved = 2 * size(channels, side) + 2 * size(channels, after) + 2 * out
            if block == 0:
                time += conv(inputs, 4 * channels, 1, after) + norm(4 * channels, after)
                saved += out
            work = size(channels, side) + 2 * out
            builder.add(time, 2 * time, out, saved, out, work)
            inputs, side = 4 * channels, after
    time = conv(inputs, 1000, 1, 1) + norm(inputs, side)
    scores = size(1000, 1)
    saved = size(inputs, 1) + 2 * scores
    builder.add(time, 2 * time, scores, saved, 0, size(inputs, side))
    return builder.done()


def gpt_weights(layers: int) -> list[Weight]:
    """As wide as a sequence is long; the embedding's is the head's as well."""
    tied = {"stages": [0, layers + 1], "bytes": 49 * UNIT}
    return [tied, *({"stages": [k + 1], "bytes": 12 * UNIT} for k in range(layers))]


def resnet_weights(blocks: list[int]) -> list[Weight]:
    counts = [3 * 64 * 49 + 2 * 64]
    inputs = 64
    for level, count in enumerate(blocks):
        channels = 64 << level
        for block in range(count):
            weights = channels * (inputs + 9 * channels + 4 * channels + 12)
            if block == 0:
                weights += 4 * channels * (inputs + 2)
            counts.append(weights)
            inputs = 4 * channels
    counts.append(1000 * (inputs + 1))
    return [{"stages": [k], "bytes": 4 * count} for k, count in enumerate(counts)]


MODELS: dict[str, Callable[[], Chain]] = {
    "gpt-24": lambda: gpt(24, 12),
    "gpt-48": lambda: gpt(48, 14),
    "resnet-50": lambda: resnet([3, 4, 6, 3], 200, 128),
    "resnet-101": lambda: resnet([3, 4, 23, 3], 64, 224),
    "resnet-152": lambda: resnet([3, 8, 36, 3], 64, 224),
}


# Steps of few samples, so that weights are a large part of what is alive.
WEIGHTED: dict[str, Callable[[], Chain]] = {
    "gpt-24": lambda: gpt(24, 12) | {"weights": gpt_weights(24)},
    "gpt-48": lambda: gpt(48, 14) | {"weights": gpt_weights(48)},
    "resnet-50": lambda: weighted_resnet([3, 4, 6, 3]),
    "resnet-101": lambda: weighted_resnet([3, 4, 23, 3]),
    "resnet-152": lambda: weighted_resnet([3, 8, 36, 3]),
}


def weighted_resnet(blocks: list[int]) -> Chain:
    return resnet(blocks, 2, 224) | {"weights": resnet_weights(blocks)}


def trained(chain: Chain, states: int, ratio: float) -> Chain:
    """With gradients, so many states of a weight's size for the optimizer, and lanes
    that move such a share of all weights during the forward."""
    weights = [
        weight | {"grad": weight["bytes"], "state": states * weight["bytes"]}
        for weight in chain["weights"]
    ]
    speed = ratio * sum(weight["bytes"] for weight in weights) / sum(chain["fw"])
    return chain | {"weights": weights, "bandwidth": {"d2h": speed, "h2d": speed}}


def with_lanes(chain: Chain, ratio: float) -> Chain:
    """Lanes that move such a share of all saved bytes during the forward."""
    speed = ratio * sum(chain["xb"][1:]) / sum(chain["fw"])
    return chain | {"bandwidth": {"d2h": speed, "h2d": speed}}


def as_profile(chain: Chain) -> dict[str, Any]:
    """The same step for the graph planner.

    The saved bytes of a stage beside its output are a value of their own, so that
    either may be kept or offloaded alone, and are made with the output. The input stays
    on the device.
    """
    x, xb, count = chain["x"], chain["xb"], len(chain["fw"])
    values, ops, stages = [], [], []
    for i in range(count):
        made = {"op": i, "saved": True, "retainable": True, "movable": True}
        last = min(i + 1, count - 1)  # the op that reads the output
        for name, size, released in (
            (f"x{i + 1}", x[i + 1], last),
            (f"saved{i}", xb[i + 1] - x[i + 1], i),
        ):
            values.append({"name": name, "bytes": size, "released": released, **made})
        ops.append(
            {
                "name": f"stage {i}",
                "inputs": [2 * i - 2] if i > 0 else [],
                "outputs": [2 * i, 2 * i + 1],
                "time": chain["fw"][i],
                "other": x[0] + chain["ft"][i],
                "scratch": chain["ft"][i],
                "replayable": True,
            }
        )
    for i in range(count, -1, -1):
        needs = [2 * i, 2 * i + 1] if i < count else []
        before = x[0] + (x[i + 1] if i < count else 0)
        stages.append(
            {
                "name": f"stage {i}'",
                "needs": needs + ([2 * i - 2] if i > 0 else []),
                "time": chain["bw"][i],
                "before": before,
                "during": before + x[i] + chain["bt"][i],
            }
        )
    lanes = chain.get("bandwidth", {"d2h": 0, "h2d": 0})
    tail = {"tail": 2 * x[0], "tail_time": 0, "host": -1}
    kind = {"kind": "profile", "version": 1}
    return {**kind, "values": values, "ops": ops, "stages": stages, **tail, **lanes}
