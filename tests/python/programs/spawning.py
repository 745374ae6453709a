"""A job whose children start from nothing: prints what each of them got."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import torch

from programs.ends import steps
from programs.trial import digest


def trained(count: int) -> str:
    torch.manual_seed(count)
    return digest(steps(count))


def main() -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        child = pool.submit(trained, 3).result()
    print(child, trained(3))


if __name__ == "__main__":
    main()
