"""Forward ops, each trained through in several ways.

An op of the zoo reads `a`, a value that was computed and can be dropped, and
parameters. Its output is computed with further, so that it is saved as well.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from programs.trial import Trial, data, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False

ROWS, WIDTH = 128, 256


def positive(a: Tensor) -> Tensor:
    return a.abs() + 0.5


def images(a: Tensor) -> Tensor:
    return a.view(2, 16, 32, 32)


def mask() -> Tensor:
    return data(ROWS, WIDTH, seed=20) > 0


def indices() -> Tensor:
    return torch.arange(ROWS) % 7


def heads(a: Tensor) -> Tensor:
    return a.view(2, 4, 64, 64)


SQUARE = leaf(WIDTH, WIDTH, seed=11, low=-0.1, high=0.1)
ROW = leaf(WIDTH, seed=12)
KERNEL = leaf(16, 16, 3, 3, seed=13, low=-0.1, high=0.1)
LINE = leaf(32, 32, 3, seed=14, low=-0.1, high=0.1)
TABLE = leaf(64, WIDTH, seed=15)
LEAVES = [SQUARE, ROW, KERNEL, LINE, TABLE]

OPS: dict[str, Callable[[Tensor], Tensor]] = {
    # pointwise
    "add": lambda a: a + ROW,
    "sub": lambda a: ROW - a,
    "mul": lambda a: a * ROW,
    "div": lambda a: ROW / positive(a),
    "pow": lambda a: positive(a) ** 1.5,
    "pow_tensor": lambda a: positive(a) ** ROW,
    "exp": torch.exp,
    "log": lambda a: positive(a).log(),
    "log1p": lambda a: positive(a).log1p(),
    "sqrt": lambda a: positive(a).sqrt(),
    "rsqrt": lambda a: positive(a).rsqrt(),
    "sin": torch.sin,
    "atan2": lambda a: torch.atan2(a, ROW),
    "erf": torch.erf,
    "abs": torch.abs,
    "clamp": lambda a: a.clamp(-0.3, 0.4),
    "maximum": lambda a: torch.maximum(a, ROW),
    "where": lambda a: torch.where(mask(), a, ROW),
    "lerp": lambda a: torch.lerp(a, ROW.expand_as(a), 0.3),
    "addcmul": lambda a: torch.addcmul(a, a, ROW, value=0.5),
    "masked_fill": lambda a: a.masked_fill(mask(), 0.5),
    "remainder": lambda a: a.remainder(0.3),
    "complex": lambda a: torch.view_as_real(torch.complex(a, a.sin()).exp()).sum(-1),
    # activations
    "relu": nnf.relu,
    "leaky_relu": nnf.leaky_relu,
    "gelu": nnf.gelu,
    "gelu_tanh": lambda a: nnf.gelu(a, approximate="tanh"),
    "silu": nnf.silu,
    "mish": nnf.mish,
    "elu": nnf.elu,
    "selu": nnf.selu,
    "softplus": nnf.softplus,
    "hardswish": nnf.hardswish,
    "hardsigmoid": nnf.hardsigmoid,
    "logsigmoid": nnf.logsigmoid,
    "prelu": lambda a: nnf.prelu(a, ROW),
    "glu": lambda a: nnf.glu(a),
    "softmax": lambda a: a.softmax(-1),
    "log_softmax": lambda a: a.log_softmax(0),
    # linear algebra
    "mm": lambda a: a @ SQUARE,
    "linear": lambda a: nnf.linear(a, SQUARE, ROW),
    "linear_3d": lambda a: nnf.linear(a.view(4, 32, WIDTH), SQUARE, ROW),
    "addmm": lambda a: torch.addmm(ROW, a, SQUARE),
    "bmm": lambda a: torch.bmm(a.view(4, 32, WIDTH), SQUARE.expand(4, -1, -1)),
    "baddbmm": lambda a: torch.baddbmm(
        ROW, a.view(4, 32, WIDTH), SQUARE.expand(4, -1, -1)
    ),
    "einsum": lambda a: torch.einsum("bi,ij->bj", a, SQUARE),
    "bilinear": lambda a: nnf.bilinear(
        a[:, :32], a[:, 32:64], KERNEL.view(-1)[:2048].view(2, 32, 32)
    ),
    "cdist": lambda a: torch.cdist(a[:64], TABLE),
    "outer": lambda a: torch.outer(a[0], ROW),
    "norm": lambda a: a.norm(dim=1, keepdim=True) * a,
    "vector_norm": lambda a: torch.linalg.vector_norm(a, 3) * a,
    "attention": lambda a: nnf.scaled_dot_product_attention(
        heads(a), heads(a.sin()), heads(a.cos())
    ),
    "attention_causal": lambda a: nnf.scaled_dot_product_attention(
        heads(a), heads(a), heads(a), is_causal=True
    ),
    "attention_mask": lambda a: nnf.scaled_dot_product_attention(
        heads(a), heads(a), heads(a), attn_mask=data(64, 64, seed=3)
    ),
    # reductions and scans
    "sum": lambda a: a.sum(0, keepdim=True) * a,
    "mean": lambda a: a.mean(1, keepdim=True) * a,
    "var": lambda a: a.var(1, keepdim=True) * a,
    "std": lambda a: a.std() * a,
    "logsumexp": lambda a: a.logsumexp(1, keepdim=True) * a,
    "prod": lambda a: positive(a)[:, :8].prod(1, keepdim=True) * a,
    "amax": lambda a: a.amax(1, keepdim=True) * a,
    "max": lambda a: a.max(1, keepdim=True)[0] * a,
    "median": lambda a: a.median(1, keepdim=True)[0] * a,
    "cumsum": lambda a: a.cumsum(1),
    "cumprod": lambda a: positive(a).cumprod(1).tanh(),
    "logcumsumexp": lambda a: a.logcumsumexp(1),
    # shapes and indices
    "cat": lambda a: torch.cat([a, a.sin()], 1),
    "stack": lambda a: torch.stack([a, ROW.expand_as(a)]),
    "split": lambda a: torch.cat(a.split(100, 1)[::-1], 1),
    "unbind": lambda a: torch.stack(a.unbind(0)[::-1]),
    "transpose": lambda a: a.t().contiguous(),
    "permute": lambda a: images(a).permute(0, 2, 3, 1).reshape(ROWS, WIDTH),
    "flip": lambda a: a.flip(1),
    "roll": lambda a: a.roll(3, 1),
    "repeat": lambda a: a.repeat(2, 1),
    "repeat_interleave": lambda a: a.repeat_interleave(2, 1),
    "expand": lambda a: a[:1].expand(ROWS, -1) * ROW,
    "pad": lambda a: nnf.pad(a, (1, 2)),
    "pad_reflect": lambda a: nnf.pad(images(a), (1, 1, 1, 1), mode="reflect"),
    "tril": lambda a: a.tril(),
    "unfold": lambda a: a.unfold(1, 8, 4) * ROW[:8],
    "diagonal": lambda a: a.diagonal() * a[:, :1],
    "gather": lambda a: a.gather(0, indices().unsqueeze(1).expand(-1, WIDTH)),
    "index_select": lambda a: a.index_select(0, indices()),
    "index": lambda a: a[indices()],
    "boolean_mask": lambda a: a[mask()],
    "take_along_dim": lambda a: a.take_along_dim(a.argsort(1), 1),
    "scatter": lambda a: a.scatter(0, indices().unsqueeze(1).expand(-1, WIDTH), 0.5),
    "scatter_add": lambda a: a.scatter_add(0, torch.zeros(4, WIDTH).long(), a[:4]),
    "index_add": lambda a: a.index_add(0, indices(), a.sin()),
    "index_put": lambda a: a.index_put((indices()[:3],), ROW, accumulate=True),
    "topk": lambda a: a.topk(160, 1)[0],
    "sort": lambda a: a.sort(1)[0],
    "embedding": lambda a: nnf.embedding(indices(), TABLE) * a,
    "embedding_bag": lambda a: nnf.embedding_bag(indices(), TABLE, indices() * 0) + a,
    # images
    "conv2d": lambda a: nnf.conv2d(images(a), KERNEL, padding=1),
    "conv2d_strided": lambda a: nnf.conv2d(images(a), KERNEL, stride=2).repeat(
        2, 2, 2, 2
    ),
    "conv2d_grouped": lambda a: nnf.conv2d(
        images(a), KERNEL[:, :4], groups=4, padding=1
    ),
    "conv1d": lambda a: nnf.conv1d(a.view(4, 32, WIDTH), LINE, padding=1),
    "conv_transpose2d": lambda a: nnf.conv_transpose2d(images(a), KERNEL),
    "channels_last": lambda a: nnf.conv2d(
        images(a).contiguous(memory_format=torch.channels_last), KERNEL, padding=1
    ),
    "max_pool2d": lambda a: nnf.max_pool2d(images(a), 3, 1, 1),
    "avg_pool2d": lambda a: nnf.avg_pool2d(images(a), 3, 1, 1),
    "adaptive_avg_pool2d": lambda a: nnf.adaptive_avg_pool2d(images(a), 40),
    "interpolate": lambda a: nnf.interpolate(images(a), scale_factor=2.0),
    "interpolate_bilinear": lambda a: nnf.interpolate(
        images(a), size=(40, 40), mode="bilinear"
    ),
    "grid_sample": lambda a: nnf.grid_sample(
        images(a), data(2, 32, 32, 2, seed=5), align_corners=False
    ),
    "pixel_shuffle": lambda a: nnf.pixel_shuffle(images(a), 2),
    # normalization
    "batch_norm": lambda a: nnf.batch_norm(
        a, None, None, weight=ROW, bias=ROW, training=True
    ),
    "layer_norm": lambda a: nnf.layer_norm(a, (WIDTH,), ROW, ROW),
    "group_norm": lambda a: nnf.group_norm(images(a), 4, ROW[:16], ROW[16:32]),
    "instance_norm": lambda a: nnf.instance_norm(images(a)),
    "rms_norm": lambda a: nnf.rms_norm(a, (WIDTH,), ROW),
    "normalize": lambda a: nnf.normalize(a),
    "weight_norm": lambda a: nnf.linear(
        a, torch._weight_norm(SQUARE, SQUARE.norm(dim=1, keepdim=True))
    ),
    # losses
    "cross_entropy": lambda a: nnf.cross_entropy(a, indices(), label_smoothing=0.1) * a,
    "nll_loss": lambda a: nnf.nll_loss(a, indices(), reduction="none")[:, None] * a,
    "mse_loss": lambda a: nnf.mse_loss(a, ROW.expand_as(a), reduction="none"),
    "smooth_l1_loss": lambda a: nnf.smooth_l1_loss(a, a.sin(), reduction="none"),
    "huber_loss": lambda a: nnf.huber_loss(a, a.sin(), reduction="none"),
    "bce_with_logits": lambda a: nnf.binary_cross_entropy_with_logits(
        a, mask().float(), reduction="none"
    ),
    "kl_div": lambda a: nnf.kl_div(
        a.log_softmax(1), a.sin().softmax(1), reduction="none"
    ),
    "cosine_similarity": lambda a: nnf.cosine_similarity(a, ROW.expand_as(a))[:, None]
    * a,
    # random
    "dropout": lambda a: nnf.dropout(a, 0.3),
    "rrelu": lambda a: nnf.rrelu(a, training=True),
    "rand_like": lambda a: a * torch.rand_like(a),
    "multinomial": lambda a: a[torch.multinomial(positive(a).detach()[:, 0], ROWS)],
}


def each(
    t: Trial, way: Callable[[Callable[[Tensor], Tensor], Tensor], list[Tensor | None]]
) -> None:
    w = leaf(ROWS, WIDTH, seed=1)
    for name, op in OPS.items():
        torch.manual_seed(3)
        with t.work(name):
            try:
                t.note(name, *way(op, w))
            except (RuntimeError, NotImplementedError) as error:
                t.note(name, str(error))
        for tensor in [w, *LEAVES]:
            tensor.grad = None


def loss_of(op: Callable[[Tensor], Tensor], w: Tensor) -> Tensor:
    a = (w * 1.5).tanh()
    b = op(a)
    del a
    c = b.sin()
    del b
    return (c * c.exp()).sum()


def gradients(w: Tensor) -> list[Tensor | None]:
    return [w.grad, *(tensor.grad for tensor in LEAVES)]


def plain(t: Trial) -> None:
    def way(op: Callable[[Tensor], Tensor], w: Tensor) -> list[Tensor | None]:
        loss_of(op, w).backward()
        return gradients(w)

    each(t, way)


def autocast(t: Trial) -> None:
    def way(op: Callable[[Tensor], Tensor], w: Tensor) -> list[Tensor | None]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = w @ SQUARE  # in bfloat16 from here on where the op allows it
            loss = loss_of(op, h)
        loss.backward()
        return gradients(w)

    each(t, way)


def twice(t: Trial) -> None:
    def way(op: Callable[[Tensor], Tensor], w: Tensor) -> list[Tensor | None]:
        loss = loss_of(op, w)
        loss.backward(retain_graph=True)
        first = [g.clone() for g in gradients(w) if g is not None]
        loss.backward()
        return [*first, *gradients(w)]

    each(t, way)


def double(t: Trial) -> None:
    def way(op: Callable[[Tensor], Tensor], w: Tensor) -> list[Tensor | None]:
        loss = loss_of(op, w)
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        (g * g.sin()).sum().backward()
        return [g, *gradients(w)]

    each(t, way)


def modules(t: Trial) -> None:
    """Modules whose kernels keep state or workspaces of their own."""
    x = data(16, 32, 64)
    made: dict[str, Callable[[], nn.Module]] = {
        "rnn": lambda: nn.RNN(64, 64, batch_first=True),
        "gru": lambda: nn.GRU(64, 64, num_layers=2, dropout=0.1, batch_first=True),
        "lstm": lambda: nn.LSTM(64, 64, bidirectional=True, batch_first=True),
        "lstm_proj": lambda: nn.LSTM(64, 64, proj_size=32, batch_first=True),
        "attention": lambda: nn.TransformerEncoderLayer(64, 4, batch_first=True),
        "decoder": lambda: nn.LSTM(64, 64, num_layers=2),
    }
    for name, make in made.items():
        torch.manual_seed(2)
        module = make()
        with t.work(name):
            for step in range(2):
                h = module((x + step).tanh())
                h = h[0] if isinstance(h, tuple) else h
                t.gradients(f"{name} {step}", h.exp().mean(), module.parameters())
