"""An encoder-decoder transformer that learns to reverse lines of text."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common import Log, checkpointed, parser, standard_library_text, start, text_batch

VOCABULARY = 257
BEGIN = 256
# width, heads, layers of each half, batch, length
SHAPES = {"small": (32, 2, 2, 4, 24), "full": (256, 8, 4, 8, 96)}


class Translator(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.transformer = nn.Transformer(
            width, heads, layers, layers, 4 * width, dropout=0.1, batch_first=True
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(
            target.shape[1], device=target.device
        )
        y = self.transformer(
            self.tokens(source) + self.positions,
            self.tokens(target) + self.positions,
            tgt_mask=mask,
            tgt_is_causal=True,
        )
        return self.head(y)


def train(args: argparse.Namespace) -> None:
    width, heads, layers, batch, length = SHAPES[args.size]
    batch = args.batch or batch
    text = standard_library_text()
    model = Translator(width, heads, layers, length).to(args.device)
    if args.checkpoint:
        halves = (model.transformer.encoder, model.transformer.decoder)
        for layer in [layer for half in halves for layer in half.layers]:
            checkpointed(layer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    log = Log()
    for _ in range(args.steps):
        log.begin()
        source, _ = text_batch(text, batch, length, args.device)
        wanted = source.flip(1)
        begin = torch.full((batch, 1), BEGIN, device=args.device)
        logits = model(source, torch.cat([begin, wanted[:, :-1]], dim=1))
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        log.step(loss.item())
    log.finish(model, optimizer)


if __name__ == "__main__":
    train(start(parser(__doc__, steps=12)))
