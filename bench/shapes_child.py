"""Trains a GPT for `./dev bench shapes`, on sequences of the given lengths.

    python bench/shapes_child.py LENGTH...

One step for each. Prints what the jobs print.
"""

import argparse

import torch

from common import Log, standard_library_text, text_batch
from gpt import GPT, Shape

SHAPE = Shape(layers=4, width=128, heads=4, batch=4, length=512)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("lengths", type=int, nargs="+")
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    text = standard_library_text()
    model = GPT(SHAPE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    log = Log()
    for length in args.lengths:
        tokens = text_batch(text, SHAPE.batch, length)
        log.begin()
        loss = model(*tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log.step(loss.item())
    log.finish(model, optimizer)


if __name__ == "__main__":
    main()
